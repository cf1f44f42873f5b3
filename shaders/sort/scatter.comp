#version 460
// Radix sort, second half of a pass: moves the elements of each part of each row to their ranks for one
// digit of 8 bits. A subgroup ranks its elements by votes on the bits of their digits: equal digits before a
// lane, and those that the subgroup has met before. So a workgroup sorts a tile in shared memory, and
// elements of one digit leave it side by side.
// After D. Merrill and A. Grimshaw, "Revisiting sorting for GPGPU stream
// architectures", and CUB's matching of digits.
// Constants: 1 dtype, 2 elements per thread, 3 indices travel along, 4 threads of a subgroup.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_ballot : require
#include "common.glsl"
#include "keys.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint FROM = 11;
layout(constant_id = 2) const uint ITEMS = 8;
layout(constant_id = 3) const uint INDEXED = 0;
layout(constant_id = 4) const uint SUBGROUP = 32;

#include "sort_scatter.glsl"

#define THREADS gl_WorkGroupSize.x
const uint TILE = THREADS * ITEMS;
const uint COUNTERS = THREADS / SUBGROUP * 256u;
const uint WORDS = TILE * (WIDTH / 32u);
// Each subgroup's counts of digits; then the sorted tile, its elements before their indices.
shared uint words[WORDS > COUNTERS ? WORDS : COUNTERS];
// By digit: where the next element goes in the row, the first one in the tile, and from the tile to the row.
shared uint offset[256], start[256], move[256];

K x[ITEMS];
uint rank[ITEMS]; // of the elements in the sorted tile

// Elements of a subgroup are neighbours, and neighbouring lanes have neighbours.
uint number_of(uint e) { return (gl_SubgroupID * ITEMS + e) * SUBGROUP + gl_SubgroupInvocationID; }

uint digit_of(K element) { return uint(key_of(FROM, element) >> shift) & 255u; }

void write_word(uint at, K element) {
#if WIDTH == 64
    words[at] = uint(element);
    words[TILE + at] = uint(element >> 32);
#else
    words[at] = element;
#endif
}

K read_word(uint at) {
#if WIDTH == 64
    return packUint2x32(uvec2(words[at], words[TILE + at]));
#else
    return words[at];
#endif
}

// Lanes whose digit is this lane's.
uvec4 peers_of(uint digit) {
    uvec4 peers = subgroupBallot(true);
    [[unroll]] for (uint bit = 0u; bit < 8u; ++bit) {
        bool one = ((digit >> bit) & 1u) != 0u;
        peers &= subgroupBallot(one) ^ uvec4(one ? 0u : ~0u);
    }
    return peers;
}

// Each element's number among those of its digit and subgroup. What is behind the row has
// the last digit, and stays last.
void count_peers(uint count) {
    uint counters = gl_SubgroupID * 256u;
    for (uint d = gl_SubgroupInvocationID; d < 256u; d += SUBGROUP) words[counters + d] = 0u;
    subgroupBarrier();
    [[unroll]] for (uint e = 0u; e < ITEMS; ++e) {
        uint digit = number_of(e) < count ? digit_of(x[e]) : 255u;
        uvec4 peers = peers_of(digit);
        uint met = words[counters + digit], before = subgroupBallotExclusiveBitCount(peers);
        subgroupBarrier();
        if (before == 0u) words[counters + digit] = met + subgroupBallotBitCount(peers);
        subgroupBarrier();
        rank[e] = met + before;
    }
    barrier();
}

// From counts to first ranks: of each subgroup among those of a digit, and of the
// digit in the tile and in the row.
void sum_up(uint thread) {
    for (uint d = thread; d < 256u; d += THREADS) {
        uint running = 0u;
        for (uint at = d; at < COUNTERS; at += 256u) {
            uint count = words[at];
            words[at] = running;
            running += count;
        }
        start[d] = running;
    }
    barrier();
    if (gl_SubgroupID == 0u) {
        const uint each = 256u / SUBGROUP;
        uint first = gl_SubgroupInvocationID * each, own = 0u;
        for (uint d = first; d < first + each; ++d) own += start[d];
        uint running = subgroupExclusiveAdd(own);
        for (uint d = first; d < first + each; ++d) {
            uint count = start[d];
            start[d] = running;
            move[d] = offset[d] - running;
            offset[d] += count;
            running += count;
        }
    }
    barrier();
}

void find_ranks(uint count) {
    uint counters = gl_SubgroupID * 256u;
    [[unroll]] for (uint e = 0u; e < ITEMS; ++e) {
        uint digit = number_of(e) < count ? digit_of(x[e]) : 255u;
        rank[e] += start[digit] + words[counters + digit];
    }
    barrier();
}

// Moves a tile of `count` elements from index `from` of the row on; addresses are those of the row.
void move_tile(
    uint64_t in_row, uint64_t out_row, uint64_t in_indices, uint64_t row_indices, uint from, uint count) {
    uint thread = gl_LocalInvocationID.x;
    [[unroll]] for (uint e = 0u; e < ITEMS; ++e)
        if (number_of(e) < count) x[e] = load_bits(FROM, in_row, uint64_t(from + number_of(e)));
    count_peers(count);
    sum_up(thread);
    find_ranks(count);
    uint to[ITEMS], index[ITEMS];
    [[unroll]] for (uint e = 0u; e < ITEMS; ++e) {
        write_word(rank[e], x[e]);
        uint number = from + number_of(e);
        index[e] = number;
        if (INDEXED == 1u && reads_indices == 1u && number_of(e) < count)
            index[e] = AT_U32(in_indices, number);
    }
    barrier();
    [[unroll]] for (uint e = 0u; e < ITEMS; ++e) {
        uint i = e * THREADS + thread;
        if (i >= count) continue;
        K element = read_word(i);
        to[e] = i + move[digit_of(element)];
        if (writes_elements == 1u) store_bits(FROM, out_row, uint64_t(to[e]), element);
    }
    barrier();
    if (INDEXED == 0u) return;
    [[unroll]] for (uint e = 0u; e < ITEMS; ++e) words[rank[e]] = index[e];
    barrier();
    [[unroll]] for (uint e = 0u; e < ITEMS; ++e) {
        uint i = e * THREADS + thread;
        if (i < count) AT_U32(row_indices, to[e]) = words[i];
    }
    barrier();
}

void main() {
    for (uint64_t task = gl_WorkGroupID.x; task < rows * splits; task += gl_NumWorkGroups.x) {
        uint64_t row = task / splits, part = task % splits, base = row * length, size = dtype_size(FROM);
        for (uint d = gl_LocalInvocationID.x; d < 256u; d += THREADS)
            offset[d] = AT_U32(offsets, (row * 256ul + d) * splits + part);
        uint64_t to = min((part + 1ul) * chunk, length);
        for (uint64_t from = part * chunk; from < to; from += TILE)
            move_tile(source + base * size, destination + base * size, indices + base * 4ul,
                out_indices + base * 4ul, uint(from), uint(min(to - from, uint64_t(TILE))));
    }
}
