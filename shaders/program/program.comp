#version 460
// Programs: several elementwise operations in one kernel. This is a library: the host links a program's own
// `block` and `single` in place of those below, from the functions that they mention
// (crates/vk-backend/src/kernels/program). Constants: 1 elements that a thread takes at a time, 2 mode, and
// of reductions 3 operation, 4 team size, 5 across (see rows.glsl), 6 how many values are reduced, 7 the
// results' dtype.
#include "common.glsl"
#include "math.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint LANES = 4;
layout(constant_id = 2) const uint MODE = 0;
layout(constant_id = 3) const uint OP = 5;
layout(constant_id = 4) const uint TEAM = 64;
layout(constant_id = 5) const uint ACROSS = 0;
layout(constant_id = 6) const uint REDUCED = 1;
layout(constant_id = 7) const uint TO = 11;

// What a dispatch does [host]: the program for one array; for many arrays, a workgroup for one of them; or
// for one array of which some values are reduced and not stored.
const uint ONE = 0, LISTED = 1, REDUCING = 2;
// Addresses that are in the push constants; those of further operands are in memory. [host]
const uint INLINE = 11;

// `walk` is what `strided_offset` takes: the sizes and, one after the other, the strides of operands.
// LISTED: `ndim` rows of `count` words are at `further`: the number of elements, then the operands'
// addresses; and `walk` has the first workgroup of each row and, behind them, the number of workgroups.
// REDUCING: at `further` is a Reduction; the destinations are the last `REDUCED` operands, of `count`.
layout(push_constant, scalar) uniform Push {
    uint64_t count, walk, further;
    uint64_t operands[INLINE];
    uint ndim;
};

// How an array is reduced: its row-major elements are `rows / columns` times `steps` times `columns` blocks
// of LANES, of which those along `steps` are reduced. Without ACROSS there is one column, whose lanes are
// reduced, too. A row may have `splits` parts of `chunk` blocks: their results are at `parts`, and whichever
// workgroup ends last with the same rows, counted at `counters`, joins them.
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Reduction {
    uint64_t rows, columns, steps, splits, chunk, further, parts, counters;
};
// What other workgroups made of parts of rows.
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Part { uint v; };

uint64_t row; // of LISTED: the workgroup's

uint64_t operand(const uint k) {
    if (MODE == LISTED) return U64(row).v[1u + k];
    if (k < INLINE) return operands[k];
    return U64(MODE == REDUCING ? Reduction(further).further : further).v[k - INLINE];
}

// The offset of element `at` in the operand that has the `k`-th strides of the walk.
int64_t walked(const uint k, const uint64_t at) {
    int64_t offset = 0l;
    uint sizes = ndim * WALK_SIZES, strides = ndim * (WALK_STRIDES + k);
    uint64_t left = at;
    for (uint axis = ndim - 1u; axis > 0u; --axis) {
        uint64_t size = U64(walk).v[sizes + axis], quotient = 0ul;
        if ((left | size) <= 0xfffffffful) quotient = uint64_t(uint(left) / uint(size));
        else if (left >= size) quotient = left / size;
        offset += int64_t(left - quotient * size) * I64(walk).v[strides + axis];
        left = quotient;
    }
    return offset + int64_t(left) * I64(walk).v[strides];
}

uint64_t column; // of REDUCING: the first element of the thread's blocks among those that are reduced alike

// Where an operand has the element at a lane of the column.
int64_t column_offset(const uint lane) { return int64_t(column + uint64_t(lane)); }

// The distance of neighbours along the last axis.
int64_t stride(const uint k) { return I64(walk).v[ndim * (WALK_STRIDES + k) + ndim - 1u]; }

// That of neighbours along the axis before it, whose rows are shorter than what a thread takes.
int64_t stride_of_rows(const uint k) { return I64(walk).v[ndim * (WALK_STRIDES + k) + ndim - 2u]; }

#define CLASS 5
#include "class.glsl"
#include "functions/unary.glsl"
#include "functions/binary.glsl"
#include "functions/convert.glsl"
#include "functions/program.glsl"
#undef CLASS
#define CLASS 4
#include "class.glsl"
#include "functions/unary.glsl"
#include "functions/binary.glsl"
#include "functions/convert.glsl"
#include "functions/program.glsl"
#undef CLASS
#define CLASS 3
#include "class.glsl"
#include "functions/unary.glsl"
#include "functions/binary.glsl"
#include "functions/convert.glsl"
#include "functions/program.glsl"
#undef CLASS
#define CLASS 2
#include "class.glsl"
#include "functions/unary.glsl"
#include "functions/binary.glsl"
#include "functions/convert.glsl"
#include "functions/program.glsl"
#undef CLASS
#define CLASS 1
#include "class.glsl"
#include "functions/unary.glsl"
#include "functions/binary.glsl"
#include "functions/convert.glsl"
#include "functions/program.glsl"
#undef CLASS
#define CLASS 0
#include "class.glsl"
#include "functions/unary.glsl"
#include "functions/binary.glsl"
#include "functions/convert.glsl"
#include "functions/program.glsl"

