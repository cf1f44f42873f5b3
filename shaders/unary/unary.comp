#version 460
// Elementwise functions of one array. CLASS is the register type: 0 float (float32, float16, bfloat16),
// 1 int, 2 uint, 3 int64, 4 uint64, 5 complex. VARIANT splits the functions of floating classes over modules:
// 0 algebraic, 1 exponential, 2 logarithmic, 3 circular, 4 inverse circular and error functions.
// Constants: 1 dtype, 2 function (mlx_vulkan_core::primitives::UnaryOp), 3 mode.
#include "common.glsl"
#if CLASS == 0 || CLASS == 5
#include "math.glsl"
#endif

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const uint OP = 0;
layout(constant_id = 3) const uint MODE = 0;

#include "elementwise.glsl"

// The discriminants of UnaryOp. [host]
const uint ABS = 0, ARCCOS = 1, ARCCOSH = 2, ARCSIN = 3, ARCSINH = 4, ARCTAN = 5, ARCTANH = 6,
           BITWISE_INVERT = 7, CEIL = 8, CONJUGATE = 9, COS = 10, COSH = 11, ERF = 12, ERFINV = 13, EXP = 14,
           EXPM1 = 15, FLOOR = 16, IMAG = 17, LOG = 18, LOG10 = 19, LOG1P = 20, LOG2 = 21, LOGICAL_NOT = 22,
           NEGATIVE = 23, REAL = 24, ROUND = 25, RSQRT = 26, SIGMOID = 27, SIGN = 28, SIN = 29, SINH = 30,
           SQRT = 31, SQUARE = 32, TAN = 33, TANH = 34;

layout(push_constant, scalar) uniform Push {
    uint64_t source, destination, count, walk;
    uint ndim;
};

#if CLASS == 0

float apply(float x) {
#if VARIANT == 0
    switch (OP) {
    case ABS: return m_abs(x);
    case CEIL: return ceil(x);
    case FLOOR: return floor(x);
    case NEGATIVE: return m_neg(x);
    case ROUND: return roundEven(x);
    case RSQRT: return m_rsqrt(x);
    case SIGN: return m_isnan(x) ? x : m_iszero(x) ? 0.0 : m_copysign(1.0, x);
    case SQRT: return m_sqrt(x);
    default: return x * x;
    }
#elif VARIANT == 1
    switch (OP) {
    case COSH: return m_cosh(x);
    case EXP: return m_exp(x);
    case EXPM1: return m_expm1(x);
    case SIGMOID: return m_sigmoid(x);
    case SINH: return m_sinh(x);
    default: return m_tanh(x);
    }
#elif VARIANT == 2
    switch (OP) {
    case ARCCOSH: return m_acosh(x);
    case ARCSINH: return m_asinh(x);
    case ARCTANH: return m_atanh(x);
    case LOG: return m_log(x);
    case LOG10: return m_log10(x);
    case LOG1P: return m_log1p(x);
    default: return m_log2(x);
    }
#elif VARIANT == 3
    switch (OP) {
    case COS: return m_cos(x);
    case SIN: return m_sin(x);
    default: return m_tan(x);
    }
#else
    switch (OP) {
    case ARCCOS: return m_acos(x);
    case ARCSIN: return m_asin(x);
    case ARCTAN: return m_atan(x);
    case ERF: return m_erf(x);
    default: return m_erfinv(x);
    }
#endif
}

#elif CLASS == 5

vec2 apply(vec2 z) {
#if VARIANT == 0
    switch (OP) {
    case CONJUGATE: return c_conj(z);
    case NEGATIVE: return c_neg(z);
    case ROUND: return roundEven(z);
    case RSQRT: return c_rsqrt(z);
    case SIGN: return c_iszero(z) ? z : c_div(z, vec2(c_abs(z), 0.0));
    case SQRT: return c_sqrt(z);
    default: return c_mul(z, z);
    }
#elif VARIANT == 1
    switch (OP) {
    case COSH: return c_cosh(z);
    case EXP: return c_exp(z);
    case EXPM1: return c_expm1(z);
    case SIGMOID: return c_sigmoid(z);
    case SINH: return c_sinh(z);
    default: return c_tanh(z);
    }
#elif VARIANT == 2
    switch (OP) {
    case ARCCOSH: return c_acosh(z);
    case ARCSINH: return c_asinh(z);
    case ARCTANH: return c_atanh(z);
    case LOG: return c_log(z);
    case LOG10: return c_log10(z);
    case LOG1P: return c_log1p(z);
    default: return c_log2(z);
    }
#elif VARIANT == 3
    switch (OP) {
    case COS: return c_cos(z);
    case SIN: return c_sin(z);
    default: return c_tan(z);
    }
#else
    switch (OP) {
    case ARCCOS: return c_acos(z);
    case ARCSIN: return c_asin(z);
    default: return c_atan(z);
    }
#endif
}

#else

T apply(T x) {
    switch (OP) {
#if CLASS == 1 || CLASS == 3
    case ABS: return x < T(0) ? -x : x;
    case NEGATIVE: return -x;
    case SIGN: return T(x > T(0)) - T(x < T(0));
#else
    case ABS: return x;
    case NEGATIVE: return T(0) - x;
    case SIGN: return T(x != T(0));
#endif
    case BITWISE_INVERT: return ~x;
    case LOGICAL_NOT: return T(x == T(0));
    default: return x * x;
    }
}

#endif

// Real results of complex functions.
void store_result(int64_t i, T x) {
#if CLASS == 5 && VARIANT == 0
    if (OP == ABS) { AT_F32(destination, i) = c_abs(x); return; }
    if (OP == REAL) { AT_F32(destination, i) = x.x; return; }
    if (OP == IMAG) { AT_F32(destination, i) = x.y; return; }
#endif
    store_element(DTYPE, destination, i, apply(x));
}

void main() {
    if (MODE == DENSE4) {
#if HAS_FOUR
        uint64_t quads = count / 4ul;
        GRID_LOOP(i, quads) {
            T4 x = LOAD4(DTYPE, source, i);
            STORE4(DTYPE, destination, i, T4(apply(x.x), apply(x.y), apply(x.z), apply(x.w)));
        }
        TAIL_LOOP(i, quads, count) store_result(i, load_element(DTYPE, source, i));
#endif
    } else if (MODE == DENSE) {
        GRID_LOOP(i, count) store_result(int64_t(i), load_element(DTYPE, source, int64_t(i)));
    } else {
        GRID_LOOP(i, count) {
            store_result(int64_t(i), load_element(DTYPE, source, strided_offset(walk, ndim, 0u, i)));
        }
    }
}
