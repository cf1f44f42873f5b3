// What the kernels that read at indices share. Needs common.glsl, the constants BYTES and INDEX, and the arguments
// source, destination, indices and size (of the axis).

int64_t offset(uint64_t walk, uint ndim, uint k, uint64_t i) {
    return ndim == 0u ? 0l : strided_offset(walk, ndim, k, i);
}

#include "pick.glsl"

// Counts negative indices from the end and moves what still lies outside to the nearest element.
int64_t index_at(int64_t i) {
    int64_t index = load_index(indices, i);
    if (index < 0l) index += size;
    return clamp(index, 0l, max(size - 1l, 0l));
}

#include "words.glsl"

void copy_word(int64_t to, int64_t from) { move_word(destination, to, source, from); }
