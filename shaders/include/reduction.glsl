// The associative operations of reductions and scans, on partial results of type A. Needs common.glsl,
// elementwise.glsl (which makes T of CLASS), and the specialization constants FROM (dtype of the elements),
// TO (dtype of the results) and OP.
//
// lift(element) makes a partial result, combine(a, b) joins two, lower(a) makes the element of it again.
// VARIANT 1 (CLASS 0 and 5) has only the logarithm of sums of exponentials, for which it needs math.glsl.

// The discriminants of ReduceOp. [host]
const uint ALL = 0, ANY = 1, MAX = 2, MIN = 3, PROD = 4, SUM = 5;

// The dtype that partial results are stored in between dispatches.
#if CLASS == 0
const uint PARTIAL = FLOAT32;
#elif CLASS == 1
const uint PARTIAL = INT32;
#elif CLASS == 2
const uint PARTIAL = UINT32;
#else
const uint PARTIAL = TO;
#endif

#if CLASS == 0
// Floats travel as bits: sums and products as those of the float, extremes as keys whose order is that of the
// floats with NaN on the winning side. Integer comparison keeps denormals and NaN on every driver.
#define A uint

A lift(float x) {
    uint u = floatBitsToUint(x);
    if (OP != MAX && OP != MIN) return u;
    if ((u & 0x7fffffffu) > 0x7f800000u) return OP == MAX ? 0xffffffffu : 0u;
    return u ^ (uint(int(u) >> 31) | 0x80000000u);
}

// The two NaN keys become NaN again: their bits are all ones, and all but the sign.
float lower(A a) {
    if (OP != MAX && OP != MIN) return uintBitsToFloat(a);
    return uintBitsToFloat(a ^ (uint(int(~a) >> 31) | 0x80000000u));
}

A identity() {
#if VARIANT == 1
    return 0xff800000u;
#else
    if (OP == MAX) return 0x007fffffu; // -infinity
    if (OP == MIN) return 0xff800000u; // +infinity
    return OP == PROD ? 0x3f800000u : 0u;
#endif
}

A combine(A a, A b) {
#if VARIANT == 1
    return floatBitsToUint(m_logaddexp(uintBitsToFloat(a), uintBitsToFloat(b)));
#else
    if (OP == MAX) return max(a, b);
    if (OP == MIN) return min(a, b);
    float x = uintBitsToFloat(a), y = uintBitsToFloat(b);
    return floatBitsToUint(OP == PROD ? x * y : x + y);
#endif
}

#elif CLASS <= 4
// Integers wrap around. Bools are 0 or 1.
#define A T

A lift(T x) {
#if CLASS == 2
    if (OP == ALL || OP == ANY) return x != 0u ? 1u : 0u;
#endif
    return x;
}

T lower(A a) { return a; }

A identity() {
#if CLASS == 1
    int bits = TO == INT32 ? 31 : TO == INT16 ? 15 : 7;
    if (OP == MAX) return -1 << bits;
    if (OP == MIN) return ~(-1 << bits);
#elif CLASS == 2
    if (OP == ALL) return 1u;
    if (OP == MIN) return TO == UINT32 ? 0xffffffffu : TO == UINT16 ? 0xffffu : TO == UINT8 ? 0xffu : 1u;
#elif CLASS == 3
    if (OP == MAX) return int64_t(1) << 63;
    if (OP == MIN) return ~(int64_t(1) << 63);
#else
    if (OP == MIN) return ~uint64_t(0);
#endif
    return A(OP == PROD ? 1 : 0);
}

A combine(A a, A b) {
    if (OP == MAX) return max(a, b);
    if (OP == MIN) return min(a, b);
    if (OP == ALL) return a & b;
    if (OP == ANY) return a | b;
    return OP == PROD ? a * b : a + b;
}

#else
// Complex numbers compare by real, then by imaginary part; a NaN in either wins.
#define A vec2

A lift(vec2 x) { return x; }
vec2 lower(A a) { return a; }

A identity() {
#if VARIANT == 1
    return vec2(uintBitsToFloat(0xff800000u), 0.0);
#else
    if (OP == MAX) return vec2(uintBitsToFloat(0xff800000u));
    if (OP == MIN) return vec2(uintBitsToFloat(0x7f800000u));
    return vec2(OP == PROD ? 1.0 : 0.0, 0.0);
#endif
}

bool is_nan(vec2 x) { return any(greaterThan(floatBitsToUint(x) & 0x7fffffffu, uvec2(0x7f800000u))); }
bool is_less(vec2 a, vec2 b) { return a.x < b.x || (a.x == b.x && a.y < b.y); }

A combine(A a, A b) {
#if VARIANT == 1
    return c_logaddexp(a, b);
#else
    if (OP == MAX) return is_nan(a) || is_less(b, a) ? a : b;
    if (OP == MIN) return is_nan(a) || is_less(a, b) ? a : b;
    return OP == PROD ? vec2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x) : a + b;
#endif
}
#endif

// ---- elements of a 16-byte word ----
uint word_elements() { return 16u / uint(dtype_size(FROM)); }

// Element j, counted from the lowest address.
T unpack(uvec4 w, uint j) {
#if CLASS == 0
    if (FROM == FLOAT32) return uintBitsToFloat(w[j]);
    uint h = (w[j >> 1] >> ((j & 1u) * 16u)) & 0xffffu;
    return FROM == FLOAT16 ? unpackHalf2x16(h).x : uintBitsToFloat(h << 16);
#elif CLASS == 1
    if (FROM == INT32) return int(w[j]);
    if (FROM == INT16) return bitfieldExtract(int(w[j >> 1]), int(j & 1u) * 16, 16);
    return bitfieldExtract(int(w[j >> 2]), int(j & 3u) * 8, 8);
#elif CLASS == 2
    if (FROM == UINT32) return w[j];
    if (FROM == UINT16) return bitfieldExtract(w[j >> 1], int(j & 1u) * 16, 16);
    return bitfieldExtract(w[j >> 2], int(j & 3u) * 8, 8);
#elif CLASS == 3
    return int64_t(packUint2x32(uvec2(w[2u * j], w[2u * j + 1u])));
#elif CLASS == 4
    return packUint2x32(uvec2(w[2u * j], w[2u * j + 1u]));
#else
    return uintBitsToFloat(uvec2(w[2u * j], w[2u * j + 1u]));
#endif
}
