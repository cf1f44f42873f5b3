#version 460
// A float32 operand as float16 with one scale for all of it (scaled.glsl). Two dispatches: in the first each
// workgroup writes the largest magnitude that it finds (MEASURE), in the second they convert, and one writes
// the factor that products have to be multiplied by for this operand.
//
// The source is `matrices` of `rows` rows of `width` neighbours, `leading` apart. Rows of the result are
// octets, with zeros behind the end. Constants: 1 flags.
#include "common.glsl"
#include "floats.glsl"
#include "scaled.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint FLAGS = 0;
// Flags. [host]
const uint MEASURE_FLAG = 1, VECTOR_FLAG = 2;
const bool MEASURE = (FLAGS & MEASURE_FLAG) != 0u;
const bool VECTOR = (FLAGS & VECTOR_FLAG) != 0u; // whole octets are aligned to 16 bytes

layout(push_constant, scalar) uniform Push {
    uint64_t source, destination;
    uint64_t peaks, factor; // of each workgroup that measures, as bits; of the operand
    uint64_t walk;          // axes of matrices
    int64_t leading;
    uint rows, width;
    uint octets, count;    // of a row, of all rows
    uint ndim, groups;     // axes of matrices; workgroups that measure
};

void octet(uint i, out vec4 a, out vec4 b) {
    uint line = i / octets, matrix = line / rows;
    int64_t offset = int64_t(line - matrix * rows) * leading;
    if (ndim != 0u) offset += strided_offset(walk, ndim, 0u, uint64_t(matrix));
    fetch_octet(VECTOR, at(FLOAT32, source, offset), (i - line * octets) * 8u, width, a, b);
}

void measure() {
    uint own = 0u;
    GRID_LOOP(i, uint64_t(count)) {
        vec4 a, b;
        octet(uint(i), a, b);
        own = max(own, largest(max(magnitudes(a), magnitudes(b))));
    }
    own = group_peak(own);
    if (gl_LocalInvocationID.x == 0u) AT_U32(peaks, gl_WorkGroupID.x) = own;
}

void main() {
    if (MEASURE) {
        measure();
        return;
    }
    uint own = 0u;
    for (uint i = gl_LocalInvocationID.x; i < groups; i += gl_WorkGroupSize.x)
        own = max(own, AT_U32(peaks, i));
    int exponent = scale_exponent(group_peak(own));
    float scale = power_of_two(exponent);
    if (gl_GlobalInvocationID.x == 0u) AT_F32(factor, 0u) = power_of_two(-exponent);
    GRID_LOOP(i, uint64_t(count)) {
        vec4 a, b;
        octet(uint(i), a, b);
        AT_V4(destination, i) = pack_octet(a * scale, b * scale);
    }
}
