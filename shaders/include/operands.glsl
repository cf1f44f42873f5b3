// How operands of an elementwise kernel lie beside its output, which lies in order. Needs elementwise.glsl,
// the constant DTYPE, and `walk` and `ndim` of the push constants.

// How an operand lies: as the output does; one element; by a walk. [host]
const uint IN_ORDER = 0, ONE = 1, WALKED = 2;

// Of operand k of the walk the element that goes with element i of the output.
T load_operand(uint lies, uint k, uint64_t base, uint64_t i) {
    int64_t at = lies == ONE ? 0l : lies == WALKED ? strided_offset(walk, ndim, k, i) : int64_t(i);
    return load_element(DTYPE, base, at);
}

#if HAS_FOUR
// The four elements that go with elements 4 * i and behind. In a walk they are neighbours of the last axis,
// along which they lie aligned in memory or are one element.
T4 load_operand4(uint lies, uint k, uint64_t base, uint64_t i) {
    if (lies == ONE) return T4(load_element(DTYPE, base, 0l));
    if (lies == IN_ORDER) return LOAD4(DTYPE, base, i);
    int64_t at = strided_offset(walk, ndim, k, i * 4ul);
    bool one = I64(walk).v[ndim * (WALK_STRIDES + k + 1u) - 1u] == 0l;
    if (one) return T4(load_element(DTYPE, base, at));
    return LOAD4(DTYPE, base + uint64_t(at) * dtype_size(DTYPE), 0ul);
}
#endif
