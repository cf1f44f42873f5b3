#version 460
// Running results along rows: a team of threads walks a row, or a part of one, tile by tile; in a tile each
// thread has four neighbouring elements. What came before a part is read from `carries`, one for each part.
// Constants: 1 source dtype, 2 destination dtype, 3 operation, 4 team size, 5 four neighbours lie in memory
// as one aligned word: 1 in ascending, 2 in descending order.
#include "common.glsl"
#include "elementwise.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint FROM = 11;
layout(constant_id = 2) const uint TO = 11;
layout(constant_id = 3) const uint OP = 5;
layout(constant_id = 4) const uint TEAM = 64;
layout(constant_id = 5) const uint WORDS = 0;
const uint ACROSS = 0;

// Strides are negative for a scan from the end: the row then starts at its last element.
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

shared A parts[gl_WorkGroupSize.x];

// The first four elements from `i` on, as many as there are before `to`.
void load_four(int64_t base, uint64_t i, uint64_t to, out A x[4]) {
#if HAS_FOUR
    if (WORDS != 0u && i + 4ul <= to) {
        // Descending: the word ends with the element that comes first.
        int64_t first = base + int64_t(i) * stride - (WORDS == 2u ? 3l : 0l);
        T4 v = LOAD4(FROM, source + uint64_t(first) * dtype_size(FROM), 0ul);
        if (WORDS == 2u) v = v.wzyx;
        [[unroll]] for (uint k = 0u; k < 4u; ++k) x[k] = lift(v[k]);
        return;
    }
#endif
    [[unroll]] for (uint k = 0u; k < 4u; ++k)
        x[k] = i + k < to ? lift(load_element(FROM, source, base + int64_t(i + k) * stride)) : identity();
}

void store_four(int64_t base, uint64_t i, uint64_t to, A x[4]) {
#if HAS_FOUR
    if (WORDS != 0u && i + 4ul <= to) {
        int64_t first = base + int64_t(i) * out_stride - (WORDS == 2u ? 3l : 0l);
        T4 v = T4(lower(x[0]), lower(x[1]), lower(x[2]), lower(x[3]));
        if (WORDS == 2u) v = v.wzyx;
        STORE4(TO, destination + uint64_t(first) * dtype_size(TO), 0ul, v);
        return;
    }
#endif
    [[unroll]] for (uint k = 0u; k < 4u; ++k)
        if (i + k < to) store_element(TO, destination, base + int64_t(i + k) * out_stride, lower(x[k]));
}

// Inclusive scan of one value per lane of a team; the same barriers for the whole workgroup.
A scan_team(A own, uint thread, uint lane) {
    parts[thread] = own;
    [[dont_unroll]] for (uint distance = 1u; distance < TEAM; distance *= 2u) {
        barrier();
        A before = lane >= distance ? parts[thread - distance] : identity();
        barrier();
        own = lane >= distance ? combine(before, own) : own;
        parts[thread] = own;
    }
    if (TEAM > 1u) barrier();
    return own;
}

void main() {
    uint thread = gl_LocalInvocationID.x, lane = lane_of(thread);
    uint64_t tasks = rows * splits;
    // The longest part decides how many tiles all teams of the workgroup go through.
    uint64_t longest = min(chunk, length), tile = 4ul * TEAM;
    TASK_LOOP(first, tasks) {
        uint64_t number = first + team_of(thread);
        bool active_ = number < tasks;
        Task task = task_of(active_ ? number : 0ul, rows, splits);
        int64_t in_base = walk_offset(row_walk, row_ndim, 0u, task.row);
        int64_t out_base = walk_offset(row_walk, row_ndim, 1u, task.row);
        uint64_t from = task.part * chunk, to = active_ ? min(from + chunk, length) : 0ul;
        // Joined with the identity of TO, which for short integers differs from that of the carries.
        A carry = identity();
        if (has_carries == 1u)
            carry = combine(carry, lift(load_element(PARTIAL, carries, int64_t(active_ ? number : 0ul))));
        for (uint64_t start = 0ul; start < longest; start += tile) {
            uint64_t i = from + start + 4ul * lane;
            A x[4];
            load_four(in_base, i, to, x);
            A own = combine(combine(x[0], x[1]), combine(x[2], x[3]));
            scan_team(own, thread, lane);
            // Read back rather than subtracted: the lane before has what this thread starts with.
            A running = lane > 0u ? combine(carry, parts[thread - (lane > 0u ? 1u : 0u)]) : carry;
            carry = combine(carry, parts[thread - lane + TEAM - 1u]);
            if (TEAM > 1u) barrier(); // before the next tile overwrites the parts
            [[unroll]] for (uint k = 0u; k < 4u; ++k) {
                A next = combine(running, x[k]);
                x[k] = inclusive == 1u ? next : running;
                running = next;
            }
            store_four(out_base, i, to, x);
        }
    }
}
