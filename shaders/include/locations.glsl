// Where gathers read and scatters write. Needs pick.glsl, the constant COUNT (arrays of indices) and the
// arguments walk, table and ndim.

// An array of indices: its address; the size of the axis, its stride, and the last index that is inside.
struct IndexArray { uint64_t address; int64_t size, stride, last; };
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer IndexArrays { IndexArray v[]; };

// The offset of element i in operand k of the walk.
int64_t walked(uint k, uint64_t i) {
    return ndim == 1u ? int64_t(i) * I64(walk).v[WALK_STRIDES + k] : strided_offset(walk, ndim, k, i);
}

// The location of element i in the indexed array, which is operand k; the arrays of indices follow it. False
// for what lies outside; the location is then the nearest one inside.
bool location(uint k, uint64_t i, out int64_t at) {
    bool inside = true;
    at = walked(k, i);
    for (uint n = 0u; n < COUNT; ++n) {
        IndexArray indices = IndexArrays(table).v[n];
        int64_t index = load_index(indices.address, walked(k + 1u + n, i));
        if (index < 0l) index += indices.size;
        inside = inside && index >= 0l && index <= indices.last;
        at += clamp(index, 0l, max(indices.last, 0l)) * indices.stride;
    }
    return inside;
}
