#version 460
// Writes word i of the updates to its location; what lies outside is left out.
// Constants: 1 bytes of a word (1, 2, 4, 8, 16), 2 dtype of the indices, 3 how many arrays of them there are.
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint BYTES = 4;
layout(constant_id = 2) const uint INDEX = 7;
layout(constant_id = 3) const uint COUNT = 1;

// Operands of the walk: the updates, the destination.
layout(push_constant, scalar) uniform Push {
    uint64_t source, destination, count, walk, table;
    uint ndim;
};

#include "pick.glsl"
#include "locations.glsl"
#include "words.glsl"

void main() {
    GRID_LOOP(i, count) {
        int64_t to;
        if (location(1u, i, to)) move_word(destination, to, source, walked(0u, i));
    }
}
