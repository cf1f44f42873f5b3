#version 460
// Normalization of dense rows, a workgroup per row: OP 0 is RMS norm, 1 layer norm; float32 inside.
// Constants: 1 dtype, 2 flags (bit 0: rows and parameters are aligned quads), 3 unused, 4 subgroup size.
// VARIANT: team.glsl.
#include "common.glsl"
#include "floats.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const uint FLAGS = 0;
layout(constant_id = 4) const uint SUBGROUP = 32;
// Flags. [host]
const uint VECTOR_FLAG = 1;
const bool VECTOR = (FLAGS & VECTOR_FLAG) != 0u;

#include "team.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t x, weight, bias, result, rows;
    uint width, weight_stride, bias_stride; // strides: 1, or 0 for a scalar
    float eps;
};

#include "norm_quads.glsl"

void normalize(uint64_t row, uint64_t to) {
    uint quads = (width + 3u) / 4u, lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x;
    float mean = 0.0, squares = 0.0;
#if OP == 1
    for (uint i = lane; i < quads; i += lanes) mean += quad_sum(load(DTYPE, row, i));
    mean = group_sum(mean) / float(width);
#endif
    for (uint i = lane; i < quads; i += lanes) {
        vec4 y = inside(i, load(DTYPE, row, i) - mean);
        squares = dot_add(y, y, squares);
    }
    float scale = norm_factor(group_sum(squares), width, eps);
    for (uint i = lane; i < quads; i += lanes) {
        vec4 y = (load(DTYPE, row, i) - mean) * scale * parameter(weight, weight_stride, i);
#if OP == 1
        y += parameter(bias, bias_stride, i);
#endif
        store(DTYPE, to, i, y);
    }
}

void main() {
    uint64_t bytes = uint64_t(width) << float_shift(DTYPE);
    for (uint64_t row = uint64_t(gl_WorkGroupID.x); row < rows; row += uint64_t(gl_NumWorkGroups.x))
        normalize(x + row * bytes, result + row * bytes);
}
