#version 460
// Convolution as a product on cooperative matrices: the rows of a are windows of the input, which are
// gathered while they are loaded, those of b are the outputs' weights. k counts the channels of a tap, then
// taps along x, then along y. Constants: gemm.glsl and gemm_matrix.glsl; both operands lie along k, in octets
// of channels. HALF: 0 float16, 1 bfloat16.
//
// Where the input is spread by a dilation, a dispatch makes the outputs that meet the same taps with
// elements instead of zeros: a grid of every so many outputs (CLASSES).
#include "common.glsl"
#include "floats.glsl"
layout(local_size_x_id = 0) in;
#define OWN_PUSH
#define OWN_A
layout(push_constant, scalar) uniform Push {
    uint64_t a, b, result; // input, weight, result
    uint64_t walk;         // Windows
    uint64_t factors;      // of float32 operands (scaled_whole.comp)
    uint m, n, k, batches, splits;
    uint channels, columns;        // of a tap; taps along x
    uint by_channels[2], by_columns[2]; // for quotient
    int tap_y, tap_x;              // distance of taps, in elements of the input's axes
    uint height, width;            // the input's
    uint line, pixel;              // distance of the input's lines and elements, in bytes
    // The weight: bytes to the first tap and from tap to tap along y and x, and from output to output.
    uint weight_first;
    int weight_y, weight_x;
    uint weight_row;
};
#include "gemm.glsl"
#if HALF == 0
#define FACTORS factors
#endif
#include "gemm_matrix.glsl"
#include "convolution_matrix.glsl"

// Flags. [host]
const uint CLASSES_FLAG = 512, WHOLE_FLAG = 1024;
const bool CLASSES = (FLAGS & CLASSES_FLAG) != 0u;
const bool WHOLE = (FLAGS & WHOLE_FLAG) != 0u; // a slice has channels of one tap, which all threads share

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Windows {
    uint zeros[4];
    uint image, line;         // windows of an image and along x
    uint by_image[2], by_line[2]; // for quotient
    int first_y, first_x;     // where the first window begins; less than zero in the padding
    uint step_y, step_x;      // distance of windows
    uint image_stride;        // of the input, in bytes
    // Rows of the result from image to image and from window to window, and before the first one.
    uint result_image, result_y, result_x, result_first;
};

// Of each of the thread's vectors of a: where its window begins, and its offset in bytes, which wraps.
int window_y[A_EACH], window_x[A_EACH];

// A window's number in its image, and the image.
uvec3 place(Windows w, uint row) {
    uint image = quotient(row, w.by_image), rest = row - image * w.image;
    uint y = quotient(rest, w.by_line);
    return uvec3(rest - y * w.line, y, image);
}

void a_begin(Batch at_, uint row0) {
    Windows w = Windows(walk);
    [[unroll]] for (uint i = 0u; i < A_EACH; ++i) {
        uvec3 p = place(w, min(row0 + a_row(i), m - 1u));
        window_y[i] = int(p.y * w.step_y) + w.first_y;
        window_x[i] = int(p.x * w.step_x) + w.first_x;
        offset_a[i] = p.z * w.image_stride + uint(window_y[i]) * line + uint(window_x[i]) * pixel
            + (WHOLE ? a_column() * 2u : 0u);
    }
}

// Where a thread's octet is in each window and in each output's weight; all its vectors share it.
struct Tap {
    bool there; // before the end of k
    int y, x;
    uint a, b; // bytes
};
Tap tap_at(uint k0) {
    uint kk = WHOLE ? k0 : k0 + a_column();
    uint number = quotient(kk, by_channels), octet = (kk - number * channels) * 2u;
    uint y = quotient(number, by_columns), x = number - y * columns;
    Tap t;
    t.there = WHOLE || kk < k;
    t.y = int(y) * tap_y;
    t.x = int(x) * tap_x;
    t.a = uint(t.y) * line + uint(t.x) * pixel + octet;
    t.b = weight_first + y * uint(weight_y) + x * uint(weight_x) + octet;
    return t;
}

void a_fetch(uint set, uint row0, uint k0, uint k1, bool tail) {
    Tap t = tap_at(k0);
    [[unroll]] for (uint i = 0u; i < A_EACH; ++i) {
        bool inside = t.there && uint(window_y[i] + t.y) < height && uint(window_x[i] + t.x) < width;
        next_a[set * A_EACH + i] = octet_or_zeros(inside, a + uint64_t(offset_a[i] + t.a));
    }
}

const uint B_EACH = BN * BK / 8u / THREADS;
uvec4 next_b[2u * B_EACH];
uint offset_b[B_EACH];

// As a_row and a_column.
uint b_row(uint i) { return gl_LocalInvocationID.x / B_WIDTH + i * (THREADS / B_WIDTH); }

void b_begin(Batch at_, uint column0) {
    [[unroll]] for (uint i = 0u; i < B_EACH; ++i)
        offset_b[i] = min(column0 + b_row(i), n - 1u) * weight_row + (WHOLE ? a_column() * 2u : 0u);
}

void b_fetch(uint set, uint k0, uint k1, bool tail) {
    Tap t = tap_at(k0);
    [[unroll]] for (uint i = 0u; i < B_EACH; ++i)
        next_b[set * B_EACH + i] = octet_or_zeros(t.there, b + uint64_t(offset_b[i] + t.b));
}

void b_store(uint set) {
    uint to = A_SIZE + b_row(0u) * B_PITCH + a_column() / 8u;
    [[unroll]] for (uint i = 0u; i < B_EACH; ++i)
        slices[to + i * (THREADS / B_WIDTH * B_PITCH)] = next_b[set * B_EACH + i];
}

void b_move() { [[unroll]] for (uint i = 0u; i < B_EACH; ++i) next_b[B_EACH + i] = next_b[i]; }

// What lies behind the end of k is zero already.
void a_mask(uint set, uint k0, uint k1) {}
void b_mask(uint set, uint k0, uint k1) {}

void store_quad(Batch at_, uint row, uint column, vec4 x) {
    if (row >= m || column >= n) return;
    if (CLASSES) {
        Windows w = Windows(walk);
        uvec3 p = place(w, row);
        row = p.z * w.result_image + p.y * w.result_y + p.x * w.result_x + w.result_first;
    }
    put_quad(at_, row, column, x);
}
