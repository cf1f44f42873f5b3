// Elementwise functions of two elements of a CLASS, and comparisons. VARIANT splits them over modules: 0 has
// arithmetic, 1 the functions that need more of math.glsl, 2 comparisons and logic; a source without VARIANT
// has them all. Needs class.glsl and math.glsl.

#ifndef BINARY_NUMBERS
#define BINARY_NUMBERS
// The discriminants of BinaryOp. [host]
const uint ADD = 0, ARCTAN2 = 1, BITWISE_AND = 2, BITWISE_OR = 3, BITWISE_XOR = 4, DIVIDE = 5, EQUAL = 6,
           FLOOR_DIVIDE = 7, GREATER = 8, GREATER_EQUAL = 9, LEFT_SHIFT = 10, LESS = 11, LESS_EQUAL = 12,
           LOG_ADD_EXP = 13, LOGICAL_AND = 14, LOGICAL_OR = 15, MAXIMUM = 16, MINIMUM = 17, MULTIPLY = 18,
           NAN_EQUAL = 19, NOT_EQUAL = 20, POWER = 21, REMAINDER = 22, RIGHT_SHIFT = 23, SUBTRACT = 24;
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

// Complex numbers are ordered by their real parts, then by their imaginary parts.
#if CLASS == 0
bool is_nan(T x) { return m_isnan(x); }
bool is_less(T a, T b) { return a < b; }
bool is_equal(T a, T b) { return a == b; }
bool is_true(T x) { return !m_iszero(x); }
#elif CLASS == 5
bool is_nan(T x) { return c_isnan(x); }
bool is_less(T a, T b) { return a.x < b.x || (a.x == b.x && a.y < b.y); }
bool is_equal(T a, T b) { return a.x == b.x && a.y == b.y; }
bool is_true(T x) { return !c_iszero(x); }
#else
bool is_nan(T x) { return false; }
bool is_less(T a, T b) { return a < b; }
bool is_equal(T a, T b) { return a == b; }
bool is_true(T x) { return x != T(0); }
#endif

#if HAS(2)
bool compare(const uint op, const T a, const T b) {
    switch (op) {
    case EQUAL: return is_equal(a, b);
    case NOT_EQUAL: return !is_equal(a, b);
    case NAN_EQUAL: return is_equal(a, b) || (is_nan(a) && is_nan(b));
    case LESS: return is_less(a, b);
    case LESS_EQUAL: return is_less(a, b) || is_equal(a, b);
    case GREATER: return is_less(b, a);
    case GREATER_EQUAL: return is_less(b, a) || is_equal(a, b);
    case LOGICAL_AND: return is_true(a) && is_true(b);
    default: return is_true(a) || is_true(b);
    }
}
#endif

#if HAS(0) || HAS(1)
#if CLASS == 0 || CLASS == 5

// Sums and products are `precise`: beside others in one kernel they must not become fused multiplications.
T binary(const uint op, const uint dtype, const T a, const T b) {
    precise T x = a;
    switch (op) {
#if HAS(0)
    case ADD: x = a + b; break;
    case SUBTRACT: x = a - b; break;
    case MAXIMUM: x = is_nan(a) ? a : is_nan(b) ? b : is_less(b, a) ? a : b; break;
    case MINIMUM: x = is_nan(a) ? a : is_nan(b) ? b : is_less(a, b) ? a : b; break;
#if CLASS == 0
    case MULTIPLY: x = a * b; break;
    case DIVIDE: x = dtype == FLOAT32 ? m_div(a, b) : m_div_16(a, b); break;
#else
    case MULTIPLY: x = c_mul(a, b); break;
    case DIVIDE: x = c_div(a, b); break;
#endif
#endif
#if HAS(1)
#if CLASS == 0
    case ARCTAN2: x = m_atan2(a, b); break;
    case FLOOR_DIVIDE: x = m_floor_divide(a, b); break;
    case LOG_ADD_EXP: x = m_logaddexp(a, b); break;
    case POWER: x = m_is_cubed(a, b) ? dtype == FLOAT32 ? m_cube(a) : a * a * a : m_pow(a, b); break;
    case REMAINDER: x = m_remainder(a, b); break;
#else
    case LOG_ADD_EXP: x = c_logaddexp(a, b); break;
    case POWER: x = c_pow(a, b); break;
#endif
#endif
    }
    return x;
}

#else

// Integers: division by zero gives zero, like the CPU backend; the most negative number over -1 wraps.
T quotient(T a, T b) {
#if IS_SIGNED
    if (b == T(-1)) return T(0) - a;
#endif
    return b == T(0) ? T(0) : a / b;
}

T modulo(T a, T b) {
#if IS_SIGNED
    if (b == T(0) || b == T(-1)) return T(0);
    // GLSL leaves % of negative operands open.
    T r = a - quotient(a, b) * b;
    return r != T(0) && (r < T(0)) != (b < T(0)) ? r + b : r;
#else
    return b == T(0) ? T(0) : a % b;
#endif
}

// Rounded down.
T floor_quotient(T a, T b) {
#if IS_SIGNED
    return quotient(a, b) - T((a < T(0)) != (b < T(0)) && modulo(a, b) != T(0) ? 1 : 0);
#else
    return quotient(a, b);
#endif
}

// By squaring, with wrap-around. A negative exponent gives 0, whatever the base.
T power(T base, T exponent) {
#if IS_SIGNED
    if (exponent < T(0)) return T(0);
#endif
    T result = T(1);
    while (exponent != T(0)) {
        if ((exponent & T(1)) != T(0)) result *= base;
        base *= base;
        exponent >>= 1;
    }
    return result;
}

// `width` is the number of bits of the dtype.
T shift_left(T a, T b, uint width) { return b < T(0) || uint(b) >= width ? T(0) : a << uint(b); }

T shift_right(T a, T b, uint width) {
    bool out_of_range = b < T(0) || uint(b) >= width;
#if IS_SIGNED
    return out_of_range ? (a < T(0) ? T(-1) : T(0)) : a >> uint(b);
#else
    return out_of_range ? T(0) : a >> uint(b);
#endif
}

T binary(const uint op, const uint dtype, const T a, const T b) {
    uint width = uint(dtype_size(dtype)) * 8u;
    switch (op) {
    case ADD: return a + b;
    case SUBTRACT: return a - b;
    case MULTIPLY: return a * b;
    case MAXIMUM: return a > b ? a : b;
    case MINIMUM: return a < b ? a : b;
    case BITWISE_AND: return a & b;
    case BITWISE_OR: return a | b;
    case BITWISE_XOR: return a ^ b;
    case LEFT_SHIFT: return shift_left(a, b, width);
    case RIGHT_SHIFT: return shift_right(a, b, width);
    case FLOOR_DIVIDE: return floor_quotient(a, b);
    case POWER: return power(a, b);
    default: return modulo(a, b);
    }
}

#endif
#endif
