#version 460
// Programs: several elementwise operations in one kernel. This is a library: the host links a program's own
// `block` and `single` in place of those below, from the functions that they mention
// (crates/vk-backend/src/kernels/program). Constants: 1 elements that a thread takes at a time, 2 whether a
// dispatch runs the program for many arrays, a workgroup for one of them.
#include "common.glsl"
#include "math.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint LANES = 4;
layout(constant_id = 2) const bool LISTED = false;

// Addresses that are in the push constants; those of further operands are in memory. [host]
const uint INLINE = 11;

// `walk` is what `strided_offset` takes: the sizes and, one after the other, the strides of operands.
// With LISTED, `ndim` rows of `count` words are at `further`: the number of elements, then the operands'
// addresses; and `walk` has the first workgroup of each row and, behind them, the number of workgroups.
layout(push_constant, scalar) uniform Push {
    uint64_t count, walk, further;
    uint64_t operands[INLINE];
    uint ndim;
};

uint64_t row; // with LISTED the workgroup's
shared uint number_of_row;

uint64_t operand(const uint k) {
    if (LISTED) return U64(row).v[1u + k];
    return k < INLINE ? operands[k] : U64(further).v[k - INLINE];
}

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
    uint64_t elements = count, thread = uint64_t(gl_GlobalInvocationID.x), threads = GRID_THREADS;
    if (LISTED) {
        uint group = gl_WorkGroupID.x;
        for (uint i = gl_LocalInvocationIndex; i < ndim; i += gl_WorkGroupSize.x)
            if (U32(walk).v[i] <= group && group < U32(walk).v[i + 1u]) number_of_row = i;
        barrier();
        uint first = U32(walk).v[number_of_row], end = U32(walk).v[number_of_row + 1u];
        row = further + uint64_t(number_of_row) * count * 8ul;
        elements = U64(row).v[0];
        thread = uint64_t((group - first) * gl_WorkGroupSize.x + gl_LocalInvocationIndex);
        threads = uint64_t((end - first) * gl_WorkGroupSize.x);
    }
    uint64_t blocks = elements / uint64_t(LANES);
    for (uint64_t i = thread; i < blocks; i += threads) block(i * uint64_t(LANES));
    // Behind the last whole block are fewer elements than the first workgroup has threads.
    uint64_t last = blocks * uint64_t(LANES) + thread;
    if (last < elements) single(last);
}
