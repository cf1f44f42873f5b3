#version 460
// Elementwise functions of one array. CLASS is the register type: 0 float (float32, float16, bfloat16),
// 1 int, 2 uint, 3 int64, 4 uint64, 5 complex. VARIANT splits the functions of floating classes over modules:
// 0 algebraic, 1 exponential, 2 logarithmic, 3 circular, 4 inverse circular and error functions.
// Constants: 1 dtype, 2 function (mlx_vulkan_core::primitives::UnaryOp), 3 elements that a thread takes at a
// time (1 or 4), 4 how the operand lies.
#include "common.glsl"
#if CLASS == 0 || CLASS == 5
#include "math.glsl"
#endif

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const uint OP = 0;
layout(constant_id = 3) const uint LANES = 1;
layout(constant_id = 4) const uint SOURCE = 0;

layout(push_constant, scalar) uniform Push {
    uint64_t source, destination, count, walk;
    uint ndim;
};

#include "elementwise.glsl"
#include "operands.glsl"
#include "functions/unary.glsl"

#define apply(x) unary(OP, DTYPE, x)

void store_result(int64_t i, T x) {
#if CLASS == 5 && VARIANT == 0
    if (OP == ABS || OP == REAL || OP == IMAG) { AT_F32(destination, i) = unary_real(OP, x); return; }
#endif
    store_element(DTYPE, destination, i, apply(x));
}

void single(uint64_t i) { store_result(int64_t(i), load_operand(SOURCE, 0u, source, i)); }

void main() {
    if (LANES == 4) {
#if HAS_FOUR
        uint64_t quads = count / 4ul;
        GRID_LOOP(i, quads) {
            T4 x = load_operand4(SOURCE, 0u, source, i);
            T4 y = T4(apply(x.x), apply(x.y), apply(x.z), apply(x.w));
            STORE4(DTYPE, destination, i, y);
        }
        TAIL_LOOP(i, quads, count) single(uint64_t(i));
#endif
    } else {
        GRID_LOOP(i, count) single(i);
    }
}
