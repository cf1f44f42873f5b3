#version 460
// Elements at indices along an axis: the other axes of source, indices and output agree.
// Constants: 1 bytes of an element (1, 2, 4, 8), 2 dtype of the indices.
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint BYTES = 4;
layout(constant_id = 2) const uint INDEX = 7;

// The walk over the output's shape: the source, which stays at index 0 of the axis, and the indices.
layout(push_constant, scalar) uniform Push {
    uint64_t source, destination, indices, count, walk;
    int64_t size, stride;
    uint ndim;
};

#include "take.glsl"

void main() {
    GRID_LOOP(i, count) {
        int64_t from = index_at(offset(walk, ndim, 1u, i)) * stride + offset(walk, ndim, 0u, i);
        copy_word(int64_t(i), from);
    }
}
