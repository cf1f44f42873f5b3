// Division and square roots, correctly rounded.
// Part of math.glsl, which has the conventions.

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
