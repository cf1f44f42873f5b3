// Exponentials, hyperbolic functions and the sigmoid.
// Part of math.glsl, which has the conventions.

// exp(r) - 1 - r for |r| <= 0.347 and r = rh + rl (relative error of exp 2^-32.8).
float m_exp_tail(float rh, float rl) {
  float p = ((((0.000195779387 * rh + 0.0013935765) * rh + 0.00833388697) * rh + 0.0416664556) * rh
    + 0.166666642) * rh + 0.5;
  return rl + (rl * rh + rh * rh * p);
}

// x = n ln 2 + (h + l), for |xh| < 200.
vec2 m_exp_reduce(float xh, float xl, out int n) {
  precise float t = xh * M_LOG2E_H;
  precise float fn = floor(t + 0.5);
  n = int(fn);
  precise float nh = fn * M_LN2_H; // exact
  precise float nl = fn * M_LN2_L;
  precise float r0 = xh - nh; // exact
  vec2 r = m_two_sum(r0, -nl);
  precise float l = r.y + xl;
  return m_two_sum(r.x, l);
}

// exp(r) as a pair for a reduced argument.
vec2 m_exp_kernel(vec2 r) {
  vec2 s = m_fast_sum(1.0, r.x);
  precise float l = s.y + m_exp_tail(r.x, r.y);
  return m_fast_sum(s.x, l);
}

// exp(xh + xl) = (h + l) * 2^n, for |xh| < 200 (relative error about 2^-28).
vec2 m_exp2n(float xh, float xl, out int n) { return m_exp_kernel(m_exp_reduce(xh, xl, n)); }

// max 0.63 ULP.
float m_exp(float x) {
  if (m_isnan(x)) { return m_nan(); }
  if (x > 88.8) { return uintBitsToFloat(M_INF); }
  if (x < -104.0) { return 0.0; }
  int n;
  vec2 e = m_exp2n(x, 0.0, n);
  return m_scalbn(e.x, n);
}

// max 0.64 ULP.
float m_exp2(float x) {
  if (m_isnan(x)) { return m_nan(); }
  if (x >= 128.0) { return uintBitsToFloat(M_INF); }
  if (x < -150.0) { return 0.0; }
  precise float fn = floor(x + 0.5);
  precise float r = x - fn; // exact
  vec2 p = m_two_prod(r, M_LN2_H24);
  precise float q = r * M_LN2_L24;
  precise float l = p.y + q;
  return m_scalbn(m_exp_kernel(m_fast_sum(p.x, l)).x, int(fn));
}

// max 1.09 ULP.
float m_expm1(float x) {
  uint ix = m_abs_bits(x);
  if (ix > M_INF) { return m_nan(); }
  if (ix < 0x33000000u) { return x; } // |x| < 2^-25
  if (x > 88.8) { return uintBitsToFloat(M_INF); }
  if (x < -17.5) { return -1.0; }
  int n;
  vec2 r = m_exp_reduce(x, 0.0, n);
  float t = m_exp_tail(r.x, r.y);
  if (n == 0) {
    precise float y0 = r.x + t;
    return y0;
  }
  // 2^n (exp(r) - 1 + 1 - 2^-n)
  precise float c = 1.0 - (n > 60 ? 0.0 : m_pow2(-n));
  vec2 s = m_two_sum(c, r.x);
  precise float l = s.y + t;
  precise float y = s.x + l;
  return m_scalbn(y, n);
}

// max 0.78 ULP.
float m_sinh(float x) {
  uint ix = m_abs_bits(x);
  if (ix >= M_INF) { return ix == M_INF ? x : m_nan(); }
  if (ix < 0x39800000u) { return x; } // |x| < 2^-12
  float a = m_abs(x);
  if (a < 1.0) {
    float z = x * x;
    float p = ((2.78998391e-06 * z + 0.000198416659) * z + 0.00833331514) * z + 0.166666672;
    precise float t = x * z * p;
    precise float y0 = x + t;
    return y0;
  }
  if (a > 90.0) { return m_signed_inf(x); }
  int n;
  vec2 e = m_exp2n(a, 0.0, n);
  precise float inv = n > 20 ? 0.0 : m_pow2(-2 * n) / e.x;
  precise float l = e.y - inv;
  precise float y = e.x + l;
  return m_copysign(m_scalbn(y, n - 1), x);
}

// max 0.86 ULP.
float m_cosh(float x) {
  if (m_isnan(x)) { return m_nan(); }
  float a = m_abs(x);
  if (a > 90.0) { return uintBitsToFloat(M_INF); }
  int n;
  vec2 e = m_exp2n(a, 0.0, n);
  precise float inv = n > 20 ? 0.0 : m_pow2(-2 * n) * m_quot(1.0, e.x);
  vec2 s = m_fast_sum(e.x, inv);
  precise float l = s.y + e.y;
  precise float y = s.x + l;
  return m_scalbn(y, n - 1);
}

// max 0.76 ULP.
float m_tanh(float x) {
  uint ix = m_abs_bits(x);
  if (ix > M_INF) { return m_nan(); }
  if (ix < 0x39800000u) { return x; } // |x| < 2^-12
  float a = m_abs(x);
  if (a < 0.55) {
    float z = x * x;
    float p = ((((0.00228292774 * z - 0.00830632448) * z + 0.0217439327) * z - 0.0539530888) * z
      + 0.133332431) * z - 0.333333313;
    precise float t = x * z * p;
    precise float y0 = x + t;
    return y0;
  }
  if (a > 9.1) { return m_copysign(1.0, x); }
  // 1 - 2 / (exp(2a) + 1)
  int n;
  vec2 e = m_exp2n(2.0 * a, 0.0, n);
  precise float eh = e.x * m_pow2(n);
  precise float el = e.y * m_pow2(n);
  vec2 d = m_two_sum(eh, 1.0);
  precise float dl = d.y + el;
  vec2 q = m_div2(2.0, 0.0, d.x, dl);
  vec2 s = m_fast_sum(1.0, -q.x);
  precise float l = s.y - q.y;
  precise float y = s.x + l;
  return m_copysign(y, x);
}

// 1 / (1 + exp(-x)). max 0.62 ULP.
float m_sigmoid(float x) {
  if (m_isnan(x)) { return m_nan(); }
  if (x > 18.0) { return 1.0; }
  if (x < -104.0) { return 0.0; }
  int n;
  vec2 e = m_exp2n(-m_abs(x), 0.0, n);
  precise float eh = n < -60 ? 0.0 : e.x * m_pow2(n);
  precise float el = n < -60 ? 0.0 : e.y * m_pow2(n);
  vec2 d = m_two_sum(1.0, eh);
  precise float dl = d.y + el;
  bool pos = x >= 0.0;
  vec2 q = m_div2(pos ? 1.0 : e.x, pos ? 0.0 : e.y, d.x, dl);
  return pos ? q.x : m_scalbn(q.x, n);
}
