#version 460
// The derivative of a convolution by its weight as a product on cooperative matrices: a has the cotangents,
// (windows, outputs), and lies across k, b the windows of the input, which are gathered while they are
// loaded. k counts windows; columns of the result are taps along y and x and the channels of each, in octets.
// Constants: gemm.glsl and gemm_matrix.glsl. HALF: 0 float16, 1 bfloat16.
#include "common.glsl"
#include "floats.glsl"
layout(local_size_x_id = 0) in;
#define OWN_PUSH
layout(push_constant, scalar) uniform Push {
    uint64_t a, b, result; // cotangents, input, result
    uint64_t walk;         // Taps
    uint64_t factors;      // of float32 operands (scaled_whole.comp)
    int64_t lda;
    uint m, n, k, batches, splits;
    uint image, line;        // windows of an image and along x
    uint by_image[2], by_line[2]; // for quotient
    uint step_y, step_x;     // distance of windows, in elements of the input's axes
    uint height, width;      // the input's
    uint image_stride, window_y, window_x; // of the input: from image to image, window to window, in bytes
};
#include "gemm.glsl"
#if HALF == 0
#define FACTORS factors
#endif
#include "gemm_matrix.glsl"
#include "convolution_matrix.glsl"

// Flag. [host]
const uint REGULAR_FLAG = 512;
// Windows that are loaded at once begin a line, or share one, and never two images: where the first is, is
// the same for all threads.
const bool REGULAR = (FLAGS & REGULAR_FLAG) != 0u;

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Taps {
    uint zeros[4];
    uint channels, columns; // of a tap; taps along x
    int tap_y, tap_x;       // distance of taps
    int first_y, first_x;   // of the first window's first tap; less than zero in the padding
    uint line, pixel;       // distance of the input's lines and elements, in bytes
};

const uint B_EACH = BK * BN / 8u / THREADS;
uvec4 next_b[2u * B_EACH];

// THREADS is a multiple of the octets of a row, so a thread's vectors are of one tap.
const uint AT_ONCE = THREADS / B_WIDTH;
uint b_row(uint i) { return gl_LocalInvocationID.x / B_WIDTH + i * AT_ONCE; }
uint b_column() { return gl_LocalInvocationID.x % B_WIDTH; }

bool has_column;
int first_window_y, first_window_x; // of the tap in the first window
uint offset_b;                      // the same in bytes; it wraps

void b_begin(Batch at_, uint column0) {
    Taps t = Taps(walk);
    uint column = column0 + b_column() * 8u;
    has_column = column < n;
    uint tap = column / t.channels, y = tap / t.columns, x = tap - y * t.columns;
    first_window_y = int(y) * t.tap_y + t.first_y;
    first_window_x = int(x) * t.tap_x + t.first_x;
    offset_b = uint(first_window_y) * t.line + uint(first_window_x) * t.pixel
        + (column - tap * t.channels) * 2u;
    if (REGULAR) {
        uint own_y = b_row(0u) / line, own_x = b_row(0u) % line;
        first_window_y += int(own_y * step_y);
        first_window_x += int(own_x * step_x);
        offset_b += own_y * window_y + own_x * window_x;
    }
}

void b_fetch(uint set, uint k0, uint k1, bool tail) {
    [[unroll]] for (uint i = 0u; i < B_EACH; ++i) {
        uint window = k0 + (REGULAR ? i * AT_ONCE : b_row(i));
        uint of_image = quotient(window, by_image), rest = window - of_image * image;
        uint y = quotient(rest, by_line), x = rest - y * line;
        bool inside = has_column && window < k && uint(first_window_y + int(y * step_y)) < height
            && uint(first_window_x + int(x * step_x)) < width;
        uint offset = offset_b + of_image * image_stride + y * window_y + x * window_x;
        next_b[set * B_EACH + i] = octet_or_zeros(inside, b + uint64_t(offset));
    }
}

// What lies behind the end of k is zero already.
void b_mask(uint set, uint k0, uint k1) {}

void b_store(uint set) {
    uint to = A_SIZE + b_row(0u) * B_PITCH + b_column();
    [[unroll]] for (uint i = 0u; i < B_EACH; ++i)
        slices[to + i * (AT_ONCE * B_PITCH)] = next_b[set * B_EACH + i];
}

void b_move() { [[unroll]] for (uint i = 0u; i < B_EACH; ++i) next_b[B_EACH + i] = next_b[i]; }

void store_quad(Batch at_, uint row, uint column, vec4 x) {
    if (row < m && column < n) put_quad(at_, row, column, x);
}
