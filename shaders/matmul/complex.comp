#version 460
// Matrix product of complex64 operands of any strides; a thread makes one element. Constant 1:
// flags (bit 0: with c). Batch axes, then the (m, n) strides, are in the walk: sizes and strides
// of a, b, c over (batch.., m, n).
#include "common.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint FLAGS = 0;
// Flags. [host]
const uint ADD_FLAG = 1;

layout(push_constant, scalar) uniform Push {
    uint64_t a, b, c, result, walk, count;
    int64_t a_stride, b_stride; // along k
    float alpha, beta;
    uint ndim, k;
};

void main() {
    GRID_LOOP(i, count) {
        int64_t ia = strided_offset(walk, ndim, 0u, i), ib = strided_offset(walk, ndim, 1u, i);
        vec2 sum = vec2(0.0);
        for (uint kk = 0u; kk < k; ++kk) {
            vec2 x = AT_F2(a, ia), y = AT_F2(b, ib);
            sum.x += x.x * y.x - x.y * y.y;
            sum.y += x.x * y.y + x.y * y.x;
            ia += a_stride;
            ib += b_stride;
        }
        if ((FLAGS & ADD_FLAG) != 0u) sum = alpha * sum + beta * AT_F2(c, strided_offset(walk, ndim, 2u, i));
        AT_F2(result, i) = sum;
    }
}
