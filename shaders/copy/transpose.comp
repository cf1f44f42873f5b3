#version 460
// Copies elements as bits between arrays of which different axes are dense: the source's along axis a, the
// destination's along axis b. Rectangles of both go through shared memory, so that neighbouring threads read
// and write neighbours. The other axes are walked. Constants: 1 bytes per element (1, 2, 4, 8), 2 and 3 the
// rectangle's sides WIDE along a and HIGH along b, 4 vectors (bit 0: runs of 16 bytes along a are aligned in
// the source, bit 1: along b in the destination, and they divide the axes).
//
// Where both are vectors, neighbours along b of elements of less than four bytes share a word of shared
// memory, and HIGH counts such words.
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint BYTES = 4;
layout(constant_id = 2) const uint WIDE = 32;
layout(constant_id = 3) const uint HIGH = 32;
layout(constant_id = 4) const uint VECTORS = 0;

layout(push_constant, scalar) uniform Push {
    uint64_t source, destination, walk, count; // count of indices along the other axes
    int64_t source_stride, destination_stride;     // along b and along a, in elements
    uint64_t a, b;                             // sizes
    uint ndim;
};

// Elements that a thread reads and writes at once; neighbours along b that share a word.
const uint READ = (VECTORS & 1u) != 0u ? 16u / BYTES : 1u, WRITTEN = (VECTORS & 2u) != 0u ? 16u / BYTES : 1u;
const uint SHARE = VECTORS == 3u && BYTES < 4u ? 4u / BYTES : 1u;
const uint WORDS = BYTES == 8u ? 2u : 1u; // of an element
// Rows that the threads cover at a time, reading along a and writing along b, and how often.
const uint READ_ROWS = gl_WorkGroupSize.x / (WIDE / READ), READS = (HIGH + READ_ROWS - 1u) / READ_ROWS;
const uint ACROSS = HIGH * SHARE / WRITTEN, WRITTEN_ROWS = gl_WorkGroupSize.x / ACROSS;
const uint PITCH = WIDE + 1u, PLANE = HIGH * PITCH; // a word more per row: columns meet different banks, too
shared uint rectangle[WORDS * PLANE];

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

// Element e of a vector, as the low bits of a word.
uint element(uvec4 v, uint e) {
    const uint each = BYTES < 4u ? 4u / BYTES : 1u;
    return v[e / each] >> (e % each * BYTES * 8u)
        & (BYTES == 1u ? 0xffu : BYTES == 2u ? 0xffffu : 0xffffffffu);
}

// The vectors of a thread: all are asked for before the first is stored; of those
// behind the end, the last ones.
void read_rectangle(int64_t from, uint left_a, uint left_b) {
    uint row = gl_LocalInvocationID.x / (WIDE / READ), column = gl_LocalInvocationID.x % (WIDE / READ) * READ;
    uvec4 v[READS * SHARE];
    [[unroll]] for (uint i = 0u; i < READS * SHARE; ++i) {
        uint b_at = min((row + i / SHARE * READ_ROWS) * SHARE + i % SHARE, left_b - 1u);
        v[i] = read(from + int64_t(b_at) * source_stride + int64_t(min(column, left_a - READ)));
    }
    [[unroll]] for (uint i = 0u; i < READS; ++i) {
        uint r = row + i * READ_ROWS;
        // True of all but the last rectangle; without it an H200 takes 8 % longer, as if
        // all loads were awaited at once.
        if (r * SHARE >= left_b) continue;
        [[unroll]] for (uint e = 0u; e < READ; ++e) {
            uint at = r * PITCH + column + e, word = 0u;
            if (BYTES == 8u) {
                rectangle[at] = v[i][2u * e];
                rectangle[PLANE + at] = v[i][2u * e + 1u];
                continue;
            }
            [[unroll]] for (uint s = 0u; s < SHARE; ++s)
                word |= element(v[i * SHARE + s], e) << (s * BYTES * 8u);
            rectangle[at] = word;
        }
    }
}

void write_rectangle(int64_t to, uint left_a, uint left_b) {
    uint row = gl_LocalInvocationID.x / ACROSS, column = gl_LocalInvocationID.x % ACROSS * WRITTEN;
    [[unroll]] for (uint r = 0u; r < WIDE; r += WRITTEN_ROWS) {
        if (row + r >= left_a || column >= left_b) continue;
        uvec4 v = uvec4(0u);
        [[unroll]] for (uint e = 0u; e < WRITTEN / SHARE; ++e) {
            uint at = (column / SHARE + e) * PITCH + row + r;
            if (BYTES == 8u) {
                v[2u * e] = rectangle[at];
                v[2u * e + 1u] = rectangle[PLANE + at];
            } else if (BYTES == 4u || SHARE > 1u) v[e] = rectangle[at];
            else v[e * BYTES / 4u] |= rectangle[at] << (e * BYTES * 8u & 31u);
        }
        write(to + int64_t(row + r) * destination_stride + int64_t(column), v);
    }
}

// The rectangle at (a0, b0) of the walk's index `others`.
void turn(uint64_t others, uint64_t a0, uint64_t b0) {
    uint left_a = uint(min(a - a0, uint64_t(WIDE))), left_b = uint(min(b - b0, uint64_t(HIGH * SHARE)));
    read_rectangle(
        strided_offset(walk, ndim, 0u, others) + int64_t(b0) * source_stride + int64_t(a0), left_a, left_b);
    barrier();
    write_rectangle(strided_offset(walk, ndim, 1u, others) + int64_t(a0) * destination_stride + int64_t(b0),
        left_a, left_b);
    barrier();
}

void main() {
    uint64_t wide = (a + uint64_t(WIDE) - 1ul) / WIDE,
             high = (b + uint64_t(HIGH * SHARE) - 1ul) / (HIGH * SHARE), all = count * wide * high;
    for (uint64_t task = gl_WorkGroupID.x; task < all; task += gl_NumWorkGroups.x) {
        uint64_t others, across, down;
        if (all <= 0xfffffffful) { // divisions of 64 bits take longer than a rectangle
            uint each = uint(wide * high), o = uint(task) / each, here = uint(task) - o * each,
                 x = here / uint(high);
            others = uint64_t(o);
            across = uint64_t(x);
            down = uint64_t(here - x * uint(high));
        } else {
            others = task / (wide * high);
            across = (task - others * (wide * high)) / high;
            down = task % high;
        }
        turn(others, across * WIDE, down * (HIGH * SHARE));
    }
}
