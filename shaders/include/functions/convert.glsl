// Conversions of an element of a CLASS. Needs class.glsl.

// The real part, as C++'s conversions take it; floats outside of an integer type wrap as on the CPU where the
// value fits 64 bits; zero is told by bits, because subnormals are not flushed.
#undef REAL_PART
#undef AS_INT
#undef AS_UINT
#undef AS_ULONG
#if CLASS == 5
#define REAL_PART(x) (x).x
#else
#define REAL_PART(x) (x)
#endif
#if CLASS == 0 || CLASS == 5
#define AS_INT(x) int(int64_t(REAL_PART(x)))
#define AS_UINT(x) uint(int64_t(REAL_PART(x)))
#define AS_ULONG(x) (REAL_PART(x) < 0.0 ? uint64_t(int64_t(REAL_PART(x))) : uint64_t(REAL_PART(x)))
#else
#define AS_INT(x) int(x)
#define AS_UINT(x) uint(x)
#define AS_ULONG(x) uint64_t(x)
#endif

bool truth(T x) {
#if CLASS == 5
    return ((floatBitsToUint(x.x) | floatBitsToUint(x.y)) & 0x7fffffffu) != 0u;
#elif CLASS == 0
    return (floatBitsToUint(x) & 0x7fffffffu) != 0u;
#else
    return x != T(0);
#endif
}

// Integers of 64 bits round once, to nearest even, whatever the driver's conversion does.
float as_float(T x) {
#if CLASS == 4
    if (x < 0x1000000ul) return float(uint(x));
    int drop = findMSB(uint(x >> 32)) >= 0 ? findMSB(uint(x >> 32)) + 32 - 23 : findMSB(uint(x)) - 23;
    uint64_t kept = x >> drop, rest = x & ((1ul << drop) - 1ul), tie = 1ul << (drop - 1);
    if (drop > 0 && (rest > tie || (rest == tie && (kept & 1ul) == 1ul))) kept += 1ul;
    return ldexp(float(uint(kept)), drop);
#elif CLASS == 3
    uint64_t a = x < 0l ? uint64_t(-x) : uint64_t(x);
    float sign = x < 0l ? -1.0 : 1.0;
    if (a < 0x1000000ul) return sign * float(uint(a));
    int drop = findMSB(uint(a >> 32)) >= 0 ? findMSB(uint(a >> 32)) + 32 - 23 : findMSB(uint(a)) - 23;
    uint64_t kept = a >> drop, rest = a & ((1ul << drop) - 1ul), tie = 1ul << (drop - 1);
    if (drop > 0 && (rest > tie || (rest == tie && (kept & 1ul) == 1ul))) kept += 1ul;
    return sign * ldexp(float(uint(kept)), drop);
#else
    return float(REAL_PART(x));
#endif
}
