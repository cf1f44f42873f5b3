#version 460
// The experts of tokens (include/route.glsl). Constants: 1 dtype of logits and shares, 2 subgroup size,
// 3 logits of a lane.
#include "common.glsl"
#include "floats.glsl"
#include "bias.glsl"
#include "math.glsl"
#define WIDTH 32
#include "keys.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const uint SUBGROUP = 32;
layout(constant_id = 3) const uint EACH = 4;

layout(push_constant, scalar) uniform Push {
    uint64_t logits, picks, shares;
    uint tokens, experts, count;
};
#define OTHERS 0u
#define MORE_PICKS 0u
#include "scores.glsl"
#include "route.glsl"

void main() {
    for (uint token = gl_WorkGroupID.x; token < tokens; token += gl_NumWorkGroups.x) route(token);
}
