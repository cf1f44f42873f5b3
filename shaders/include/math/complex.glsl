// Functions of complex64.
// Part of math.glsl, which has the conventions.

//
// vec2(re, im). Measured errors relative to the modulus of the result, in units of 2^-24: abs and
// recip 1, sqrt, mul and div 1.9, log 2.1, rsqrt 1.9, exp 2.5, log1p 2.6, acos 2.9, sin, cos, sinh,
// cosh and atan 3.1, acosh 3.2, atanh and expm1 3.5, asin and asinh 3.6, sigmoid 5.1, tan and
// tanh 5.3.

// a b + c d with one rounding of a compensated sum.
float m_dot2(float a, float b, float c, float d) {
  vec2 p = m_two_prod(a, b);
  vec2 q = m_two_prod(c, d);
  vec2 s = m_two_sum(p.x, q.x);
  precise float t = p.y + q.y;
  precise float u = s.y + t;
  precise float y = s.x + u;
  return y;
}

// a^2 + b^2 as a pair, away from overflow and underflow.
vec2 m_norm2(float a, float b) {
  vec2 p = m_two_prod(a, a);
  vec2 q = m_two_prod(b, b);
  vec2 s = m_two_sum(p.x, q.x);
  precise float t = p.y + q.y;
  precise float u = s.y + t;
  return m_two_sum(s.x, u);
}

// Exponent of the larger component of a finite nonzero z.
int c_exponent(vec2 z) {
  int e;
  m_norm(max(m_abs_bits(z.x), m_abs_bits(z.y)), e);
  return e;
}

vec2 c_scalbn(vec2 z, int n) {
  int k = clamp(n, -300, 300);
  int h = k >> 1;
  return vec2(m_scalbn(m_scalbn(z.x, h), k - h), m_scalbn(m_scalbn(z.y, h), k - h));
}

bool c_isnan(vec2 z) { return m_isnan(z.x) || m_isnan(z.y); }
bool c_isinf(vec2 z) { return m_isinf(z.x) || m_isinf(z.y); }
bool c_iszero(vec2 z) { return m_iszero(z.x) && m_iszero(z.y); }
vec2 c_neg(vec2 z) { return vec2(m_neg(z.x), m_neg(z.y)); }
vec2 c_conj(vec2 z) { return vec2(z.x, m_neg(z.y)); }
vec2 c_add(vec2 a, vec2 b) {
  precise float x = a.x + b.x;
  precise float y = a.y + b.y;
  return vec2(x, y);
}
vec2 c_sub(vec2 a, vec2 b) {
  precise float x = a.x - b.x;
  precise float y = a.y - b.y;
  return vec2(x, y);
}

// The textbook product, every operation rounded.
vec2 c_mul(vec2 a, vec2 b) {
  precise float xx = a.x * b.x;
  precise float yy = a.y * b.y;
  precise float xy = a.x * b.y;
  precise float yx = a.y * b.x;
  precise float re = xx - yy;
  precise float im = xy + yx;
  return vec2(re, im);
}

// hypot: no overflow or underflow in between; infinite when a component is, NaN or not.
float c_abs(vec2 z) {
  if (c_isinf(z)) { return uintBitsToFloat(M_INF); }
  if (c_isnan(z)) { return m_nan(); }
  if (c_iszero(z)) { return 0.0; }
  int e = c_exponent(z);
  vec2 w = c_scalbn(z, -e);
  vec2 n = m_norm2(w.x, w.y);
  return m_scalbn(m_sqrt2(n.x, n.y).x, e);
}

float c_arg(vec2 z) { return m_atan2(z.y, z.x); }

