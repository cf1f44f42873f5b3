// Where an element lies, by its number in row-major order.
template <typename I>
int64_t elem_to_loc(I elem, constant const int* shape, constant const int64_t* strides, int ndim) {
    int64_t loc = 0;
    for (int i = ndim - 1; i >= 0 && elem > 0; --i) {
        loc += int64_t(elem % I(shape[i])) * strides[i];
        elem /= I(shape[i]);
    }
    return loc;
}

template <typename A, typename B>
A ceildiv(A n, B m) {
    return (n + m - 1) / m;
}

// Functions of simdgroups for devices whose subgroups have other sizes. Each thread of the group has a word in
// __words, at __index of __threads.

template <typename T>
void __leave(T value) {
    __words[__index] = as_type<uint>(value);
    threadgroup_barrier(mem_flags::mem_threadgroup);
}

#define REDUCTION(name, joined)                                              \
    template <typename T>                                                    \
    T name(T value) {                                                        \
        __leave(value);                                                      \
        uint first = __index & ~31u;                                         \
        T a = as_type<T>(__words[first]);                                    \
        for (uint i = first + 1; i < min(first + 32, __threads); ++i) {      \
            T b = as_type<T>(__words[i]);                                    \
            a = joined;                                                      \
        }                                                                    \
        threadgroup_barrier(mem_flags::mem_threadgroup);                     \
        return a;                                                            \
    }

REDUCTION(__simd_sum, a + b)
REDUCTION(__simd_product, a * b)
REDUCTION(__simd_max, max(a, b))
REDUCTION(__simd_min, min(a, b))
REDUCTION(__simd_and, a & b)
REDUCTION(__simd_or, a | b)
REDUCTION(__simd_xor, a ^ b)

#define PREFIX(name, start, end, joined)                                     \
    template <typename T>                                                    \
    T name(T value) {                                                        \
        __leave(value);                                                      \
        T a = T(start);                                                      \
        for (uint i = __index & ~31u; i < (end); ++i) {                      \
            T b = as_type<T>(__words[i]);                                    \
            a = joined;                                                      \
        }                                                                    \
        threadgroup_barrier(mem_flags::mem_threadgroup);                     \
        return a;                                                            \
    }

PREFIX(__simd_prefix_inclusive_sum, 0, __index + 1, a + b)
PREFIX(__simd_prefix_exclusive_sum, 0, __index, a + b)
PREFIX(__simd_prefix_inclusive_product, 1, __index + 1, a * b)
PREFIX(__simd_prefix_exclusive_product, 1, __index, a * b)

template <typename T>
T __simd_lane(T value, uint lane) {
    __leave(value);
    T result = as_type<T>(__words[min((__index & ~31u) + lane, __threads - 1)]);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    return result;
}

// Matrices of a simdgroup. Each thread has two numbers that follow each other in a row, as Apple's GPUs have it:
// programs read and write these by themselves.

template <typename T, int C, int R>
struct simdgroup_matrix {
    vec<T, 2> thread_elements;
};

using simdgroup_float8x8 = simdgroup_matrix<float, 8, 8>;
using simdgroup_half8x8 = simdgroup_matrix<half, 8, 8>;
using simdgroup_bfloat8x8 = simdgroup_matrix<bfloat, 8, 8>;

uint __simdgroup_row() {
    return ((__index >> 4) & 1) * 4 + ((__index >> 1) & 3);
}

uint __simdgroup_column() {
    return ((__index >> 3) & 1) * 4 + (__index & 1) * 2;
}

// The thread that has an element.
uint __simdgroup_thread(uint row, uint column) {
    return (row >> 2) * 16 + (column >> 2) * 8 + (row & 3) * 2 + ((column >> 1) & 1);
}

template <typename T>
simdgroup_matrix<T, 8, 8> __simdgroup_diagonal(T value) {
    uint row = __simdgroup_row(), column = __simdgroup_column();
    simdgroup_matrix<T, 8, 8> m;
    m.thread_elements = vec<T, 2>(row == column ? value : T(0), row == column + 1 ? value : T(0));
    return m;
}

template <typename T, int C, int R = 8>
simdgroup_matrix<T, C, R> make_diagonal_simdgroup_matrix(T value) {
    return __simdgroup_diagonal(value);
}

template <typename T, int C, int R = 8>
simdgroup_matrix<T, C, R> make_filled_simdgroup_matrix(T value) {
    simdgroup_matrix<T, C, R> m;
    m.thread_elements = vec<T, 2>(value);
    return m;
}

// Where a thread's first element is in memory, and how far from it the second one.
ulong2 __simdgroup_places(ulong stride, ulong2 origin, bool is_transposed) {
    ulong row = __simdgroup_row(), column = __simdgroup_column();
    if (is_transposed) {
        return ulong2((origin.y + column) * stride + origin.x + row, stride);
    }
    return ulong2((origin.y + row) * stride + origin.x + column, 1);
}

template <typename T, typename U>
void simdgroup_load(thread simdgroup_matrix<T, 8, 8>& m, const device U* from, ulong stride = 8,
                    ulong2 origin = ulong2(0, 0), bool is_transposed = false) {
    ulong2 at = __simdgroup_places(stride, origin, is_transposed);
    m.thread_elements = vec<T, 2>(from[at.x], from[at.x + at.y]);
}

template <typename T, typename U>
void simdgroup_store(simdgroup_matrix<T, 8, 8> m, device U* to, ulong stride = 8,
                     ulong2 origin = ulong2(0, 0), bool is_transposed = false) {
    ulong2 at = __simdgroup_places(stride, origin, is_transposed);
    to[at.x] = m.thread_elements.x;
    to[at.x + at.y] = m.thread_elements.y;
}

// Sums are of floats, whatever the matrices hold.
template <typename D, typename A, typename B, typename C>
void simdgroup_multiply_accumulate(thread simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8> a,
                                   simdgroup_matrix<B, 8, 8> b, simdgroup_matrix<C, 8, 8> c) {
    uint row = __simdgroup_row(), column = __simdgroup_column();
    float2 x = float2(a.thread_elements), y = float2(b.thread_elements);
    float2 sum = float2(c.thread_elements);
    for (uint k = 0; k < 8; k += 2) {
        float2 by = simd_shuffle(x, __simdgroup_thread(row, k));
        sum = fma(float2(by.x), simd_shuffle(y, __simdgroup_thread(k, column)), sum);
        sum = fma(float2(by.y), simd_shuffle(y, __simdgroup_thread(k + 1, column)), sum);
    }
    d.thread_elements = vec<D, 2>(sum);
}

template <typename D, typename A, typename B>
void simdgroup_multiply(thread simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8> a,
                        simdgroup_matrix<B, 8, 8> b) {
    simdgroup_multiply_accumulate(d, a, b, make_filled_simdgroup_matrix<float, 8, 8>(0.0f));
}
