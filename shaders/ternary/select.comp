#version 460
// condition ? a : b on elements of SIZE bytes (constant 1). Constant 2, the mode: dense, strided, or strided
// by four neighbours of the last axis: along it an operand is one element, or aligned groups of four.
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint SIZE = 4;
layout(constant_id = 2) const uint MODE = 0;
// Modes. [host]
const uint DENSE = 0, STRIDED = 1, STRIDED4 = 2;

layout(push_constant, scalar) uniform Push {
    uint64_t condition, left, right, destination, count, walk;
    uint ndim;
};

// An element of at most four bytes.
uint small(uint64_t base, int64_t i) {
    if (SIZE == 1) return uint(AT_U8(base, i));
    if (SIZE == 2) return uint(AT_U16(base, i));
    return AT_U32(base, i);
}

uint pick(int64_t c, int64_t a, int64_t b) {
    return AT_U8(condition, c) != uint8_t(0) ? small(left, a) : small(right, b);
}

void select(uint64_t i, int64_t c, int64_t a, int64_t b) {
    if (SIZE == 1) AT_U8(destination, i) = uint8_t(pick(c, a, b));
    else if (SIZE == 2) AT_U16(destination, i) = uint16_t(pick(c, a, b));
    else if (SIZE == 4) AT_U32(destination, i) = pick(c, a, b);
    else AT_V2(destination, i) = AT_U8(condition, c) != uint8_t(0) ? AT_V2(left, a) : AT_V2(right, b);
}

int64_t offset(uint k, uint64_t i) { return strided_offset(walk, ndim, k, i); }

// Four neighbours of at most four bytes each.
uvec4 four(uint size, uint64_t base, int64_t i) {
    if (size == 4) return V4(base + uint64_t(i) * 4ul).v[0];
    if (size == 2) {
        uvec2 x = V2(base + uint64_t(i) * 2ul).v[0];
        return uvec4(x.x & 0xffffu, x.x >> 16, x.y & 0xffffu, x.y >> 16);
    }
    uint x = U32(base + uint64_t(i)).v[0];
    return uvec4(x & 0xffu, x >> 8 & 0xffu, x >> 16 & 0xffu, x >> 24);
}

// The same of operand k, which may be one element along the last axis.
uvec4 neighbours(uint k, uint64_t base, uint64_t quad) {
    int64_t i = offset(k, quad * 4ul);
    bool one = I64(walk).v[ndim * (WALK_STRIDES + k + 1u) - 1u] == 0l;
    uint size = k == 0u ? 1u : SIZE;
    if (!one) return four(size, base, i);
    return uvec4(size == 1u ? uint(AT_U8(base, i)) : small(base, i));
}

void select4(uint64_t quad) {
    uvec4 c = neighbours(0u, condition, quad);
    uvec4 x = mix(neighbours(2u, right, quad), neighbours(1u, left, quad), notEqual(c, uvec4(0u)));
    if (SIZE == 1) AT_U32(destination, quad) = x.x | x.y << 8 | x.z << 16 | x.w << 24;
    else if (SIZE == 2) AT_V2(destination, quad) = uvec2(x.x | x.y << 16, x.z | x.w << 16);
    else AT_V4(destination, quad) = x;
}

void main() {
    GRID_LOOP(i, count) {
        if (MODE == DENSE) select(i, int64_t(i), int64_t(i), int64_t(i));
        else if (MODE == STRIDED) select(i, offset(0u, i), offset(1u, i), offset(2u, i));
        else select4(i);
    }
}
