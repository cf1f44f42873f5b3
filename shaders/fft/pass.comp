#version 460
// Fourier transforms of SIZE elements each, LINES of them a workgroup, in shared memory: a whole transform, or one of the
// passes that a long one is split into. In pass i, whose factor is SIZE and whose later factors multiply to `rest`, a line
// is what stands `rest` apart; results are multiplied with the roots of order SIZE * rest. Constants: 1 SIZE, 2 LINES, 3 FLAGS, 4 RADICES (bit r for
// radix r: only those that occur are compiled).
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint SIZE = 64;
layout(constant_id = 2) const uint LINES = 1;
layout(constant_id = 3) const uint FLAGS = 0;
layout(constant_id = 4) const uint RADICES = 4;
const bool LINES_FIRST_IN = (FLAGS & 64u) != 0u; // neighbouring lines are nearer in memory than neighbours of a line
const bool LINES_FIRST_OUT = (FLAGS & 128u) != 0u;

#include "fft_root.glsl"
#include "fft_side.glsl"

// The walk goes over the lines divided by `rest`: element offsets of the source, first element's number there, and the
// same for the destination.
layout(push_constant, scalar) uniform Push {
    uint64_t source, destination, walk, radices, count, rest, out_step, total;
    int64_t in_unit, out_unit;
    uint ndim;
    float scale;
    float in_sign, out_sign; // -1 conjugates: an inverse transform is the conjugate of that of the conjugate
};

const uint ELEMENTS = SIZE * LINES;
shared vec2 data[2u * ELEMENTS];
shared int64_t line_in[LINES], line_out[LINES];
shared uint64_t line_j[LINES], line_k[LINES];
shared uint line_rest[LINES];

void dft(inout vec2 x[2]) {
    vec2 d = x[0] - x[1];
    x[0] += x[1];
    x[1] = d;
}

vec2 times_minus_i(vec2 z) { return vec2(z.y, -z.x); }

void dft(inout vec2 x[4]) {
    vec2 a = x[0] + x[2], b = x[0] - x[2], c = x[1] + x[3], d = times_minus_i(x[1] - x[3]);
    x[0] = a + c;
    x[1] = b + d;
    x[2] = a - c;
    x[3] = b - d;
}

void dft(inout vec2 x[8]) {
    const float h = 0.70710678118654752;
    vec2 even[4] = vec2[](x[0], x[2], x[4], x[6]), odd[4] = vec2[](x[1], x[3], x[5], x[7]);
    dft(even);
    dft(odd);
    odd[1] = h * vec2(odd[1].x + odd[1].y, odd[1].y - odd[1].x);
    odd[2] = times_minus_i(odd[2]);
    odd[3] = h * vec2(odd[3].y - odd[3].x, -odd[3].x - odd[3].y);
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        x[i] = even[i] + odd[i];
        x[i + 4u] = even[i] - odd[i];
    }
}

#define RADIX 2
#include "fft_radix.glsl"
#undef RADIX
#define RADIX 3
#include "fft_radix.glsl"
#undef RADIX
#define RADIX 4
#include "fft_radix.glsl"
#undef RADIX
#define RADIX 5
#include "fft_radix.glsl"
#undef RADIX
#define RADIX 7
#include "fft_radix.glsl"
#undef RADIX
#define RADIX 8
#include "fft_radix.glsl"
#undef RADIX
#define RADIX 11
#include "fft_radix.glsl"
#undef RADIX
#define RADIX 13
#include "fft_radix.glsl"
#undef RADIX

void find_lines(uint64_t first) {
    for (uint i = gl_LocalInvocationID.x; i < LINES; i += gl_WorkGroupSize.x) {
        uint64_t line = min(first + uint64_t(i), count - 1ul), outer = line / rest;
        uint64_t within = line - outer * rest;
        line_in[i] = strided_offset(walk, ndim, 0u, outer);
        line_j[i] = uint64_t(strided_offset(walk, ndim, 1u, outer)) + within;
        line_out[i] = strided_offset(walk, ndim, 2u, outer);
        line_k[i] = uint64_t(strided_offset(walk, ndim, 3u, outer)) + within;
        line_rest[i] = uint(within);
    }
}

#define HAS(radix) ((RADICES & (1u << radix)) != 0u)

// Runs the stages; returns where in `data` the results begin. Radices are fields of four bits.
uint transform() {
    uint from = 0u, n = SIZE, s = 1u;
    for (uint64_t left = radices; left != 0ul; left >>= 4) {
        uint r = uint(left) & 15u;
        if (HAS(8u) && r == 8u) { vec2 x[8]; stage(x, from, n, s); }
        else if (HAS(4u) && r == 4u) { vec2 x[4]; stage(x, from, n, s); }
        else if (HAS(2u) && r == 2u) { vec2 x[2]; stage(x, from, n, s); }
        else if (HAS(3u) && r == 3u) { vec2 x[3]; stage(x, from, n, s); }
        else if (HAS(5u) && r == 5u) { vec2 x[5]; stage(x, from, n, s); }
        else if (HAS(7u) && r == 7u) { vec2 x[7]; stage(x, from, n, s); }
        else if (HAS(11u) && r == 11u) { vec2 x[11]; stage(x, from, n, s); }
        else if (HAS(13u) && r == 13u) { vec2 x[13]; stage(x, from, n, s); }
        barrier();
        from = ELEMENTS - from;
        n /= r;
        s *= r;
    }
    return from;
}

void main() {
    uint64_t blocks = (count + uint64_t(LINES) - 1ul) / uint64_t(LINES);
    for (uint64_t block = uint64_t(gl_WorkGroupID.x); block < blocks; block += uint64_t(gl_NumWorkGroups.x)) {
        uint64_t first = block * uint64_t(LINES);
        uint lines = uint(min(uint64_t(LINES), count - first));
        find_lines(first);
        barrier();
        for (uint i = gl_LocalInvocationID.x; i < ELEMENTS; i += gl_WorkGroupSize.x) {
            uint line = LINES_FIRST_IN ? i % LINES : i / SIZE, e = LINES_FIRST_IN ? i / LINES : i % SIZE;
            uint64_t j = line_j[line] + uint64_t(e) * rest;
            data[line * SIZE + e] = vec2(1.0, in_sign) * load_element(source, line_in[line], in_unit, j, total);
        }
        barrier();
        uint from = transform();
        for (uint i = gl_LocalInvocationID.x; i < ELEMENTS; i += gl_WorkGroupSize.x) {
            uint line = LINES_FIRST_OUT ? i % LINES : i / SIZE, e = LINES_FIRST_OUT ? i / LINES : i % SIZE;
            if (line >= lines) continue;
            vec2 z = data[from + line * SIZE + e] * scale;
            if (rest > 1ul) z = times(z, root(uint64_t(line_rest[line]) * uint64_t(e), uint64_t(SIZE) * rest));
            z.y *= out_sign;
            store_element(destination, line_out[line], out_unit, line_k[line] + uint64_t(e) * out_step, total, z);
        }
        barrier();
    }
}
