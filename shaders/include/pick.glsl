// Reading indices. Needs common.glsl and the constant INDEX, the dtype of the indices.

// Those of uint64 that no axis has become the largest int64.
int64_t load_index(uint64_t base, int64_t i) {
    if (INDEX == UINT64) return int64_t(min(AT_U64(base, i), 0x7ffffffffffffffful));
    if (INDEX == INT64) return AT_I64(base, i);
    if (INDEX == INT32 || INDEX == INT16 || INDEX == INT8) return int64_t(load_int(INDEX, base, i));
    return int64_t(load_uint(INDEX, base, i));
}

// Counts negative indices into an axis from its end and moves what still lies outside to the nearest element.
int64_t nearest_index(int64_t index, int64_t size) {
    if (index < 0l) index += size;
    return clamp(index, 0l, max(size - 1l, 0l));
}
