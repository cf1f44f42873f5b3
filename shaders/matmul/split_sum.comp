#version 460
// Adds the float32 parts of a product whose k was split, with the epilogue alpha (a b) + beta c.
// Constants: 1 dtype, 2 flags (bit 0: with c).
#include "common.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const uint FLAGS = 0;
// Flags. [host]
const uint ADD_FLAG = 1;

layout(push_constant, scalar) uniform Push {
    uint64_t parts, c, result, count, walk;
    float alpha, beta;
    uint ndim, splits;
};

void main() {
    GRID_LOOP(i, count) {
        float sum = 0.0;
        for (uint s = 0u; s < splits; ++s) sum += AT_F32(parts, uint64_t(s) * count + i);
        if ((FLAGS & ADD_FLAG) != 0u)
            sum = alpha * sum + beta * load_float(DTYPE, c, strided_offset(walk, ndim, 0u, i));
        store_float(DTYPE, result, int64_t(i), sum);
    }
}
