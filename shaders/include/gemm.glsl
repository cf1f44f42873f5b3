// What the matrix product kernels share: arguments, batches, the epilogue. Needs common.glsl and floats.glsl.
//
// a is (m, k), b is (k, n); each has one axis with stride 1 and a distance `lda`, `ldb` along the other. The
// result is (batches, m, n), dense. Constants 1 to 4 are the same in all of them. With OWN_PUSH the kernel
// has arguments of its own and supplies batch_at and store_quad.
layout(constant_id = 1) const uint DTYPE = 11;    // of a, b, and of c unless that is C_DTYPE
layout(constant_id = 2) const uint OUT_DTYPE = 11; // float32 when k is split
layout(constant_id = 3) const uint FLAGS = 0;
// Flags. [host]
const uint A_ALONG_K_FLAG = 1, B_ALONG_K_FLAG = 2, A_VECTOR_FLAG = 4, B_VECTOR_FLAG = 8, ADD_FLAG = 16,
           C_VECTOR_FLAG = 32, GROUPED_FLAG = 256, SCALED_FLAG = 2048;
const bool A_ALONG_K = (FLAGS & A_ALONG_K_FLAG) != 0u; // else stride 1 along m
const bool B_ALONG_K = (FLAGS & B_ALONG_K_FLAG) != 0u; // else stride 1 along n
const bool A_VECTOR = (FLAGS & A_VECTOR_FLAG) != 0u;  // groups of four along the dense axis are aligned
const bool B_VECTOR = (FLAGS & B_VECTOR_FLAG) != 0u;
const bool ADD = (FLAGS & ADD_FLAG) != 0u;      // alpha (a b) + beta c
const bool C_VECTOR = (FLAGS & C_VECTOR_FLAG) != 0u; // rows of c are aligned groups of four
const bool GROUPED = (FLAGS & GROUPED_FLAG) != 0u; // groups.glsl
const bool SCALED = (FLAGS & SCALED_FLAG) != 0u; // operands were float32 (scaled.glsl)
const uint C_DTYPE = SCALED ? FLOAT32 : DTYPE;

#ifndef OWN_PUSH
layout(push_constant, scalar) uniform Push {
    uint64_t a, b, c, result;
    uint64_t walk;   // batch axes: sizes, strides of a, b, c, as in strided_offset
    uint64_t extra;  // quantized b: biases, and c the scales
    int64_t lda, ldb, c_row, c_column;
    uint m, n, k, batches;
    float alpha, beta;
    uint ndim, splits;
    uint64_t parts, counters; // scratch memory and zeroed words for who joins splits by itself
};
#endif

// Where the matrices of a batch begin, the end of its rows, and the columns of the result.
struct Batch { uint64_t a, b, c, result; uint m, n; };

#ifdef OWN_PUSH
Batch batch_at(uint batch);
void store_quad(Batch at_, uint row, uint column, vec4 x);
#else
Batch batch_at(uint batch) {
    Batch at_;
    int64_t ia = 0l, ib = 0l, ic = 0l;
    if (ndim != 0u) {
        ia = strided_offset(walk, ndim, 0u, uint64_t(batch));
        ib = strided_offset(walk, ndim, 1u, uint64_t(batch));
        if (ADD) ic = strided_offset(walk, ndim, 2u, uint64_t(batch));
    }
    at_.a = at(DTYPE, a, ia);
    at_.b = uint64_t(ib); // in elements: a quantized b is not addressed by them
    at_.c = ADD ? at(C_DTYPE, c, ic) : 0ul;
    at_.result = at(OUT_DTYPE, result, int64_t(uint64_t(batch) * uint64_t(m) * uint64_t(n)));
    at_.m = m;
    at_.n = n;
    return at_;
}
#endif

#include "picks.glsl"
#include "groups.glsl"

// Stores four neighbours of a row of the result, as far as they are columns.
void put_quad(Batch at_, uint row, uint column, vec4 x) {
    uint64_t i = uint64_t(row) * uint64_t(at_.n) + uint64_t(column);
    if ((at_.n & 3u) == 0u) store_float4(OUT_DTYPE, at_.result, i / 4ul, x);
    else [[unroll]] for (uint e = 0u; e < 4u; ++e)
        if (column + e < at_.n) store_float(OUT_DTYPE, at_.result, int64_t(i) + int64_t(e), x[e]);
}

#ifdef OWN_PUSH
const bool SCALED_LINES = false;
float row_factor(Batch at_, uint row) { return 1.0; }
vec4 column_factors(Batch at_, uint column) { return vec4(1.0); }
vec4 addend(Batch at_, uint row, uint column) { return vec4(0.0); }
void store_sum(Batch at_, uint row, uint column, vec4 x, vec4 added) { store_quad(at_, row, column, x); }
#else
// Rows of a and columns of b have factors, which lie behind the elements (matmul/scaled.comp).
const bool SCALED_LINES = SCALED;

// Where the factor of a row of a, or of a column of b, is.
uint64_t factor_at(bool along_k, uint64_t matrix, int64_t leading, uint line) {
    return at(DTYPE, matrix, along_k ? int64_t(line) * leading + int64_t(k)
                                     : int64_t(k) * leading + int64_t(line) * 2l);
}

// The factors of four neighbours of a row: of the row, and of the columns. In the place of what does not
// exist they are those of the nearest that does.
float row_factor(Batch at_, uint row) {
    return F32(factor_at(A_ALONG_K, at_.a, lda, min(row, at_.m - 1u))).v[0];
}

vec4 column_factors(Batch at_, uint column) {
    uint64_t matrix = at(DTYPE, b, int64_t(at_.b));
    uint first = min(column, (at_.n - 1u) / 4u * 4u), last = at_.n - 1u - first;
    if (!B_ALONG_K) return F4(factor_at(false, matrix, ldb, first)).v[0];
    vec4 x;
    [[unroll]] for (uint e = 0u; e < 4u; ++e)
        x[e] = F32(factor_at(true, matrix, ldb, first + min(e, last))).v[0];
    return x;
}

// What is added to four neighbours of a row. In the place of what does not exist it is the nearest that does:
// a load that no branch decides about can be ahead of others.
vec4 addend(Batch at_, uint row, uint column) {
    if (!ADD) return vec4(0.0);
    uint first = min(column, (at_.n - 1u) / 4u * 4u), last = at_.n - 1u - first;
    uint64_t from = at(C_DTYPE, at_.c, int64_t(min(row, at_.m - 1u)) * c_row + int64_t(first) * c_column);
    if (C_VECTOR) return beta * fetch4(C_DTYPE, true, from);
    vec4 x;
    [[unroll]] for (uint e = 0u; e < 4u; ++e)
        x[e] = fetch(C_DTYPE, at(C_DTYPE, from, int64_t(min(e, last)) * c_column));
    return beta * x;
}

// Stores four neighbours of a row and what is added to them, as far as they exist.
void store_sum(Batch at_, uint row, uint column, vec4 x, vec4 added) {
    if (row < at_.m && column < at_.n) put_quad(at_, row, column, ADD ? alpha * x + added : x);
}

void store_quad(Batch at_, uint row, uint column, vec4 x) {
    store_sum(at_, row, column, x, addend(at_, row, column));
}
#endif

// The part of k of a split, in multiples of `depth`.
uvec2 split_range(uint split, uint depth) {
    uint slices = (k + depth - 1u) / depth;
    uint each = (slices + splits - 1u) / splits * depth;
    uint first = min(k, split * each);
    return uvec2(first, min(k, first + each));
}
