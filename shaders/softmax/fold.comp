#version 460
// Maximum and sum of exponentials of rows, or of parts of rows, in one pass: as pairs (see softmax.glsl), or
// as the logarithm of the sum of exponentials. Constants: 1 dtype, 2 team size, 3 stage, 4 quads.
#include "common.glsl"
#include "math.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint FROM = 11;
layout(constant_id = 2) const uint TEAM = 64;
layout(constant_id = 3) const uint STAGE = 0;
layout(constant_id = 4) const uint QUADS = 0;
const uint ACROSS = 0;

// Stages: rows to logarithms; parts of rows to pairs; the pairs of each row to logarithms. [host]
const uint WHOLE = 0, PARTS = 1, JOIN = 2;

layout(push_constant, scalar) uniform Push {
    uint64_t source, destination, pairs, rows, length, splits, chunk, row_walk;
    int64_t stride;
    uint row_ndim;
};

#include "rows.glsl"
#include "softmax.glsl"

vec2 fold(Task task, uint lane) {
    vec2 p = NOTHING;
    if (STAGE == JOIN) {
        for (uint64_t i = lane; i < splits; i += TEAM) p = join(p, AT_F2(pairs, task.row * splits + i));
        return p;
    }
    int64_t base = walk_offset(row_walk, row_ndim, 0u, task.row);
    uint64_t from = task.part * chunk, to = min(from + chunk, length);
    ROW_LOOP(i, from, to, lane,
             p = push_four(p, load_float4(FROM, source, (uint64_t(base) + i) / 4ul)),
             p = join(p, vec2(load_float(FROM, source, base + int64_t(i) * stride), 1.0)))
    return p;
}

void main() {
    uint thread = gl_LocalInvocationID.x, lane = lane_of(thread);
    uint64_t parts = STAGE == JOIN ? 1ul : splits, tasks = rows * parts;
    TASK_LOOP(first, tasks) {
        uint64_t number = first + team_of(thread);
        vec2 p = number < tasks ? fold(task_of(number, rows, parts), lane) : NOTHING;
        p = join_team(p, thread, lane);
        bool writes = lane == 0u && number < tasks;
        if (writes && STAGE == PARTS) AT_F2(pairs, number) = p;
        else if (writes)
            store_float(FROM, destination, int64_t(number), m_isinf(p.x) ? p.x : p.x + m_log(p.y));
    }
}
