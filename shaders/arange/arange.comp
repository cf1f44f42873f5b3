#version 460
// start + i * step. CLASS 0: floating dtypes, in pairs of float32 so that float32 results round once; 3:
// integers of every size in 64 bits; 5: complex. Constant 1: dtype.
#include "common.glsl"
#include "math.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;

#if CLASS == 3
layout(push_constant, scalar) uniform LongPush {
    uint64_t destination, count;
    int64_t start, step;
};
#else
layout(push_constant, scalar) uniform Push {
    uint64_t destination, count;
    vec2 start, step; // high and low parts of float64 values
};
#endif

#if CLASS != 3
vec2 add_pairs(vec2 a, vec2 b) {
    vec2 s = m_two_sum(a.x, b.x);
    return m_fast_sum(s.x, s.y + (a.y + b.y));
}

// start + i * step with i split at bit 12 into two parts, both exact in float32.
float value(uint64_t i) {
    float low = float(uint(i & 0xffful)), high = float(uint(i >> 12)) * 4096.0;
    vec2 by_low = m_mul2(low, 0.0, step.x, step.y), by_high = m_mul2(high, 0.0, step.x, step.y);
    return add_pairs(start, add_pairs(by_high, by_low)).x;
}
#endif

void main() {
    GRID_LOOP(i, count) {
#if CLASS == 3
        int64_t x = start + int64_t(i) * step;
        uint64_t size = dtype_size(DTYPE);
        if (size == 1ul) AT_U8(destination, i) = uint8_t(x);
        else if (size == 2ul) AT_U16(destination, i) = uint16_t(x);
        else if (size == 4ul) AT_U32(destination, i) = uint(x);
        else AT_I64(destination, i) = x;
#elif CLASS == 5
        AT_F2(destination, i) = vec2(value(i), 0.0);
#else
        store_float(DTYPE, destination, int64_t(i), value(i));
#endif
    }
}
