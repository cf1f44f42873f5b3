#version 460
// Conversion between dtypes. CLASS is the register type of the source: 0 float, 1 int, 2 uint, 3 int64,
// 4 uint64, 5 complex. Constants: 1 source dtype, 2 destination dtype, 3 mode.
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint FROM = 11;
layout(constant_id = 2) const uint TO = 11;
layout(constant_id = 3) const uint MODE = 0;

// Modes: dense by elements, dense by four elements, strided. [host]
const uint DENSE = 0, DENSE4 = 1, STRIDED = 2;

layout(push_constant, scalar) uniform Push {
    uint64_t source, destination, count, walk;
    uint ndim;
};

#if CLASS == 0
#define T float
#define LOAD load_float
#define T4 vec4
#define LOAD4 load_float4
#elif CLASS == 1
#define T int
#define LOAD load_int
#define T4 ivec4
#define LOAD4 load_int4
#elif CLASS == 2
#define T uint
#define LOAD load_uint
#define T4 uvec4
#define LOAD4 load_uint4
#elif CLASS == 3
#define T int64_t
#elif CLASS == 4
#define T uint64_t
#else
#define T vec2
#endif

T load(int64_t i) {
#if CLASS == 3
    return AT_I64(source, i);
#elif CLASS == 4
    return AT_U64(source, i);
#elif CLASS == 5
    return AT_F2(source, i);
#else
    return LOAD(FROM, source, i);
#endif
}

// Real part, as C++'s conversions take it.
#if CLASS == 5
#define REAL(x) (x).x
#else
#define REAL(x) (x)
#endif

// Floats outside of the integer type wrap as on the CPU where the value fits 64 bits.
#if CLASS == 0 || CLASS == 5
#define AS_INT(x) int(int64_t(REAL(x)))
#define AS_UINT(x) uint(int64_t(REAL(x)))
#define AS_ULONG(x) (REAL(x) < 0.0 ? uint64_t(int64_t(REAL(x))) : uint64_t(REAL(x)))
#else
#define AS_INT(x) int(x)
#define AS_UINT(x) uint(x)
#define AS_ULONG(x) uint64_t(x)
#endif

bool truth(T x) {
#if CLASS == 5
    return ((floatBitsToUint(x.x) | floatBitsToUint(x.y)) & 0x7fffffffu) != 0u;
#elif CLASS == 0
    return (floatBitsToUint(x) & 0x7fffffffu) != 0u; // subnormals are not flushed
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
    return float(REAL(x));
#endif
}

void store(int64_t i, T x) {
    if (TO == FLOAT32 || TO == FLOAT16 || TO == BFLOAT16) store_float(TO, destination, i, as_float(x));
    else if (TO == BOOL) AT_U8(destination, i) = uint8_t(truth(x) ? 1u : 0u);
    else if (TO == UINT8 || TO == UINT16 || TO == UINT32) store_uint(TO, destination, i, AS_UINT(x));
    else if (TO == INT8 || TO == INT16 || TO == INT32) store_int(TO, destination, i, AS_INT(x));
    else if (TO == INT64) AT_I64(destination, i) = int64_t(REAL(x));
    else if (TO == UINT64) AT_U64(destination, i) = AS_ULONG(x);
#if CLASS == 5
    else AT_F2(destination, i) = x;
#else
    else AT_F2(destination, i) = vec2(as_float(x), 0.0);
#endif
}

#if CLASS <= 2
void store4(uint64_t i, T4 x) {
    if (TO == FLOAT32 || TO == FLOAT16 || TO == BFLOAT16) store_float4(TO, destination, i, vec4(x));
    else if (TO == BOOL)
        store_uint4(UINT8, destination, i, uvec4(truth(x.x), truth(x.y), truth(x.z), truth(x.w)));
    else [[unroll]] for (int k = 0; k < 4; ++k) store(int64_t(4ul * i) + k, x[k]);
}
#endif

void main() {
    if (MODE == DENSE4) {
#if CLASS <= 2
        uint64_t quads = count / 4ul;
        GRID_LOOP(i, quads) store4(i, LOAD4(FROM, source, i));
        if (gl_GlobalInvocationID.x < uint(count - quads * 4ul)) {
            int64_t i = int64_t(quads * 4ul + uint64_t(gl_GlobalInvocationID.x));
            store(i, load(i));
        }
#endif
    } else if (MODE == DENSE) {
        GRID_LOOP(i, count) store(int64_t(i), load(int64_t(i)));
    } else {
        GRID_LOOP(i, count) {
            T x = load(strided_offset(walk, ndim, 0u, i));
            store(strided_offset(walk, ndim, 1u, i), x);
        }
    }
}
