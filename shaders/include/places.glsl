// Where gathers read and scatters write: kernels::places packs what this walks. Needs pick.glsl, the constant
// COUNT (arrays of indices) and the arguments walk, table and ndim.

// The offset of element i in operand k of the walk.
int64_t walked(uint k, uint64_t i) {
    return ndim == 1u ? int64_t(i) * I64(walk).v[1u + k] : strided_offset(walk, ndim, k, i);
}

// The place of element i in the indexed array, which is operand k; the arrays of indices follow it. The table
// has, for each of them, its address, the size of the axis, its stride, and the last index that is inside.
// False for what lies outside; the place is then the nearest one inside.
bool place(uint k, uint64_t i, out int64_t at) {
    bool inside = true;
    at = walked(k, i);
    for (uint n = 0u; n < COUNT; ++n) {
        int64_t last = I64(table).v[4u * n + 3u];
        int64_t index = load_index(U64(table).v[4u * n], walked(k + 1u + n, i));
        if (index < 0l) index += I64(table).v[4u * n + 1u];
        inside = inside && index >= 0l && index <= last;
        at += clamp(index, 0l, max(last, 0l)) * I64(table).v[4u * n + 2u];
    }
    return inside;
}
