// What packed fields stand for: FORMAT says which format they have, small floats have no biases.
// Needs quant.glsl, and before it the specialization constant FORMAT.

// Formats. [host]
const uint AFFINE = 0, MXFP4 = 1, NVFP4 = 2, MXFP8 = 3;

// Bytes of a row of so many elements.
uint64_t row_bytes(uint width) { return uint64_t(width / 8u) * BITS; }

// Twice the value of an e2m1 number. Its size's bits become the end of an exponent and the head of a
// mantissa: from 1.0 on that is the size. Those of 0.0 and 0.5 are 0.5 and 0.75 then, of which twice the
// number less 1.0 makes what they are. The smaller of both is right for all.
float e2m1_twice(uint code) {
    float size = uintBitsToFloat(0x3f800000u + ((code & 7u) << 22));
    size = min(size, fma(size, 2.0, -2.0));
    return uintBitsToFloat(floatBitsToUint(size) ^ ((code & 8u) << 28));
}

// The value of an e4m3 number. Sizes under 2^-6 are twice what their bits are above those of 2^-7, so that no
// subnormal is met, which devices may take for zero.
float e4m3(uint code) {
    uint size = code & 0x7fu;
    float value = uintBitsToFloat(0x3c000000u + (size << 20));
    value = size < 8u ? 2.0 * (value - 0.0078125) : value;
    value = size == 0x7fu ? uintBitsToFloat(0x7fc00000u) : value;
    return uintBitsToFloat(floatBitsToUint(value) ^ ((code & 0x80u) << 24));
}

// Field `e` of an octet as a number; that of an e2m1 number is twice its value, which its scale makes up for.
float element8(uvec2 p, uint e) {
    uint field = field8(p, e);
    if (FORMAT == AFFINE) return exact_float(field);
    return FORMAT == MXFP8 ? e4m3(field) : e2m1_twice(field);
}

vec4 elements8_low(uvec2 p) {
    return vec4(element8(p, 0u), element8(p, 1u), element8(p, 2u), element8(p, 3u));
}

vec4 elements8_high(uvec2 p) {
    return vec4(element8(p, 4u), element8(p, 5u), element8(p, 6u), element8(p, 7u));
}

// The scale of small floats that a code stands for, as their elements want it.
float scale_of(uint code) {
    if (FORMAT == NVFP4) return 0.5 * e4m3(code);
    float power = uintBitsToFloat(max(code << 23, 1u << 22));
    return FORMAT == MXFP4 ? 0.5 * power : power;
}

float float_scale(uint64_t scales, int64_t group) { return scale_of(uint(AT_U8(scales, group))); }
