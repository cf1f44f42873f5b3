#version 460
// Normalization of dense rows, a workgroup per row: OP 0 is RMS norm, 1 layer norm; float32 inside.
// Constants: 1 dtype, 2 flags, 4 subgroup size. VARIANT: team.glsl.
#include "common.glsl"
#include "floats.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const uint FLAGS = 0;
layout(constant_id = 4) const uint SUBGROUP = 32;
// Flags: rows and parameters are aligned quads; the weight or the bias is a scalar. [host]
const uint VECTOR_FLAG = 1, SCALAR_WEIGHT_FLAG = 2, SCALAR_BIAS_FLAG = 4;
const bool VECTOR = (FLAGS & VECTOR_FLAG) != 0u;
const bool SCALAR_WEIGHT = (FLAGS & SCALAR_WEIGHT_FLAG) != 0u;
const bool SCALAR_BIAS = (FLAGS & SCALAR_BIAS_FLAG) != 0u;

#include "team.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t x, weight, bias, result, rows;
    uint width;
    float eps;
};

#include "norm_quads.glsl"

void store_quad(uint64_t to, uint i, vec4 y, vec4 factors) {
    y *= factors;
#if OP == 1
    y += parameter(bias, SCALAR_BIAS, i);
#endif
    store(DTYPE, to, i, y);
}

void normalize(uint64_t row, uint64_t to) {
    uint quads = (width + 3u) / 4u, lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x;
    float mean = 0.0;
    // A thread's first quad stays in registers, with the weights that it will need. It is the last one of
    // threads that have none: loads in a branch would wait for one another.
    bool some = lane < quads;
    uint first = min(lane, quads - 1u);
    vec4 own = load(DTYPE, row, first), factors = parameter(weight, SCALAR_WEIGHT, first);
#if OP == 1
    mean = some ? quad_sum(own) : 0.0;
    for (uint i = lane + lanes; i < quads; i += lanes) mean += quad_sum(load(DTYPE, row, i));
    mean = group_sum(mean) / float(width);
#endif
    own -= mean;
    vec4 y = some ? inside(lane, own) : vec4(0.0);
    float squares = dot_add(y, y, 0.0);
    for (uint i = lane + lanes; i < quads; i += lanes) {
        y = inside(i, load(DTYPE, row, i) - mean);
        squares = dot_add(y, y, squares);
    }
    float scale = norm_factor(group_sum(squares), width, eps);
    if (some) store_quad(to, lane, own * scale, factors);
    for (uint i = lane + lanes; i < quads; i += lanes)
        store_quad(to, i, (load(DTYPE, row, i) - mean) * scale, parameter(weight, SCALAR_WEIGHT, i));
}

void main() {
    uint64_t bytes = uint64_t(width) << float_shift(DTYPE);
    for (uint64_t row = uint64_t(gl_WorkGroupID.x); row < rows; row += uint64_t(gl_NumWorkGroups.x))
        normalize(x + row * bytes, result + row * bytes);
}
