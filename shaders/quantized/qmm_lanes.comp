#version 460
// Many rows times a quantized matrix by register tiles, for software devices; constants: gemm.glsl,
// gemm_lanes.glsl, and 9 bits, 10 group size, 11 format (packed.glsl). With B_ALONG_K the matrix is (n, k)
// and used transposed; c and extra are the scales and biases. TN is a multiple of 8.
#include "common.glsl"
#include "floats.glsl"
layout(local_size_x_id = 0) in;
#ifdef GATHER
#include "gemm_gather.glsl"
#else
#include "gemm.glsl"
#endif
#include "gemm_lanes.glsl"
layout(constant_id = 9) const uint BITS = 4;
layout(constant_id = 10) const uint GROUP = 64;
layout(constant_id = 11) const uint FORMAT = 0;
#include "quant.glsl"
#include "packed.glsl"
#include "dequantized.glsl"

// The octet from `i` on of row `row` of a matrix with `width` columns.
void dequantized(uint64_t row, uint width, uint i, out vec4 low, out vec4 high) {
    uvec2 p = packed8(b + row * row_bytes(width), i);
    dequantized8(p, pair_of(int64_t(row * uint64_t(width / GROUP) + uint64_t(i / GROUP))), low, high);
}

void b_load(Batch at_, uint column, uint k0, uint k1, bool whole) {
    vec4 low, high;
    if (B_ALONG_K) { // k is a multiple of 16
        [[unroll]] for (uint j = 0u; j < TN; ++j) {
            dequantized(at_.b + uint64_t(min(column + j, n - 1u)), k, k0, low, high);
            [[unroll]] for (uint e = 0u; e < 4u; ++e) {
                ys[e * TN + j] = low[e];
                ys[(e + 4u) * TN + j] = high[e];
            }
        }
    } else { // n is a multiple of 16
        [[unroll]] for (uint e = 0u; e < 8u; ++e)
            [[unroll]] for (uint j = 0u; j < TN; j += 8u) {
                dequantized(at_.b + uint64_t(min(k0 + e, k1 - 1u)), n, min(column + j, n - 8u), low, high);
                if (k0 + e >= k1) { low = vec4(0.0); high = vec4(0.0); }
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    ys[e * TN + j + i] = low[i];
                    ys[e * TN + j + 4u + i] = high[i];
                }
            }
    }
}
