// MLX's affine quantization of a group of elements: a signed scale, so that the edge farther from zero is
// exact. Everything is float32 with exactly rounded divisions, so that the words equal the CPU's bit for
// bit. Needs math.glsl and BITS.

#define LEVELS float((1u << BITS) - 1u)

// Scale and bias of a group whose elements lie in low..high.
vec2 affine_of(float low, float high) {
    bool negative = abs(low) > abs(high);
    precise float range = high - low;
    float scale = max(m_div(range, LEVELS), 1e-7);
    if (!negative) scale = -scale;
    float edge = negative ? low : high;
    float steps = roundEven(m_div(edge, scale));
    return steps != 0.0 ? vec2(m_div(edge, steps), edge) : vec2(scale, 0.0);
}

// The field of an element.
uint field_of(float x, vec2 affine) {
    precise float d = x - affine.y;
    return uint(clamp(roundEven(m_div(d, affine.x)), 0.0, LEVELS));
}
