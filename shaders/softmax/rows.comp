#version 460
// Softmax of rows that a team of threads holds in registers: each element is read and written once.
// Constants: 1 dtype, 2 team size, 3 elements per thread (a multiple of 4), 4 quads (see
// softmax.glsl), 5 subgroup size.
// VARIANT 1: subgroup arithmetic, a team is whole subgroups. VARIANT 0: shared
// memory, a team is a power of two.
#include "common.glsl"
#include "math.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint FROM = 11;
layout(constant_id = 2) const uint TEAM = 64;
layout(constant_id = 3) const uint ITEMS = 4;
layout(constant_id = 4) const uint QUADS = 0;
const uint ACROSS = 0;

layout(push_constant, scalar) uniform Push {
    uint64_t source, destination, rows, row_walk;
    int64_t stride;
    uint length, row_ndim;
};

#include "rows.glsl"
#include "softmax.glsl"

#if VARIANT == 1
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
layout(constant_id = 5) const uint SUBGROUP = 32;
const uint SUBGROUPS = TEAM / SUBGROUP;
#define THREAD (gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID)
// Two slots, used by turns: a barrier between them is the only one that each needs.
shared float maxima[gl_WorkGroupSize.x / SUBGROUP], sums[gl_WorkGroupSize.x / SUBGROUP];

#define ACROSS_TEAM(parts, own, thread, join) \
    if (SUBGROUPS == 1u) return own; \
    if (gl_SubgroupInvocationID == 0u) parts[gl_SubgroupID] = own; \
    barrier(); \
    uint first_ = thread / TEAM * SUBGROUPS; \
    own = parts[first_]; \
    for (uint i = 1u; i < SUBGROUPS; ++i) own = join(own, parts[first_ + i]); \
    return own;

float plus(float a, float b) { return a + b; }

// A NaN may get lost here; the sum of the exponentials finds it again.
float max_team(float own, uint thread, uint lane) {
    own = subgroupMax(own);
    ACROSS_TEAM(maxima, own, thread, max)
}

float sum_team(float own, uint thread, uint lane) {
    own = subgroupAdd(own);
    ACROSS_TEAM(sums, own, thread, plus)
}
#else
#define THREAD gl_LocalInvocationID.x
shared float parts[gl_WorkGroupSize.x];

#define ACROSS_TEAM(own, thread, lane, join) \
    if (TEAM == 1u) return own; \
    parts[thread] = own; \
    [[dont_unroll]] for (uint left = TEAM / 2u; left > 0u; left /= 2u) { \
        barrier(); \
        if (lane < left) parts[thread] = join(parts[thread], parts[thread + left]); \
    } \
    barrier(); \
    float result = parts[thread - lane]; \
    barrier(); \
    return result;

float plus(float a, float b) { return a + b; }
float max_team(float own, uint thread, uint lane) { ACROSS_TEAM(own, thread, lane, max_nan) }
float sum_team(float own, uint thread, uint lane) { ACROSS_TEAM(own, thread, lane, plus) }
#endif

// Index in the row of a lane's element e: runs of four, or single ones, side by side with the next lane's.
uint index_of(uint e, uint lane) {
    return QUADS == 1u ? ((e / 4u) * TEAM + lane) * 4u + e % 4u : e * TEAM + lane;
}

void main() {
    uint thread = THREAD, lane = lane_of(thread);
    TASK_LOOP(first, rows) {
        uint64_t row = first + team_of(thread);
        uint count = row < rows ? length : 0u;
        int64_t base = walk_offset(row_walk, row_ndim, 0u, min(row, rows - 1ul));
        float x[ITEMS];
        float m = MINUS_INF; // without the NaNs, or one: either way the sum becomes NaN
        [[unroll]] for (uint e = 0u; e < ITEMS; e += 4u) {
            // Only whole words count as quads: the planner sees to it that the length is a multiple of 4.
            if (QUADS == 1u) {
                uint i = index_of(e, lane);
                vec4 v = i < count ? load_float4(FROM, source, uint64_t(base + i) / 4ul) : vec4(MINUS_INF);
                [[unroll]] for (uint k = 0u; k < 4u; ++k) x[e + k] = v[k];
            } else {
                [[unroll]] for (uint k = 0u; k < 4u; ++k) {
                    uint i = index_of(e + k, lane);
                    x[e + k] = i < count ? load_float(FROM, source, base + int64_t(i) * stride) : MINUS_INF;
                }
            }
            [[unroll]] for (uint k = 0u; k < 4u; ++k) m = max(m, x[e + k]);
        }
        m = max_team(m, thread, lane);
        float sum = 0.0;
        [[unroll]] for (uint e = 0u; e < ITEMS; ++e) {
            x[e] = exp_fast(x[e] - m);
            sum += x[e];
        }
        float scale = 1.0 / sum_team(sum, thread, lane);
        uint64_t to = row * length;
        [[unroll]] for (uint e = 0u; e < ITEMS; e += 4u) {
            if (QUADS == 1u) {
                uint i = index_of(e, lane);
                vec4 v = vec4(x[e], x[e + 1u], x[e + 2u], x[e + 3u]);
                if (i < count) store_float4(FROM, destination, (to + i) / 4ul, v * scale);
            } else {
                [[unroll]] for (uint k = 0u; k < 4u; ++k) {
                    uint i = index_of(e + k, lane);
                    if (i < count) store_float(FROM, destination, int64_t(to + i), x[e + k] * scale);
                }
            }
        }
    }
}
