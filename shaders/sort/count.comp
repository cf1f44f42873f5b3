#version 460
// Radix sort, first half of a pass: counts the 256 values of a digit in each part of each row.
// Counts lie by (row, digit, part), so that their running sum along a row says where each part's elements go.
// Constants: 1 dtype.
#include "common.glsl"
#include "keys.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint FROM = 11;

layout(push_constant, scalar) uniform Push {
    uint64_t source, counts, rows, length, splits, chunk;
    uint shift;
};

shared uint bins[256];

void main() {
    uint thread = gl_LocalInvocationID.x, threads = gl_WorkGroupSize.x;
    for (uint64_t task = gl_WorkGroupID.x; task < rows * splits; task += gl_NumWorkGroups.x) {
        uint64_t row = task / splits, part = task % splits;
        for (uint d = thread; d < 256u; d += threads) bins[d] = 0u;
        barrier();
        uint64_t base = row * length, to = min((part + 1ul) * chunk, length);
        for (uint64_t i = part * chunk + thread; i < to; i += threads)
            atomicAdd(bins[uint(key_of(FROM, load_bits(FROM, source, base + i)) >> shift) & 255u], 1u);
        barrier();
        for (uint d = thread; d < 256u; d += threads) AT_U32(counts, (row * 256ul + d) * splits + part) = bins[d];
        barrier();
    }
}
