// Elements as bits, and keys: unsigned numbers whose order is that of the elements. Needs common.glsl and
// WIDTH: 32 for dtypes of at most 32 bits, 64 for those of 64.
//
// Keys are as wide as the dtype. NaN is the largest, all ones; zeros of both signs are one key. Complex
// numbers order by real, then by imaginary part.

#if WIDTH == 64
#define K uint64_t
#else
#define K uint
#endif

#include "float_key.glsl"

bool has_nan(uint dtype) {
    return dtype == FLOAT32 || dtype == FLOAT16 || dtype == BFLOAT16 || dtype == COMPLEX64;
}

#if WIDTH == 64
K load_bits(uint dtype, uint64_t base, uint64_t i) { return AT_U64(base, i); }
void store_bits(uint dtype, uint64_t base, uint64_t i, K x) { AT_U64(base, i) = x; }

K key_of(uint dtype, K raw) {
    if (dtype == UINT64) return raw;
    if (dtype == INT64) return raw ^ (uint64_t(1) << 63);
    uvec2 parts = unpackUint2x32(raw); // the real part is the lower word
    uint re = float_key(parts.x, 0x80000000u, 0x7f800000u), im = float_key(parts.y, 0x80000000u, 0x7f800000u);
    return packUint2x32(uvec2(re == 0xffffffffu ? re : im, re));
}

// Element j of a 16-byte word.
#define WORD_ELEMENTS 2u
K unpack_bits(uint dtype, uvec4 w, uint j) { return packUint2x32(uvec2(w[2u * j], w[2u * j + 1u])); }

#else
K load_bits(uint dtype, uint64_t base, uint64_t i) {
    uint64_t size = dtype_size(dtype);
    if (size == 4ul) return AT_U32(base, i);
    return size == 2ul ? uint(AT_U16(base, i)) : uint(AT_U8(base, i));
}

void store_bits(uint dtype, uint64_t base, uint64_t i, K x) {
    uint64_t size = dtype_size(dtype);
    if (size == 4ul) AT_U32(base, i) = x;
    else if (size == 2ul) AT_U16(base, i) = uint16_t(x & 0xffffu);
    else AT_U8(base, i) = uint8_t(x & 0xffu);
}

K key_of(uint dtype, K raw) {
    if (dtype == FLOAT32) return float_key(raw, 0x80000000u, 0x7f800000u);
    if (dtype == FLOAT16) return float_key(raw, 0x8000u, 0x7c00u);
    if (dtype == BFLOAT16) return float_key(raw, 0x8000u, 0x7f80u);
    if (dtype == INT32) return raw ^ 0x80000000u;
    if (dtype == INT16) return raw ^ 0x8000u;
    if (dtype == INT8) return raw ^ 0x80u;
    return raw;
}

#define WORD_ELEMENTS (16u / uint(dtype_size(FROM)))
K unpack_bits(uint dtype, uvec4 w, uint j) {
    uint64_t size = dtype_size(dtype);
    if (size == 4ul) return w[j];
    if (size == 2ul) return bitfieldExtract(w[j >> 1], int(j & 1u) * 16, 16);
    return bitfieldExtract(w[j >> 2], int(j & 3u) * 8, 8);
}
#endif

// The largest key of a dtype.
K top_key(uint dtype) {
    uint64_t size = dtype_size(dtype);
#if WIDTH == 64
    return ~uint64_t(0);
#else
    return size == 4ul ? 0xffffffffu : size == 2ul ? 0xffffu : 0xffu;
#endif
}
