#version 460
// Indices in a sorted row before which values belong, by bisection. Constants: 1 dtype, 2 behind equal
// elements. WIDTH: 32 for dtypes of at most 32 bits, 64 for those of 64.
#include "common.glsl"
#include "keys.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint FROM = 11;
layout(constant_id = 2) const uint RIGHT = 0;

layout(push_constant, scalar) uniform Push {
    uint64_t sorted, values, destination, length, count, walk;
    int64_t stride;
    uint ndim;
};

void main() {
    GRID_LOOP(i, count) {
        int64_t from = ndim == 0u ? int64_t(i) : strided_offset(walk, ndim, 0u, i);
        K wanted = key_of(FROM, load_bits(FROM, values, uint64_t(from)));
        uint64_t low = 0ul, high = length;
        while (low < high) {
            uint64_t middle = (low + high) / 2ul;
            K key = key_of(FROM, load_bits(FROM, sorted, uint64_t(int64_t(middle) * stride)));
            if (RIGHT != 0u ? key <= wanted : key < wanted) low = middle + 1ul;
            else high = middle;
        }
        AT_U32(destination, i) = uint(low);
    }
}
