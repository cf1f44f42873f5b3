#version 460
// Sorts short rows in shared memory with a bitonic network: a workgroup sorts as many rows at a time as fit
// into CAPACITY elements. Equal keys keep their order, because the index in the row decides between them.
// Constants: 1 dtype, 2 elements of a row in the network (a power of two), 3 elements in shared memory,
// 4 indices instead of elements.
#include "common.glsl"
#include "keys.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint FROM = 11;
layout(constant_id = 2) const uint ROW = 64;
layout(constant_id = 3) const uint CAPACITY = 64;
layout(constant_id = 4) const uint INDICES = 0;

layout(push_constant, scalar) uniform Push {
    uint64_t source, destination, rows, row_walk;
    int64_t stride, out_stride;
    uint length, row_ndim;
};

#define THREADS gl_WorkGroupSize.x
shared K keys[CAPACITY];
shared uint indices[CAPACITY];

int64_t row_offset(uint k, uint64_t row) {
    return row_ndim == 0u ? 0l : strided_offset(row_walk, row_ndim, k, row);
}

// Puts a pair of the network into order.
void exchange(uint pair, uint size, uint distance) {
    uint i = 2u * pair - (pair & (distance - 1u)), j = i + distance;
    bool ascending = (i & (ROW - 1u) & size) == 0u;
    K a = keys[i], b = keys[j];
    uint p = indices[i], q = indices[j];
    bool greater = a > b || (a == b && p > q);
    if (greater == ascending) {
        keys[i] = b;
        keys[j] = a;
        indices[i] = q;
        indices[j] = p;
    }
}

void main() {
    const uint ROWS = CAPACITY / ROW;
    uint thread = gl_LocalInvocationID.x;
    for (uint64_t first = uint64_t(gl_WorkGroupID.x) * ROWS; first < rows;
        first += uint64_t(gl_NumWorkGroups.x) * ROWS) {
        for (uint i = thread; i < CAPACITY; i += THREADS) {
            uint64_t row = first + i / ROW;
            uint index = i % ROW;
            bool exists = row < rows && index < length;
            // Indices behind the row come last: their key is the largest, and so are they.
            keys[i] = exists
                ? key_of(
                      FROM, load_bits(FROM, source, uint64_t(row_offset(0u, row) + int64_t(index) * stride)))
                : ~K(0);
            indices[i] = index;
        }
        barrier();
        [[dont_unroll]] for (uint size = 2u; size <= ROW; size *= 2u) {
            [[dont_unroll]] for (uint distance = size / 2u; distance > 0u; distance /= 2u) {
                for (uint pair = thread; pair < CAPACITY / 2u; pair += THREADS)
                    exchange(pair, size, distance);
                barrier();
            }
        }
        for (uint i = thread; i < CAPACITY; i += THREADS) {
            uint64_t row = first + i / ROW;
            uint index = i % ROW;
            if (row >= rows || index >= length) continue;
            uint64_t to = uint64_t(row_offset(1u, row) + int64_t(index) * out_stride);
            if (INDICES == 1u) AT_U32(destination, to) = indices[i];
            // The element itself rather than its key: NaN keep their bits, zeros their sign.
            else
                store_bits(FROM, destination, to,
                    load_bits(FROM, source, uint64_t(row_offset(0u, row) + int64_t(indices[i]) * stride)));
        }
        barrier();
    }
}
