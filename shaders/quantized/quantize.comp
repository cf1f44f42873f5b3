#version 460
// Affine quantization, a thread per group.
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

#include "affine.glsl"

float element(uint64_t base, uint i) { return load_float(DTYPE, base, int64_t(i)); }

void quantize_group(uint64_t group) {
    uint64_t base = at(DTYPE, w, int64_t(group) * int64_t(GROUP));
    float low = element(base, 0u), high = low;
    for (uint i = 1u; i < GROUP; ++i) {
        float x = element(base, i);
        low = min(low, x);
        high = max(high, x);
    }
    vec2 affine = scale_and_bias(BITS, low, high);
    store_float(DTYPE, scales, int64_t(group), affine.x);
    store_float(DTYPE, biases, int64_t(group), affine.y);
    uint64_t to = words + group * uint64_t(GROUP / 32u * BITS * 4u);
    uint held = 0u, word = 0u, next = 0u; // bits held of the word that is being filled
    for (uint i = 0u; i < GROUP; ++i) {
        uint q = field_of(BITS, element(base, i), affine);
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
