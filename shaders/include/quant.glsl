// Affine-quantized matrices: rows of BITS-bit fields, packed from the lowest bit up; 32 elements take BITS
// words. Needs common.glsl, floats.glsl and specialization constants BITS and GROUP. Functions take the bits
// where there are fields of another length, too.

const uint FIELD = (1u << BITS) - 1u;

// An integer below 2^23 as a float, without the slow conversion instruction.
float exact_float(uint q) { return uintBitsToFloat(0x4b000000u | q) - 8388608.0; }

// The octet of fields from element `i` (a multiple of 8) of the row at `row`, as they lie in memory: they
// start at a byte and reach over at most two words.
uvec2 packed8(uint bits, uint64_t row, uint i) {
    uint bit = (i & 31u) * bits;
    uint64_t word = row + uint64_t(i >> 5) * (bits * 4u) + uint64_t((bit >> 5) * 4u);
    uint shift = bit & 31u;
    uint lo = U32(word).v[0];
    if (bits == 4u) return uvec2(lo, 0u);
    if (bits == 2u) return uvec2(lo >> shift, 0u);
    uint hi = shift + 8u * bits > 32u ? U32(word).v[1] : 0u;
    if (bits == 8u || shift == 0u) return uvec2(lo, hi);
    return uvec2((lo >> shift) | (hi << (32u - shift)), hi >> shift);
}
uvec2 packed8(uint64_t row, uint i) { return packed8(BITS, row, i); }

// Field `e` of an octet.
uint field8(uint bits, uvec2 p, uint e) {
    uint bit = e * bits, shift = bit & 31u, field = (1u << bits) - 1u;
    if (bit >= 32u) return (p.y >> shift) & field;
    uint v = p.x >> shift;
    if (shift + bits > 32u) v |= p.y << (32u - shift);
    return v & field;
}

// Fields `first` to `first` + 3 of an octet.
vec4 fields4(uint bits, uvec2 p, uint first) {
    return vec4(exact_float(field8(bits, p, first)), exact_float(field8(bits, p, first + 1u)),
        exact_float(field8(bits, p, first + 2u)), exact_float(field8(bits, p, first + 3u)));
}
vec4 fields8_low(uvec2 p) { return fields4(BITS, p, 0u); }
vec4 fields8_high(uvec2 p) { return fields4(BITS, p, 4u); }

// Two floats below 2^100 as bfloat16, rounded to nearest even by Dekker's split: NVIDIA does float operations
// at twice the rate of integer ones.
uint bfloat16_pair(vec2 x) {
    precise vec2 far = x * 65537.0;
    precise vec2 near = far + (x - far);
    return floatBitsToUint(near.x) >> 16 | floatBitsToUint(near.y);
}
