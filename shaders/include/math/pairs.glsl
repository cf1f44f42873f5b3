// Pairs: sums and products without an error, and arithmetic on unevaluated sums of two float32.
// Part of math.glsl, which has the conventions.

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
