// Rows of bfloat16 for products with e2m1 numbers that are bfloat16 where they lie: such a number's bits from
// the seventh on are 2^-126 of its value, subnormal numbers included. So that products are none, x is
// multiplied with 2^64, and results with what is left: exact for elements and products from 2^-64 to 2^64.
// Needs floats.glsl, DTYPE.
const float X_FACTOR = 18446744073709551616.0, SUM_FACTOR = 4611686018427387904.0; // 2^64, 2^62

uvec4 scaled_x(uvec4 p) {
    [[unroll]] for (uint e = 0u; e < 4u; ++e) p[e] = cut_halves(DTYPE, half_pair(DTYPE, p[e]) * X_FACTOR);
    return p;
}
