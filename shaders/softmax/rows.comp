#version 460
// Softmax of rows that a team of threads holds in registers: each element is read and written once.
// Constants: 1 dtype, 2 team size, 3 elements per thread (a multiple of 4), 4 quads (see softmax.glsl).
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

shared float parts[gl_WorkGroupSize.x];

float max_team(float own, uint thread, uint lane) {
    if (TEAM == 1u) return own;
    parts[thread] = own;
    [[dont_unroll]] for (uint left = TEAM / 2u; left > 0u; left /= 2u) {
        barrier();
        if (lane < left) parts[thread] = max_nan(parts[thread], parts[thread + left]);
    }
    barrier();
    float result = parts[thread - lane];
    barrier();
    return result;
}

float sum_team(float own, uint thread, uint lane) {
    if (TEAM == 1u) return own;
    parts[thread] = own;
    [[dont_unroll]] for (uint left = TEAM / 2u; left > 0u; left /= 2u) {
        barrier();
        if (lane < left) parts[thread] += parts[thread + left];
    }
    barrier();
    float result = parts[thread - lane];
    barrier();
    return result;
}

// Place in the row of a lane's element e: runs of four, or single ones, side by side with the next lane's.
uint place(uint e, uint lane) {
    return QUADS == 1u ? ((e / 4u) * TEAM + lane) * 4u + e % 4u : e * TEAM + lane;
}

void main() {
    uint thread = gl_LocalInvocationID.x, lane = lane_of(thread);
    TASK_LOOP(first, rows) {
        uint64_t row = first + team_of(thread);
        uint count = row < rows ? length : 0u;
        int64_t base = walk_offset(row_walk, row_ndim, 0u, min(row, rows - 1ul));
        float x[ITEMS];
        float m = MINUS_INF;
        [[unroll]] for (uint e = 0u; e < ITEMS; e += 4u) {
            // Only whole words count as quads: the planner sees to it that the length is a multiple of 4.
            if (QUADS == 1u) {
                uint i = place(e, lane);
                vec4 v = i < count ? load_float4(FROM, source, uint64_t(base + i) / 4ul) : vec4(MINUS_INF);
                [[unroll]] for (uint k = 0u; k < 4u; ++k) x[e + k] = v[k];
            } else {
                [[unroll]] for (uint k = 0u; k < 4u; ++k) {
                    uint i = place(e + k, lane);
                    x[e + k] = i < count ? load_float(FROM, source, base + int64_t(i) * stride) : MINUS_INF;
                }
            }
            [[unroll]] for (uint k = 0u; k < 4u; ++k) m = max_nan(m, x[e + k]);
        }
        m = max_team(m, thread, lane);
        float sum = 0.0;
        [[unroll]] for (uint e = 0u; e < ITEMS; ++e) {
            x[e] = m_exp(x[e] - m);
            sum += x[e];
        }
        float scale = 1.0 / sum_team(sum, thread, lane);
        uint64_t to = row * length;
        [[unroll]] for (uint e = 0u; e < ITEMS; e += 4u) {
            if (QUADS == 1u) {
                uint i = place(e, lane);
                vec4 v = vec4(x[e], x[e + 1u], x[e + 2u], x[e + 3u]);
                if (i < count) store_float4(FROM, destination, (to + i) / 4ul, v * scale);
            } else {
                [[unroll]] for (uint k = 0u; k < 4u; ++k) {
                    uint i = place(e + k, lane);
                    if (i < count) store_float(FROM, destination, int64_t(to + i), x[e + k] * scale);
                }
            }
        }
    }
}
