// The error function and its inverse.
// Part of math.glsl, which has the conventions.

// max 1.14 ULP.
float m_erf(float x) {
  uint ix = m_abs_bits(x);
  if (ix > M_INF) { return m_nan(); }
  float a = m_abs(x);
  if (ix < 0x0C800000u) { // below 2^-102: scaled, so that a flushed product loses nothing
    precise float u = x * 16777216.0;
    precise float v = u * 0.128379167;
    precise float w = u + v;
    return w * 5.96046448e-08;
  }
  if (a < 0.95) {
    // 2/sqrt(pi) = 1 + 0.128379167
    float z = x * x;
    float p = (((((-9.29370708e-06 * z + 0.000111319154) * z - 0.000846492825) * z + 0.00521965465)
      * z - 0.0268649142) * z + 0.112837732) * z - 0.376126379;
    precise float t = x * (0.128379167 + z * p); // keeps the sign of zero
    precise float y0 = x + t;
    return y0;
  }
  if (a > 3.92) { return m_copysign(1.0, x); }
  // 1 - exp(log(erfc(a))), the logarithm as a polynomial
  float g = (((((((1.59034994e-06 * a - 4.51674896e-05) * a + 0.000589576492) * a - 0.00472694356)
    * a + 0.0263314955) * a - 0.10992711) * a - 0.631984353) * a - 1.13014269) * a + 0.000298087893;
  int n;
  vec2 e = m_exp2n(g, 0.0, n);
  precise float eh = e.x * m_pow2(n);
  precise float el = e.y * m_pow2(n);
  vec2 s = m_fast_sum(1.0, -eh);
  precise float l = s.y - el;
  precise float y = s.x + l;
  return m_copysign(y, x);
}

// Inverse of erf. The variables follow Giles, "Approximating the erfinv function", GPU Computing
// Gems (2012): erfinv(x) / x is smooth in w = -log(1 - x^2) and, in the tail, in sqrt(w). The
// coefficients are this project's own. max 1.92 ULP.
float m_erfinv(float x) {
  uint ix = m_abs_bits(x);
  if (ix > M_ONE) { return m_nan(); }
  if (ix == M_ONE) { return m_signed_inf(x); }
  // 1 - x^2 as a pair
  vec2 s = m_two_prod(x, x);
  vec2 d = m_two_sum(1.0, -s.x);
  precise float dl = d.y - s.y;
  vec2 l = m_log_pair(d.x, dl);
  float w = -l.x;
  float hi, lo;
  if (w < 5.0) {
    precise float t0 = w - 2.5;
    precise float t = t0 - l.y;
    hi = 1.50140941;
    lo = (((((((((3.8310019e-10 * t - 8.69434125e-09) * t + 1.73051919e-08) * t + 4.6472482e-07) * t
      - 3.43069564e-06) * t - 4.95596987e-06) * t + 0.000218274203) * t - 0.00125275645) * t
      - 0.00417733332) * t + 0.246640295) * t - 5.83938871e-08;
  } else {
    precise float t = m_sqrt(w) - 3.125;
    hi = 2.95832014;
    lo = (((((((((-3.10656396e-05 * t + 0.000122898215) * t - 0.000114056602) * t - 0.000312370015) * t
      + 0.00127063773) * t - 0.00252719223) * t + 0.00379256718) * t - 0.00529967062) * t
      + 0.00704801409) * t + 1.00371861) * t + 7.70920128e-09;
  }
  precise float p = hi + lo;
  precise float y = x * p;
  return y;
}
