// Functions whose results are rounded to 16 bits: relative errors below 2^-15, a sixteenth of what rounding
// to float16 does and less of bfloat16. Needs math.glsl, which has the conventions.
//
// A result of 16 bits gains nothing from the last eight bits of a float32, which take most of the time. No
// branch parts the lanes where both sides are as cheap. Errors were measured over the whole range against
// float64, in float32 without fused multiplications.

#ifndef FAST_GLSL
#define FAST_GLSL

// exp: 2^-18.
float m_exp_16(float x) {
  precise float t = clamp(x, -104.0, 89.0);
  precise float fn = floor(t * M_LOG2E_H + 0.5);
  precise float h = t - fn * 0.693359375; // the product is exact
  precise float r = h + fn * 2.12194440e-04;
  float p = ((((0.00826 * r + 0.04166) * r + 0.166666) * r + 0.5) * r + 1.0) * r + 1.0;
  return m_isnan(x) ? x : m_scalbn(p, int(fn));
}

// 1 / (1 + exp(-x)): 2^-18.
float m_sigmoid_16(float x) {
  float e = m_exp_16(-m_abs(x));
  float q = 1.0 / (1.0 + e);
  return m_isnan(x) ? x : x >= 0.0 ? q : e * q;
}

// tanh: 2^-15.
float m_tanh_16(float x) {
  float a = min(m_abs(x), 20.0), z = a * a;
  float p = ((0.0218 * z - 0.0539530888) * z + 0.133332431) * z - 0.333333313;
  float y = a < 0.55 ? a + a * z * p : 1.0 - 2.0 / (m_exp_16(2.0 * a) + 1.0);
  return m_isnan(x) ? x : m_abs(x) < 1e-3 ? x : m_copysign(y, x);
}

// erf: 2^-20, by the polynomials of m_erf.
float m_erf_16(float x) {
  float a = min(m_abs(x), 4.0), z = a * a;
  float p = (((((-9.29370708e-06 * z + 0.000111319154) * z - 0.000846492825) * z + 0.00521965465)
    * z - 0.0268649142) * z + 0.112837732) * z - 0.376126379;
  float g = (((((((1.59034994e-06 * a - 4.51674896e-05) * a + 0.000589576492) * a - 0.00472694356)
    * a + 0.0263314955) * a - 0.10992711) * a - 0.631984353) * a - 1.13014269) * a + 0.000298087893;
  float y = a < 0.95 ? a + a * (0.128379167 + z * p) : 1.0 - m_exp_16(g);
  return a < 1e-30 ? m_erf(x) : m_isnan(x) ? x : m_copysign(y, x);
}

// a / b: 2^-22 where neither is near the ends of the range, else as m_div.
float m_div_16(float a, float b) {
  uint ia = m_abs_bits(a), ib = m_abs_bits(b);
  return ia - 0x28000000u < 0x2F000000u && ib - 0x28000000u < 0x2F000000u ? a / b : m_div(a, b);
}

// sqrt(x): 2^-21 where x is not near the ends of the range, else as m_sqrt.
float m_sqrt_16(float x) {
  return floatBitsToUint(x) - 0x28000000u < 0x2F000000u ? x * inversesqrt(x) : m_sqrt(x);
}

#endif
