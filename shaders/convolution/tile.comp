#version 460
// Convolution as a product by shared-memory tiles: rows are windows of the input, which are gathered as
// they are loaded, columns are the outputs of a group. Constants: gemm.glsl and gemm_tile.glsl.
// A_VECTOR says that four channels are aligned and belong to one tap. `walk` is the address of the
// geometry, groups are the batches.
#include "common.glsl"
#include "floats.glsl"
layout(local_size_x_id = 0) in;
#define batch_at strided_batch
#define store_quad dense_store_quad
#include "gemm.glsl"
#undef batch_at
#undef store_quad
#include "convolution.glsl"

Batch batch_at(uint group) {
    Geometry g = Geometry(walk);
    Batch at_;
    at_.a = at(DTYPE, a, int64_t(group * g.channels));
    at_.b = uint64_t(group) * uint64_t(n) * uint64_t(k);
    at_.c = 0ul;
    at_.result = at(OUT_DTYPE, result, int64_t(group * n));
    return at_;
}

// Rows of the result have the outputs of all groups.
void store_quad(Batch at_, uint row, uint column, vec4 x) {
    if (row >= m) return;
    int64_t i = int64_t(row) * int64_t(n * batches) + int64_t(column);
    [[unroll]] for (uint e = 0u; e < 4u; ++e)
        if (column + e < n) store_float(OUT_DTYPE, at_.result, i + int64_t(e), x[e]);
}

#define OWN_A_FETCH
#include "gemm_tile.glsl"
#include "gemm_tile_dense.glsl"

Window windows[A_QUADS];

float element(Geometry g, Batch at_, Window w, uint kk) {
    uint tap = kk / g.channels;
    int64_t offset;
    return !tap_offset(g, w, tap, offset)
        ? 0.0
        : fetch(DTYPE, at(DTYPE, at_.a, offset + int64_t(kk - tap * g.channels)));
}

void a_fetch(Batch at_, uint row0, uint k0, uint k1) {
    Geometry g = Geometry(walk);
    [[unroll]] for (uint i = 0u; i < A_QUADS; ++i) {
        uint quad = gl_LocalInvocationID.x + i * THREADS;
        next_a[i] = vec4(0.0);
        uint row = row0 + quad / (BK / 4u), kk = k0 + quad % (BK / 4u) * 4u;
        if (quad >= BM * BK / 4u || row >= m) continue;
        if (k0 == 0u) windows[i] = window_at(g, row);
        if (kk >= k1) continue;
        if (A_VECTOR) {
            uint tap = kk / g.channels;
            int64_t offset;
            if (tap_offset(g, windows[i], tap, offset))
                next_a[i] = fetch4(DTYPE, true, at(DTYPE, at_.a, offset + int64_t(kk - tap * g.channels)));
        } else {
            [[unroll]] for (uint e = 0u; e < 4u; ++e)
                if (kk + e < k1) next_a[i][e] = element(g, at_, windows[i], kk + e);
        }
    }
}
