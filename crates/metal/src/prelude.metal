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