// a / b, scaled so that only the result can overflow. Each component is accurate, cancellation
// included. Division by zero gives signed infinities (NaN for 0/0) as C99 Annex G does.
vec2 c_div(vec2 a, vec2 b) {
  if (c_iszero(b)) {
    float s = m_signed_inf(b.x);
    return vec2(m_iszero(a.x) ? m_nan() : s * a.x, m_iszero(a.y) ? m_nan() : s * a.y);
  }
  if (c_isnan(a) || c_isnan(b)) { return vec2(m_nan(), m_nan()); }
  if (c_isinf(b)) {
    if (c_isinf(a)) { return vec2(m_nan(), m_nan()); }
    return vec2(0.0, 0.0);
  }
  if (c_isinf(a)) {
    vec2 i = vec2(m_isinf(a.x) ? m_copysign(1.0, a.x) : 0.0, m_isinf(a.y) ? m_copysign(1.0, a.y) : 0.0);
    vec2 d = c_scalbn(b, -c_exponent(b));
    float u = i.x * d.x + i.y * d.y;
    float v = i.y * d.x - i.x * d.y;
    return vec2(m_iszero(u) ? m_nan() : m_signed_inf(u), m_iszero(v) ? m_nan() : m_signed_inf(v));
  }
  if (c_iszero(a)) {
    return vec2(0.0, 0.0);
  }
  int ea = c_exponent(a);
  int eb = c_exponent(b);
  vec2 s = c_scalbn(a, -ea);
  vec2 t = c_scalbn(b, -eb);
  vec2 n = m_norm2(t.x, t.y);
  float re = m_dot2(s.x, t.x, s.y, t.y);
  float im = m_dot2(s.y, t.x, -s.x, t.y);
  return c_scalbn(vec2(m_div2(re, 0.0, n.x, n.y).x, m_div2(im, 0.0, n.x, n.y).x), ea - eb);
}

// 1 / z.
vec2 c_recip(vec2 z) { return c_div(vec2(1.0, 0.0), z); }

// Principal square root, cut along the negative real axis (sign of the imaginary part kept).
vec2 c_sqrt(vec2 z) {
  if (m_isinf(z.y)) { return vec2(uintBitsToFloat(M_INF), z.y); }
  if (c_isnan(z)) {
    if (m_isinf(z.x)) { return m_signbit(z.x) ? vec2(m_nan(), m_signed_inf(1.0)) : vec2(z.x, m_nan()); }
    return vec2(m_nan(), m_nan());
  }
  if (m_isinf(z.x)) {
    return m_signbit(z.x) ? vec2(0.0, m_signed_inf(z.y)) : vec2(z.x, m_copysign(0.0, z.y));
  }
  if (c_iszero(z)) { return vec2(0.0, z.y); }
  int e = c_exponent(z) & ~1;
  vec2 w = c_scalbn(z, -e);
  float a = m_abs(w.x);
  vec2 n = m_norm2(w.x, w.y);
  vec2 h = m_sqrt2(n.x, n.y);
  vec2 s = m_two_sum(a, h.x);
  precise float sl = s.y + h.y;
  vec2 t = m_sqrt2(0.5 * s.x, 0.5 * sl);
  float big = m_scalbn(t.x, e >> 1);
  float small = m_iszero(z.y) ? 0.0 : m_div(m_abs(z.y), 2.0 * big);
  return m_signbit(z.x) ? vec2(small, m_copysign(big, z.y)) : vec2(big, m_copysign(small, z.y));
}

vec2 c_rsqrt(vec2 z) { return c_recip(c_sqrt(z)); }

// exp(x) (cos y, sin y) / 2^shift without premature overflow.
vec2 c_exp_polar(float x, float y, int shift) {
  int n;
  vec2 e = m_exp2n(clamp(x, -170.0, 170.0), 0.0, n);
  float c = m_scalbn(e.x * m_cos(y), n - shift);
  float s = m_iszero(y) ? y : m_scalbn(e.x * m_sin(y), n - shift);
  return vec2(c, s);
}

