// Trigonometric functions with exact reduction of large arguments, and their inverses.
// Part of math.glsl, which has the conventions.

// The bits of 2/pi after 26 zero bits (Payne and Hanek).
const uint M_TWO_OVER_PI[7] = {
  0x00000028u, 0xBE60DB93u, 0x91054A7Fu, 0x09D5F47Du, 0x4D377036u,
  0xD8A5664Fu, 0x10E4107Fu
};

// Word of 32 bits that starts at bit p of the table.
uint m_two_over_pi_word(uint p) {
  uint i = p >> 5;
  uint s = p & 31u;
  uint hi = M_TWO_OVER_PI[i];
  return s == 0u ? hi : (hi << s) | (M_TWO_OVER_PI[i + 1u] >> (32u - s));
}

// a = q pi/2 + (h + l) for finite a >= 1/2, in integer arithmetic: the significand times 96 bits of
// 2/pi, as a fraction of 94 bits below two quadrant bits.
int m_payne_hanek(float a, out vec2 r) {
  uint u = m_bits(a);
  uint m = (u & 0x007FFFFFu) | 0x00800000u;
  uint p = (u >> 23) - 126u; // exponent of the unit of m, plus 24
  uint w2 = m_two_over_pi_word(p);
  uint w1 = m_two_over_pi_word(p + 32u);
  uint w0 = m_two_over_pi_word(p + 64u);
  uint h0, l0, h1, l1, c;
  umulExtended(m, w0, h0, l0);
  umulExtended(m, w1, h1, l1);
  uint f1 = uaddCarry(l1, h0, c);
  uint f2 = m * w2 + h1 + c;
  uint f0 = l0;
  uint q = (f2 + 0x20000000u) >> 30;
  f2 -= q << 30;
  bool neg = (f2 & M_SIGN) != 0u;
  if (neg) { // negate 96 bits
    f0 = ~f0 + 1u;
    f1 = ~f1 + (f0 == 0u ? 1u : 0u);
    f2 = ~f2 + (f0 == 0u && f1 == 0u ? 1u : 0u);
  }
  int e = 0; // the fraction is (f2 f1) * 2^(-62 - e)
  if (f2 == 0u) {
    f2 = f1;
    f1 = f0;
    f0 = 0u;
    e = 32;
  }
  uint s = uint(31 - findMSB(f2));
  if (s != 0u) {
    f2 = (f2 << s) | (f1 >> (32u - s));
    f1 = (f1 << s) | (f0 >> (32u - s));
    e += int(s);
  }
  // 24 + 24 bits, both exact
  float hi = float(f2 >> 8) * m_pow2(-22 - e);
  float lo = float(((f2 & 0xFFu) << 16) | (f1 >> 16)) * m_pow2(-46 - e);
  vec2 t = m_mul2(hi, lo, M_PIO2_H, M_PIO2_L);
  t = m_fast_sum(t.x, t.y);
  r = neg ? vec2(-t.x, -t.y) : t;
  return int(q);
}

// x = q pi/2 + (h + l) for finite x; only the low two bits of q count.
int m_trig_reduce(float x, out vec2 r) {
  uint ix = m_abs_bits(x);
  if (ix < 0x3F490FDBu) { // pi/4
    r = vec2(x, 0.0);
    return 0;
  }
  if (ix < 0x46000000u) { // 8192: Cody and Waite, n has 13 bits and the first parts 11
    precise float t = x * 0.636619747;
    precise float n = floor(t + 0.5);
    precise float n1 = n * 1.5703125;
    precise float n2 = n * 0.000483751297;
    precise float d1 = x - n1; // exact
    precise float d2 = d1 - n2; // exact
    vec2 p = m_two_prod(n, 7.54979013e-08);
    precise float n4 = n * -1.71512451e-15;
    vec2 s = m_two_sum(d2, -p.x);
    precise float l0 = p.y + n4;
    precise float l = s.y - l0;
    r = m_fast_sum(s.x, l);
    return int(n);
  }
  int q = m_payne_hanek(m_abs(x), r);
  if (m_signbit(x)) {
    r = vec2(-r.x, -r.y);
    q = -q;
  }
  return q;
}

// sin(h + l) for |h| <= pi/4.
float m_sin_kernel(vec2 r) {
  float z = r.x * r.x;
  float p = ((2.80054428e-06 * z - 0.00019849911) * z + 0.00833337195) * z - 0.166666672;
  precise float t = r.x * z * p + (r.y - 0.5 * z * r.y);
  precise float y = r.x + t;
  return y;
}

// cos(h + l) for |h| <= pi/4.
float m_cos_kernel(vec2 r) {
  float z = r.x * r.x;
  float p = (2.44325638e-05 * z - 0.00138873106) * z + 0.0416666456;
  precise float hz = 0.5 * z;
  vec2 w = m_fast_sum(1.0, -hz);
  precise float t = z * z * p - r.x * r.y;
  precise float l = w.y + t;
  precise float y = w.x + l;
  return y;
}

// max 0.78 ULP.
float m_sin(float x) {
  uint ix = m_abs_bits(x);
  if (ix >= M_INF) { return m_nan(); }
  if (ix < 0x39800000u) { return x; } // |x| < 2^-12
  vec2 r;
  int q = m_trig_reduce(x, r);
  float y = (q & 1) != 0 ? m_cos_kernel(r) : m_sin_kernel(r);
  return (q & 2) != 0 ? -y : y;
}

