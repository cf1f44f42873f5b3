#version 460
// Many rows times a quantized matrix by shared-memory tiles that hold dequantized weights;
// constants: gemm.glsl, gemm_tile.glsl, and 9 bits, 10 group size, 11 format (packed.glsl). With B_ALONG_K
// the matrix is (n, k) and used transposed.
#include "common.glsl"
#include "floats.glsl"
layout(local_size_x_id = 0) in;
#ifdef GATHER
#include "gemm_gather.glsl"
#else
#include "gemm.glsl"
#endif
#include "gemm_tile.glsl"
layout(constant_id = 9) const uint BITS = 4;
layout(constant_id = 10) const uint GROUP = 64;
layout(constant_id = 11) const uint FORMAT = 0;
#include "quant.glsl"
#include "packed.glsl"
#include "dequantized.glsl"

// An octet along the packed axis at a time, kept packed until they are stored.
const uint B_OCTETS = (BN * BK / 8u + THREADS - 1u) / THREADS;
uvec2 next_fields[B_OCTETS];
vec2 next_affine[B_OCTETS];

// Fields and (scale, bias) of the octet from `i` on of row `row`; rows hold `width` elements.
void fetch_fields(uint slot, uint64_t row, uint width, uint i) {
    next_fields[slot] = packed8(b + row * row_bytes(width), i);
    next_affine[slot] = pair_of(int64_t(row * uint64_t(width / GROUP) + uint64_t(i / GROUP)));
}

void b_fetch(Batch at_, uint column0, uint k0, uint k1) {
    [[unroll]] for (uint i = 0u; i < B_OCTETS; ++i) {
        uint octet = gl_LocalInvocationID.x + i * THREADS;
        next_fields[i] = uvec2(0u);
        next_affine[i] = vec2(0.0);
        if (octet >= BN * BK / 8u) continue;
        if (B_ALONG_K) { // k and its splits are multiples of 16 here
            uint column = column0 + octet / (BK / 8u), kk = k0 + octet % (BK / 8u) * 8u;
            if (column < n && kk < k1) fetch_fields(i, at_.b + uint64_t(column), k, kk);
        } else { // n is a multiple of 16
            uint column = column0 + octet % (BN / 8u) * 8u, kk = k0 + octet / (BN / 8u);
            if (column < n && kk < k1) fetch_fields(i, at_.b + uint64_t(kk), n, column);
        }
    }
}

void b_store() {
    [[unroll]] for (uint i = 0u; i < B_OCTETS; ++i) {
        uint octet = gl_LocalInvocationID.x + i * THREADS;
        if (octet >= BN * BK / 8u) continue;
        vec4 low, high;
        dequantized8(next_fields[i], next_affine[i], low, high);
        if (B_ALONG_K) {
            uint column = octet / (BK / 8u), kk = octet % (BK / 8u) * 8u;
            [[unroll]] for (uint e = 0u; e < 4u; ++e) {
                tile_b[(kk + e) * B_PITCH + column / 4u][column % 4u] = low[e];
                tile_b[(kk + 4u + e) * B_PITCH + column / 4u][column % 4u] = high[e];
            }
        } else {
            uint to = octet / (BN / 8u) * B_PITCH + octet % (BN / 8u) * 2u;
            tile_b[to] = low;
            tile_b[to + 1u] = high;
        }
    }
}
