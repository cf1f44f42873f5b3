// float32 elementwise mathematics for compute shaders.
//
// Vulkan leaves the built-in functions loose: sin and cos may be off by 2^-11, exp, log and pow
// by many ULP, division by 2.5 ULP, and contraction to fma is allowed wherever `precise` is
// absent. The functions here rely only on +, -, *, floor, integer operations and (as starting
// values that are then corrected) on /, sqrt and inversesqrt within their Vulkan error bounds.
//
// Conventions
//  * Special values are recognised and built with integer operations: drivers may assume that
//    floats are never NaN, may drop signed zeros and may flush denormals.
//  * `precise` marks every operation whose exact rounding matters. A precise statement never
//    holds an inexact product next to a sum, so the same text also checks out as C++.
//  * A vec2 named as a pair (h, l) is the unevaluated sum h + l with |l| at most an ulp of h.
//  * "max N ULP" is the largest error measured against a higher-precision reference, in units in
//    the last place of the correctly rounded float32 result.
//
// Error-free transforms: Dekker, "A floating-point technique for extending the available
// precision", Numer. Math. 18 (1971); Knuth, TAOCP vol. 2, 4.2.2. Argument reduction: Cody and
// Waite, "Software Manual for the Elementary Functions" (1980); Payne and Hanek, "Radian
// reduction for trigonometric functions", SIGNUM Newsletter 18 (1983). The polynomials are this
// project's own minimax fits with float32 coefficients.

#ifndef MATH_GLSL
#define MATH_GLSL

// ---- bits -------------------------------------------------------------------------------------

const uint M_SIGN = 0x80000000u;
const uint M_ABS = 0x7FFFFFFFu;
const uint M_INF = 0x7F800000u;
const uint M_QNAN = 0x7FC00000u;
const uint M_ONE = 0x3F800000u;

// High and low float32 parts of constants.
const float M_LN2_H = 0.693145752; // 16 bits: exact times any exponent
const float M_LN2_L = 1.42860677e-06;
const float M_LN2_H24 = 0.693147182;
const float M_LN2_L24 = -1.90465421e-09;
const float M_LOG2E_H = 1.44269502;
const float M_LOG2E_L = 1.92596303e-08;
const float M_LOG10E_H = 0.434294492;
const float M_LOG10E_L = -1.010305e-08;
const float M_PIO2_H = 1.57079637;
const float M_PIO2_L = -4.37113883e-08;
const float M_PI_H = 3.14159274;
const float M_PI_L = -8.74227766e-08;

uint m_bits(float x) { return floatBitsToUint(x); }
uint m_abs_bits(float x) { return floatBitsToUint(x) & M_ABS; }
float m_float(uint u) { return uintBitsToFloat(u); }
float m_nan() { return uintBitsToFloat(M_QNAN); }
bool m_isnan(float x) { return m_abs_bits(x) > M_INF; }
bool m_isinf(float x) { return m_abs_bits(x) == M_INF; }
bool m_iszero(float x) { return m_abs_bits(x) == 0u; }
bool m_signbit(float x) { return (floatBitsToUint(x) & M_SIGN) != 0u; }
float m_abs(float x) { return uintBitsToFloat(floatBitsToUint(x) & M_ABS); }
float m_neg(float x) { return uintBitsToFloat(floatBitsToUint(x) ^ M_SIGN); }
float m_copysign(float x, float s) {
  return uintBitsToFloat((floatBitsToUint(x) & M_ABS) | (floatBitsToUint(s) & M_SIGN));
}
float m_signed_inf(float s) { return uintBitsToFloat(M_INF | (floatBitsToUint(s) & M_SIGN)); }

// 2^n for -126 <= n <= 127.
float m_pow2(int n) { return uintBitsToFloat(uint(n + 127) << 23); }

// x * 2^n for |n| <= 252: two factors, so that a denormal result is rounded once.
float m_scalbn(float x, int n) {
  int a = n >> 1;
  precise float t = x * m_pow2(a);
  precise float y = t * m_pow2(n - a);
  return y;
}

// Significand in [1, 2) and exponent of the positive finite number with the bits u.
float m_norm(uint u, out int e) {
  int s = 0;
  if (u < 0x00800000u) {
    s = 23 - findMSB(u);
    u <<= uint(s);
    e = -126 - s;
  } else {
    e = int(u >> 23) - 127;
  }
  return uintBitsToFloat((u & 0x007FFFFFu) | M_ONE);
}

// ---- pairs ------------------------------------------------------------------------------------

// a + b exactly (Knuth).
vec2 m_two_sum(float a, float b) {
  precise float s = a + b;
  precise float t = s - a;
  precise float u = s - t;
  precise float v = a - u;
  precise float w = b - t;
  precise float e = v + w;
  return vec2(s, e);
}

// a + b exactly for |a| >= |b| or a == 0 (Dekker).
vec2 m_fast_sum(float a, float b) {
  precise float s = a + b;
  precise float t = s - a;
  precise float e = b - t;
  return vec2(s, e);
}

