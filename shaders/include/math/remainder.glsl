// Exact remainders, and the quotients that go with them.
// Part of math.glsl, which has the conventions.

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
