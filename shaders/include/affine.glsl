// MLX's affine quantization of a group of elements: a signed scale, so that the edge farther from zero is
// exact. Everything is float32 with exactly rounded divisions, so that the words equal the CPU's bit for
// bit. Needs math.glsl.

// The largest field.
float most_field(uint bits) { return float((1u << bits) - 1u); }

// Scale and bias of a group whose elements lie in low..high.
vec2 scale_and_bias(uint bits, float low, float high) {
    bool negative = abs(low) > abs(high);
    precise float range = high - low;
    float scale = max(m_div(range, most_field(bits)), 1e-7);
    if (!negative) scale = -scale;
    float edge = negative ? low : high;
    float steps = roundEven(m_div(edge, scale));
    return steps != 0.0 ? vec2(m_div(edge, steps), edge) : vec2(scale, 0.0);
}

// The field of an element.
uint field_of(uint bits, float x, vec2 affine) {
    precise float d = x - affine.y;
    return uint(clamp(roundEven(m_div(d, affine.x)), 0.0, most_field(bits)));
}
