#version 460
// The Hadamard matrix of order ORDER over the parts of a row: a thread makes the ORDER
// results of one index of the parts.
// Constants: 1 dtype of the source, 2 of the destination, 3 ORDER. `signs` is the address of a word per row
// of the matrix, whose bit i says that element i is -1.
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint FROM_DTYPE = 11;
layout(constant_id = 2) const uint TO_DTYPE = 11;
layout(constant_id = 3) const uint ORDER = 12;

layout(push_constant, scalar) uniform Push {
    uint64_t source, destination, signs, count, part; // count of indices of the parts in all rows
    float scale;
};

void main() {
    GRID_LOOP(i, count) {
        uint64_t row = i / part;
        int64_t first = int64_t(row * part * uint64_t(ORDER) + (i - row * part));
        float x[ORDER];
        [[unroll]] for (uint e = 0u; e < ORDER; ++e)
            x[e] = load_float(FROM_DTYPE, source, first + int64_t(uint64_t(e) * part));
        for (uint r = 0u; r < ORDER; ++r) {
            uint word = AT_U32(signs, r);
            float sum = 0.0;
            [[unroll]] for (uint e = 0u; e < ORDER; ++e)
                sum += uintBitsToFloat(floatBitsToUint(x[e]) ^ ((word >> e) << 31));
            store_float(TO_DTYPE, destination, first + int64_t(uint64_t(r) * part), sum * scale);
        }
    }
}
