// Functions whose results are rounded to 16 bits: relative errors below 2^-15, a sixteenth of what rounding
// to float16 does and less of bfloat16. Needs math.glsl, which has the conventions.
//
// A result of 16 bits gains nothing from the last eight bits of a float32, which take most of the time. What
// is rare is behind a branch. Errors were measured over the whole range against float64, in float32 without
// fused multiplications and with exact built-in functions.

#ifndef FAST_GLSL
#define FAST_GLSL

// ---- of float16 ----

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
  return m_isnan(x) ? x : m_copysign(y, x);
}

// ---- of bfloat16 ----

// Whether |x| is larger than 87, or x is no number: then exp or its reciprocal may be denormal or infinite.
bool m_is_far(float x) { return m_abs_bits(x) > 0x42AE0000u; }

// exp where that is near: the device's own, whose errors Vulkan bounds (2^-16 at 2^126; 2^-22 is usual).
float m_exp_near(float x) { return exp2(x * M_LOG2E_H); }

// exp: 2^-15.
float m_exp_bfloat16(float x) {
  if (m_is_far(x)) { return m_exp_16(x); }
  return m_exp_near(x);
}

// 1 / (1 + exp(-x)): 2^-15.
float m_sigmoid_bfloat16(float x) {
  if (m_is_far(x)) { return x > 0.0 ? 1.0 : m_exp_16(x); }
  return 1.0 / (1.0 + m_exp_near(-x));
}

// tanh: 2^-15, by an odd rational function.
float m_tanh_bfloat16(float x) {
  float a = clamp(x, -5.75, 5.75), z = a * a;
  float p = (0.00154527428 * z + 0.11529585) * z + 0.999994516;
  float q = ((5.8255755e-05 * z + 0.0177889299) * z + 0.448590249) * z + 1.0;
  float y = a * p / q;
  return abs(x) >= 1e-3 ? y : x;
}

// erf of numbers: 2^-17, by an odd polynomial whose variable goes from -1 to 1.
float m_erf_near(float x) {
  float a = clamp(x, -3.4, 3.4), s = a * a * 0.173010381 - 1.0;
  float p = (((((((((0.00575654022 * s - 0.0133611122) * s + 0.0122963674) * s - 0.0187819172) * s
    + 0.0415054858) * s - 0.064455986) * s + 0.0865021423) * s - 0.114414811) * s + 0.149520263) * s
    - 0.206113517) * s + 0.415665239;
  return a * p;
}
float m_erf_bfloat16(float x) { return isnan(x) ? x : m_erf_near(x); }

// ---- of both ----

// Whether |x| is from 2^-47 to 2^47.
bool m_is_middling(float x) { return m_abs_bits(x) - 0x28000000u < 0x2F000000u; }

// a / b: 2^-22 where both are middling, else as m_div.
float m_div_16(float a, float b) {
  return m_is_middling(a) && m_is_middling(b) ? a / b : m_div(a, b);
}

// sqrt(x): 2^-21 of normal numbers, else as m_sqrt.
float m_sqrt_16(float x) {
  return floatBitsToUint(x) - 0x00800000u < 0x7F000000u ? x * inversesqrt(x) : m_sqrt(x);
}

#endif
