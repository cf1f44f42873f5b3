#version 460
// Sylvester's Hadamard transform of SIZE elements, a power of two, along lines whose elements stand
// `rest` apart; LINES of them a workgroup, in shared memory, where neighbouring lines are
// neighbours in memory if `rest` is not 1.
// Constants: 1 dtype of the source, 2 of the destination, 3 SIZE, 4 LINES.
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint FROM_DTYPE = 11;
layout(constant_id = 2) const uint TO_DTYPE = 11;
layout(constant_id = 3) const uint SIZE = 64;
layout(constant_id = 4) const uint LINES = 1;

layout(push_constant, scalar) uniform Push {
    uint64_t source, destination, count, rest; // count of lines
    float scale;
};

const uint ELEMENTS = SIZE * LINES;
shared float data[ELEMENTS];

int64_t element_at(uint64_t line, uint e) {
    uint64_t outer = line / rest;
    return int64_t((outer * uint64_t(SIZE) + uint64_t(e)) * rest + (line - outer * rest));
}

void main() {
    uint64_t blocks = (count + uint64_t(LINES) - 1ul) / uint64_t(LINES);
    for (uint64_t block = uint64_t(gl_WorkGroupID.x); block < blocks; block += uint64_t(gl_NumWorkGroups.x)) {
        uint64_t first = block * uint64_t(LINES);
        for (uint i = gl_LocalInvocationID.x; i < ELEMENTS; i += gl_WorkGroupSize.x) {
            uint line = rest > 1ul ? i % LINES : i / SIZE, e = rest > 1ul ? i / LINES : i % SIZE;
            float x = first + uint64_t(line) < count
                ? load_float(FROM_DTYPE, source, element_at(first + uint64_t(line), e))
                : 0.0;
            data[line * SIZE + e] = x;
        }
        barrier();
        for (uint half_ = 1u; half_ < SIZE; half_ *= 2u) {
            for (uint i = gl_LocalInvocationID.x; i < ELEMENTS / 2u; i += gl_WorkGroupSize.x) {
                uint low = i / half_ * (2u * half_) + i % half_;
                float a = data[low], b = data[low + half_];
                data[low] = a + b;
                data[low + half_] = a - b;
            }
            barrier();
        }
        for (uint i = gl_LocalInvocationID.x; i < ELEMENTS; i += gl_WorkGroupSize.x) {
            uint line = rest > 1ul ? i % LINES : i / SIZE, e = rest > 1ul ? i / LINES : i % SIZE;
            if (first + uint64_t(line) >= count) continue;
            store_float(
                TO_DTYPE, destination, element_at(first + uint64_t(line), e), data[line * SIZE + e] * scale);
        }
        barrier();
    }
}
