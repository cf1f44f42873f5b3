#version 460
// First index of the largest or smallest element of each row: threads compare (key, index), keys ordered so
// that the largest wins. As on the CPU, a NaN comes before every number.
// Constants: 1 dtype, 2 operation (0 largest, 1 smallest), 3 team size, 4 across (see
// rows.glsl), 5 stage, 6 contiguous.
#include "common.glsl"
#include "keys.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint FROM = 11;
layout(constant_id = 2) const uint OP = 0;
layout(constant_id = 3) const uint TEAM = 64;
layout(constant_id = 4) const uint ACROSS = 0;
layout(constant_id = 5) const uint STAGE = 0;
layout(constant_id = 6) const uint CONTIGUOUS = 0;

// Stages [host]: elements to indices; elements to a (key, index) for each part of a row; those to indices.
const uint WHOLE = 0, PARTS = 1, JOIN = 2;

layout(push_constant, scalar) uniform Push {
    uint64_t source, destination, rows, length, splits, chunk, row_walk, keys, indices;
    int64_t stride;
    uint row_ndim;
};

#include "rows.glsl"

shared K best_keys[gl_WorkGroupSize.x];
shared uint best_indices[gl_WorkGroupSize.x];

K best;
uint best_at;

void take(K raw, uint64_t i) {
    K top = top_key(FROM), key = key_of(FROM, raw);
    bool nan = has_nan(FROM) && key == top;
#if WIDTH == 64
    nan = nan || (FROM == COMPLEX64 && uint(key) == 0xffffffffu); // the imaginary part's key
#endif
    if (OP == 1) key = top - key;
    if (nan) key = top;
    // Indices come in ascending order, so the first of equals stays; the very first is always taken.
    if (key > best || best_at == 0xffffffffu) {
        best = key;
        best_at = uint(i);
    }
}

// A thread's elements in ascending order: up to a 16-byte boundary, whole words, and the rest.
void fold_contiguous(uint64_t address, uint64_t from, uint64_t to, uint lane) {
    uint64_t size = dtype_size(FROM), start = address + from * size;
    uint64_t body = min(to, from + ((16ul - (start & 15ul)) & 15ul) / size);
    uint64_t words = (to - body) / WORD_ELEMENTS;
    for (uint64_t i = from + lane; i < body; i += TEAM) take(load_bits(FROM, address, i), i);
    uint64_t w = lane;
    for (; w + TEAM < words; w += 2u * TEAM) {
        uvec4 a = AT_V4(address + body * size, w), b = AT_V4(address + body * size, w + TEAM);
        uint64_t i = body + w * WORD_ELEMENTS, k = i + TEAM * WORD_ELEMENTS;
        [[unroll]] for (uint j = 0u; j < WORD_ELEMENTS; ++j) take(unpack_bits(FROM, a, j), i + j);
        [[unroll]] for (uint j = 0u; j < WORD_ELEMENTS; ++j) take(unpack_bits(FROM, b, j), k + j);
    }
    for (; w < words; w += TEAM) {
        uvec4 a = AT_V4(address + body * size, w);
        [[unroll]] for (uint j = 0u; j < WORD_ELEMENTS; ++j)
            take(unpack_bits(FROM, a, j), body + w * WORD_ELEMENTS + j);
    }
    for (uint64_t i = body + words * WORD_ELEMENTS + lane; i < to; i += TEAM)
        take(load_bits(FROM, address, i), i);
}

// Whether the result (k, i) comes before the best so far.
void join(K k, uint i) {
    if (i == 0xffffffffu || (best_at != 0xffffffffu && (k < best || (k == best && i > best_at)))) return;
    best = k;
    best_at = i;
}

void fold(Task task, uint lane) {
    if (STAGE == JOIN) {
        for (uint64_t i = lane; i < length; i += TEAM) {
            uint64_t at = ACROSS == 1 ? i * rows + task.row : task.row * length + i;
            join(load_bits(WIDTH == 64 ? UINT64 : UINT32, keys, at), AT_U32(indices, at));
        }
        return;
    }
    int64_t base = walk_offset(row_walk, row_ndim, 0u, task.row);
    uint64_t from = task.part * chunk, to = min(from + chunk, length);
    if (CONTIGUOUS == 1) fold_contiguous(source + uint64_t(base) * dtype_size(FROM), from, to, lane);
    else for (uint64_t i = from + lane; i < to; i += TEAM)
        take(load_bits(FROM, source, uint64_t(base + int64_t(i) * stride)), i);
}

void main() {
    uint thread = gl_LocalInvocationID.x, lane = lane_of(thread);
    uint64_t tasks = rows * splits;
    TASK_LOOP(first, tasks) {
        uint64_t task = first + team_of(thread);
        best = K(0);
        best_at = 0xffffffffu;
        if (task < tasks) fold(task_of(task, rows, splits), lane);
        best_keys[thread] = best;
        best_indices[thread] = best_at;
        [[dont_unroll]] for (uint left = TEAM / 2u; left > 0u; left /= 2u) {
            barrier();
            if (lane < left) {
                join(best_keys[thread + left * LANE_STRIDE], best_indices[thread + left * LANE_STRIDE]);
                best_keys[thread] = best;
                best_indices[thread] = best_at;
            }
        }
        if (lane == 0u && task < tasks) {
            AT_U32(STAGE == PARTS ? indices : destination, task) = best_at;
            if (STAGE == PARTS) store_bits(WIDTH == 64 ? UINT64 : UINT32, keys, task, best);
        }
        if (TEAM > 1u) barrier(); // the next round overwrites what the last comparison reads
    }
}
