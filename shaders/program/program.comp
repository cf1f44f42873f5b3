#version 460
// Programs: several elementwise operations in one kernel. This is a library: the host links a program's own
// `block` and `single` in place of those below, from the functions that they mention
// (crates/vk-backend/src/kernels/program). Constants: 1 elements that a thread takes at a time.
#include "common.glsl"
#include "math.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint LANES = 4;

// Addresses that are in the push constants; those of further operands are in memory. [host]
const uint INLINE = 11;

// `walk` is what `strided_offset` takes: the sizes and, one after the other, the strides of operands.
layout(push_constant, scalar) uniform Push {
    uint64_t count, walk, further;
    uint64_t operands[INLINE];
    uint ndim;
};

uint64_t operand(const uint k) { return k < INLINE ? operands[k] : U64(further).v[k - INLINE]; }

// The offset of element `at` in the operand that has the `k`-th strides of the walk.
int64_t walked(const uint k, const uint64_t at) {
    int64_t offset = 0l;
    uint sizes = ndim * WALK_SIZES, strides = ndim * (WALK_STRIDES + k);
    uint64_t left = at;
    for (uint axis = ndim - 1u; axis > 0u; --axis) {
        uint64_t size = U64(walk).v[sizes + axis], quotient = 0ul;
        if ((left | size) <= 0xfffffffful) quotient = uint64_t(uint(left) / uint(size));
        else if (left >= size) quotient = left / size;
        offset += int64_t(left - quotient * size) * I64(walk).v[strides + axis];
        left = quotient;
    }
    return offset + int64_t(left) * I64(walk).v[strides];
}

// The distance of neighbours along the last axis.
int64_t stride(const uint k) { return I64(walk).v[ndim * (WALK_STRIDES + k) + ndim - 1u]; }

#define CLASS 5
#include "class.glsl"
#include "functions/unary.glsl"
#include "functions/binary.glsl"
#include "functions/convert.glsl"
#include "functions/program.glsl"
#undef CLASS
#define CLASS 4
#include "class.glsl"
#include "functions/unary.glsl"
#include "functions/binary.glsl"
#include "functions/convert.glsl"
#include "functions/program.glsl"
#undef CLASS
#define CLASS 3
#include "class.glsl"
#include "functions/unary.glsl"
#include "functions/binary.glsl"
#include "functions/convert.glsl"
#include "functions/program.glsl"
#undef CLASS
#define CLASS 2
#include "class.glsl"
#include "functions/unary.glsl"
#include "functions/binary.glsl"
#include "functions/convert.glsl"
#include "functions/program.glsl"
#undef CLASS
#define CLASS 1
#include "class.glsl"
#include "functions/unary.glsl"
#include "functions/binary.glsl"
#include "functions/convert.glsl"
#include "functions/program.glsl"
#undef CLASS
#define CLASS 0
#include "class.glsl"
#include "functions/unary.glsl"
#include "functions/binary.glsl"
#include "functions/convert.glsl"
#include "functions/program.glsl"

// The `LANES` elements from element `at` on.
void block(const uint64_t at) {
    int64_t i = walked(0u, at) + stride(1u);
    uint64_t base = operand(uint(at));
    mention(0.0, uint(at), base, i);
    mention(0, uint(at), base, i);
    mention(0u, uint(at), base, i);
    mention(0l, uint(at), base, i);
    mention(0ul, uint(at), base, i);
    mention(vec2(0.0), uint(at), base, i);
}

// The element `at`.
void single(const uint64_t at) { block(at); }

void main() {
    uint64_t blocks = count / uint64_t(LANES);
    GRID_LOOP(i, blocks) block(i * uint64_t(LANES));
    // Behind the last whole block are fewer elements than the first workgroup has threads.
    uint64_t last = blocks * uint64_t(LANES) + uint64_t(gl_GlobalInvocationID.x);
    if (last < count) single(last);
}