// What is reduced are floats, whatever dtype they are rounded to.
const uint FROM = FLOAT32;
#include "rows.glsl"
#include "reduction.glsl"

const uint WORKGROUP = gl_WorkGroupSize.x;
shared A parts[MODE == REDUCING ? WORKGROUP * (ACROSS == 1 ? LANES : 1) : 1];
#define JOINED (ACROSS == 1 ? LANES : 1)
#include "team_join.glsl"

// Of each value that is reduced, LANES results.
A acc[MODE == REDUCING ? REDUCED * LANES : 1];

// Takes elements of a value that is reduced, whose results are `k` and those behind it.
void take_four(const uint k, const vec4 x) {
    [[unroll]] for (uint j = 0u; j < 4u; ++j) acc[k + j] = combine(acc[k + j], lift(x[j]));
}
// The same of the element at one lane.
void take_one(const uint k, const uint lane, const float x) {
    [[unroll]] for (uint j = 0u; j < LANES; ++j)
        if (j == lane) acc[k + j] = combine(acc[k + j], lift(x));
}

// The element `at`.
void single(const uint64_t at) { mention(0.0, uint(at), at, int64_t(at)); }

// The `LANES` elements from element `at` on.
void block(const uint64_t at) {
    int64_t i = walked(0u, at) + stride(1u) + stride_of_rows(1u) + column_offset(uint(at));
    uint64_t base = operand(uint(at));
    mention(0.0, uint(at), base, i);
    mention(0, uint(at), base, i);
    mention(0u, uint(at), base, i);
    mention(0l, uint(at), base, i);
    mention(0ul, uint(at), base, i);
    mention(vec2(0.0), uint(at), base, i);
    take_four(uint(at), vec4(i));
    take_one(uint(at), uint(i), float(i));
}

// Every one of so many elements, by thread `thread` of `threads`.
void each(uint64_t elements, uint64_t thread, uint64_t threads) {
    uint64_t blocks = elements / uint64_t(LANES);
    for (uint64_t i = thread; i < blocks; i += threads) block(i * uint64_t(LANES));
    // Behind the last whole block are fewer elements than the first workgroup has threads.
    uint64_t last = blocks * uint64_t(LANES) + thread;
    if (last < elements) single(last);
}

shared uint number_of_row;

// The arrays of a list.
void listed() {
    uint group = gl_WorkGroupID.x;
    for (uint i = gl_LocalInvocationIndex; i < ndim; i += gl_WorkGroupSize.x)
        if (U32(walk).v[i] <= group && group < U32(walk).v[i + 1u]) number_of_row = i;
    barrier();
    uint first = U32(walk).v[number_of_row], end = U32(walk).v[number_of_row + 1u];
    row = further + uint64_t(number_of_row) * count * 8ul;
    each(U64(row).v[0], uint64_t((group - first) * gl_WorkGroupSize.x + gl_LocalInvocationIndex),
        uint64_t((end - first) * gl_WorkGroupSize.x));
}

// The thread's part of a row, in `acc`. Where it ends follows from where it begins: of `(task.part + 1ul) *
// of.chunk` NVIDIA's compiler makes that of the row (580.159, teams of a whole workgroup).
void fold(const Reduction of, const Task task, const uint lane) {
    uint64_t outer = task.row / of.columns, begin = task.part * of.chunk, from = begin + lane;
    uint64_t to = min(begin + of.chunk, of.steps), step = of.columns * uint64_t(LANES);
    column = (task.row - outer * of.columns) * uint64_t(LANES);
    uint64_t at = (outer * of.steps + from) * step + column;
    for (uint64_t i = from; i < to; i += TEAM) {
        block(at);
        at += TEAM * step;
    }
}

// Results of a part of a row: those of value `k`.
uint64_t part_at(const Reduction of, const uint64_t row, const uint64_t part, const uint k) {
    return of.parts + ((uint64_t(k) * of.splits + part) * of.rows + row) * uint64_t(4 * JOINED);
}