vec2 c_exp(vec2 z) {
  if (m_iszero(z.y)) { return vec2(m_exp(z.x), z.y); }
  if (m_isinf(z.x) && m_signbit(z.x) && (m_isinf(z.y) || m_isnan(z.y))) { return vec2(0.0, 0.0); }
  if (m_isinf(z.y) || m_isnan(z.y)) {
    return vec2(m_isinf(z.x) ? z.x : m_nan(), m_nan());
  }
  if (m_isnan(z.x)) { return vec2(m_nan(), m_nan()); }
  return c_exp_polar(z.x, z.y, 0);
}

// log|z| as a pair, accurate next to |z| = 1 as well; z finite and nonzero.
vec2 c_log_abs(vec2 z) {
  int e = c_exponent(z);
  if (e == -1) { e = 0; } // keep |z| around 1 unscaled, so that the logarithm cancels nothing
  vec2 w = c_scalbn(z, -e);
  vec2 n = m_norm2(w.x, w.y);
  vec2 l = m_log_pair(n.x, n.y);
  precise float kh = float(e) * M_LN2_H; // exact
  precise float kl = float(e) * M_LN2_L;
  vec2 s = m_two_sum(kh, 0.5 * l.x);
  precise float t0 = kl + 0.5 * l.y;
  precise float t = s.y + t0;
  return m_fast_sum(s.x, t);
}

vec2 c_log(vec2 z) {
  float a = c_arg(z);
  if (c_isinf(z)) { return vec2(uintBitsToFloat(M_INF), a); }
  if (c_isnan(z)) { return vec2(m_nan(), m_nan()); }
  if (c_iszero(z)) { return vec2(uintBitsToFloat(M_INF | M_SIGN), a); }
  return vec2(c_log_abs(z).x, a);
}

vec2 c_log2(vec2 z) {
  vec2 l = c_log(z);
  return vec2(m_isinf(l.x) ? l.x : l.x * M_LOG2E_H, l.y * M_LOG2E_H);
}

vec2 c_log10(vec2 z) {
  vec2 l = c_log(z);
  return vec2(m_isinf(l.x) ? l.x : l.x * M_LOG10E_H, l.y * M_LOG10E_H);
}

// log(1 + z): |1 + z|^2 - 1 = x (2 + x) + y^2 keeps small z accurate.
vec2 c_log1p(vec2 z) {
  if (c_isinf(z) || c_isnan(z) || max(m_abs_bits(z.x), m_abs_bits(z.y)) > 0x3F000000u) {
    return c_log(vec2(1.0 + z.x, z.y));
  }
  precise float u = 1.0 + z.x;
  vec2 q = m_two_prod(z.x, z.x);
  vec2 r = m_two_prod(z.y, z.y);
  vec2 s = m_two_sum(q.x, r.x);
  vec2 t = m_two_sum(2.0 * z.x, s.x);
  precise float l0 = q.y + r.y;
  precise float l1 = s.y + l0;
  precise float l = t.y + l1;
  precise float v = t.x + l;
  return vec2(0.5 * m_log1p(v), m_atan2(z.y, u));
}

// log(exp(a) + exp(b)) from the one with the larger real part.
vec2 c_logaddexp(vec2 a, vec2 b) {
  vec2 hi = a.x >= b.x ? a : b;
  vec2 lo = a.x >= b.x ? b : a;
  if (m_isinf(hi.x) || m_isinf(lo.x)) { return hi; }
  return c_add(hi, c_log1p(c_exp(c_sub(lo, hi))));
}

vec2 c_sinh(vec2 z) {
  if (m_iszero(z.y)) { return vec2(m_sinh(z.x), z.y); }
  if (m_iszero(z.x)) { return vec2(z.x, m_sin(z.y)); }
  float a = m_abs(z.x);
  if (a > 80.0) { // also infinities and NaN of y through sin and cos
    vec2 e = c_exp_polar(a, z.y, 1);
    return vec2(m_signbit(z.x) ? m_neg(e.x) : e.x, e.y);
  }
  return vec2(m_sinh(z.x) * m_cos(z.y), m_cosh(z.x) * m_sin(z.y));
}

