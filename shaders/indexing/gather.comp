#version 460
// Slices at several indices: word i of the output is copied from its location in the source.
// Constants: 1 bytes of a word (1, 2, 4, 8, 16), 2 dtype of the indices, 3 how many arrays of them there are.
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint BYTES = 4;
layout(constant_id = 2) const uint INDEX = 7;
layout(constant_id = 3) const uint COUNT = 1;

// Operand 0 of the walk is the source.
layout(push_constant, scalar) uniform Push {
    uint64_t source, destination, count, walk, table;
    uint ndim;
};

#include "pick.glsl"
#include "locations.glsl"
#include "words.glsl"

void main() {
    GRID_LOOP(i, count) {
        int64_t from;
        location(0u, i, from);
        move_word(destination, int64_t(i), source, from);
    }
}
