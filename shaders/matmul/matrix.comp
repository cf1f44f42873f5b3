#version 460
// Matrix product of dense 16-bit operands on cooperative matrices; constants: gemm.glsl and
// gemm_matrix.glsl. HALF: 0 float16, 1 bfloat16.
#include "common.glsl"
#include "floats.glsl"
layout(local_size_x_id = 0) in;
#include "gemm.glsl"
#include "gemm_matrix.glsl"

const uint B_EACH = B_ROWS * B_WIDTH / THREADS;
uvec4 next_b[2u * B_EACH];
uint offset_b[B_EACH];
uint64_t base_b, base_second;
uint first_column;

// Whether a thread's vectors are one below the other.
const bool EVEN = THREADS % B_WIDTH == 0u;
uint b_row(uint i) {
    return EVEN ? gl_LocalInvocationID.x / B_WIDTH + i * (THREADS / B_WIDTH)
                : (gl_LocalInvocationID.x + i * THREADS) / B_WIDTH;
}
uint b_column(uint i) {
    return (EVEN ? gl_LocalInvocationID.x : gl_LocalInvocationID.x + i * THREADS) % B_WIDTH * 8u;
}

void b_begin(Batch at_, uint column0) {
    first_column = column0;
    base_b = same(at(DTYPE, own.b, int64_t(at_.b) + (B_ALONG_K ? int64_t(column0) * ldb : int64_t(column0))));
    if (SIBLINGS) base_second = same(at(DTYPE, second.b, int64_t(b_first(true, column0)) * ldb));
    [[unroll]] for (uint i = 0u; i < B_EACH; ++i)
        offset_b[i] = ((B_ALONG_K ? b_source(b_row(i), column0) : b_row(i)) * uint(ldb) + b_column(i)) * 2u;
}

void b_fetch(uint set, uint k0, uint k1, bool tail) {
    uint64_t from = uint64_t(B_ALONG_K ? int64_t(k0) : int64_t(k0) * ldb) * 2ul;
    [[unroll]] for (uint i = 0u; i < B_EACH; ++i) {
        uint64_t base = (b_second(b_row(i)) ? base_second : base_b) + from;
        if (B_ALONG_K) {
            next_b[set * B_EACH + i] = fetch_halves(
                B_VECTOR, tail, base + uint64_t(offset_b[i]), int(k) - int(k0 + b_column(i)));
        } else {
            uint beyond = tail ? max(k0 + b_row(i) + 1u, k1) - k1 : 0u;
            next_b[set * B_EACH + i] = fetch_halves(B_VECTOR, true,
                base + uint64_t(offset_b[i] - beyond * uint(ldb) * 2u),
                int(n) - int(first_column + b_column(i)));
        }
    }
}

void b_mask(uint set, uint k0, uint k1) {
    [[unroll]] for (uint i = 0u; i < B_EACH; ++i)
        next_b[set * B_EACH + i] = keep_halves(next_b[set * B_EACH + i],
            B_ALONG_K ? int(k1) - int(k0 + b_column(i)) : k0 + b_row(i) < k1 ? 8 : 0);
}

void b_store(uint set) {
    uint to = A_SIZE + b_row(0u) * B_PITCH + b_column(0u) / 8u;
    [[unroll]] for (uint i = 0u; i < B_EACH; ++i) {
        uint at_ = EVEN ? to + i * (THREADS / B_WIDTH * B_PITCH)
                        : A_SIZE + b_row(i) * B_PITCH + b_column(i) / 8u;
        slices[at_] = next_b[set * B_EACH + i];
    }
}

void b_move() { [[unroll]] for (uint i = 0u; i < B_EACH; ++i) next_b[B_EACH + i] = next_b[i]; }