vec2 c_cosh(vec2 z) {
  if (m_iszero(z.y)) { return vec2(m_cosh(z.x), m_signbit(z.x) ? m_neg(z.y) : z.y); }
  if (m_iszero(z.x)) { return vec2(m_cos(z.y), m_signbit(z.y) ? m_neg(z.x) : z.x); }
  float a = m_abs(z.x);
  if (a > 80.0) {
    vec2 e = c_exp_polar(a, z.y, 1);
    return vec2(e.x, m_signbit(z.x) ? m_neg(e.y) : e.y);
  }
  return vec2(m_cosh(z.x) * m_cos(z.y), m_sinh(z.x) * m_sin(z.y));
}

// Kahan, "Branch cuts for complex elementary functions" (1987), CTANH.
vec2 c_tanh(vec2 z) {
  if (m_iszero(z.y)) { return vec2(m_tanh(z.x), z.y); }
  float a = m_abs(z.x);
  if (a > 11.0) {
    float s = (m_isinf(z.x) && (m_isinf(z.y) || m_isnan(z.y))) ? m_copysign(0.0, z.y)
      : 4.0 * (m_sin(z.y) * m_cos(z.y)) * m_exp(-2.0 * a);
    return vec2(m_copysign(1.0, z.x), s);
  }
  float t = m_tan(z.y);
  float s = m_sinh(z.x);
  float b = 1.0 + t * t;
  float d = 1.0 + b * s * s;
  float rho = m_sqrt(1.0 + s * s);
  return vec2(m_div(b * rho * s, d), m_div(t, d));
}

// Rotations by the imaginary unit: i z and z / i.
vec2 c_times_i(vec2 z) { return vec2(m_neg(z.y), z.x); }
vec2 c_over_i(vec2 z) { return vec2(z.y, m_neg(z.x)); }

// sin z = -i sinh(i z), cos z = cosh(i z), tan z = -i tanh(i z).
vec2 c_sin(vec2 z) { return c_over_i(c_sinh(c_times_i(z))); }
vec2 c_cos(vec2 z) { return c_cosh(c_times_i(z)); }
vec2 c_tan(vec2 z) { return c_over_i(c_tanh(c_times_i(z))); }

// Kahan (1987), CASIN and CACOS; beyond 2^30 the logarithm alone is left.
vec2 c_asin(vec2 z) {
  if (c_isnan(z)) { return vec2(m_nan(), m_nan()); }
  if (max(m_abs_bits(z.x), m_abs_bits(z.y)) > 0x4E800000u) {
    return vec2(m_atan2(z.x, m_abs(z.y)), m_copysign(c_log(z).x + M_LN2_H24, z.y));
  }
  vec2 p = c_sqrt(vec2(1.0 - z.x, m_neg(z.y)));
  vec2 q = c_sqrt(vec2(1.0 + z.x, z.y));
  float re = m_atan2(z.x, m_dot2(p.x, q.x, -p.y, q.y));
  float im = m_asinh(m_dot2(p.x, q.y, -p.y, q.x));
  return vec2(re, m_copysign(im, z.y));
}

vec2 c_acos(vec2 z) {
  if (c_isnan(z)) { return vec2(m_nan(), m_nan()); }
  if (max(m_abs_bits(z.x), m_abs_bits(z.y)) > 0x4E800000u) {
    return vec2(m_atan2(m_abs(z.y), z.x), m_copysign(c_log(z).x + M_LN2_H24, m_neg(z.y)));
  }
  vec2 p = c_sqrt(vec2(1.0 - z.x, m_neg(z.y)));
  vec2 q = c_sqrt(vec2(1.0 + z.x, z.y));
  float re = 2.0 * m_atan2(p.x, q.x);
  float im = m_asinh(m_dot2(q.x, p.y, -q.y, p.x));
  return vec2(re, m_copysign(im, m_neg(z.y)));
}

