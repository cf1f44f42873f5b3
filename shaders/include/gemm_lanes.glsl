// The product for devices whose lanes are a CPU's: no shared memory and no barriers. A subgroup (the
// workgroup) makes TM rows of SUBGROUP x TN columns; a lane owns TN neighbouring columns. An octet of k
// is taken at a time: a lane loads an element for every row, and subgroupBroadcast hands it to the others.
// The subgroup size is at least 8.
//
// The kernel supplies `void b_load(Batch at_, uint column, uint k0, uint k1, bool whole)`, which fills `ys`:
// element (k0 + kk, column + j) is ys[kk * TN + j], zero where there is none. TN is a multiple of 4.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
layout(constant_id = 4) const uint SUBGROUP = 8;
layout(constant_id = 5) const uint TM = 4;
layout(constant_id = 6) const uint TN = 8;

float ys[8u * TN];

void b_load(Batch at_, uint column, uint k0, uint k1, bool whole);

void lanes_tile(uint batch, uint row0, uint column) {
    Batch at_ = batch_at(batch);
    float sums[TM * TN];
    [[unroll]] for (uint i = 0u; i < TM * TN; ++i) sums[i] = 0.0;
    uint lane = gl_SubgroupInvocationID & 7u;
    int64_t row_stride = A_ALONG_K ? lda : 1l, k_stride = A_ALONG_K ? 1l : lda;
    bool whole_columns = column + TN <= n;
    for (uint k0 = 0u; k0 < k; k0 += 8u) {
        uint kk = k0 + lane;
        float xs[TM];
        [[unroll]] for (uint i = 0u; i < TM; ++i) {
            uint row = min(row0 + i, m - 1u); // rows past the end are not stored
            float x = fetch(
                DTYPE, at(DTYPE, at_.a, int64_t(row) * row_stride + int64_t(min(kk, k - 1u)) * k_stride));
            xs[i] = kk < k ? x : 0.0;
        }
        b_load(at_, column, k0, k, whole_columns && k0 + 8u <= k);
        // The lane must be a literal: other lanes need a feature that few devices have.
#define TAKE(e) \
        [[unroll]] for (uint i = 0u; i < TM; ++i) { \
            float x = subgroupBroadcast(xs[i], e); \
            [[unroll]] for (uint j = 0u; j < TN; ++j) \
                sums[i * TN + j] = fma(x, ys[e * TN + j], sums[i * TN + j]); \
        }
        TAKE(0u) TAKE(1u) TAKE(2u) TAKE(3u) TAKE(4u) TAKE(5u) TAKE(6u) TAKE(7u)
    }
    [[unroll]] for (uint i = 0u; i < TM; ++i)
        [[unroll]] for (uint j = 0u; j < TN; j += 4u) {
            uint s = i * TN + j;
            store_quad(at_, row0 + i, column + j, vec4(sums[s], sums[s + 1u], sums[s + 2u], sums[s + 3u]));
        }
}

void main() {
    uint rows = (m + TM - 1u) / TM, columns = (n + SUBGROUP * TN - 1u) / (SUBGROUP * TN);
    uint64_t each = uint64_t(rows) * uint64_t(columns), all = each * uint64_t(batches);
    for (uint64_t t = uint64_t(gl_WorkGroupID.x); t < all; t += uint64_t(gl_NumWorkGroups.x)) {
        uint batch = uint(t / each), i = uint(t - uint64_t(batch) * each);
        // Row blocks follow one another, so that b's columns stay in the cache.
        lanes_tile(batch, i % rows * TM, (i / rows * SUBGROUP + gl_SubgroupInvocationID) * TN);
    }
}
