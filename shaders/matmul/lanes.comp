#version 460
// Matrix product of dense operands by register tiles, for software devices;
// constants: gemm.glsl, gemm_lanes.glsl.
#include "common.glsl"
#include "floats.glsl"
layout(local_size_x_id = 0) in;
#ifdef GATHER
#include "gemm_gather.glsl"
#else
#include "gemm.glsl"
#endif
#include "gemm_lanes.glsl"

void b_load(Batch at_, uint column, uint k0, uint k1, bool whole) {
    uint64_t base = at(DTYPE, b, int64_t(at_.b));
    if (B_ALONG_K) {
        [[unroll]] for (uint j = 0u; j < TN; ++j) {
            uint64_t from = at(DTYPE, base, int64_t(min(column + j, n - 1u)) * ldb + int64_t(k0));
            vec4 low, high;
            if (whole) {
                fetch8(DTYPE, B_VECTOR && DTYPE == FLOAT32, from, low, high);
            } else {
                low = fetch4_tail(DTYPE, false, from, int(k1) - int(k0));
                high = fetch4_tail(DTYPE, false, from + (4ul << float_shift(DTYPE)), int(k1) - int(k0) - 4);
            }
            [[unroll]] for (uint e = 0u; e < 4u; ++e) {
                ys[e * TN + j] = low[e];
                ys[(e + 4u) * TN + j] = high[e];
            }
        }
    } else {
        [[unroll]] for (uint e = 0u; e < 8u; ++e)
            [[unroll]] for (uint j = 0u; j < TN; j += 4u) {
                uint64_t from = at(DTYPE, base, int64_t(min(k0 + e, k1 - 1u)) * ldb + int64_t(column + j));
                vec4 y = whole ? fetch4(DTYPE, B_VECTOR, from)
                               : fetch4_tail(DTYPE, false, from, int(n) - int(column + j));
                if (!whole && k0 + e >= k1) y = vec4(0.0);
                [[unroll]] for (uint i = 0u; i < 4u; ++i) ys[e * TN + j + i] = y[i];
            }
    }
}
