// Elementwise functions of one element of a CLASS. VARIANT splits the functions of floating classes over
// modules: 0 algebraic, 1 exponential, 2 logarithmic, 3 circular, 4 inverse circular and error functions; a
// source without VARIANT has them all. `dtype` is that of the element: of 16 bits some functions are faster.
// Needs class.glsl, and math.glsl for floating classes.

#ifndef UNARY_NUMBERS
#define UNARY_NUMBERS
// The discriminants of UnaryOp. [host]
const uint ABS = 0, ARCCOS = 1, ARCCOSH = 2, ARCSIN = 3, ARCSINH = 4, ARCTAN = 5, ARCTANH = 6,
           BITWISE_INVERT = 7, CEIL = 8, CONJUGATE = 9, COS = 10, COSH = 11, ERF = 12, ERFINV = 13, EXP = 14,
           EXPM1 = 15, FLOOR = 16, IMAG = 17, LOG = 18, LOG10 = 19, LOG1P = 20, LOG2 = 21, LOGICAL_NOT = 22,
           NEGATIVE = 23, REAL = 24, ROUND = 25, RSQRT = 26, SIGMOID = 27, SIGN = 28, SIN = 29, SINH = 30,
           SQRT = 31, SQUARE = 32, TAN = 33, TANH = 34;
#endif

#if CLASS == 0
#include "math/fast.glsl"
#endif

#undef HAS
#ifdef VARIANT
#define HAS(variant) (VARIANT == variant)
#else
#define HAS(variant) 1
#endif

// A function in the precision that a dtype of the class needs.
#define BY_DTYPE(f, x) (dtype == FLOAT32 ? f(x) : dtype == FLOAT16 ? f##_16(x) : f##_bfloat16(x))

T unary(const uint op, const uint dtype, const T x) {
#if CLASS == 0
    switch (op) {
#if HAS(0)
    case ABS: return m_abs(x);
    case CEIL: return ceil(x);
    case FLOOR: return floor(x);
    case NEGATIVE: return m_neg(x);
    case ROUND: return roundEven(x);
    case RSQRT: return m_rsqrt(x);
    case SIGN: return m_isnan(x) ? x : m_iszero(x) ? 0.0 : m_copysign(1.0, x);
    case SQRT: return dtype == FLOAT32 ? m_sqrt(x) : m_sqrt_16(x);
    case SQUARE: precise float square = x * x; return square;
#endif
#if HAS(1)
    case COSH: return m_cosh(x);
    case EXP: return BY_DTYPE(m_exp, x);
    case EXPM1: return m_expm1(x);
    case SIGMOID: return BY_DTYPE(m_sigmoid, x);
    case SINH: return m_sinh(x);
    case TANH: return BY_DTYPE(m_tanh, x);
#endif
#if HAS(2)
    case ARCCOSH: return m_acosh(x);
    case ARCSINH: return m_asinh(x);
    case ARCTANH: return m_atanh(x);
    case LOG: return m_log(x);
    case LOG10: return m_log10(x);
    case LOG1P: return m_log1p(x);
    case LOG2: return m_log2(x);
#endif
#if HAS(3)
    case COS: return m_cos(x);
    case SIN: return m_sin(x);
    case TAN: return m_tan(x);
#endif
#if HAS(4)
    case ARCCOS: return m_acos(x);
    case ARCSIN: return m_asin(x);
    case ARCTAN: return m_atan(x);
    case ERF: return BY_DTYPE(m_erf, x);
    case ERFINV: return m_erfinv(x);
#endif
    }
    return x;
#elif CLASS == 5
    switch (op) {
#if HAS(0)
    case CONJUGATE: return c_conj(x);
    case NEGATIVE: return c_neg(x);
    case ROUND: return roundEven(x);
    case RSQRT: return c_rsqrt(x);
    case SIGN: return c_iszero(x) ? x : c_div(x, vec2(c_abs(x), 0.0));
    case SQRT: return c_sqrt(x);
    case SQUARE: return c_mul(x, x);
#endif
#if HAS(1)
    case COSH: return c_cosh(x);
    case EXP: return c_exp(x);
    case EXPM1: return c_expm1(x);
    case SIGMOID: return c_sigmoid(x);
    case SINH: return c_sinh(x);
    case TANH: return c_tanh(x);
#endif
#if HAS(2)
    case ARCCOSH: return c_acosh(x);
    case ARCSINH: return c_asinh(x);
    case ARCTANH: return c_atanh(x);
    case LOG: return c_log(x);
    case LOG10: return c_log10(x);
    case LOG1P: return c_log1p(x);
    case LOG2: return c_log2(x);
#endif
#if HAS(3)
    case COS: return c_cos(x);
    case SIN: return c_sin(x);
    case TAN: return c_tan(x);
#endif
#if HAS(4)
    case ARCCOS: return c_acos(x);
    case ARCSIN: return c_asin(x);
    case ARCTAN: return c_atan(x);
#endif
    }
    return x;
#else
    switch (op) {
#if IS_SIGNED
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
    case SQUARE: return x * x;
    }
    return x;
#endif
}

#if CLASS == 5 && HAS(0)
// Functions whose result is real.
float unary_real(const uint op, const vec2 x) {
    switch (op) {
    case ABS: return c_abs(x);
    case REAL: return x.x;
    default: return x.y;
    }
}
#endif
