// The angle of rotary embeddings, a product of two float32 pairs, so that it is right to an ulp of the sine
// however far the position. Needs common.glsl and math.glsl. `frequencies` are pairs (high, low) of the
// float64 ones or, with the constant `divisors`, float32 divisors `frequency_stride` apart.

// sin and cos of position * frequency; the position is a pair (high, low).
vec2 rotation(vec2 position, uint pair, uint64_t frequencies, int64_t frequency_stride, bool divisors) {
    float high, low;
    if (divisors) {
        float divisor = AT_F32(frequencies, int64_t(pair) * frequency_stride);
        high = m_div(position.x, divisor);
        vec2 p = m_two_prod(high, divisor);
        precise float rest = position.x - p.x;
        precise float rest2 = rest - p.y;
        bool finite = max(m_abs(high), m_abs(divisor)) < 1e30;
        low = finite ? (rest2 + position.y) / divisor : 0.0;
    } else {
        vec2 f = AT_F2(frequencies, pair);
        vec2 p = m_two_prod(position.x, f.x);
        high = p.x;
        low = p.y + (position.x * f.y + position.y * f.x);
    }
    // The rest is at most half an ulp of the angle: 2^-5 at a million.
    float s = m_sin(high), c = m_cos(high), square = low * low;
    float ds = low * (1.0 - square * (1.0 / 6.0)), dc = -0.5 * square;
    return vec2(s + (s * dc + c * ds), c + (c * dc - s * ds));
}

// The same for fused kernels of 16-bit floats, to 2^-20 or better: two steps of
// reduction and the driver's functions.
vec2 rotation_fast(vec2 position, uint pair, uint64_t frequencies, bool divisors) {
    float high, low;
    if (divisors) {
        float divisor = AT_F32(frequencies, pair);
        high = position.x / divisor;
        low = (fma(-high, divisor, position.x) + position.y) / divisor;
    } else {
        vec2 f = AT_F2(frequencies, pair);
        high = position.x * f.x;
        low = fma(position.x, f.x, -high) + fma(position.x, f.y, position.y * f.x);
    }
    float turns = roundEven(high * 0.15915494309189535);
    float rest = fma(-turns, 6.2831855, high);             // 2 pi as the sum of two floats
    rest = fma(-turns, -1.7484556e-7, rest) + low;
    return vec2(sin(rest), cos(rest));
}