// re = log1p(4x / ((1 - x)^2 + y^2)) / 4, im = atan2(2y, (1 - x)(1 + x) - y^2) / 2, for x >= 0.
vec2 c_atanh(vec2 z) {
  if (c_isnan(z)) { return vec2(m_nan(), m_nan()); }
  if (max(m_abs_bits(z.x), m_abs_bits(z.y)) > 0x4E800000u) {
    return vec2(m_copysign(m_abs(c_isinf(z) ? 0.0 : c_recip(z).x), z.x), m_copysign(M_PIO2_H, z.y));
  }
  float x = m_abs(z.x);
  precise float d = 1.0 - x;
  float n = m_dot2(d, d, z.y, z.y);
  float im = 0.5 * m_atan2(2.0 * z.y, m_dot2(d, 1.0 + x, -z.y, z.y));
  // A negative real argument mirrors z: the imaginary part of an odd function keeps its sign.
  return vec2(m_copysign(0.25 * m_log1p(m_div(4.0 * x, n)), z.x), m_copysign(im, z.y));
}

vec2 c_asinh(vec2 z) { return c_over_i(c_asin(c_times_i(z))); }
vec2 c_atan(vec2 z) { return c_over_i(c_atanh(c_times_i(z))); }
vec2 c_acosh(vec2 z) {
  vec2 a = c_acos(z);
  return m_signbit(a.y) ? c_times_i(a) : c_over_i(a);
}

// exp(z) - 1 = expm1(x) cos y - 2 sin^2(y/2) + i exp(x) sin y.
vec2 c_expm1(vec2 z) {
  if (m_iszero(z.y)) { return vec2(m_expm1(z.x), z.y); }
  if (m_abs(z.x) > 40.0 || c_isnan(z) || c_isinf(z)) {
    vec2 e = c_exp(z);
    return vec2(e.x - 1.0, e.y);
  }
  float h = m_sin(0.5 * z.y);
  return vec2(m_dot2(m_expm1(z.x), m_cos(z.y), -2.0 * h, h), m_exp(z.x) * m_sin(z.y));
}

// 1 / (1 + exp(-z)) = exp(z/2) / (2 cosh(z/2)), which stays accurate next to the poles.
vec2 c_sigmoid(vec2 z) {
  if (z.x > 17.0) { // 1 - exp(-z)
    vec2 e = c_exp(c_neg(z));
    return vec2(1.0 - e.x, m_neg(e.y));
  }
  if (z.x < -17.0) { return c_exp(z); }
  vec2 h = vec2(0.5 * z.x, 0.5 * z.y);
  vec2 c = c_cosh(h);
  return c_div(c_exp(h), vec2(2.0 * c.x, 2.0 * c.y));
}

// z^w = exp(w log z). 0^0 = 1; 0^w = 0 for a positive real part, else NaN. The products with log|z|
// are compensated, the angle is a single float: relative error about (1 + |w|) 2^-23.
vec2 c_pow(vec2 z, vec2 w) {
  if (c_iszero(w)) { return vec2(1.0, 0.0); }
  if (c_isnan(z) || c_isnan(w)) { return vec2(m_nan(), m_nan()); }
  if (c_iszero(z)) {
    return w.x > 0.0 ? vec2(0.0, 0.0) : vec2(m_nan(), m_nan());
  }
  if (m_bits(w.x) == M_ONE && m_iszero(w.y)) { return z; }
  if (c_isinf(z) || c_isinf(w)) { return c_exp(c_mul(w, c_log(z))); }
  vec2 l = c_log_abs(z);
  float a = c_arg(z);
  float re = m_dot2(w.x, l.x, -w.y, a) + w.x * l.y;
  float im = m_dot2(w.x, a, w.y, l.x) + w.y * l.y;
  return c_exp(vec2(re, im));
}
