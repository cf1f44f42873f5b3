// Products of a row of 16-bit floats with rows of a router's matrix, which has a format of its own: affine
// with 4 or 8 bits, or (16 bits) not quantized. Needs common.glsl, floats.glsl and the constant DTYPE.

// Words, scale and bias of the quad that begins with `element`.
uvec4 router_part(
    uint64_t words, uint64_t scales, uint64_t biases, uint element, uint bits, uint group_log) {
    uint64_t from = words + uint64_t((element >> 3) * bits + ((element & 4u) * bits >> 3) & ~3u);
    uint64_t affine = uint64_t(element >> group_log) * 2ul;
    return uvec4(U32(from).v[0], U32(from + (bits == 16u ? 4ul : 0ul)).v[0],
        uint(U16(scales + affine).v[0]), uint(U16(biases + affine).v[0]));
}

// Its product with x.
float router_product(vec4 x, uvec4 part, uint element, uint bits) {
    if (bits == 16u) return dot_add(x, vec4(half_pair(DTYPE, part.x), half_pair(DTYPE, part.y)), 0.0);
    uint shift = bits == 4u ? (element & 4u) << 2 : 0u, mask = (1u << bits) - 1u;
    uvec4 fields = uvec4(part.x >> shift) >> (uvec4(0u, 1u, 2u, 3u) * bits) & mask;
    return fma(of_bits(DTYPE, part.z), dot_add(x, vec4(fields), 0.0), of_bits(DTYPE, part.w) * quad_sum(x));
}
