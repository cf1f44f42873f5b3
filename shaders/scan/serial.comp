#version 460
// Running results along rows that lie side by side: a thread walks a row, or a part of one,
// so that neighbouring threads read neighbouring elements. What came before a part is read
// from `carries`, by (part, row).
// Constants: 1 source dtype, 2 destination dtype, 3 operation.
#include "common.glsl"
#include "elementwise.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint FROM = 11;
layout(constant_id = 2) const uint TO = 11;
layout(constant_id = 3) const uint OP = 5;
const uint ACROSS = 1, TEAM = 1;

layout(push_constant, scalar) uniform Push {
    uint64_t source, destination, carries, rows, length, splits, chunk, row_walk;
    int64_t stride, out_stride;
    uint row_ndim, inclusive, has_carries;
};

#if VARIANT == 1
#include "math.glsl"
#endif
#include "reduction.glsl"
#include "rows.glsl"

void main() {
    uint64_t tasks = rows * splits;
    GRID_LOOP(number, tasks) {
        Task task = task_of(number, rows, splits);
        int64_t from = walk_offset(row_walk, row_ndim, 0u, task.row) + int64_t(task.part * chunk) * stride;
        int64_t to = walk_offset(row_walk, row_ndim, 1u, task.row) + int64_t(task.part * chunk) * out_stride;
        uint64_t count = min(chunk, length - task.part * chunk);
        // Joined with the identity of TO, which for short integers differs from that of the carries.
        A running = identity();
        if (has_carries == 1u)
            running = combine(running, lift(load_element(PARTIAL, carries, int64_t(number))));
        for (uint64_t i = 0ul; i < count; ++i) {
            A next = combine(running, lift(load_element(FROM, source, from)));
            store_element(TO, destination, to, lower(inclusive == 1u ? next : running));
            running = next;
            from += stride;
            to += out_stride;
        }
    }
}
