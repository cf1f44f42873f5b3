#version 460
// scale q + bias, eight elements a thread. Constants: 1 dtype, 2 bits, 3 group size.
#include "common.glsl"
#include "floats.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const uint BITS = 4;
layout(constant_id = 3) const uint GROUP = 64;
#include "quant.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t words, scales, biases, result, count; // count of eights
};

// The product is rounded before the sum, as on the CPU.
vec4 affine(vec4 q, float scale, float bias) {
    precise vec4 p = scale * q;
    precise vec4 s = p + bias;
    return s;
}

uint half_bits(vec2 x) {
    if (DTYPE == FLOAT16) return f32_to_f16(x.x) | f32_to_f16(x.y) << 16;
    return f32_to_bf16(x.x) | f32_to_bf16(x.y) << 16;
}

void main() {
    GRID_LOOP(i, count) {
        // 32 elements take BITS words wherever they are, so all rows are one long row.
        uint64_t block = i / 4ul;
        uvec2 p = packed8(words + block * uint64_t(BITS * 4u), uint(i % 4ul) * 8u);
        int64_t group = int64_t(i / uint64_t(GROUP / 8u));
        float scale = load_float(DTYPE, scales, group), bias = load_float(DTYPE, biases, group);
        vec4 low = affine(fields8_low(p), scale, bias), high = affine(fields8_high(p), scale, bias);
        if (DTYPE == FLOAT32) {
            store_float4(DTYPE, result, i * 2ul, low);
            store_float4(DTYPE, result, i * 2ul + 1ul, high);
        } else { // one store of 16 bytes: two of eight leave gaps that neighbours fill later
            AT_V4(result, i) = uvec4(half_bits(low.xy), half_bits(low.zw), half_bits(high.xy), half_bits(high.zw));
        }
    }
}
