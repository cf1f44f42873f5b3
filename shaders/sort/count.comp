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

// Neighbouring threads count in different slots, because neighbours often have the same digit.
const uint COPIES = 8;
shared uint bins[256 * COPIES];

void count(K element) {
    uint digit = uint(key_of(FROM, element) >> shift) & 255u;
    atomicAdd(bins[digit * COPIES + gl_LocalInvocationID.x % COPIES], 1u);
}

// Counts n elements from an address on, by words of 16 bytes where they lie so.
void count_part(uint64_t address, uint n) {
    uint thread = gl_LocalInvocationID.x, threads = gl_WorkGroupSize.x;
    uint words = (address & 15ul) == 0ul ? n / WORD_ELEMENTS : 0u;
    for (uint i = thread; i < words; i += threads) {
        uvec4 word = AT_V4(address, i);
        [[unroll]] for (uint j = 0u; j < WORD_ELEMENTS; ++j) count(unpack_bits(FROM, word, j));
    }
    for (uint i = words * WORD_ELEMENTS + thread; i < n; i += threads)
        count(load_bits(FROM, address, uint64_t(i)));
}

void main() {
    uint thread = gl_LocalInvocationID.x, threads = gl_WorkGroupSize.x;
    for (uint64_t task = gl_WorkGroupID.x; task < rows * splits; task += gl_NumWorkGroups.x) {
        uint64_t row = task / splits, part = task % splits, from = part * chunk;
        for (uint i = thread; i < 256u * COPIES; i += threads) bins[i] = 0u;
        barrier();
        count_part(source + (row * length + from) * dtype_size(FROM), uint(min(chunk, length - from)));
        barrier();
        for (uint d = thread; d < 256u; d += threads) {
            uint sum = 0u;
            [[unroll]] for (uint copy = 0u; copy < COPIES; ++copy) sum += bins[d * COPIES + copy];
            AT_U32(counts, (row * 256ul + d) * splits + part) = sum;
        }
        barrier();
    }
}