// Joins what the team has of a value, and stores it: the results, or those of a part.
void store(const Reduction of, const Task task, const uint lane, const uint k) {
    uint thread = gl_LocalInvocationIndex;
    if (ACROSS == 0) [[unroll]] for (uint left = LANES / 2u; left > 0u; left /= 2u)
        [[unroll]] for (uint j = 0u; j < left; ++j)
            acc[k * LANES + j] = combine(acc[k * LANES + j], acc[k * LANES + left + j]);
    [[unroll]] for (uint j = 0u; j < JOINED; ++j) parts[j * WORKGROUP + thread] = acc[k * LANES + j];
    join_parts(thread, lane);
    if (lane == 0u && task.row < of.rows) [[unroll]] for (uint j = 0u; j < JOINED; ++j) {
        A result = parts[j * WORKGROUP + thread];
        if (of.splits > 1ul) Part(part_at(of, task.row, task.part, k) + uint64_t(4u * j)).v = result;
        else STORE(TO, operand(uint(count) - REDUCED + k), int64_t(task.row * JOINED + j), lower(result));
    }
    barrier(); // the next value overwrites what the last join reads
}

shared bool is_last;

// Whether the workgroup's part is the last one of its rows that is stored; `number` is theirs.
bool ends(const Reduction of, const uint64_t number) {
    memoryBarrierBuffer();
    barrier();
    if (gl_LocalInvocationIndex == 0u) {
        uint64_t counter = of.counters + number * 4ul;
        is_last = uint64_t(atomicAdd(U32(counter).v[0], 1u)) + 1ul == of.splits;
        if (is_last) U32(counter).v[0] = 0u;
    }
    barrier();
    bool last = is_last;
    memoryBarrierBuffer();
    return last;
}

// What a thread has of the parts of one result: every `shares`-th from `share` on. Eight of them are on their
// way at a time.
A fold_parts(const Reduction of, const uint64_t at, const uint share, const uint shares) {
    uint64_t distance = of.rows * uint64_t(4 * JOINED);
    A sum = identity();
    for (uint64_t part = share; part < of.splits; part += 8u * shares) {
        A several[8];
        [[unroll]] for (uint i = 0u; i < 8u; ++i)
            several[i] = Part(at + min(part + i * shares, of.splits - 1ul) * distance).v;
        [[unroll]] for (uint i = 0u; i < 8u; ++i)
            sum = combine(sum, part + i * shares < of.splits ? several[i] : identity());
    }
    return sum;
}

// Joins the parts of a workgroup's rows, which begin at `first`: threads share its results.
void join_all(const Reduction of, const uint64_t first) {
    const uint OF_VALUE = TEAMS * JOINED, RESULTS = REDUCED * OF_VALUE;
    const uint AT_ONCE = min(RESULTS, WORKGROUP), SHARES = WORKGROUP / AT_ONCE;
    uint thread = gl_LocalInvocationIndex, share = thread / AT_ONCE;
    for (uint base = 0u; base < RESULTS; base += AT_ONCE) {
        uint result = base + thread % AT_ONCE, k = result / OF_VALUE, within = result % OF_VALUE;
        bool is_one = result < RESULTS && share < SHARES && first + uint64_t(within / JOINED) < of.rows;
        if (is_one) parts[thread] = fold_parts(of, part_at(of, first, 0ul, k) + within * 4ul, share, SHARES);
        [[dont_unroll]] for (uint left = SHARES; left > 1u;) {
            uint all = left;
            left = (left + 7u) / 8u;
            barrier();
            if (is_one && share < left) {
                A a = parts[thread];
                [[dont_unroll]] for (uint i = share + left; i < all; i += left)
                    a = combine(a, parts[thread + (i - share) * AT_ONCE]);
                parts[thread] = a;
            }
        }
        if (is_one && share == 0u)
            STORE(TO, operand(uint(count) - REDUCED + k), int64_t(first * JOINED + within),
                lower(parts[thread]));
        barrier(); // the next results overwrite what the last join reads
    }
}

// Reduces rows, whose results are stored beside each other. All teams of a workgroup have the same part of
// their rows, or are behind the last row.
void reduce() {
    Reduction of = Reduction(further);
    uint thread = gl_LocalInvocationIndex, lane = lane_of(thread);
    uint64_t rows = (of.rows + uint64_t(TEAMS) - 1ul) / uint64_t(TEAMS) * uint64_t(TEAMS);
    TASK_LOOP(first, rows * of.splits) {
        uint64_t part = first / rows, row = first - part * rows;
        Task task = Task(row + uint64_t(team_of(thread)), part);
        [[unroll]] for (uint j = 0u; j < REDUCED * LANES; ++j) acc[j] = identity();
        if (task.row < of.rows) fold(of, task, lane);
        [[unroll]] for (uint k = 0u; k < REDUCED; ++k) store(of, task, lane, k);
        if (of.splits > 1ul && ends(of, row / uint64_t(TEAMS))) join_all(of, row);
    }
}

void main() {
    if (MODE == ONE) each(count, uint64_t(gl_GlobalInvocationID.x), GRID_THREADS);
    else if (MODE == LISTED) listed();
    else reduce();
}
