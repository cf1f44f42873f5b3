#version 460
// The conjugate of Bluestein's chirp for transforms of length n, wrapped around in m elements: its
// spectrum makes the transforms a convolution (Bluestein, A linear filtering approach to the computation
// of discrete Fourier transform, 1970).
#include "common.glsl"

layout(local_size_x_id = 0) in;

#include "fft_root.glsl"
#include "fft_chirp.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t destination, m, part; // 2^64 / 2n
    uint n;
};

void main() {
    GRID_LOOP(j, m) {
        uint64_t distance = min(j, m - j);
        AT_F2(destination, j) = distance < uint64_t(n) ? conjugate(chirp(uint(distance), n, part))
                                                       : vec2(0.0);
    }
}
