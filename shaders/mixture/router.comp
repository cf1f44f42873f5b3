#version 460
// The experts of a few tokens, from the rows before the norm on: the normalized rows, which are stored, the
// router's logits, and the picks. A workgroup makes a token's logit of one expert, or each of its subgroups
// does; the last one of a token picks. An expert that all tokens have is the last pick, under the number
// behind the others'; its share is sigmoid of a logit of its own, or 1. Constants: 1 dtype (16-bit floats), 2
// subgroup size, 3 logits of a lane (route.glsl), 4 bits of the router's matrix (16: not quantized), 5
// elements that share a scale, as a power of two, 6 whether a subgroup makes a logit.
#include "common.glsl"
#include "floats.glsl"
#include "bias.glsl"
#include "math.glsl"
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
layout(constant_id = 6) const uint BY_SUBGROUPS = 0;
#include "team.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t x, weight, normal; // rows, the norm's weight, and the normalized rows
    uint64_t words, scales, biases; // of a matrix (experts, inner)
    uint64_t bias;                  // of its products, or 0
    uint64_t logits, picks, shares;
    uint64_t counters; // zeroed words, one for each token
    uint64_t more;     // the address of More, or 0
    uint inner, experts, count;
    uint at_once; // whether the bias is added to the product that is not rounded before
    float eps;
};

// What few mixtures have.
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer More {
    uint64_t words, scales, biases; // of the shared expert's logit, a row of the router's format; or 0
    uint64_t score_bias;            // float32 (experts), or 0
    uint shared_experts;            // 1 if there is one
    uint scoring;
    float share_eps, share_factor;
    uint share_dtype, unused;
};

uint shared_logits = 0u, shared_experts = 0u; // 1 or 0
#define OTHERS shared_logits
#define MORE_PICKS shared_experts
#include "scores.glsl"
#include "route.glsl"

shared uint finished;

// Threads that make a logit together, and how many logits a workgroup makes.
const uint TEAM = BY_SUBGROUPS == 1u ? SUBGROUP : gl_WorkGroupSize.x, LOGITS = gl_WorkGroupSize.x / TEAM;

uint thread() { return gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID; }
uint member() { return BY_SUBGROUPS == 1u ? gl_SubgroupInvocationID : thread(); }
// The expert whose logit this thread helps to make. A workgroup that makes one takes its own number, which
// compilers see to be the same for all threads.
uint own_expert() {
    return BY_SUBGROUPS == 1u ? gl_WorkGroupID.x * LOGITS + gl_SubgroupID : gl_WorkGroupID.x;
}

vec4 quad_of(uint64_t row, uint i) { return fetch4(DTYPE, true, row + uint64_t(i) * 8ul); }

// The teams of a token share what is to be stored of its normalized row.
void store_row(uint token, uint expert, float factor) {
    uint quads = inner / 4u, all = experts + OTHERS, each = (quads + all - 1u) / all;
    uint64_t at_ = uint64_t(token) * uint64_t(inner) * 2ul;
    for (uint i = expert * each + member(); i < min(quads, (expert + 1u) * each); i += TEAM)
        store_float4(DTYPE, normal + at_, uint64_t(i), quad_of(x + at_, i) * quad_of(weight, i) * factor);
}

void store_logit(uint token, uint expert, float logit) {
    if (bias != 0ul && expert < experts)
        logit = with_bias(DTYPE, logit, uint(U16(bias).v[expert]), at_once != 0u);
    store_float(DTYPE, logits, int64_t(token) * int64_t(experts + OTHERS) + int64_t(expert), logit);
}

// The last pick of a token.
void pick_shared(uint token) {
    uint64_t to = uint64_t(token) * uint64_t(count + 1u) + uint64_t(count);
    AT_U32(picks, to) = experts;
    float share = 1.0;
    if (shared_logits != 0u)
        share = m_sigmoid(load_float(
            DTYPE, logits, int64_t(token) * int64_t(experts + 1u) + int64_t(experts)));
    store_float(share_dtype, shares, int64_t(to), share);
}

