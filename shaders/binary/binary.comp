#version 460
// Elementwise functions of two arrays of one dtype. CLASS as in elementwise.glsl. VARIANT 0 has arithmetic,
// 1 the functions that need more of math.glsl, 2 comparisons and logic, whose result is bool.
// Constants: 1 dtype, 2 function (mlx_vulkan_core::primitives::BinaryOp), 3 mode, 4 and 5 whether the first
// or second operand is one element.
#include "common.glsl"
#include "math.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const uint OP = 0;
layout(constant_id = 3) const uint MODE = 0;
layout(constant_id = 4) const uint LEFT_SCALAR = 0;
layout(constant_id = 5) const uint RIGHT_SCALAR = 0;

#include "elementwise.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t left, right, destination, count, walk;
    uint ndim;
};

#include "functions/binary.glsl"

#if VARIANT == 2
#define apply(a, b) compare(OP, a, b)
void store_result(int64_t i, bool x) { AT_U8(destination, i) = uint8_t(x ? 1u : 0u); }
#else
#define apply(a, b) binary(OP, DTYPE, a, b)
void store_result(int64_t i, T x) { store_element(DTYPE, destination, i, x); }
#endif

T load_left(int64_t i) { return load_element(DTYPE, left, LEFT_SCALAR != 0 ? 0l : i); }
T load_right(int64_t i) { return load_element(DTYPE, right, RIGHT_SCALAR != 0 ? 0l : i); }

void main() {
    if (MODE == DENSE4) {
#if HAS_FOUR
        uint64_t quads = count / 4ul;
        GRID_LOOP(i, quads) {
            T4 a = LEFT_SCALAR != 0 ? T4(load_left(0l)) : LOAD4(DTYPE, left, i);
            T4 b = RIGHT_SCALAR != 0 ? T4(load_right(0l)) : LOAD4(DTYPE, right, i);
#if VARIANT == 2
            uvec4 x = uvec4(apply(a.x, b.x), apply(a.y, b.y), apply(a.z, b.z), apply(a.w, b.w));
            store_uint4(UINT8, destination, i, x);
#else
            T4 x = T4(apply(a.x, b.x), apply(a.y, b.y), apply(a.z, b.z), apply(a.w, b.w));
            STORE4(DTYPE, destination, i, x);
#endif
        }
        TAIL_LOOP(i, quads, count) store_result(i, apply(load_left(i), load_right(i)));
#endif
    } else if (MODE == DENSE) {
        GRID_LOOP(i, count) store_result(int64_t(i), apply(load_left(int64_t(i)), load_right(int64_t(i))));
    } else {
        GRID_LOOP(i, count) {
            T a = load_element(DTYPE, left, strided_offset(walk, ndim, 0u, i));
            T b = load_element(DTYPE, right, strided_offset(walk, ndim, 1u, i));
            store_result(int64_t(i), apply(a, b));
        }
    }
}
