#version 460
// Elementwise functions of two arrays of one dtype. CLASS as in elementwise.glsl. VARIANT 0 has arithmetic,
// 1 the functions that need more of math.glsl, 2 comparisons and logic, whose result is bool.
// Constants: 1 dtype, 2 function (mlx_vulkan_core::primitives::BinaryOp), 3 mode, 4 and 5 whether the first
// or second operand is one element.
#include "common.glsl"
#include "math.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const uint OP = 0;
layout(constant_id = 3) const uint MODE = 0;
layout(constant_id = 4) const uint LEFT_SCALAR = 0;
layout(constant_id = 5) const uint RIGHT_SCALAR = 0;

#include "elementwise.glsl"

// The discriminants of BinaryOp. [host]
const uint ADD = 0, ARCTAN2 = 1, BITWISE_AND = 2, BITWISE_OR = 3, BITWISE_XOR = 4, DIVIDE = 5, EQUAL = 6,
           FLOOR_DIVIDE = 7, GREATER = 8, GREATER_EQUAL = 9, LEFT_SHIFT = 10, LESS = 11, LESS_EQUAL = 12,
           LOG_ADD_EXP = 13, LOGICAL_AND = 14, LOGICAL_OR = 15, MAXIMUM = 16, MINIMUM = 17, MULTIPLY = 18,
           NAN_EQUAL = 19, NOT_EQUAL = 20, POWER = 21, REMAINDER = 22, RIGHT_SHIFT = 23, SUBTRACT = 24;

layout(push_constant, scalar) uniform Push {
    uint64_t left, right, destination, count, walk;
    uint ndim;
};

#if VARIANT == 2

#if CLASS == 0
bool is_nan(T x) { return m_isnan(x); }
bool is_less(T a, T b) { return a < b; }
bool is_equal(T a, T b) { return a == b; }
bool is_true(T x) { return !m_iszero(x); }
#elif CLASS == 5
// Complex numbers are ordered by their real parts, then by their imaginary parts.
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

bool apply(T a, T b) {
    switch (OP) {
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

void store_result(int64_t i, bool x) { AT_U8(destination, i) = uint8_t(x ? 1u : 0u); }

#else

#if CLASS == 0

float apply(float a, float b) {
    switch (OP) {
#if VARIANT == 0
    case ADD: return a + b;
    case SUBTRACT: return a - b;
    case MULTIPLY: return a * b;
    case DIVIDE: return m_div(a, b);
    case MAXIMUM: return m_isnan(a) ? a : m_isnan(b) ? b : a > b ? a : b;
    default: return m_isnan(a) ? a : m_isnan(b) ? b : a < b ? a : b;
#else
    case ARCTAN2: return m_atan2(a, b);
    case FLOOR_DIVIDE: return m_floor_divide(a, b);
    case LOG_ADD_EXP: return m_logaddexp(a, b);
    case POWER: return m_pow(a, b);
    default: return m_remainder(a, b);
#endif
    }
}

#elif CLASS == 5

bool less(vec2 a, vec2 b) { return a.x < b.x || (a.x == b.x && a.y < b.y); }

vec2 apply(vec2 a, vec2 b) {
    switch (OP) {
#if VARIANT == 0
    case ADD: return a + b;
    case SUBTRACT: return a - b;
    case MULTIPLY: return c_mul(a, b);
    case DIVIDE: return c_div(a, b);
    case MAXIMUM: return c_isnan(a) ? a : c_isnan(b) ? b : less(b, a) ? a : b;
    default: return c_isnan(a) ? a : c_isnan(b) ? b : less(a, b) ? a : b;
#else
    case LOG_ADD_EXP: return c_logaddexp(a, b);
    default: return c_pow(a, b);
#endif
    }
}

#else

// Integers: division by zero gives zero, like the CPU backend; the most negative number over -1 wraps.
T quotient(T a, T b) {
#if CLASS == 1 || CLASS == 3
    if (b == T(-1)) return T(0) - a;
#endif
    return b == T(0) ? T(0) : a / b;
}

T modulo(T a, T b) {
#if CLASS == 1 || CLASS == 3
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
#if CLASS == 1 || CLASS == 3
    return quotient(a, b) - T((a < T(0)) != (b < T(0)) && modulo(a, b) != T(0) ? 1 : 0);
#else
    return quotient(a, b);
#endif
}

// By squaring, with wrap-around. A negative exponent gives 0, whatever the base.
T power(T base, T exponent) {
#if CLASS == 1 || CLASS == 3
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

uint width() { return uint(dtype_size(DTYPE)) * 8u; }

T shift_left(T a, T b) { return b < T(0) || uint(b) >= width() ? T(0) : a << uint(b); }

T shift_right(T a, T b) {
    bool out_of_range = b < T(0) || uint(b) >= width();
#if CLASS == 1 || CLASS == 3
    return out_of_range ? (a < T(0) ? T(-1) : T(0)) : a >> uint(b);
#else
    return out_of_range ? T(0) : a >> uint(b);
#endif
}

T apply(T a, T b) {
    switch (OP) {
    case ADD: return a + b;
    case SUBTRACT: return a - b;
    case MULTIPLY: return a * b;
    case MAXIMUM: return a > b ? a : b;
    case MINIMUM: return a < b ? a : b;
    case BITWISE_AND: return a & b;
    case BITWISE_OR: return a | b;
    case BITWISE_XOR: return a ^ b;
    case LEFT_SHIFT: return shift_left(a, b);
    case RIGHT_SHIFT: return shift_right(a, b);
    case FLOOR_DIVIDE: return floor_quotient(a, b);
    case POWER: return power(a, b);
    default: return modulo(a, b);
    }
}

#endif

void store_result(int64_t i, T x) { store_element(DTYPE, destination, i, x); }

#endif

T load_left(int64_t i) { return load_element(DTYPE, left, LEFT_SCALAR != 0 ? 0l : i); }
T load_right(int64_t i) { return load_element(DTYPE, right, RIGHT_SCALAR != 0 ? 0l : i); }

void main() {
    if (MODE == DENSE4) {
#if HAS_FOUR
        uint64_t quads = count / 4ul;
        GRID_LOOP(i, quads) {
            T4 a = LEFT_SCALAR != 0 ? T4(load_left(0l)) : LOAD4(DTYPE, left, i);
            T4 b = RIGHT_SCALAR != 0 ? T4(load_right(0l)) : LOAD4(DTYPE, right, i);
#if VARIANT == 2
            uvec4 x = uvec4(apply(a.x, b.x), apply(a.y, b.y), apply(a.z, b.z), apply(a.w, b.w));
            store_uint4(UINT8, destination, i, x);
#else
            T4 x = T4(apply(a.x, b.x), apply(a.y, b.y), apply(a.z, b.z), apply(a.w, b.w));
            STORE4(DTYPE, destination, i, x);
#endif
        }
        TAIL_LOOP(i, quads, count) store_result(i, apply(load_left(i), load_right(i)));
#endif
    } else if (MODE == DENSE) {
        GRID_LOOP(i, count) store_result(int64_t(i), apply(load_left(int64_t(i)), load_right(int64_t(i))));
    } else {
        GRID_LOOP(i, count) {
            T a = load_element(DTYPE, left, strided_offset(walk, ndim, 0u, i));
            T b = load_element(DTYPE, right, strided_offset(walk, ndim, 1u, i));
            store_result(int64_t(i), apply(a, b));
        }
    }
}
