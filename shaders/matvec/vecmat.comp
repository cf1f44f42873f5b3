#version 460
// Few vectors times a matrix (k, columns) that is dense along its columns: a thread owns four columns and a
// split of k; the splits are added in shared memory. Constants: 1 dtype, 2 flags, 3 vectors at once,
// 4 threads across columns (the rest of the workgroup splits k), 5 bits, 6 group size and 7 format
// (packed.glsl) of a quantized matrix. VARIANT 1: quantized, an octet of columns a thread, c and extra are
// the scales and biases.
#include "common.glsl"
#include "floats.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const uint FLAGS = 0;
layout(constant_id = 3) const uint VECTORS = 1;
layout(constant_id = 4) const uint ACROSS = 8;
layout(constant_id = 5) const uint BITS = 4;
layout(constant_id = 6) const uint GROUP = 64;
// Flags. [host]
const uint M_VECTOR_FLAG = 1, ADD_FLAG = 4;
const bool M_VECTOR = (FLAGS & M_VECTOR_FLAG) != 0u; // groups of four columns are aligned
const bool ADD = (FLAGS & ADD_FLAG) != 0u;
#if VARIANT == 1
layout(constant_id = 7) const uint FORMAT = 0;
#include "quant.glsl"
#include "packed.glsl"
const uint WIDTH = 8;
#else
const uint WIDTH = 4;
#endif

layout(push_constant, scalar) uniform Push {
    uint64_t matrix, x, c, extra, result, walk;
    int64_t row_stride, x_row, x_stride, c_column, c_vector; // x_row: between vectors, x_stride: along k
    uint columns, vectors, k, batches;
    float alpha, beta;
    uint ndim;
    uint transposed; // 0: result (vectors, columns), 1: (columns, vectors)
};

const uint SPLITS = gl_WorkGroupSize.x / ACROSS;
shared vec4 parts[gl_WorkGroupSize.x];
vec4 sums[VECTORS * WIDTH / 4u];

#if VARIANT == 1
#include "dequantized.glsl"
#endif

// Columns of row kk; zero past the end.
void load_row(uint kk, uint64_t base, uint column, out vec4 row[WIDTH / 4u]) {
    [[unroll]] for (uint w = 0u; w < WIDTH / 4u; ++w) row[w] = vec4(0.0);
    if (kk >= k) return;
#if VARIANT == 1
    uint64_t index = base + uint64_t(kk);
    uvec2 p = packed8(matrix + index * row_bytes(columns), column);
    int64_t group = int64_t(index * uint64_t(columns / GROUP) + uint64_t(column / GROUP));
    dequantized8(p, pair_of(group), row[0], row[1]);
#else
    row[0] = fetch4_tail(DTYPE, M_VECTOR, at(DTYPE, base, int64_t(kk) * row_stride + int64_t(column)),
        int(columns) - int(column));
#endif
}

// Adds AT_ONCE rows, `SPLITS` apart; all loads come first.
const uint AT_ONCE = 4;
void add_rows(uint kk0, uint64_t base, uint64_t x_base, uint column, uint vector) {
    vec4 rows[AT_ONCE][WIDTH / 4u];
    [[unroll]] for (uint s = 0u; s < AT_ONCE; ++s) load_row(kk0 + s * SPLITS, base, column, rows[s]);
    [[unroll]] for (uint s = 0u; s < AT_ONCE; ++s) {
        int64_t kk = int64_t(min(kk0 + s * SPLITS, k - 1u));
        [[unroll]] for (uint i = 0u; i < VECTORS; ++i) {
            float y = fetch(
                DTYPE, at(DTYPE, x_base, int64_t(min(vector + i, vectors - 1u)) * x_row + kk * x_stride));
            if (kk0 + s * SPLITS >= k) y = 0.0;
            [[unroll]] for (uint w = 0u; w < WIDTH / 4u; ++w)
                sums[i * (WIDTH / 4u) + w] = fma(vec4(y), rows[s][w], sums[i * (WIDTH / 4u) + w]);
        }
    }
}

void store_four(uint batch, uint vector, uint column, vec4 sum, int64_t ic) {
    [[unroll]] for (uint e = 0u; e < 4u; ++e) {
        if (column + e >= columns || vector >= vectors) continue;
        float y = sum[e];
        if (ADD)
            y = alpha * y
                + beta
                    * fetch(DTYPE,
                        at(DTYPE, c, ic + int64_t(column + e) * c_column + int64_t(vector) * c_vector));
        uint64_t to = uint64_t(batch) * uint64_t(columns) * uint64_t(vectors);
        to += transposed == 0u ? uint64_t(vector) * uint64_t(columns) + uint64_t(column + e)
                                 : uint64_t(column + e) * uint64_t(vectors) + uint64_t(vector);
        store_float(DTYPE, result, int64_t(to), y);
    }
}

void block(uint batch, uint vector, uint first) {
    int64_t im = 0l, ix = 0l, ic = 0l;
    if (ndim != 0u) {
        im = strided_offset(walk, ndim, 0u, uint64_t(batch));
        ix = strided_offset(walk, ndim, 1u, uint64_t(batch));
        if (ADD) ic = strided_offset(walk, ndim, 2u, uint64_t(batch));
    }
    uint lane = gl_LocalInvocationID.x, split = lane / ACROSS, column = first + lane % ACROSS * WIDTH;
    uint64_t base = VARIANT == 1 ? uint64_t(im) : at(DTYPE, matrix, im), x_base = at(DTYPE, x, ix);
    [[unroll]] for (uint i = 0u; i < VECTORS * WIDTH / 4u; ++i) sums[i] = vec4(0.0);
    if (column < columns)
        for (uint kk = split; kk < k; kk += SPLITS * AT_ONCE) add_rows(kk, base, x_base, column, vector);
    [[unroll]] for (uint i = 0u; i < VECTORS * WIDTH / 4u; ++i) {
        uint at_vector = vector + i / (WIDTH / 4u), at_column = column + i % (WIDTH / 4u) * 4u;
        if (SPLITS == 1u) {
            store_four(batch, at_vector, at_column, sums[i], ic);
            continue;
        }
        parts[lane] = sums[i];
        barrier();
        if (split == 0u) {
            vec4 sum = sums[i];
            for (uint s = 1u; s < SPLITS; ++s) sum += parts[s * ACROSS + lane];
            store_four(batch, at_vector, at_column, sum, ic);
        }
        barrier();
    }
}

void main() {
    uint each = ACROSS * WIDTH;
    for (uint batch = gl_WorkGroupID.z; batch < batches; batch += gl_NumWorkGroups.z)
        for (uint vector = gl_WorkGroupID.y * VECTORS; vector < vectors;
            vector += gl_NumWorkGroups.y * VECTORS)
            for (uint first = gl_WorkGroupID.x * each; first < columns; first += gl_NumWorkGroups.x * each)
                block(batch, vector, first);
}
