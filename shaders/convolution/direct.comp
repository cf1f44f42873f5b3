#version 460
// Convolution of groups with few channels and outputs: a thread sums the window of one output (QUAD
// 0), or those of four neighbouring channels that do not mix in neighbouring windows (QUAD 1: one
// channel and one output a group).
// Constants: 1 dtype, 2 QUAD.
#include "common.glsl"
#include "floats.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const uint QUAD = 0;

#include "convolution.glsl"

layout(push_constant, scalar) uniform Push {
    // Count of outputs, or of fours of channels times WINDOWS windows.
    uint64_t source, weight, result, geometry, count;
};

// Windows along the last axis that a thread makes with the weights that it loads. [host]
const uint WINDOWS = 4;

float weight_at(int64_t i) { return fetch(DTYPE, at(DTYPE, weight, i)); }

// 32 bits wherever they do: divisions of 64 are long.
uint64_t quotient(uint64_t i, uint by) {
    return count <= 0xfffffffful ? uint64_t(uint(i) / by) : i / uint64_t(by);
}

// Weights of four channels, which are a window apart.
vec4 weights_at(uint channel, uint taps, uint tap) {
    vec4 y;
    [[unroll]] for (uint e = 0u; e < 4u; ++e)
        y[e] = weight_at(int64_t(channel + e) * int64_t(taps) + int64_t(tap));
    return y;
}

// Adds a line of taps along the last axis to the sums. What lies outside is loaded from
// the line's start, and left out.
void add_line(
    Geometry g, uint taps, uint tap, uint64_t line, uint first, uint channel, inout vec4 sum[WINDOWS]) {
    int64_t apart = g.strides[2] << float_shift(DTYPE);
    for (uint t = 0u; t < g.kernel[2]; ++t, ++tap) {
        vec4 weights = weights_at(channel, taps, g.flip != 0u ? taps - 1u - tap : tap);
        [[unroll]] for (uint p = 0u; p < WINDOWS; ++p) {
            int z = element_of(g, 2u, first + p * g.stride[2] + t * g.kernel_dilation[2]);
            vec4 more = fma(fetch4(DTYPE, true, line + int64_t(max(z, 0)) * apart), weights, sum[p]);
            if (z >= 0) sum[p] = more;
        }
    }
}

void quad(Geometry g, uint taps, uint64_t i) {
    uint fours = g.groups / 4u, blocks = (g.output_[2] + WINDOWS - 1u) / WINDOWS;
    uint64_t block = quotient(i, fours), row = quotient(block, blocks);
    uint channel = uint(i - block * uint64_t(fours)) * 4u,
         first = uint(block - row * uint64_t(blocks)) * WINDOWS;
    uint to = uint(row) * g.output_[2] + first;
    Window w = window_at(g, to);
    vec4 sum[WINDOWS];
    [[unroll]] for (uint p = 0u; p < WINDOWS; ++p) sum[p] = vec4(0.0);
    for (uint t = 0u; t < g.kernel[0]; ++t) {
        int x = element_of(g, 0u, w.first.x + t * g.kernel_dilation[0]);
        for (uint u = 0u; u < g.kernel[1]; ++u) {
            int y = element_of(g, 1u, w.first.y + u * g.kernel_dilation[1]);
            if ((x | y) < 0) continue;
            int64_t offset =
                w.offset + int64_t(x) * g.strides[0] + int64_t(y) * g.strides[1] + int64_t(channel);
            add_line(g, taps, (t * g.kernel[1] + u) * g.kernel[2], at(DTYPE, source, offset), w.first.z,
                channel, sum);
        }
    }
    [[unroll]] for (uint p = 0u; p < WINDOWS; ++p)
        if (first + p < g.output_[2])
            store_float4(DTYPE, result, uint64_t(to + p) * uint64_t(fours) + uint64_t(channel / 4u), sum[p]);
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
            sum = fma(
                fetch(DTYPE, at(DTYPE, source, offset + int64_t(c))), weight_at(from + int64_t(c)), sum);
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
