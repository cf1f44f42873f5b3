// Logarithms, powers and inverse hyperbolic functions.
// Part of math.glsl, which has the conventions.

// log(uh + ul) as a pair, for finite uh > 0 (relative error about 2^-27, also next to 1).
vec2 m_log_pair(float uh, float ul) {
  int k;
  float m = m_norm(m_bits(uh), k);
  if (m > 1.41421354) {
    m *= 0.5;
    k += 1;
  }
  precise float g = m - 1.0; // exact
  vec2 f = m_two_sum(g, m_scalbn(ul, -k));
  float x = f.x;
  float p = (((((((0.067331478 * x - 0.116614901) * x + 0.118865848) * x - 0.124081165) * x
    + 0.142201841) * x - 0.166678563) * x + 0.200020745) * x - 0.250000119) * x + 0.333333135;
  vec2 z = m_two_prod(x, x);
  float c = x * z.x * p + (f.y - f.y * x);
  vec2 s = m_fast_sum(x, -0.5 * z.x);
  precise float hzl = 0.5 * z.y;
  precise float d = s.y - hzl;
  precise float l = d + c;
  precise float kh = float(k) * M_LN2_H; // exact
  precise float kl = float(k) * M_LN2_L;
  vec2 t = m_two_sum(kh, s.x);
  precise float l1 = l + kl;
  precise float l2 = t.y + l1;
  return m_fast_sum(t.x, l2);
}

// log of a zero, a negative number, an infinity or a NaN.
float m_log_special(float x) {
  if (m_iszero(x)) { return uintBitsToFloat(M_INF | M_SIGN); }
  return m_bits(x) == M_INF ? x : m_nan();
}

bool m_is_positive_finite(float x) { return m_bits(x) - 1u < M_INF - 1u; }

// max 0.64 ULP.
float m_log(float x) {
  if (!m_is_positive_finite(x)) { return m_log_special(x); }
  return m_log_pair(x, 0.0).x;
}

// max 0.68 ULP.
float m_log2(float x) {
  if (!m_is_positive_finite(x)) { return m_log_special(x); }
  vec2 l = m_log_pair(x, 0.0);
  vec2 y = m_mul2(l.x, l.y, M_LOG2E_H, M_LOG2E_L);
  return y.x + y.y;
}

// max 0.62 ULP.
float m_log10(float x) {
  if (!m_is_positive_finite(x)) { return m_log_special(x); }
  vec2 l = m_log_pair(x, 0.0);
  vec2 y = m_mul2(l.x, l.y, M_LOG10E_H, M_LOG10E_L);
  return y.x + y.y;
}

// max 0.64 ULP.
float m_log1p(float x) {
  uint ix = m_abs_bits(x);
  if (ix > M_INF) { return m_nan(); }
  if (ix < 0x33000000u) { return x; } // |x| < 2^-25
  if (x <= -1.0) { return x == -1.0 ? uintBitsToFloat(M_INF | M_SIGN) : m_nan(); }
  if (ix == M_INF) { return x; }
  vec2 u = m_two_sum(1.0, x);
  return m_log_pair(u.x, u.y).x;
}

// log(exp(a) + exp(b)). Next to a zero of the result (both terms negative) the error is relative
// to max(|a|, |b|) (about 2^-27); elsewhere max 1.01 ULP. Where denormals are flushed, an error of
// 2^-126 adds to it.
float m_logaddexp(float a, float b) {
  if (m_isnan(a) || m_isnan(b)) { return m_nan(); }
  bool swap = a < b;
  float hi = swap ? b : a;
  float lo = swap ? a : b;
  if (m_isinf(hi) || m_isinf(lo)) { return hi; }
  vec2 d = m_two_sum(lo, -hi);
  if (d.x < -104.0) { return m_iszero(hi) ? 0.0 : hi; }
  int n;
  vec2 e = m_exp2n(d.x, d.y, n);
  precise float eh = m_scalbn(e.x, n);
  precise float el = m_scalbn(e.y, n);
  vec2 u = m_two_sum(1.0, eh);
  precise float ul = u.y + el;
  vec2 l = m_log_pair(u.x, ul);
  vec2 s = m_two_sum(hi, l.x);
  precise float t = s.y + l.y;
  precise float y = s.x + t;
  return y;
}

