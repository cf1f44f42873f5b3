// The two ends of a transform. Needs common.glsl, fft_root.glsl and the constant FLAGS.
// What an end holds; the half is the first one of conjugate-symmetric elements. [host]
const uint COMPLEX_END = 0, REAL_END = 1, HALF_END = 2;
// Where FLAGS say so of the source and of the destination. [host]
const uint IN_SHIFT = 0, OUT_SHIFT = 2;
const uint IN_END = (FLAGS >> IN_SHIFT) & 3u, OUT_END = (FLAGS >> OUT_SHIFT) & 3u;

// Bytes of an element.
const int64_t IN_BYTES = IN_END == REAL_END ? 4l : 8l;
const int64_t OUT_BYTES = OUT_END == REAL_END ? 4l : 8l;

// Element j of `total` of a line that begins at an address, its elements `unit` bytes apart.
vec2 load_element(uint64_t line, int64_t unit, uint j, uint total) {
    if (IN_END == COMPLEX_END) return AT_F2(line + int64_t(j) * unit, 0u);
    if (IN_END == REAL_END) return vec2(AT_F32(line + int64_t(j) * unit, 0u), 0.0);
    bool mirrored = j > total / 2u;
    vec2 z = AT_F2(line + int64_t(mirrored ? total - j : j) * unit, 0u);
    if (mirrored) z.y = -z.y;
    if (j == 0u || j * 2u == total) z.y = 0.0; // real by symmetry
    return z;
}

void store_element(uint64_t line, int64_t unit, uint k, uint total, vec2 z) {
    if (OUT_END == REAL_END) AT_F32(line + int64_t(k) * unit, 0u) = z.x;
    else if (OUT_END == COMPLEX_END || k <= total / 2u) AT_F2(line + int64_t(k) * unit, 0u) = z;
}
