#version 460
// A matrix whose rows are dense along k, times few vectors: for row r and vector i, the dot
// product over k. A team of threads makes OUTPUTS rows at once. Serves x @ b with b transposed,
// and a @ x, by the strides of the result.
// Constants: 1 dtype, 2 flags, 3 vectors at once, 4 subgroup size, 5 rows at once. VARIANT: team.glsl.
#include "common.glsl"
#include "floats.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const uint FLAGS = 0;
layout(constant_id = 3) const uint VECTORS = 1;
layout(constant_id = 4) const uint SUBGROUP = 32;
layout(constant_id = 5) const uint OUTPUTS = 1;
// Flags. [host]
const uint M_VECTOR_FLAG = 1, X_VECTOR_FLAG = 2, ADD_FLAG = 4;
// Rows of the matrix are aligned for 16-byte loads, and k a multiple of 8.
const bool M_VECTOR = (FLAGS & M_VECTOR_FLAG) != 0u;
const bool X_VECTOR = (FLAGS & X_VECTOR_FLAG) != 0u; // so are the vectors
const bool ADD = (FLAGS & ADD_FLAG) != 0u;

#include "team.glsl"
#ifdef GATHER // walk is the address of lists of matrices
#include "picks.glsl"
#endif

layout(push_constant, scalar) uniform Push {
    uint64_t matrix, x, c, result;
    uint64_t walk; // batch axes: sizes, strides of matrix, x, c
    int64_t row_stride, x_row, x_stride, c_row, c_vector; // x_row: between vectors, x_stride: along k
    uint rows, vectors, k, batches;
    float alpha, beta;
    uint ndim;
    uint transposed; // 0: result (vectors, rows), 1: (rows, vectors)
};

float sums[OUTPUTS * VECTORS];

void add_octet(uint kk, uint64_t base, uint64_t x_base, uint row, uint vector) {
    vec4 low[VECTORS], high[VECTORS];
    int left = int(k) - int(kk);
    [[unroll]] for (uint i = 0u; i < VECTORS; ++i) {
        int64_t first = int64_t(min(vector + i, vectors - 1u)) * x_row;
        if (X_VECTOR) fetch8(DTYPE, true, at(DTYPE, x_base, first + int64_t(kk)), low[i], high[i]);
        else [[unroll]] for (int e = 0; e < 4; ++e) {
            low[i][e] = e < left ? fetch(DTYPE, at(DTYPE, x_base, first + int64_t(kk + e) * x_stride)) : 0.0;
            high[i][e] = e + 4 < left
                ? fetch(DTYPE, at(DTYPE, x_base, first + int64_t(kk + e + 4) * x_stride)) : 0.0;
        }
    }
    [[unroll]] for (uint r = 0u; r < OUTPUTS; ++r) {
        uint64_t from = at(DTYPE, base, int64_t(min(row + r, rows - 1u)) * row_stride + int64_t(kk));
        vec4 p, q;
        if (M_VECTOR) {
            fetch8(DTYPE, true, from, p, q);
        } else {
            p = fetch4_tail(DTYPE, false, from, left);
            q = fetch4_tail(DTYPE, false, from + (4ul << float_shift(DTYPE)), left - 4);
        }
        [[unroll]] for (uint i = 0u; i < VECTORS; ++i)
            sums[r * VECTORS + i] = dot_add(q, high[i], dot_add(p, low[i], sums[r * VECTORS + i]));
    }
}

void block(uint batch, uint vector, uint row) {
    int64_t im = 0l, ix = 0l, ic = 0l;
#ifdef GATHER
    im = picked(walk, 0u, batch);
    ix = picked(walk, 1u, batch);
#else
    if (ndim != 0u) {
        im = strided_offset(walk, ndim, 0u, uint64_t(batch));
        ix = strided_offset(walk, ndim, 1u, uint64_t(batch));
        if (ADD) ic = strided_offset(walk, ndim, 2u, uint64_t(batch));
    }
#endif
    uint64_t base = at(DTYPE, matrix, im), x_base = at(DTYPE, x, ix);
    [[unroll]] for (uint i = 0u; i < OUTPUTS * VECTORS; ++i) sums[i] = 0.0;
    for (uint kk = TEAM_LANE * 8u; kk < k; kk += TEAM_SIZE * 8u) add_octet(kk, base, x_base, row, vector);
    [[unroll]] for (uint r = 0u; r < OUTPUTS; ++r) {
        [[unroll]] for (uint i = 0u; i < VECTORS; ++i) {
            float sum = team_sum(sums[r * VECTORS + i]);
            if (TEAM_LANE != (r * VECTORS + i) % TEAM_SIZE || row + r >= rows || vector + i >= vectors)
                continue;
            if (ADD)
                sum = alpha * sum
                    + beta
                        * fetch(DTYPE,
                            at(DTYPE, c, ic + int64_t(row + r) * c_row + int64_t(vector + i) * c_vector));
            uint64_t to = uint64_t(batch) * uint64_t(rows) * uint64_t(vectors);
            to += transposed == 0u ? uint64_t(vector + i) * uint64_t(rows) + uint64_t(row + r)
                                     : uint64_t(row + r) * uint64_t(vectors) + uint64_t(vector + i);
            store_float(DTYPE, result, int64_t(to), sum);
        }
    }
}

void main() {
    uint blocks = (rows + OUTPUTS - 1u) / OUTPUTS;
    for (uint batch = gl_WorkGroupID.z; batch < batches; batch += gl_NumWorkGroups.z)
        for (uint vector = gl_WorkGroupID.y * VECTORS; vector < vectors;
            vector += gl_NumWorkGroups.y * VECTORS)
            for (uint i = TEAM_ID; i < blocks; i += TEAM_COUNT) block(batch, vector, i * OUTPUTS);
}