// log(x) as a pair with a relative error about 2^-36, for pow: with s = (m - 1) / (m + 1),
// log m = 2 s + s z (2/3 + z Q(z)), z = s^2.
vec2 m_log_wide(float ax) {
  int k;
  float m = m_norm(m_bits(ax), k);
  if (m > 1.41421354) {
    m *= 0.5;
    k += 1;
  }
  precise float g = m - 1.0; // exact
  vec2 d = m_two_sum(m, 1.0);
  vec2 s = m_div2(g, 0.0, d.x, d.y);
  vec2 z = m_mul2(s.x, s.y, s.x, s.y);
  float q = z.x * ((0.234194025 * z.x + 0.285470963) * z.x + 0.400001526);
  vec2 w = m_fast_sum(0.666666687, q);
  precise float wl = w.y - 1.98682155e-08;
  vec2 c = m_mul2(z.x, z.y, w.x, wl);
  vec2 t = m_mul2(s.x, s.y, c.x, c.y);
  vec2 a = m_fast_sum(2.0 * s.x, t.x);
  precise float tl = 2.0 * s.y + t.y;
  precise float l0 = a.y + tl;
  precise float kh = float(k) * M_LN2_H; // exact
  precise float kl = float(k) * M_LN2_L;
  vec2 b = m_two_sum(kh, a.x);
  precise float l1 = l0 + kl;
  precise float l2 = b.y + l1;
  return m_fast_sum(b.x, l2);
}

// 0: not an integer, 1: odd, 2: even (infinities count as even).
int m_parity(float y) {
  uint iy = m_abs_bits(y);
  if (iy >= 0x4B800000u) { return 2; }
  if (iy < 0x3F800000u) { return iy == 0u ? 2 : 0; }
  uint shift = 150u - (iy >> 23); // 0..23 fraction bits
  uint sig = (iy & 0x007FFFFFu) | 0x00800000u;
  if ((sig & ((1u << shift) - 1u)) != 0u) { return 0; }
  return ((sig >> shift) & 1u) != 0u ? 1 : 2;
}

// Whether y is 3, as activations have it, and neither x^3 nor what its roundings lose is denormal, or
// infinite.
bool m_is_cubed(float x, float y) {
  uint ix = m_abs_bits(x);
  return y == 3.0 && (ix == 0u || ix - 0x30800000u < 0x23000000u); // from 2^-30 to 2^40
}

// x^3 where that holds. max 0.51 ULP.
float m_cube(float x) {
  vec2 s = m_two_prod(x, x);
  vec2 c = m_two_prod(s.x, x);
  precise float t = s.y * x;
  precise float l = c.y + t;
  precise float y = c.x + l;
  return m_iszero(x) ? x : y;
}

// C99 pow with all its special cases. max 0.65 ULP.
float m_pow(float x, float y) {
  uint ix = m_abs_bits(x);
  uint iy = m_abs_bits(y);
  if (iy == 0u || m_bits(x) == M_ONE) { return 1.0; }
  if (ix > M_INF || iy > M_INF) { return m_nan(); }
  bool yneg = m_signbit(y);
  int parity = m_parity(y);
  uint sign = (parity == 1) ? (m_bits(x) & M_SIGN) : 0u;
  if (iy == M_INF) {
    if (ix == M_ONE) { return 1.0; }
    return ((ix > M_ONE) != yneg) ? uintBitsToFloat(M_INF) : 0.0;
  }
  if (ix == 0u || ix == M_INF) {
    return uintBitsToFloat(sign | (((ix == 0u) == yneg) ? M_INF : 0u));
  }
  if (m_signbit(x) && parity == 0) { return m_nan(); }
  vec2 l = m_log_wide(m_abs(x));
  precise float est = y * l.x;
  if (est > 89.0) { return uintBitsToFloat(sign | M_INF); }
  if (est < -104.5) { return uintBitsToFloat(sign); }
  vec2 p = m_two_prod(y, l.x);
  precise float yl = y * l.y;
  precise float pl = p.y + yl;
  int n;
  vec2 e = m_exp2n(p.x, pl, n);
  return uintBitsToFloat(floatBitsToUint(m_scalbn(e.x, n)) | sign);
}

