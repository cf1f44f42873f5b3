#version 460
// Reduces rows of elements: teams of threads share a row, or a part of one, and join
// their results in shared memory.
// Constants: 1 source dtype, 2 destination dtype, 3 operation, 4 team size, 5 mode, 6 across (see rows.glsl),
// 7 columns: neighbouring rows that a thread takes together, a word of 16 bytes at a time, and that count as
// one.
#include "common.glsl"
#include "elementwise.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint FROM = 11;
layout(constant_id = 2) const uint TO = 11;
layout(constant_id = 3) const uint OP = 5;
layout(constant_id = 4) const uint TEAM = 64;
layout(constant_id = 5) const uint MODE = 0;
layout(constant_id = 6) const uint ACROSS = 0;
layout(constant_id = 7) const uint COLUMNS = 1;

// Elements of a row: neighbours in memory, one stride apart, or walked over several axes. [host]
const uint CONTIGUOUS = 0, ONE_STRIDE = 1, WALK = 2;

layout(push_constant, scalar) uniform Push {
    uint64_t source, destination, rows, length, splits, chunk, row_walk, walk;
    int64_t stride;
    uint row_ndim, ndim;
};

#if VARIANT == 1
#include "math.glsl"
#endif
#include "reduction.glsl"
#include "rows.glsl"

const uint WORKGROUP = gl_WorkGroupSize.x;
shared A parts[WORKGROUP * COLUMNS];
#define JOINED COLUMNS
#include "team_join.glsl"

// Of a row four, else one of each column.
A acc[COLUMNS > 4u ? COLUMNS : 4u];

void take(uint64_t address, uint64_t i) {
    acc[0] = combine(acc[0], lift(load_element(FROM, address, int64_t(i))));
}

// Four independent results per thread keep the chains of dependent additions, and their rounding errors,
// short.
void take_word(uvec4 w) {
    [[unroll]] for (uint j = 0u; j < word_elements(); ++j)
        acc[j & 3u] = combine(acc[j & 3u], lift(unpack(w, j)));
}

// `count` neighbours: single elements up to a 16-byte boundary and behind the last whole word.
void fold_contiguous(uint64_t address, uint64_t count, uint lane) {
    uint64_t size = dtype_size(FROM);
    uint64_t head = min(count, ((16ul - (address & 15ul)) & 15ul) / size);
    uint64_t words = (count - head) / word_elements();
    uint64_t body = address + head * size, tail = head + words * word_elements();
    for (uint64_t i = lane; i < head; i += TEAM) take(address, i);
    for (uint64_t i = tail + lane; i < count; i += TEAM) take(address, i);
    uint64_t i = lane;
    // Four loads in flight.
    for (; i + 3u * TEAM < words; i += 4u * TEAM) {
        uvec4 a = AT_V4(body, i), b = AT_V4(body, i + TEAM);
        uvec4 c = AT_V4(body, i + 2u * TEAM), d = AT_V4(body, i + 3u * TEAM);
        take_word(a);
        take_word(b);
        take_word(c);
        take_word(d);
    }
    for (; i < words; i += TEAM) take_word(AT_V4(body, i));
}

int64_t offset(uint64_t i) { return MODE == WALK ? strided_offset(walk, ndim, 0u, i) : int64_t(i) * stride; }

void fold_strided(int64_t base, uint64_t from, uint64_t to, uint lane) {
    uint64_t i = from + lane;
    for (; i + 3u * TEAM < to; i += 4u * TEAM) {
        T x[4];
        [[unroll]] for (uint k = 0u; k < 4u; ++k)
            x[k] = load_element(FROM, source, base + offset(i + k * TEAM));
        [[unroll]] for (uint k = 0u; k < 4u; ++k) acc[k] = combine(acc[k], lift(x[k]));
    }
    for (; i < to; i += TEAM) acc[0] = combine(acc[0], lift(load_element(FROM, source, base + offset(i))));
}

void take_columns(uvec4 w) {
    [[unroll]] for (uint j = 0u; j < COLUMNS; ++j) acc[j] = combine(acc[j], lift(unpack(w, j)));
}

void fold_columns(int64_t base, uint64_t from, uint64_t to, uint lane) {
    uint64_t address = source + uint64_t(base) * dtype_size(FROM), size = dtype_size(FROM), i = from + lane;
    for (; i + 3u * TEAM < to; i += 4u * TEAM) {
        uvec4 w[4];
        [[unroll]] for (uint k = 0u; k < 4u; ++k)
            w[k] = V4(address + uint64_t(offset(i + k * TEAM)) * size).v[0];
        [[unroll]] for (uint k = 0u; k < 4u; ++k) take_columns(w[k]);
    }
    for (; i < to; i += TEAM) take_columns(V4(address + uint64_t(offset(i)) * size).v[0]);
}

// The thread's part of a row, or of columns in `acc`.
A fold(Task task, uint lane) {
    [[unroll]] for (uint k = 0u; k < acc.length(); ++k) acc[k] = identity();
    int64_t base = walk_offset(row_walk, row_ndim, 0u, task.row * COLUMNS);
    uint64_t from = task.part * chunk, to = min(from + chunk, length);
    if (COLUMNS > 1u) {
        fold_columns(base, from, to, lane);
        return acc[0];
    }
    if (MODE == CONTIGUOUS)
        fold_contiguous(source + uint64_t(base + int64_t(from)) * dtype_size(FROM), to - from, lane);
    else fold_strided(base, from, to, lane);
    return combine(combine(acc[0], acc[1]), combine(acc[2], acc[3]));
}

void main() {
    uint thread = gl_LocalInvocationID.x, lane = lane_of(thread);
    uint64_t tasks = rows * splits;
    TASK_LOOP(first, tasks) {
        uint64_t task = first + team_of(thread);
        acc[0] = identity();
        if (task < tasks) acc[0] = fold(task_of(task, rows, splits), lane);
        [[unroll]] for (uint j = 0u; j < COLUMNS; ++j) parts[j * WORKGROUP + thread] = acc[j];
        join_parts(thread, lane);
        if (lane == 0u && task < tasks) [[unroll]] for (uint j = 0u; j < COLUMNS; ++j)
            store_element(TO, destination, int64_t(task * COLUMNS + j), lower(parts[j * WORKGROUP + thread]));
        if (TEAM > 1u) barrier(); // the next round overwrites what the last addition reads
    }
}
