// Conversions between float32 and the 16-bit formats, by bits.
// Part of math.glsl, which has the conventions.

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
