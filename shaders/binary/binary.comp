#version 460
// Elementwise functions of two arrays of one dtype. CLASS as in elementwise.glsl. VARIANT 0 has arithmetic,
// 1 the functions that need more of math.glsl, 2 comparisons and logic, whose result is bool.
// Constants: 1 dtype, 2 function (mlx_vulkan_core::primitives::BinaryOp), 3 elements that a thread takes at a
// time (1 or 4), 4 and 5 how the operands lie.
#include "common.glsl"
#include "math.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const uint OP = 0;
layout(constant_id = 3) const uint LANES = 1;
layout(constant_id = 4) const uint LEFT = 0;
layout(constant_id = 5) const uint RIGHT = 0;

layout(push_constant, scalar) uniform Push {
    uint64_t left, right, destination, count, walk;
    uint ndim;
};

#include "elementwise.glsl"
#include "operands.glsl"
#include "functions/binary.glsl"

#if VARIANT == 2
#define apply(a, b) compare(OP, a, b)
void store_result(int64_t i, bool x) { AT_U8(destination, i) = uint8_t(x ? 1u : 0u); }
#else
#define apply(a, b) binary(OP, DTYPE, a, b)
void store_result(int64_t i, T x) { store_element(DTYPE, destination, i, x); }
#endif

void single(uint64_t i) {
    store_result(int64_t(i), apply(load_operand(LEFT, 0u, left, i), load_operand(RIGHT, 1u, right, i)));
}

void main() {
    if (LANES == 4) {
#if HAS_FOUR
        uint64_t quads = count / 4ul;
        GRID_LOOP(i, quads) {
            T4 a = load_operand4(LEFT, 0u, left, i), b = load_operand4(RIGHT, 1u, right, i);
#if VARIANT == 2
            uvec4 x = uvec4(apply(a.x, b.x), apply(a.y, b.y), apply(a.z, b.z), apply(a.w, b.w));
            store_uint4(UINT8, destination, i, x);
#else
            T4 x = T4(apply(a.x, b.x), apply(a.y, b.y), apply(a.z, b.z), apply(a.w, b.w));
            STORE4(DTYPE, destination, i, x);
#endif
        }
        TAIL_LOOP(i, quads, count) single(uint64_t(i));
#endif
    } else {
        GRID_LOOP(i, count) single(i);
    }
}