// Takes what few mixtures have. Returns whether the logit is the shared expert's.
bool take_more(uint expert) {
    if (more == 0ul) return false;
    More its = More(more);
    shared_logits = its.words != 0ul ? 1u : 0u;
    shared_experts = its.shared_experts;
    scoring = its.scoring;
    score_bias = its.score_bias;
    share_eps = its.share_eps;
    share_factor = its.share_factor;
    share_dtype = its.share_dtype;
    return expert == experts;
}

// The product of an octet of x with an octet of a matrix of the router's format, in one load of words.
float router_octet(
    vec4 low, vec4 high, uint64_t words_, uint64_t scales_, uint64_t biases_, uint octet) {
    if (BITS == 16u) {
        uvec4 p = V4(words_).v[octet];
        vec4 first = vec4(half_pair(DTYPE, p.x), half_pair(DTYPE, p.y));
        return dot_add(high, vec4(half_pair(DTYPE, p.z), half_pair(DTYPE, p.w)), dot_add(low, first, 0.0));
    }
    uvec2 p;
    if (BITS == 8u) {
        p = V2(words_).v[octet];
    } else {
        p.x = U32(words_).v[octet];
        p.y = p.x >> 16;
    }
    uvec4 shifts = uvec4(0u, 1u, 2u, 3u) * BITS;
    const uint mask = (1u << BITS) - 1u;
    float product = dot_add(low, vec4(uvec4(p.x) >> shifts & mask), 0.0);
    product = dot_add(high, vec4(uvec4(p.y) >> shifts & mask), product);
    uint group = octet >> (GROUP_LOG - 3u);
    float scale = fetch(DTYPE, at(DTYPE, scales_, int64_t(group)));
    float bias_ = fetch(DTYPE, at(DTYPE, biases_, int64_t(group)));
    return fma(scale, product, bias_ * quad_sum(low + high));
}

// A token's logit, and the team's part of the normalized row.
void make_logit(uint token, uint expert, bool of_shared) {
    uint64_t row = x + uint64_t(token) * uint64_t(inner) * 2ul;
    uint64_t from = words, scales_ = scales, biases_ = biases;
    uint own_row = expert;
    if (of_shared) {
        More its = More(more);
        from = its.words;
        scales_ = its.scales;
        biases_ = its.biases;
        own_row = 0u;
    }
    vec2 sums = vec2(0.0); // of the product, and of squares
    for (uint i = member(); i < inner / 8u; i += TEAM) {
        vec4 low, high, of_low, of_high;
        fetch8(DTYPE, true, row + uint64_t(i) * 16ul, low, high);
        fetch8(DTYPE, true, weight + uint64_t(i) * 16ul, of_low, of_high);
        uint octet = own_row * (inner / 8u) + i;
        sums.x += router_octet(low * of_low, high * of_high, from, scales_, biases_, octet);
        sums.y += dot_add(high, high, dot_add(low, low, 0.0));
    }
    sums = BY_SUBGROUPS == 1u ? team_sum(sums) : group_sum(sums);
    float factor = norm_factor(sums.y, inner, eps);
    store_row(token, expert, factor);
    if (member() == 0u) store_logit(token, expert, sums.x * factor);
}

void main() {
    uint expert = own_expert(), token = gl_WorkGroupID.y;
    bool of_shared = take_more(expert);
    if (expert < experts + OTHERS) make_logit(token, expert, of_shared);
    memoryBarrierBuffer();
    barrier();
    if (thread() == 0u) {
        memoryBarrierBuffer(); // what other subgroups stored comes before the count, too
        uint64_t counter = counters + uint64_t(token) * 4ul;
        finished = atomicAdd(U32(counter).v[0], 1u) + 1u == gl_NumWorkGroups.x ? 1u : 0u;
        if (finished == 1u) U32(counter).v[0] = 0u;
    }
    barrier();
    if (finished == 0u) return;
    memoryBarrierBuffer();
    if (gl_SubgroupID == 0u) route(token);
    if (thread() == 0u && shared_experts != 0u) pick_shared(token);
}
