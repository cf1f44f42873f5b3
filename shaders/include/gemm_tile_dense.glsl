// The second operand of a tiled product where it is dense. Needs gemm.glsl and gemm_tile.glsl.
const uint B_QUADS = (BN * BK / 4u + THREADS - 1u) / THREADS;
vec4 next_b[B_QUADS];

void b_fetch(Batch at_, uint column0, uint k0, uint k1) {
    uint64_t base = at(DTYPE, b, int64_t(at_.b));
    [[unroll]] for (uint i = 0u; i < B_QUADS; ++i) {
        uint quad = gl_LocalInvocationID.x + i * THREADS;
        next_b[i] = vec4(0.0);
        if (quad >= BN * BK / 4u) continue;
        if (B_ALONG_K) {
            uint column = column0 + quad / (BK / 4u), kk = k0 + quad % (BK / 4u) * 4u;
            if (column < n)
                next_b[i] = fetch4_tail(
                    DTYPE, B_VECTOR, at(DTYPE, base, int64_t(column) * ldb + int64_t(kk)), int(k1) - int(kk));
        } else {
            uint column = column0 + quad % (BN / 4u) * 4u, kk = k0 + quad / (BN / 4u);
            if (kk < k1)
                next_b[i] = fetch4_tail(DTYPE, B_VECTOR, at(DTYPE, base, int64_t(kk) * ldb + int64_t(column)),
                    int(n) - int(column));
        }
    }
}

void b_store() {
    [[unroll]] for (uint i = 0u; i < B_QUADS; ++i) {
        uint quad = gl_LocalInvocationID.x + i * THREADS;
        if (quad >= BN * BK / 4u) continue;
        if (B_ALONG_K) {
            uint column = quad / (BK / 4u), kk = quad % (BK / 4u) * 4u;
            [[unroll]] for (uint e = 0u; e < 4u; ++e)
                tile_b[(kk + e) * B_PITCH + column / 4u][column % 4u] = next_b[i][e];
        } else {
            tile_b[quad / (BN / 4u) * B_PITCH + quad % (BN / 4u)] = next_b[i];
        }
    }
}
