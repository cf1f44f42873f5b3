#version 460
// Copies elements as bits between arrays of which different axes are dense: the source's along axis a, the destination's
// along axis b. Squares of both go through shared memory, so that neighbouring threads read and write neighbours. The
// other axes are walked. Constants: 1 bytes per element (1, 2, 4, 8), 2 TILE, the square's side, 3 vectors (bit 0: runs of
// 16 bytes along a are aligned in the source, bit 1: along b in the destination, and they divide the axes).
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint BYTES = 4;
layout(constant_id = 2) const uint TILE = 32;
layout(constant_id = 3) const uint VECTORS = 0;

layout(push_constant, scalar) uniform Push {
    uint64_t source, destination, walk, count; // count of places along the other axes
    int64_t source_step, destination_step;     // along b and along a, in elements
    uint64_t a, b;                             // sizes
    uint ndim;
};

// Elements that a thread reads and writes at once, and how many rows the threads cover with them.
const uint READ = (VECTORS & 1u) != 0u ? 16u / BYTES : 1u, WRITTEN = (VECTORS & 2u) != 0u ? 16u / BYTES : 1u;
const uint READ_ROWS = gl_WorkGroupSize.x / (TILE / READ), WRITTEN_ROWS = gl_WorkGroupSize.x / (TILE / WRITTEN);
const uint READS = (TILE + READ_ROWS - 1u) / READ_ROWS;
const uint WORDS = BYTES == 8u ? 2u : 1u;
const uint PLANE = TILE * (TILE + 1u); // a word more per row: columns meet different banks, too
shared uint square[WORDS * PLANE];

// Element e of a vector of 16 bytes.
uvec2 unpack(uvec4 v, uint e) {
    if (BYTES == 8u) return uvec2(v[2u * e], v[2u * e + 1u]);
    if (BYTES == 4u) return uvec2(v[e], 0u);
    uint each = 4u / BYTES;
    return uvec2(v[e / each] >> (e % each * BYTES * 8u) & (BYTES == 2u ? 0xffffu : 0xffu), 0u);
}

uvec4 pack(uvec4 v, uint e, uvec2 x) {
    if (BYTES == 8u) { v[2u * e] = x.x; v[2u * e + 1u] = x.y; }
    else if (BYTES == 4u) v[e] = x.x;
    else v[e / (4u / BYTES)] |= x.x << (e % (4u / BYTES) * BYTES * 8u);
    return v;
}

uvec4 read(int64_t from) {
    if (READ > 1u) return V4(source + uint64_t(from) * uint64_t(BYTES)).v[0];
    if (BYTES == 8u) return uvec4(AT_V2(source, from), 0u, 0u);
    if (BYTES == 4u) return uvec4(AT_U32(source, from));
    return uvec4(BYTES == 2u ? uint(AT_U16(source, from)) : uint(AT_U8(source, from)));
}

void write(int64_t to, uvec4 v) {
    if (WRITTEN > 1u) V4(destination + uint64_t(to) * uint64_t(BYTES)).v[0] = v;
    else if (BYTES == 8u) AT_V2(destination, to) = v.xy;
    else if (BYTES == 4u) AT_U32(destination, to) = v.x;
    else if (BYTES == 2u) AT_U16(destination, to) = uint16_t(v.x);
    else AT_U8(destination, to) = uint8_t(v.x);
}

// The square at (a0, b0) of the walk's place `others`.
void turn(uint64_t others, uint64_t a0, uint64_t b0) {
    uint left_a = uint(min(a - a0, uint64_t(TILE))), left_b = uint(min(b - b0, uint64_t(TILE)));
    int64_t from = strided_offset(walk, ndim, 0u, others) + int64_t(b0) * source_step + int64_t(a0);
    int64_t to = strided_offset(walk, ndim, 1u, others) + int64_t(a0) * destination_step + int64_t(b0);
    uint thread = gl_LocalInvocationID.x;
    uint row = thread / (TILE / READ), column = thread % (TILE / READ) * READ;
    // All are asked for before the first is stored; of those behind the end, the last ones.
    uvec4 v[READS];
    [[unroll]] for (uint i = 0u; i < READS; ++i)
        v[i] = read(from + int64_t(min(row + i * READ_ROWS, left_b - 1u)) * source_step + int64_t(min(column, left_a - READ)));
    [[unroll]] for (uint i = 0u; i < READS; ++i) {
        uint r = row + i * READ_ROWS;
        if (r >= left_b) continue;
        [[unroll]] for (uint e = 0u; e < READ; ++e) {
            uvec2 x = unpack(v[i], e);
            [[unroll]] for (uint w = 0u; w < WORDS; ++w) square[w * PLANE + r * (TILE + 1u) + column + e] = x[w];
        }
    }
    barrier();
    row = thread / (TILE / WRITTEN);
    column = thread % (TILE / WRITTEN) * WRITTEN;
    [[unroll]] for (uint r = 0u; r < TILE; r += WRITTEN_ROWS) {
        if (row + r >= left_a || column >= left_b) continue;
        uvec4 out_ = uvec4(0u);
        [[unroll]] for (uint e = 0u; e < WRITTEN; ++e) {
            uvec2 x = uvec2(0u);
            [[unroll]] for (uint w = 0u; w < WORDS; ++w) x[w] = square[w * PLANE + (column + e) * (TILE + 1u) + row + r];
            out_ = pack(out_, e, x);
        }
        write(to + int64_t(row + r) * destination_step + int64_t(column), out_);
    }
    barrier();
}

void main() {
    uint64_t wide = (a + uint64_t(TILE) - 1ul) / TILE, high = (b + uint64_t(TILE) - 1ul) / TILE, all = count * wide * high;
    for (uint64_t task = gl_WorkGroupID.x; task < all; task += gl_NumWorkGroups.x) {
        // Divisions of 64 bits take longer than a square.
        if (all <= 0xfffffffful) {
            uint squares = uint(wide * high), others = uint(task) / squares, here = uint(task) - others * squares;
            uint across = here / uint(high);
            turn(uint64_t(others), uint64_t(across) * TILE, uint64_t(here - across * uint(high)) * TILE);
        } else {
            uint64_t others = task / (wide * high), here = task - others * (wide * high);
            turn(others, here / high * TILE, here % high * TILE);
        }
    }
}
