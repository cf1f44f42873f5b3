#version 460
// Copies elements as bits. Constants: 1 bytes per element (1, 2, 4, 8, 16), 2 mode.
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint BYTES = 4;
layout(constant_id = 2) const uint MODE = 0;

// Modes: dense, both strided, one element everywhere. [host]
const uint DENSE = 0, STRIDED = 1, FILL = 2;

layout(push_constant, scalar) uniform Push {
    uint64_t source, destination, count, walk;
    uint ndim;
};

void move(int64_t to, int64_t from) {
    if (BYTES == 16) AT_V4(destination, to) = AT_V4(source, from);
    else if (BYTES == 8) AT_V2(destination, to) = AT_V2(source, from);
    else if (BYTES == 4) AT_U32(destination, to) = AT_U32(source, from);
    else if (BYTES == 2) AT_U16(destination, to) = AT_U16(source, from);
    else AT_U8(destination, to) = AT_U8(source, from);
}

void main() {
    if (MODE == DENSE) {
        GRID_LOOP(i, count) move(int64_t(i), int64_t(i));
    } else if (MODE == FILL) {
        GRID_LOOP(i, count) move(int64_t(i), 0l);
    } else {
        GRID_LOOP(i, count)
            move(strided_offset(walk, ndim, 1u, i), strided_offset(walk, ndim, 0u, i));
    }
}
