#version 460
// Joins the splits of attention, a workgroup per row: sums weighted by the difference of their maxima. A sink
// of the row's head takes its share.
// Constants: 1 dtype, 2 most splits.
#include "common.glsl"
#include "floats.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const uint SPLITS = 16;

layout(push_constant, scalar) uniform Push {
    uint64_t parts, maxima, result, sinks; // sinks: of the heads, or 0
    int64_t out_batch, out_head, out_row;
    uint batches, heads, queries, value_width, splits;
};

shared vec2 ends[SPLITS];     // maximum and sum of every split
shared float weights[SPLITS]; // of every split in the result

void combine(uint row, uint rows) {
    for (uint s = gl_LocalInvocationID.x; s < splits; s += gl_WorkGroupSize.x)
        ends[s] = AT_F2(maxima, uint64_t(s) * uint64_t(rows) + uint64_t(row));
    barrier();
    uint head = row / queries;
    float top = ends[0].x, sum = 0.0;
    for (uint s = 1u; s < splits; ++s) top = max(top, ends[s].x);
    if (sinks != 0ul) {
        float sink = fetch(DTYPE, at(DTYPE, sinks, int64_t(head % heads)));
        top = max(top, sink);
        sum = exp(sink - top);
    }
    for (uint s = 0u; s < splits; ++s) sum = fma(exp(ends[s].x - top), ends[s].y, sum);
    for (uint s = gl_LocalInvocationID.x; s < splits; s += gl_WorkGroupSize.x)
        weights[s] = sum > 0.0 ? exp(ends[s].x - top) / sum : uintBitsToFloat(0x7fc00000u);
    barrier();
    int64_t to = int64_t(head / heads) * out_batch + int64_t(head % heads) * out_head
        + int64_t(row % queries) * out_row;
    uint64_t from = uint64_t(row) * uint64_t(value_width),
             split_stride = uint64_t(rows) * uint64_t(value_width);
    for (uint i = gl_LocalInvocationID.x; i < value_width; i += gl_WorkGroupSize.x) {
        float y = 0.0;
        for (uint s = 0u; s < splits; s += 4u) {
            float part[4];
            [[unroll]] for (uint e = 0u; e < 4u; ++e)
                part[e] = s + e < splits
                    ? AT_F32(parts, uint64_t(s + e) * split_stride + from + uint64_t(i)) : 0.0;
            [[unroll]] for (uint e = 0u; e < 4u; ++e)
                y = fma(s + e < splits ? weights[s + e] : 0.0, part[e], y);
        }
        store_float(DTYPE, result, to + int64_t(i), y);
    }
    barrier();
}

void main() {
    uint rows = batches * heads * queries;
    for (uint row = gl_WorkGroupID.x; row < rows; row += gl_NumWorkGroups.x) combine(row, rows);
}
