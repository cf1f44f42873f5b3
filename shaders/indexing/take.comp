#version 460
// Slices along an axis at integer indices: each word of the output is copied from
// the slice that its index picks.
// Constants: 1 bytes of a word (1, 2, 4, 8, 16), 2 dtype of the indices.
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint BYTES = 4;
layout(constant_id = 2) const uint INDEX = 7;

// Sizes and strides are counted in words, those of the indices in elements. A walk
// without axes stays where it is.
layout(push_constant, scalar) uniform Push {
    uint64_t source, destination, indices, words, picks, slice, outer_walk, pick_walk, slice_walk;
    int64_t size, stride;
    uint outer_ndim, pick_ndim, slice_ndim;
};

#include "take.glsl"

void main() {
    GRID_LOOP(i, words) {
        uint64_t row, within, outer, pick;
        // 32-bit division where it is enough: it is several times as fast.
        if (words <= 0xfffffffful) {
            uint r = uint(i) / uint(slice), o = r / uint(picks);
            within = uint(i) - r * uint(slice);
            outer = o;
            pick = r - o * uint(picks);
        } else {
            row = i / slice;
            within = i - row * slice;
            outer = row / picks;
            pick = row - outer * picks;
        }
        int64_t from = index_at(offset(pick_walk, pick_ndim, 0u, pick)) * stride;
        from += offset(outer_walk, outer_ndim, 0u, outer) + offset(slice_walk, slice_ndim, 0u, within);
        copy_word(int64_t(i), from);
    }
}
