#version 460
// Radix sort, second half of a pass without votes of subgroups (scatter.comp): moves the elements of each
// part of each row to their ranks for one digit of 8 bits.
// A workgroup sorts a tile in shared memory by the digit, in two stable rounds of 4 bits, so that elements of
// one digit leave it side by side. After N. Satish, M. Harris and M. Garland, "Designing efficient sorting
// algorithms for manycore GPUs", IPDPS 2009.
// Constants: 1 dtype, 2 elements per thread (at most 8), 3 indices travel along.
#include "common.glsl"
#include "keys.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint FROM = 11;
layout(constant_id = 2) const uint ITEMS = 8;
layout(constant_id = 3) const uint INDEXED = 0;

#include "sort_scatter.glsl"

#define THREADS gl_WorkGroupSize.x
#define TILE_ELEMENTS (THREADS * ITEMS)
// One word in 33 is left out, so that threads which walk neighbouring runs meet different banks.
#define PAD(i) ((i) + ((i) >> 5))
shared K elements[PAD(TILE_ELEMENTS)];
shared uint tile_indices[INDEXED == 1 ? PAD(TILE_ELEMENTS) : 1];
// For 16 digits and each thread a count of 16 bits, digit d beside d + 8 in a word; by digit, then thread.
// Later the digit of each element of the sorted tile.
shared uint counters[PAD(8 * THREADS)];
shared uint sums[THREADS];
shared uint offset[256], start[256], end[256];

// A thread's elements, their digits, and their indices.
K x[ITEMS];
uint digit[ITEMS];
uint n[ITEMS];

// An element with the largest key: what fills up a tile goes behind everything in it.
K filler() {
    K top = top_key(FROM);
    bool is_signed = FROM == INT8 || FROM == INT16 || FROM == INT32 || FROM == INT64;
    return is_signed ? top >> 1 : top;
}

// Exclusive running sums of all counters, low halves before high halves.
void scan_counters(uint thread) {
    uint own = 0u, total;
    for (uint k = 0u; k < 8u; ++k) own += counters[PAD(8u * thread + k)];
    sums[thread] = own;
    [[dont_unroll]] for (uint distance = 1u; distance < THREADS; distance *= 2u) {
        barrier();
        uint before = thread >= distance ? sums[thread - distance] : 0u;
        barrier();
        sums[thread] += before;
    }
    barrier();
    uint running = sums[thread] - own + (sums[THREADS - 1u] << 16);
    for (uint k = 0u; k < 8u; ++k) {
        uint count = counters[PAD(8u * thread + k)];
        counters[PAD(8u * thread + k)] = running;
        running += count;
    }
    barrier();
}

// Sorts the tile by four bits of the digit: a thread's elements are neighbours, and keep their order.
void split_tile(uint thread, uint low) {
    uint rank[ITEMS];
    for (uint d = 0u; d < 8u; ++d) counters[PAD(d * THREADS + thread)] = 0u;
    [[unroll]] for (uint e = 0u; e < ITEMS; ++e) {
        uint d = (digit[e] >> low) & 15u, at = PAD((d & 7u) * THREADS + thread), half_ = (d >> 3) * 16u;
        uint word = counters[at];
        rank[e] = (word >> half_) & 0xffffu;
        counters[at] = word + (1u << half_);
    }
    barrier();
    scan_counters(thread);
    [[unroll]] for (uint e = 0u; e < ITEMS; ++e) {
        uint d = (digit[e] >> low) & 15u, half_ = (d >> 3) * 16u;
        uint to = ((counters[PAD((d & 7u) * THREADS + thread)] >> half_) & 0xffffu) + rank[e];
        elements[PAD(to)] = x[e];
        if (INDEXED == 1u) tile_indices[PAD(to)] = n[e];
    }
    barrier();
}

// A thread's run of neighbours, from shared memory.
void read_run(uint thread) {
    [[unroll]] for (uint e = 0u; e < ITEMS; ++e) {
        x[e] = elements[PAD(thread * ITEMS + e)];
        digit[e] = uint(key_of(FROM, x[e]) >> shift) & 255u;
        if (INDEXED == 1u) n[e] = tile_indices[PAD(thread * ITEMS + e)];
    }
    barrier();
}

// Elements are loaded so that neighbouring threads read neighbours, and are exchanged in shared memory.
void load_tile(uint thread, uint64_t base, uint64_t from, uint count) {
    [[unroll]] for (uint e = 0u; e < ITEMS; ++e) {
        uint i = e * THREADS + thread;
        elements[PAD(i)] = i < count ? load_bits(FROM, source, base + from + i) : filler();
        if (INDEXED == 1u)
            tile_indices[PAD(i)] = reads_indices == 1u ? (i < count ? AT_U32(indices, base + from + i) : 0u)
                                                 : uint(from) + i;
    }
    barrier();
}

// Where the run of each digit begins and ends in the sorted tile.
void find_runs(uint thread, uint count) {
    [[unroll]] for (uint e = 0u; e < ITEMS; ++e) {
        uint i = e * THREADS + thread;
        counters[PAD(i)] = uint(key_of(FROM, elements[PAD(i)]) >> shift) & 255u;
    }
    barrier();
    [[unroll]] for (uint e = 0u; e < ITEMS; ++e) {
        uint i = e * THREADS + thread;
        if (i >= count) continue;
        uint d = counters[PAD(i)];
        if (i == 0u || counters[PAD(i - 1u)] != d) start[d] = i;
        if (i + 1u == count || counters[PAD(i + 1u)] != d) end[d] = i + 1u;
    }
    barrier();
}

void store_tile(uint thread, uint64_t base, uint count) {
    [[unroll]] for (uint e = 0u; e < ITEMS; ++e) {
        uint i = e * THREADS + thread;
        if (i >= count) continue;
        uint d = counters[PAD(i)];
        uint64_t to = base + (offset[d] + (i - start[d]));
        if (writes_elements == 1u) store_bits(FROM, destination, to, elements[PAD(i)]);
        if (INDEXED == 1u) AT_U32(out_indices, to) = tile_indices[PAD(i)];
    }
    barrier();
}

void main() {
    uint thread = gl_LocalInvocationID.x;
    for (uint64_t task = gl_WorkGroupID.x; task < rows * splits; task += gl_NumWorkGroups.x) {
        uint64_t row = task / splits, part = task % splits, base = row * length;
        for (uint d = thread; d < 256u; d += THREADS)
            offset[d] = AT_U32(offsets, (row * 256ul + d) * splits + part);
        uint64_t to = min((part + 1ul) * chunk, length);
        for (uint64_t from = part * chunk; from < to; from += TILE_ELEMENTS) {
            uint count = uint(min(to - from, uint64_t(TILE_ELEMENTS)));
            for (uint d = thread; d < 256u; d += THREADS) start[d] = end[d] = 0u;
            load_tile(thread, base, from, count);
            [[dont_unroll]] for (uint low = 0u; low < 8u; low += 4u) {
                read_run(thread);
                split_tile(thread, low);
            }
            find_runs(thread, count);
            store_tile(thread, base, count);
            for (uint d = thread; d < 256u; d += THREADS) offset[d] += end[d] - start[d];
            barrier();
        }
    }
}