// a * b exactly (Dekker), away from overflow and underflow. The factors are split by masking,
// 12 bits each, so the partial products are exact and contraction could not change them.
vec2 m_two_prod(float a, float b) {
  precise float p = a * b;
  float ah = uintBitsToFloat(floatBitsToUint(a) & 0xFFFFF000u);
  float bh = uintBitsToFloat(floatBitsToUint(b) & 0xFFFFF000u);
  precise float al = a - ah;
  precise float bl = b - bh;
  precise float hh = ah * bh;
  precise float hl = ah * bl;
  precise float lh = al * bh;
  precise float ll = al * bl;
  precise float e0 = hh - p;
  precise float e1 = e0 + hl;
  precise float e2 = e1 + lh;
  precise float e = e2 + ll;
  return vec2(p, e);
}

// Product of two pairs, not renormalised.
vec2 m_mul2(float ah, float al, float bh, float bl) {
  vec2 p = m_two_prod(ah, bh);
  return vec2(p.x, p.y + (ah * bl + al * bh));
}

// (ah + al) / (bh + bl) as a pair, for magnitudes away from the ends of the exponent range.
vec2 m_div2(float ah, float al, float bh, float bl) {
  precise float q = ah / bh;
  vec2 p = m_two_prod(q, bh);
  precise float r = ah - p.x;
  precise float s = r - p.y;
  precise float t = q * bl;
  precise float u = al - t;
  precise float v = s + u;
  precise float c = v / bh;
  return m_fast_sum(q, c);
}

// a / b in one rounding or nearly so, for magnitudes in [2^-47, 2^47].
float m_quot(float a, float b) { return m_div2(a, 0.0, b, 0.0).x; }

// sqrt(h + l) as a pair, for h = 0 or h in [2^-60, 2^120].
vec2 m_sqrt2(float h, float l) {
  precise float s = sqrt(h);
  if (m_iszero(h)) { return vec2(0.0, 0.0); }
  vec2 p = m_two_prod(s, s);
  precise float r = h - p.x;
  precise float t = r - p.y;
  precise float u = t + l;
  precise float v = 0.5 / s;
  precise float c = u * v;
  return m_fast_sum(s, c);
}

// ---- division, square roots -------------------------------------------------------------------

// a / b with every special case of IEEE 754. max 0.5 ULP (1 ULP for denormal results).
float m_div(float a, float b) {
  uint ia = m_abs_bits(a);
  uint ib = m_abs_bits(b);
  // Exponents in [-47, 46] need no scaling: not even the correction can underflow.
  if (ia - 0x28000000u < 0x2F000000u && ib - 0x28000000u < 0x2F000000u) { return m_quot(a, b); }
  uint sign = (m_bits(a) ^ m_bits(b)) & M_SIGN;
  if (ia > M_INF || ib > M_INF) { return m_nan(); }
  if (ia == M_INF || ib == 0u) {
    return (ib == M_INF || ia == 0u) ? m_nan() : uintBitsToFloat(sign | M_INF);
  }
  if (ib == M_INF || ia == 0u) { return uintBitsToFloat(sign); }
  int ea, eb;
  float ma = m_norm(ia, ea);
  float mb = m_norm(ib, eb);
  float q = m_scalbn(m_quot(ma, mb), clamp(ea - eb, -160, 130));
  return uintBitsToFloat(floatBitsToUint(q) | sign);
}

// max 0.501 ULP.
float m_sqrt(float x) {
  uint u = m_bits(x);
  if ((u & M_ABS) == 0u || u == M_INF) { return x; }
  if (u > M_INF) { return m_nan(); }
  int e;
  float m = m_norm(u, e);
  if ((e & 1) != 0) { m *= 2.0; }
  float s = m_sqrt2(m, 0.0).x;
  return uintBitsToFloat(floatBitsToUint(s) + (uint(e >> 1) << 23));
}

// 1 / sqrt(x); -0 gives -inf as in C. max 0.51 ULP.
float m_rsqrt(float x) {
  uint u = m_bits(x);
  if ((u & M_ABS) == 0u) { return m_signed_inf(x); }
  if (u > M_INF) { return m_nan(); }
  if (u == M_INF) { return 0.0; }
  int e;
  float m = m_norm(u, e);
  if ((e & 1) != 0) { m *= 2.0; }
  precise float s = inversesqrt(m);
  // Newton: s += s * (1 - m s^2) / 2 with the residual as exact as pairs make it.
  vec2 p = m_two_prod(s, s);
  vec2 q = m_two_prod(m, p.x);
  precise float r0 = 1.0 - q.x;
  precise float r1 = r0 - q.y;
  precise float t = m * p.y;
  precise float r = r1 - t;
  precise float hs = 0.5 * s;
  precise float c = hs * r;
  precise float y = s + c;
  return uintBitsToFloat(floatBitsToUint(y) - (uint(e >> 1) << 23));
}

// ---- exact remainders -------------------------------------------------------------------------

