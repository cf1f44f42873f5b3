// Elements of a quantized matrix as MLX's dequantize stores them, so that a product is that of the
// dequantized matrix. Needs floats.glsl, packed.glsl, the constant DTYPE, and the addresses c and extra of
// the scales and biases.

// The nearest floats of the dtype, of two the even ones; what float16 has no room for is infinite. Adding and
// taking off what ends, as a float32, where the dtype's floats of x's size end takes fewer instructions than
// packing does. Of bfloat16, 2^112 and more stay what they are.
vec4 nearest_floats(vec4 x) {
    if (DTYPE == FLOAT32) return x;
    uvec4 power = floatBitsToUint(x) & 0x7f800000u;
    if (DTYPE == FLOAT16) power = max(power, uvec4(0x38800000u)); // under 2^-14 all are equally far apart
    // 1.5 times x's power of two, times 2^13 or 2^16: a float32 has so many more bits.
    vec4 far = uintBitsToFloat(power + (DTYPE == FLOAT16 ? 0x06c00000u : 0x08400000u));
    precise vec4 sum = x + far;
    precise vec4 near = sum - far;
    if (DTYPE == BFLOAT16) return near;
    precise vec4 large = near * uintBitsToFloat(0x77800000u); // times 2^112: 2^16 is too much
    precise vec4 back = large * uintBitsToFloat(0x07800000u);
    return back;
}

// Scale and bias of a group; zero where there is none.
vec2 pair_of(int64_t group) {
    if (FORMAT != AFFINE) return vec2(float_scale(c, group), 0.0);
    return vec2(fetch(DTYPE, at(DTYPE, c, group)), fetch(DTYPE, at(DTYPE, extra, group)));
}

// Four numbers with their scale and bias. Small floats have no more bits than any dtype holds.
vec4 dequantized4(vec4 q, vec2 pair) {
    vec4 x = fma(q, vec4(pair.x), vec4(pair.y));
    return FORMAT == AFFINE ? nearest_floats(x) : x;
}

// What the fields of an octet stand for.
void dequantized8(uvec2 p, vec2 pair, out vec4 low, out vec4 high) {
    elements8(p, low, high);
    low = dequantized4(low, pair);
    high = dequantized4(high, pair);
}
