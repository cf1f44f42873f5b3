// The two ends of a transform. Needs common.glsl, fft_root.glsl and the constant FLAGS.
const uint IN_MODE = FLAGS & 3u;          // 0: complex, 1: real, 2: the first half of conjugate-symmetric elements
const uint OUT_MODE = (FLAGS >> 2) & 3u;  // 0: complex, 1: the first half, 2: real

// Element j of `total` of a line that begins at element `first`, its elements `unit` apart.
vec2 load_element(uint64_t source, int64_t first, int64_t unit, uint64_t j, uint64_t total) {
    vec2 z;
    if (IN_MODE == 1u) {
        z = vec2(AT_F32(source, first + int64_t(j) * unit), 0.0);
    } else if (IN_MODE == 2u) {
        bool mirrored = j > total / 2ul;
        z = AT_F2(source, first + int64_t(mirrored ? total - j : j) * unit);
        if (mirrored) z.y = -z.y;
        if (j == 0ul || j * 2ul == total) z.y = 0.0; // real by symmetry
    } else {
        z = AT_F2(source, first + int64_t(j) * unit);
    }
    return z;
}

void store_element(uint64_t destination, int64_t first, int64_t unit, uint64_t k, uint64_t total, vec2 z) {
    if (OUT_MODE == 2u) AT_F32(destination, first + int64_t(k) * unit) = z.x;
    else if (OUT_MODE == 0u || k <= total / 2ul) AT_F2(destination, first + int64_t(k) * unit) = z;
}
