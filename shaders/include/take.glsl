// What the kernels that read at indices share. Needs common.glsl, the constants BYTES and INDEX, and the arguments
// source, destination, indices and size (of the axis).

int64_t offset(uint64_t walk, uint ndim, uint k, uint64_t i) {
    return ndim == 0u ? 0l : strided_offset(walk, ndim, k, i);
}

// Counts negative indices from the end and moves what still lies outside to the nearest element.
int64_t index_at(int64_t i) {
    if (INDEX == UINT64) {
        uint64_t u = AT_U64(indices, i);
        return u < uint64_t(size) ? int64_t(u) : max(size - 1l, 0l);
    }
    int64_t index;
    if (INDEX == INT64) index = AT_I64(indices, i);
    else if (INDEX == INT32 || INDEX == INT16 || INDEX == INT8) index = int64_t(load_int(INDEX, indices, i));
    else index = int64_t(load_uint(INDEX, indices, i));
    if (index < 0l) index += size;
    return clamp(index, 0l, max(size - 1l, 0l));
}

void copy_word(int64_t to, int64_t from) {
    if (BYTES == 16) AT_V4(destination, to) = AT_V4(source, from);
    else if (BYTES == 8) AT_V2(destination, to) = AT_V2(source, from);
    else if (BYTES == 4) AT_U32(destination, to) = AT_U32(source, from);
    else if (BYTES == 2) AT_U16(destination, to) = AT_U16(source, from);
    else AT_U8(destination, to) = AT_U8(source, from);
}
