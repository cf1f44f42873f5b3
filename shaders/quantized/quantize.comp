#version 460
// Affine quantization, a thread per group: MLX's rule with a signed scale, so that the edge farther from zero is exact.
// Everything is float32 with exactly rounded divisions, so that the words equal the CPU's bit for bit.
// Constants: 1 dtype, 2 bits, 3 group size.
#include "common.glsl"
#include "floats.glsl"
#include "math.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const uint BITS = 4;
layout(constant_id = 3) const uint GROUP = 64;

layout(push_constant, scalar) uniform Push {
    uint64_t w, words, scales, biases, count; // count of groups
};

#define LEVELS float((1u << BITS) - 1u)

float element(uint64_t base, uint i) { return load_float(DTYPE, base, int64_t(i)); }

void quantize_group(uint64_t group) {
    uint64_t base = at(DTYPE, w, int64_t(group) * int64_t(GROUP));
    float low = element(base, 0u), high = low;
    for (uint i = 1u; i < GROUP; ++i) {
        float x = element(base, i);
        low = min(low, x);
        high = max(high, x);
    }
    bool negative = abs(low) > abs(high);
    precise float range = high - low;
    float scale = max(m_div(range, LEVELS), 1e-7);
    if (!negative) scale = -scale;
    float edge = negative ? low : high;
    float steps = roundEven(m_div(edge, scale)), bias = 0.0;
    if (steps != 0.0) {
        scale = m_div(edge, steps);
        bias = edge;
    }
    store_float(DTYPE, scales, int64_t(group), scale);
    store_float(DTYPE, biases, int64_t(group), bias);
    uint64_t to = words + group * uint64_t(GROUP / 32u * BITS * 4u);
    uint held = 0u, word = 0u, next = 0u; // bits held of the word that is being filled
    for (uint i = 0u; i < GROUP; ++i) {
        precise float d = element(base, i) - bias;
        uint q = uint(clamp(roundEven(m_div(d, scale)), 0.0, LEVELS));
        word |= q << held;
        held += BITS;
        if (held >= 32u) {
            U32(to).v[next] = word;
            next += 1u;
            held -= 32u;
            word = held == 0u ? 0u : q >> (BITS - held);
        }
    }
}

void main() {
    GRID_LOOP(group, count) quantize_group(group);
}
