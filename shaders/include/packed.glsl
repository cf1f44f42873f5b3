// What packed fields stand for: FORMAT says which format they have, small floats have no biases.
// Needs quant.glsl, and before it the specialization constant FORMAT.

// Formats. [host]
const uint AFFINE = 0, MXFP4 = 1, NVFP4 = 2, MXFP8 = 3;

// Bytes of a row of so many elements.
uint64_t row_bytes(uint width) { return uint64_t(width / 8u) * BITS; }

// Small floats are read as halves, two of a word at a time: their exponents and mantissas become the ends of
// halves' exponents and the heads of their mantissas. What stands there is the number in units of a power of
// two, subnormal numbers included.
const float ELEMENT_UNIT = FORMAT == AFFINE ? 1.0 : FORMAT == MXFP8 ? 256.0 : 16384.0;

// The bits of the e2m1 numbers that end with bits 15 and 31 of a word, as halves in units.
uint e2m1_bits(uint w) { return (w & 0x80008000u) | ((w >> 3) & 0x0e000e00u); }
vec2 e2m1_pair(uint w) { return unpackHalf2x16(e2m1_bits(w)); }

// Those of the e4m3 numbers there. The largest code, which is not a number, becomes the next one.
uint e4m3_bits(uint w) { return (w & 0x80008000u) | ((w >> 1) & 0x3f803f80u); }
vec2 e4m3_pair(uint w) { return unpackHalf2x16(e4m3_bits(w)); }
const float NO_E4M3 = 1.875; // that next one, in units

// The elements of an octet in units, for who multiplies sums with scale_of_sum and these.
void units8(uvec2 p, out vec4 low, out vec4 high) {
    if (FORMAT == AFFINE) {
        low = fields8_low(p);
        high = fields8_high(p);
    } else if (FORMAT == MXFP8) {
        vec2 a = e4m3_pair(p.x << 8), b = e4m3_pair(p.x), c = e4m3_pair(p.y << 8), d = e4m3_pair(p.y);
        low = vec4(a.x, b.x, a.y, b.y);
        high = vec4(c.x, d.x, c.y, d.y);
    } else {
        vec2 a = e2m1_pair(p.x << 12), b = e2m1_pair(p.x << 8), c = e2m1_pair(p.x << 4), d = e2m1_pair(p.x);
        low = vec4(a.x, b.x, c.x, d.x);
        high = vec4(a.y, b.y, c.y, d.y);
    }
}

#define NOT_A_NUMBER uintBitsToFloat(0x7fc00000u)

// The elements of an octet.
void elements8(uvec2 p, out vec4 low, out vec4 high) {
    units8(p, low, high);
    if (FORMAT == MXFP8) {
        low = mix(low, vec4(NOT_A_NUMBER), equal(abs(low), vec4(NO_E4M3)));
        high = mix(high, vec4(NOT_A_NUMBER), equal(abs(high), vec4(NO_E4M3)));
    }
    low *= ELEMENT_UNIT;
    high *= ELEMENT_UNIT;
}

// Has the highest bits of bytes that are no numbers, and bits that say nothing. Many can be joined.
uint not_numbers_of(uvec2 p) {
    if (FORMAT != MXFP8) return 0u;
    uvec2 next = (p & 0x7f7f7f7fu) + 0x01010101u;
    return next.x | next.y;
}

// The scale of small floats that a code stands for.
float scale_of(uint code) {
    if (FORMAT != NVFP4) return uintBitsToFloat(max(code << 23, 1u << 22));
    float scale = e4m3_pair(code << 8).x;
    return abs(scale) == NO_E4M3 ? NOT_A_NUMBER : 256.0 * scale;
}

// The scale of a sum of units8, not a number if one of these was none.
float scale_of_sum(uint code, uint not_numbers) {
    return (not_numbers & 0x80808080u) != 0u ? NOT_A_NUMBER : scale_of(code);
}

float float_scale(uint64_t scales, int64_t group) { return scale_of(uint(AT_U8(scales, group))); }

#ifdef HALF_ROWS
// Small floats that are multiplied as halves, which takes subnormal ones.
// DenormPreserve of 16-bit floats.
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4464], 4459, 16);

// The elements of an octet in units, as pairs: of 4 bits 0 and 4, 1 and 5, and so on; of 8 bits 0 and 2, 1
// and 3, and so on with the other four.
void pairs8(uvec2 p, out f16vec2 pairs[4]) {
    [[unroll]] for (uint i = 0u; i < 4u; ++i)
        pairs[i] = unpackFloat2x16(FORMAT == MXFP8 ? e4m3_bits(p[i / 2u] << (8u - i % 2u * 8u))
                                                   : e2m1_bits(p.x << (12u - i * 4u)));
}

// Scales of sums of these.
vec2 scales_of_sums(uvec2 codes, uint not_numbers) {
    if (FORMAT != NVFP4) return vec2(scale_of_sum(codes.x, not_numbers), 0.0);
    vec2 scales = e4m3_pair((codes.x | codes.y << 16) << 8);
    return 256.0 * mix(scales, vec2(NOT_A_NUMBER), equal(abs(scales), vec2(NO_E4M3)));
}
#endif
