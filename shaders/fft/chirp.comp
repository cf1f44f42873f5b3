#version 460
// Bluestein's transform of any length n as a convolution of length m: what stands before, between and behind the
// transforms of length m (Bluestein, A linear filtering approach to the computation of discrete Fourier transform, 1970).
// Constants: 1 step, 2 FLAGS (fft_side.glsl). Steps: 0 elements times the chirp, filled up with zeros; 1 the chirp's
// conjugate, wrapped around; 2 the product of spectra, conjugated so that a forward transform inverts it; 3 the results.
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint STEP = 0;
layout(constant_id = 2) const uint FLAGS = 0;

#include "fft_root.glsl"
#include "fft_side.glsl"

// The walk goes over the lines: element offsets in what is strided, the source of step 0 or the destination of step 3.
layout(push_constant, scalar) uniform Push {
    uint64_t source, destination, spectrum, walk, count, n, m;
    uint64_t part; // 2^64 / 2n
    int64_t unit;  // bytes
    uint ndim;
    float scale;
    float sign; // of the imaginary part in steps 0 and 3: -1 conjugates, for an inverse transform
};

// The upper half of a product.
uint64_t high_product(uint64_t a, uint64_t b) {
    uint64_t low = 0xfffffffful, al = a & low, ah = a >> 32, bl = b & low, bh = b >> 32;
    uint64_t middle = ah * bl + ((al * bl) >> 32);
    return ah * bh + (middle >> 32) + (((middle & low) + al * bh) >> 32);
}

// exp(-pi i j^2 / n)
vec2 chirp(uint64_t j) {
    uint64_t square = j * j;
    if (n > 0xfffful) square -= high_product(square, part) * (2ul * n); // whole turns: what is left is below three
    return root(uint((square * part) >> 32));
}

// 32 bits wherever they do: divisions of 64 are long.
uint64_t quotient(uint64_t i, uint64_t by) { return count <= 0xfffffffful ? uint64_t(uint(i) / uint(by)) : i / by; }

void main() {
    uint64_t per_line = STEP == 3 ? n : m;
    GRID_LOOP(i, count) {
        uint64_t line = quotient(i, per_line), j = i - line * per_line;
        if (STEP == 0) {
            vec2 z = vec2(0.0);
            if (j < n) {
                uint64_t from = source + strided_offset(walk, ndim, 0u, line) * IN_BYTES;
                z = times(vec2(1.0, sign) * load_element(from, unit, uint(j), uint(n)), chirp(j));
            }
            AT_F2(destination, i) = z;
        } else if (STEP == 1) {
            uint64_t distance = min(j, m - j);
            AT_F2(destination, i) = distance < n ? conjugate(chirp(distance)) : vec2(0.0);
        } else if (STEP == 2) {
            AT_F2(destination, i) = conjugate(times(AT_F2(destination, i), AT_F2(spectrum, j)));
        } else {
            vec2 z = times(conjugate(AT_F2(source, line * m + j)) * scale, chirp(j));
            z.y *= sign;
            uint64_t to = destination + strided_offset(walk, ndim, 0u, line) * OUT_BYTES;
            store_element(to, unit, uint(j), uint(n), z);
        }
    }
}
