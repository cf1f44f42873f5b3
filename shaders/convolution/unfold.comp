#version 460
// The windows of a convolution as rows of a matrix, for a product with the weight: (windows, taps,
// channels), dense. What lies in the padding is zero. Constants: 1 BYTES, of the words that are
// moved; they do not reach over a tap.
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint BYTES = 16;

#include "words.glsl"
#include "convolution.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t source, destination, geometry;
    uint64_t count; // of words
    uint first;     // window of the first row
    uint elements;  // of a word
};

void clear_word(int64_t to) {
    if (BYTES == 16u) AT_V4(destination, to) = uvec4(0u);
    else if (BYTES == 4u) AT_U32(destination, to) = 0u;
    else AT_U16(destination, to) = uint16_t(0u);
}

void main() {
    Geometry g = Geometry(geometry);
    uint words = g.channels / elements; // of a tap
    uint per_row = g.kernel[0] * g.kernel[1] * g.kernel[2] * words;
    GRID_LOOP(i, count) {
        uint row = uint(i / uint64_t(per_row)), within = uint(i - uint64_t(row) * uint64_t(per_row));
        uint tap = within / words;
        int64_t offset;
        bool inside = tap_offset(g, window_at(g, first + row), tap, offset);
        int64_t from = offset + int64_t((within - tap * words) * elements);
        if (inside) move_word(destination, int64_t(i), source, from / int64_t(elements));
        else clear_word(int64_t(i));
    }
}
