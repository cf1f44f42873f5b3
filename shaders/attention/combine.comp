#version 460
// Joins the splits of attention: sums weighted by the difference of their maxima. Constants: 1 dtype.
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;

layout(push_constant, scalar) uniform Push {
    uint64_t parts, maxima, result;
    int64_t out_batch, out_head, out_row;
    uint batches, heads, queries, value_width, splits;
};

void main() {
    uint64_t rows = uint64_t(batches) * uint64_t(heads) * uint64_t(queries);
    GRID_LOOP(i, rows * uint64_t(value_width)) {
        uint64_t row = i / uint64_t(value_width);
        float top = AT_F2(maxima, row).x;
        for (uint s = 1u; s < splits; ++s) top = max(top, AT_F2(maxima, uint64_t(s) * rows + row).x);
        float sum = 0.0, y = 0.0;
        for (uint s = 0u; s < splits; ++s) {
            vec2 part = AT_F2(maxima, uint64_t(s) * rows + row);
            float weight = exp(part.x - top);
            sum = fma(weight, part.y, sum);
            y = fma(weight, AT_F32(parts, uint64_t(s) * rows * uint64_t(value_width) + i), y);
        }
        uint query = uint(row % uint64_t(queries));
        uint64_t head = row / uint64_t(queries);
        int64_t to = int64_t(head / uint64_t(heads)) * out_batch + int64_t(head % uint64_t(heads)) * out_head
            + int64_t(query) * out_row + int64_t(i % uint64_t(value_width));
        store_float(DTYPE, result, to, sum > 0.0 ? y / sum : 0.0);
    }
}
