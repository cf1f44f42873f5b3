// The two ends of a transform. Needs common.glsl, fft_root.glsl and the constant FLAGS.
// 0: complex, 1: real, 2: the first half of conjugate-symmetric elements.
const uint IN_MODE = FLAGS & 3u;
const uint OUT_MODE = (FLAGS >> 2) & 3u;  // 0: complex, 1: the first half, 2: real

// Bytes of an element.
const int64_t IN_BYTES = IN_MODE == 1u ? 4l : 8l;
const int64_t OUT_BYTES = OUT_MODE == 2u ? 4l : 8l;

// Element j of `total` of a line that begins at an address, its elements `unit` bytes apart.
vec2 load_element(uint64_t line, int64_t unit, uint j, uint total) {
    if (IN_MODE == 0u) return AT_F2(line + int64_t(j) * unit, 0u);
    if (IN_MODE == 1u) return vec2(AT_F32(line + int64_t(j) * unit, 0u), 0.0);
    bool mirrored = j > total / 2u;
    vec2 z = AT_F2(line + int64_t(mirrored ? total - j : j) * unit, 0u);
    if (mirrored) z.y = -z.y;
    if (j == 0u || j * 2u == total) z.y = 0.0; // real by symmetry
    return z;
}

void store_element(uint64_t line, int64_t unit, uint k, uint total, vec2 z) {
    if (OUT_MODE == 2u) AT_F32(line + int64_t(k) * unit, 0u) = z.x;
    else if (OUT_MODE == 0u || k <= total / 2u) AT_F2(line + int64_t(k) * unit, 0u) = z;
}
