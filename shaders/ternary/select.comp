#version 460
// condition ? a : b on elements of SIZE bytes (constant 1). Constant 2: 0 dense, 1 strided.
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint SIZE = 4;
layout(constant_id = 2) const uint STRIDED = 0;

layout(push_constant, scalar) uniform Push {
    uint64_t condition, left, right, destination, count, walk;
    uint ndim;
};

void main() {
    GRID_LOOP(i, count) {
        int64_t c = int64_t(i), a = c, b = c;
        if (STRIDED != 0) {
            c = strided_offset(walk, ndim, 0u, i);
            a = strided_offset(walk, ndim, 1u, i);
            b = strided_offset(walk, ndim, 2u, i);
        }
        bool first = AT_U8(condition, c) != uint8_t(0);
        if (SIZE == 1) AT_U8(destination, i) = first ? AT_U8(left, a) : AT_U8(right, b);
        else if (SIZE == 2) AT_U16(destination, i) = first ? AT_U16(left, a) : AT_U16(right, b);
        else if (SIZE == 4) AT_U32(destination, i) = first ? AT_U32(left, a) : AT_U32(right, b);
        else AT_V2(destination, i) = first ? AT_V2(left, a) : AT_V2(right, b);
    }
}