// C fmod: exact for every quotient, in integer arithmetic; 8 quotient bits per step.
float m_fmod(float x, float y) {
  uint ix = m_abs_bits(x);
  uint iy = m_abs_bits(y);
  uint sign = m_bits(x) & M_SIGN;
  if (ix >= M_INF || iy > M_INF || iy == 0u) { return m_nan(); }
  if (ix < iy) { return x; }
  int ex = max(int(ix >> 23), 1);
  int ey = max(int(iy >> 23), 1);
  uint mx = (ix & 0x007FFFFFu) | (ix >= 0x00800000u ? 0x00800000u : 0u);
  uint my = (iy & 0x007FFFFFu) | (iy >= 0x00800000u ? 0x00800000u : 0u);
  uint r = mx % my;
  int d = ex - ey;
  while (d > 0 && r != 0u) {
    int s = min(d, 8);
    r = (r << uint(s)) % my;
    d -= s;
  }
  if (r == 0u) { return uintBitsToFloat(sign); }
  // r * 2^(ey - 150), a denormal where the exponent runs out.
  int s = min(23 - findMSB(r), ey - 1);
  r <<= uint(s);
  uint biased = (r & 0x00800000u) != 0u ? uint(ey - s) : 0u;
  return uintBitsToFloat(sign | (biased << 23) | (r & 0x007FFFFFu));
}

// Python and MLX remainder: the sign of the divisor; a zero also takes the divisor's sign.
float m_remainder(float x, float y) {
  float r = m_fmod(x, y);
  if (m_isnan(r)) { return r; }
  if (m_iszero(r)) { return m_copysign(0.0, y); }
  precise float s = r + y;
  return m_signbit(r) != m_signbit(y) ? s : r;
}

// MLX floor_divide: the floor of the rounded quotient.
float m_floor_divide(float x, float y) {
  float q = m_div(x, y);
  // Integers, zeros, infinities and NaN pass; below 1 the sign of zero and flushing are explicit.
  uint iq = m_abs_bits(q);
  if (iq >= 0x4B000000u || iq == 0u) { return q; }
  // A select of -1 and 0 would do, but Mesa turns it into -float(bool), which is -0.
  if (iq < M_ONE) { return uintBitsToFloat((0u - (m_bits(q) >> 31)) & 0xBF800000u); }
  return floor(q);
}

// ---- exponentials -----------------------------------------------------------------------------

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

// ---- logarithms -------------------------------------------------------------------------------

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

// ---- trigonometry -----------------------------------------------------------------------------

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

// ---- error function ---------------------------------------------------------------------------

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

// ---- complex64 --------------------------------------------------------------------------------
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

// ---- 16-bit formats ---------------------------------------------------------------------------

// Round to nearest even; NaN stays NaN (quiet, payload truncated).
uint f32_to_bf16_bits(float x) {
  uint u = floatBitsToUint(x);
  if ((u & M_ABS) > M_INF) { return (u >> 16) | 0x40u; }
  return (u + 0x7FFFu + ((u >> 16) & 1u)) >> 16;
}

float bf16_bits_to_f32(uint h) { return uintBitsToFloat(h << 16); }

// Round to nearest even, with denormals; NaN stays NaN (quiet, payload truncated).
uint f32_to_f16_bits(float x) {
  uint u = floatBitsToUint(x);
  uint sign = (u >> 16) & 0x8000u;
  u &= M_ABS;
  if (u > M_INF) { return sign | 0x7E00u | ((u >> 13) & 0x01FFu); }
  if (u >= 0x477FF000u) { return sign | 0x7C00u; } // 65520 and above round to infinity
  if (u >= 0x38800000u) { // normal results: rebias the exponent by 112
    return sign | ((u - 0x38000000u + 0x0FFFu + ((u >> 13) & 1u)) >> 13);
  }
  if (u <= 0x33000000u) { return sign; } // 2^-25 and below round to zero
  uint m = (u & 0x007FFFFFu) | 0x00800000u;
  uint s = 126u - (u >> 23); // 14..24: the unit becomes 2^-24
  uint q = m >> s;
  uint rest = m & ((1u << s) - 1u);
  uint half_unit = 1u << (s - 1u);
  q += (rest > half_unit || (rest == half_unit && (q & 1u) != 0u)) ? 1u : 0u;
  return sign | q;
}

float f16_bits_to_f32(uint h) {
  uint sign = (h & 0x8000u) << 16;
  uint e = (h >> 10) & 31u;
  uint m = h & 0x03FFu;
  if (e == 31u) { return uintBitsToFloat(sign | M_INF | (m << 13)); }
  if (e != 0u) { return uintBitsToFloat(sign | ((e + 112u) << 23) | (m << 13)); }
  if (m == 0u) { return uintBitsToFloat(sign); }
  uint s = uint(10 - findMSB(m)); // normalise
  return uintBitsToFloat(sign | ((113u - s) << 23) | (((m << s) & 0x03FFu) << 13));
}

#endif
