#version 460
// The experts of a few tokens, from the rows before the norm on: the normalized rows, which are stored, the
// router's logits, and the picks. A workgroup makes a token's logit of one expert; the last one of a token
// picks. Constants: 1 dtype (16-bit floats), 2 subgroup size, 3 logits of a lane (route.glsl), 4 bits of the
// router's matrix (16: not quantized), 5 elements that share a scale, as a power of two.
#include "common.glsl"
#include "floats.glsl"
#include "bias.glsl"
#define WIDTH 32
#include "keys.glsl"
#define VARIANT 1
#define TEAM_VALUE vec2
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 10;
layout(constant_id = 2) const uint SUBGROUP = 32;
layout(constant_id = 3) const uint EACH = 4;
layout(constant_id = 4) const uint BITS = 8;
layout(constant_id = 5) const uint GROUP_LOG = 6;
#include "team.glsl"
#include "router.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t x, weight, normal; // rows, the norm's weight, and the normalized rows
    uint64_t words, scales, biases; // of a matrix (experts, inner)
    uint64_t bias;                  // of its products, or 0
    uint64_t logits, picks, shares;
    uint64_t counters; // zeroed words, one for each token
    uint inner, experts, count;
    uint at_once; // whether the bias is added to the product that is not rounded before
    float eps;
};
#include "route.glsl"

shared uint finished;

uint thread() { return gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID; }

vec4 quad_of(uint64_t row, uint i) { return fetch4(DTYPE, true, row + uint64_t(i) * 8ul); }

// The workgroups of a token share what is to be stored of its normalized row.
void store_row(uint token, uint expert, float factor) {
    uint quads = inner / 4u, each = (quads + experts - 1u) / experts;
    uint64_t at_ = uint64_t(token) * uint64_t(inner) * 2ul;
    for (uint i = expert * each + thread(); i < min(quads, (expert + 1u) * each); i += gl_WorkGroupSize.x)
        store_float4(DTYPE, normal + at_, uint64_t(i), quad_of(x + at_, i) * quad_of(weight, i) * factor);
}

void store_logit(uint token, uint expert, float logit) {
    if (bias != 0ul) logit = with_bias(DTYPE, logit, uint(U16(bias).v[expert]), at_once != 0u);
    store_float(DTYPE, logits, int64_t(token) * int64_t(experts) + int64_t(expert), logit);
}

void main() {
    uint expert = gl_WorkGroupID.x, token = gl_WorkGroupID.y;
    uint64_t row = x + uint64_t(token) * uint64_t(inner) * 2ul;
    vec2 sums = vec2(0.0); // of the product, and of squares
    for (uint i = thread(); i < inner / 4u; i += gl_WorkGroupSize.x) {
        uint element = expert * inner + 4u * i;
        vec4 y = quad_of(row, i);
        uvec4 part = router_part(words, scales, biases, element, BITS, GROUP_LOG);
        sums += vec2(router_product(y * quad_of(weight, i), part, element, BITS), dot_add(y, y, 0.0));
    }
    sums = group_sum(sums);
    float factor = norm_factor(sums.y, inner, eps);
    store_row(token, expert, factor);
    if (thread() == 0u) store_logit(token, expert, sums.x * factor);
    memoryBarrierBuffer();
    barrier();
    if (thread() == 0u) {
        uint64_t counter = counters + uint64_t(token) * 4ul;
        finished = atomicAdd(U32(counter).v[0], 1u) + 1u == experts ? 1u : 0u;
        if (finished == 1u) U32(counter).v[0] = 0u;
    }
    barrier();
    if (finished == 0u) return;
    memoryBarrierBuffer();
    if (gl_SubgroupID == 0u) route(token);
}