// max 0.79 ULP.
float m_cos(float x) {
  uint ix = m_abs_bits(x);
  if (ix >= M_INF) { return m_nan(); }
  if (ix < 0x39800000u) { return 1.0; } // |x| < 2^-12
  vec2 r;
  int q = m_trig_reduce(x, r) + 1;
  float y = (q & 1) != 0 ? m_cos_kernel(r) : m_sin_kernel(r);
  return (q & 2) != 0 ? -y : y;
}

// max 1.32 ULP.
float m_tan(float x) {
  uint ix = m_abs_bits(x);
  if (ix >= M_INF) { return m_nan(); }
  if (ix < 0x39800000u) { return x; } // |x| < 2^-12
  vec2 r;
  int q = m_trig_reduce(x, r);
  float z = r.x * r.x;
  float p = (((((0.00437041372 * z + 0.000102860875) * z + 0.0108238589) * z + 0.0212875344) * z
    + 0.0540586822) * z + 0.133326769) * z + 0.333333492;
  precise float t = r.x * z * p + (r.y + z * r.y);
  vec2 s = m_fast_sum(r.x, t);
  if ((q & 1) == 0) { return s.x; }
  return m_div2(-1.0, 0.0, s.x, s.y).x;
}

// asin(x) / x - 1 from z = x^2 <= 1/4.
float m_asin_tail(float z) {
  return ((((0.042157013 * z + 0.0241855029) * z + 0.0454690196) * z + 0.0749531016) * z
    + 0.166667521) * z;
}

// asin(sqrt(z)) as a pair, for 0 <= z <= 1/4.
vec2 m_asin_sqrt(float z) {
  vec2 s = m_sqrt2(z, 0.0);
  precise float t = s.x * m_asin_tail(z);
  precise float l = s.y + t;
  return vec2(s.x, l);
}

// max 0.70 ULP.
float m_asin(float x) {
  uint ix = m_abs_bits(x);
  if (ix > M_ONE) { return m_nan(); }
  if (ix < 0x39800000u) { return x; } // |x| < 2^-12
  float a = m_abs(x);
  if (a < 0.5) {
    precise float t = x * m_asin_tail(x * x);
    precise float y0 = x + t;
    return y0;
  }
  // pi/2 - 2 asin(sqrt((1 - a) / 2))
  vec2 s = m_asin_sqrt(0.5 - 0.5 * a);
  vec2 h = m_fast_sum(M_PIO2_H, -2.0 * s.x);
  precise float l0 = M_PIO2_L - 2.0 * s.y;
  precise float l = h.y + l0;
  precise float y = h.x + l;
  return m_copysign(y, x);
}

// max 0.68 ULP.
float m_acos(float x) {
  uint ix = m_abs_bits(x);
  if (ix > M_ONE) { return m_nan(); }
  float a = m_abs(x);
  if (a < 0.5) {
    vec2 h = m_fast_sum(M_PIO2_H, -x);
    precise float t = x * m_asin_tail(x * x);
    precise float l0 = M_PIO2_L - t;
    precise float l = h.y + l0;
    precise float y0 = h.x + l;
    return y0;
  }
  vec2 s = m_asin_sqrt(0.5 - 0.5 * a);
  if (!m_signbit(x)) { return 2.0 * (s.x + s.y); }
  vec2 h = m_fast_sum(M_PI_H, -2.0 * s.x);
  precise float l0 = M_PI_L - 2.0 * s.y;
  precise float l = h.y + l0;
  precise float y = h.x + l;
  return y;
}

// atan(x) for 0 <= x <= 1.
float m_atan_kernel(float x) {
  float z = x * x;
  float p = (((((((-0.001791502 * z + 0.0109045366) * z - 0.0311577655) * z + 0.0579358004) * z
    - 0.0840205625) * z + 0.109516546) * z - 0.142641261) * z + 0.199985355) * z - 0.333332986;
  precise float t = x * z * p;
  precise float y = x + t;
  return y;
}

// max 1.49 ULP.
float m_atan(float x) {
  uint ix = m_abs_bits(x);
  if (ix > M_INF) { return m_nan(); }
  if (ix < 0x39800000u) { return x; } // |x| < 2^-12
  float a = m_abs(x);
  if (ix <= M_ONE) { return m_copysign(m_atan_kernel(a), x); }
  if (ix > 0x4D000000u) { return m_copysign(M_PIO2_H, x); } // |x| > 2^27
  precise float t = m_atan_kernel(m_quot(1.0, a)) - M_PIO2_L;
  precise float y = M_PIO2_H - t;
  return m_copysign(y, x);
}

// C99 atan2 with all its special cases. max 1.55 ULP.
float m_atan2(float y, float x) {
  uint iy = m_abs_bits(y);
  uint ix = m_abs_bits(x);
  if (iy > M_INF || ix > M_INF) { return m_nan(); }
  bool back = m_signbit(x);
  if (iy == 0u || (ix == M_INF && iy != M_INF)) { return m_copysign(back ? M_PI_H : 0.0, y); }
  if (ix == 0u || (iy == M_INF && ix != M_INF)) { return m_copysign(M_PIO2_H, y); }
  if (iy == M_INF) { return m_copysign(back ? 2.35619449 : 0.785398185, y); }
  bool steep = iy > ix;
  float lo = uintBitsToFloat(min(iy, ix));
  float hi = uintBitsToFloat(max(iy, ix));
  precise float t = m_atan_kernel(m_div(lo, hi));
  if (steep) {
    precise float t1 = t - M_PIO2_L;
    t = M_PIO2_H - t1;
  }
  if (back) {
    precise float t2 = t - M_PI_L;
    t = M_PI_H - t2;
  }
  return m_copysign(t, y);
}
