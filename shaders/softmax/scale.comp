#version 460
// Softmax of long rows, second half: from the pairs of a row's parts (see softmax.glsl) and its elements.
// Constants: 1 dtype, 2 team size, 3 quads.
#include "common.glsl"
#include "math.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint FROM = 11;
layout(constant_id = 2) const uint TEAM = 64;
layout(constant_id = 3) const uint QUADS = 0;
const uint ACROSS = 0;

layout(push_constant, scalar) uniform Push {
    uint64_t source, destination, pairs, rows, length, splits, chunk, row_walk;
    int64_t stride;
    uint row_ndim;
};

#include "rows.glsl"
#include "softmax.glsl"

vec4 exp4(vec4 x) { return vec4(m_exp(x.x), m_exp(x.y), m_exp(x.z), m_exp(x.w)); }

void main() {
    uint thread = gl_LocalInvocationID.x, lane = lane_of(thread);
    uint64_t tasks = rows * splits;
    TASK_LOOP(first, tasks) {
        uint64_t number = first + team_of(thread);
        Task task = task_of(min(number, tasks - 1ul), rows, splits);
        vec2 p = NOTHING;
        for (uint64_t i = lane; i < splits; i += TEAM) p = join(p, AT_F2(pairs, task.row * splits + i));
        p = join_team(p, thread, lane);
        // An infinite maximum makes the whole row NaN: infinity less infinity is part of the sum.
        float m = m_isinf(p.x) ? m_nan() : p.x, scale = 1.0 / p.y;
        int64_t base = walk_offset(row_walk, row_ndim, 0u, task.row);
        uint64_t from = task.part * chunk, to = number < tasks ? min(from + chunk, length) : from;
        uint64_t out_base = task.row * length;
        ROW_LOOP(i, from, to, lane,
                 vec4 x = load_float4(FROM, source, (uint64_t(base) + i) / 4ul);
                 store_float4(FROM, destination, (out_base + i) / 4ul, exp4(x - m) * scale),
                 float x = load_float(FROM, source, base + int64_t(i) * stride);
                 store_float(FROM, destination, int64_t(out_base + i), m_exp(x - m) * scale))
    }
}
