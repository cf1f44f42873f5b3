// The tiled product for GPUs: a workgroup makes a BM x BN tile from BK-deep slices in shared memory, a thread
// a TM x TN part of it. The next slice is loaded into registers while the present one is multiplied.
//
// The kernel supplies b: `void b_fetch(Batch at_, uint column0, uint k0, uint k1)` into registers, and
// `void b_store()` from there into tile_b, which is k-major: element (k, column) is
// tile_b[k * B_PITCH + column / 4].
layout(constant_id = 4) const uint BM = 64;
layout(constant_id = 5) const uint BN = 64;
layout(constant_id = 6) const uint BK = 16;
layout(constant_id = 7) const uint TM = 4;
layout(constant_id = 8) const uint TN = 4;
const uint THREADS = (BM / TM) * (BN / TN);
const uint A_PITCH = BM / 4u + 1u, B_PITCH = BN / 4u + 1u;
const uint A_QUADS = (BM * BK / 4u + THREADS - 1u) / THREADS;

shared vec4 tile_a[BK * A_PITCH];
shared vec4 tile_b[BK * B_PITCH];

vec4 next_a[A_QUADS];

void b_fetch(Batch at_, uint column0, uint k0, uint k1);
void b_store();

#ifdef OWN_A_FETCH // the kernel supplies a too, which lies along k
void a_fetch(Batch at_, uint row0, uint k0, uint k1);
#else
void a_fetch(Batch at_, uint row0, uint k0, uint k1) {
    [[unroll]] for (uint i = 0u; i < A_QUADS; ++i) {
        uint quad = gl_LocalInvocationID.x + i * THREADS;
        next_a[i] = vec4(0.0);
        if (quad >= BM * BK / 4u) continue;
        if (A_ALONG_K) {
            uint row = row0 + quad / (BK / 4u), kk = k0 + quad % (BK / 4u) * 4u;
            if (row < at_.m)
                next_a[i] = fetch4_tail(DTYPE, A_VECTOR,
                    at(DTYPE, at_.a, row_of_a(row) * lda + int64_t(kk)), int(k1) - int(kk));
        } else {
            uint row = row0 + quad % (BM / 4u) * 4u, kk = k0 + quad / (BM / 4u);
            if (kk < k1)
                next_a[i] = fetch4_tail(
                    DTYPE, A_VECTOR, at(DTYPE, at_.a, int64_t(kk) * lda + int64_t(row)), int(m) - int(row));
        }
    }
}
#endif

void a_store() {
    [[unroll]] for (uint i = 0u; i < A_QUADS; ++i) {
        uint quad = gl_LocalInvocationID.x + i * THREADS;
        if (quad >= BM * BK / 4u) continue;
        if (A_ALONG_K) {
            uint row = quad / (BK / 4u), kk = quad % (BK / 4u) * 4u;
            [[unroll]] for (uint e = 0u; e < 4u; ++e)
                tile_a[(kk + e) * A_PITCH + row / 4u][row % 4u] = next_a[i][e];
        } else {
            tile_a[quad / (BM / 4u) * A_PITCH + quad % (BM / 4u)] = next_a[i];
        }
    }
}

float sums[TM * TN];

// The thread's rows come in groups of four, BM / (TM / 4) apart, so that neighbours read neighbouring words.
void multiply(uint tx, uint ty) {
    [[unroll]] for (uint kk = 0u; kk < BK; ++kk) {
        vec4 x[TM / 4u], y[TN / 4u];
        [[unroll]] for (uint g = 0u; g < TM / 4u; ++g) x[g] = tile_a[kk * A_PITCH + g * (BM / TM) + ty];
        [[unroll]] for (uint g = 0u; g < TN / 4u; ++g) y[g] = tile_b[kk * B_PITCH + g * (BN / TN) + tx];
        [[unroll]] for (uint i = 0u; i < TM; ++i)
            [[unroll]] for (uint j = 0u; j < TN; ++j)
                sums[i * TN + j] = fma(x[i / 4u][i % 4u], y[j / 4u][j % 4u], sums[i * TN + j]);
    }
}

void tile(uint batch, uint split, uint row_tile, uint column0) {
    uvec2 rows = tile_rows(row_tile, BM);
    uint row0 = rows.x;
    Batch at_ = batch_at(batch);
    if (GROUPED) at_ = group_at(rows);
    if (OUT_DTYPE == FLOAT32)
        at_.result += uint64_t(split) * uint64_t(batches) * uint64_t(m) * uint64_t(n) * 4ul;
    uint tx = gl_LocalInvocationID.x % (BN / TN), ty = gl_LocalInvocationID.x / (BN / TN);
    uvec2 range = split_range(split, BK);
    [[unroll]] for (uint i = 0u; i < TM * TN; ++i) sums[i] = 0.0;
    a_fetch(at_, row0, range.x, range.y);
    b_fetch(at_, column0, range.x, range.y);
    for (uint k0 = range.x; k0 < range.y; k0 += BK) {
        a_store();
        b_store();
        barrier();
        if (k0 + BK < range.y) {
            a_fetch(at_, row0, k0 + BK, range.y);
            b_fetch(at_, column0, k0 + BK, range.y);
        }
        multiply(tx, ty);
        barrier();
    }
    [[unroll]] for (uint i = 0u; i < TM; ++i)
        [[unroll]] for (uint g = 0u; g < TN / 4u; ++g) {
            uint j = i * TN + g * 4u;
            store_quad(at_, row0 + i / 4u * (BM / TM) * 4u + ty * 4u + i % 4u,
                column0 + (g * (BN / TN) + tx) * 4u, vec4(sums[j], sums[j + 1u], sums[j + 2u], sums[j + 3u]));
        }
}

void main() {
    uint rows = row_tiles(BM), columns = (n + BN - 1u) / BN;
    uint64_t each = uint64_t(rows) * uint64_t(columns), all = each * uint64_t(batches) * uint64_t(splits);
    for (uint64_t t = uint64_t(gl_WorkGroupID.x); t < all; t += uint64_t(gl_NumWorkGroups.x)) {
        uint z = uint(t / each), i = uint(t - uint64_t(z) * each);
        tile(z / splits, z % splits, i / columns, i % columns * BN);
    }
}
