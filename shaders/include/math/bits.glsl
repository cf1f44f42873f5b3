// Bits of float32: constants, kinds of numbers, exact scaling by powers of two.
// Part of math.glsl, which has the conventions.

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