// max 0.59 ULP.
float m_asinh(float x) {
  uint ix = m_abs_bits(x);
  if (ix >= M_INF) { return ix == M_INF ? x : m_nan(); }
  if (ix < 0x39800000u) { return x; } // |x| < 2^-12
  float a = m_abs(x);
  if (a < 0.5) {
    float z = x * x;
    float p = (((((-0.00801152084 * z + 0.016145248) * z - 0.0223623309) * z + 0.0304147117) * z
      - 0.0446477383) * z + 0.0750002712) * z - 0.166666672;
    precise float t = x * z * p;
    precise float y0 = x + t;
    return y0;
  }
  if (a > 16384.0) {
    // log(2a) = log(a) + ln 2
    vec2 l = m_log_pair(a, 0.0);
    vec2 s = m_two_sum(l.x, M_LN2_H24);
    precise float sl = s.y + l.y;
    precise float y1 = s.x + sl;
    return m_copysign(y1, x);
  }
  // log(a + sqrt(a^2 + 1))
  vec2 p = m_two_prod(a, a);
  vec2 h = m_two_sum(p.x, 1.0);
  precise float hl = h.y + p.y;
  vec2 s = m_sqrt2(h.x, hl);
  vec2 u = m_fast_sum(s.x, a);
  precise float ul = u.y + s.y;
  return m_copysign(m_log_pair(u.x, ul).x, x);
}

// max 0.63 ULP.
float m_acosh(float x) {
  uint u = m_bits(x);
  if (u < M_ONE || u > M_INF) { return m_nan(); } // below 1, negative or NaN
  if (u == M_INF) { return x; }
  if (x > 16384.0) {
    vec2 l = m_log_pair(x, 0.0);
    vec2 s = m_two_sum(l.x, M_LN2_H24);
    precise float sl = s.y + l.y;
    precise float y1 = s.x + sl;
    return y1;
  }
  // log(x + sqrt(x^2 - 1)) = log(1 + t), t = (x - 1) + sqrt(x^2 - 1)
  vec2 p = m_two_prod(x, x);
  vec2 h = m_two_sum(p.x, -1.0);
  precise float hl = h.y + p.y;
  vec2 g = m_two_sum(h.x, hl);
  vec2 s = m_sqrt2(g.x, g.y);
  vec2 w = m_two_sum(s.x, x);
  precise float wl = w.y + s.y;
  return m_log_pair(w.x, wl).x;
}

// max 0.71 ULP.
float m_atanh(float x) {
  uint ix = m_abs_bits(x);
  if (ix > M_ONE) { return m_nan(); }
  if (ix == M_ONE) { return m_signed_inf(x); }
  if (ix < 0x39800000u) { return x; } // |x| < 2^-12
  float a = m_abs(x);
  if (a < 0.5) {
    float z = x * x;
    float p = (((((0.179122001 * z + 0.0216367524) * z + 0.103862807) * z + 0.109485731) * z
      + 0.142965868) * z + 0.199996501) * z + 0.333333373;
    precise float t = x * z * p;
    precise float y0 = x + t;
    return y0;
  }
  // log((1 + a) / (1 - a)) / 2
  precise float d = 1.0 - a; // exact
  vec2 s = m_fast_sum(1.0, a);
  vec2 q = m_div2(s.x, s.y, d, 0.0);
  return m_copysign(0.5 * m_log_pair(q.x, q.y).x, x);
}
