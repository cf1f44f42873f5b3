// What the kernels that read at indices share. Needs common.glsl, the constants BYTES and INDEX, and the
// arguments source, destination, indices and size (of the axis).

int64_t offset(uint64_t walk, uint ndim, uint k, uint64_t i) {
    return ndim == 0u ? 0l : strided_offset(walk, ndim, k, i);
}

#include "pick.glsl"

int64_t index_at(int64_t i) { return nearest_index(load_index(indices, i), size); }

#include "words.glsl"

void copy_word(int64_t to, int64_t from) { move_word(destination, to, source, from); }
