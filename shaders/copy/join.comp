#version 460
// Joins dense arrays along an axis: each row of the result has a row of every part, one after the other.
// Constants: 1 bytes per word (1, 2, 4, 8, 16), of which rows of all parts are whole ones.
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint BYTES = 4;

// The words of its rows begin at `first` of a row of the result.
struct Part { uint64_t source; uint first, width; };
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Parts { Part all[]; };

// `row` words are a row of the result, which has `number` parts and `count` words in all.
layout(push_constant, scalar) uniform Push {
    uint64_t parts, destination;
    uint count, row, number; // of words less than 2^31
};

void move(uint to, uint64_t source, uint from) {
    if (BYTES == 16) AT_V4(destination, to) = AT_V4(source, from);
    else if (BYTES == 8) AT_V2(destination, to) = AT_V2(source, from);
    else if (BYTES == 4) AT_U32(destination, to) = AT_U32(source, from);
    else if (BYTES == 2) AT_U16(destination, to) = AT_U16(source, from);
    else AT_U8(destination, to) = AT_U8(source, from);
}

// The last part that begins at a word of a row or before it.
uint part_at(uint column) {
    uint low = 0u, high = number - 1u;
    while (low < high) {
        uint middle = (low + high + 1u) / 2u;
        if (Parts(parts).all[middle].first <= column) low = middle;
        else high = middle - 1u;
    }
    return low;
}

void main() {
    uint step = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    for (uint i = gl_GlobalInvocationID.x; i < count; i += step) {
        uint outer = i / row, column = i - outer * row, part = part_at(column);
        uint first = Parts(parts).all[part].first, width = Parts(parts).all[part].width;
        move(i, Parts(parts).all[part].source, outer * width + (column - first));
    }
}
