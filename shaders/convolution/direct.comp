#version 460
// Convolution of groups with few channels and outputs: a thread sums the window of one output (QUAD 0), or of four
// neighbouring channels that do not mix (QUAD 1: one channel and one output a group).
// Constants: 1 dtype, 2 QUAD.
#include "common.glsl"
#include "floats.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const uint QUAD = 0;

#include "convolution.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t source, weight, result, geometry, count; // count of outputs, or of fours
};

float weight_at(int64_t i) { return fetch(DTYPE, at(DTYPE, weight, i)); }

void quad(Geometry g, uint taps, uint64_t i) {
    uint64_t per_row = uint64_t(g.groups / 4u), row = i / per_row;
    uint channel = uint(i - row * per_row) * 4u;
    Window w = window_at(g, uint(row));
    vec4 sum = vec4(0.0);
    for (uint tap = 0u; tap < taps; ++tap) {
        int64_t offset;
        if (!tap_offset(g, w, tap, offset)) continue;
        vec4 y;
        [[unroll]] for (uint e = 0u; e < 4u; ++e) y[e] = weight_at(int64_t(channel + e) * int64_t(taps) + int64_t(tap));
        sum = fma(fetch4(DTYPE, true, at(DTYPE, source, offset + int64_t(channel))), y, sum);
    }
    store_float4(DTYPE, result, i, sum);
}

void single(Geometry g, uint taps, uint64_t i) {
    uint64_t all = uint64_t(g.groups * g.outputs), row = i / all;
    uint to = uint(i - row * all);
    Window w = window_at(g, uint(row));
    float sum = 0.0;
    for (uint tap = 0u; tap < taps; ++tap) {
        int64_t offset;
        if (!tap_offset(g, w, tap, offset)) continue;
        offset += int64_t(to / g.outputs * g.channels);
        int64_t from = (int64_t(to) * int64_t(taps) + int64_t(tap)) * int64_t(g.channels);
        for (uint c = 0u; c < g.channels; ++c)
            sum = fma(fetch(DTYPE, at(DTYPE, source, offset + int64_t(c))), weight_at(from + int64_t(c)), sum);
    }
    store_float(DTYPE, result, int64_t(i), sum);
}

void main() {
    Geometry g = Geometry(geometry);
    uint taps = g.kernel[0] * g.kernel[1] * g.kernel[2];
    GRID_LOOP(i, count) {
        if (QUAD == 1u) quad(g, taps, i);
        else single(g, taps, i);
    }
}
