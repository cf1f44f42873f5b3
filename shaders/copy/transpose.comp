#version 460
// Copies elements as bits between arrays of which different axes are dense: the source's along axis a, the destination's
// along axis b. Squares of both go through shared memory, so that neighbouring threads read and write neighbours. The
// other axes are walked. Constants: 1 bytes per element (1, 2, 4, 8), 2 TILE, the square's side.
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint BYTES = 4;
layout(constant_id = 2) const uint TILE = 32;

layout(push_constant, scalar) uniform Push {
    uint64_t source, destination, walk, count; // count of places along the other axes
    int64_t source_step, destination_step;     // along b and along a, in elements
    uint64_t a, b;                             // sizes
    uint ndim;
};

const uint ROWS = gl_WorkGroupSize.x / TILE;
const uint WORDS = BYTES == 8u ? 2u : 1u;
const uint PLANE = TILE * (TILE + 1u); // a word more per row: columns meet different banks, too
shared uint square[WORDS * PLANE];

void put(uint at, int64_t from) {
    uvec2 x = uvec2(0u);
    if (BYTES == 8u) x = AT_V2(source, from);
    else if (BYTES == 4u) x.x = AT_U32(source, from);
    else if (BYTES == 2u) x.x = uint(AT_U16(source, from));
    else x.x = uint(AT_U8(source, from));
    [[unroll]] for (uint w = 0u; w < WORDS; ++w) square[w * PLANE + at] = x[w];
}

void get(uint at, int64_t to) {
    uvec2 x = uvec2(0u);
    [[unroll]] for (uint w = 0u; w < WORDS; ++w) x[w] = square[w * PLANE + at];
    if (BYTES == 8u) AT_V2(destination, to) = x;
    else if (BYTES == 4u) AT_U32(destination, to) = x.x;
    else if (BYTES == 2u) AT_U16(destination, to) = uint16_t(x.x);
    else AT_U8(destination, to) = uint8_t(x.x);
}

void main() {
    uint row = gl_LocalInvocationID.x / TILE, column = gl_LocalInvocationID.x % TILE;
    uint64_t wide = (a + uint64_t(TILE) - 1ul) / TILE, high = (b + uint64_t(TILE) - 1ul) / TILE;
    for (uint64_t task = gl_WorkGroupID.x; task < count * wide * high; task += gl_NumWorkGroups.x) {
        uint64_t others = task / (wide * high), here = task - others * (wide * high);
        uint64_t a0 = here / high * TILE, b0 = here % high * TILE;
        uint left_a = uint(min(a - a0, uint64_t(TILE))), left_b = uint(min(b - b0, uint64_t(TILE)));
        int64_t from = strided_offset(walk, ndim, 0u, others) + int64_t(b0) * source_step + int64_t(a0);
        int64_t to = strided_offset(walk, ndim, 1u, others) + int64_t(a0) * destination_step + int64_t(b0);
        [[unroll]] for (uint r = 0u; r < TILE; r += ROWS)
            if (row + r < left_b && column < left_a)
                put((row + r) * (TILE + 1u) + column, from + int64_t(row + r) * source_step + int64_t(column));
        barrier();
        [[unroll]] for (uint r = 0u; r < TILE; r += ROWS)
            if (row + r < left_a && column < left_b)
                get(column * (TILE + 1u) + row + r, to + int64_t(row + r) * destination_step + int64_t(column));
        barrier();
    }
}
