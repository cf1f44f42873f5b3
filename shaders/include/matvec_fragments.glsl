// What kernels of matvec/ on cooperative matrices share: fields as halves. The matrix is the left operand: a
// fragment has 16 of its rows. MATRIX_BITS: of an element, 4 if it is not defined.
//
// Needs what fragments.glsl needs, and before it: GROUP, INNER;
//   DEPTH: chunks that a subgroup asks for at once.
#if HALF == 1
const uint DTYPE = BFLOAT16;
#else
const uint DTYPE = FLOAT16;
#endif
#ifndef MATRIX_BITS
#define MATRIX_BITS 4
#endif
// Elements of a matrix row that a subgroup takes at a time, 64 bytes; those of them that share a scale, and
// how often that is.
const uint SUBGROUP = 32, CHUNK = 512u / MATRIX_BITS;
const uint PART = GROUP < CHUNK ? GROUP : CHUNK, SPAN = CHUNK / PART;
const uint CHUNKS = (INNER + CHUNK - 1u) / CHUNK, GROUPS = INNER / GROUP;
const uint OCTETS = INNER / 8u;
// Pairs in words of the scales of DEPTH chunks.
const uint PAIRS = DEPTH * SPAN > 1u ? DEPTH * SPAN / 2u : 1u;

#include "fragments.glsl"
#include "fields.glsl"

// One number of a chunk of several groups, or all pairs, with as few loads as they lie side by side.
void load_pairs(uint64_t at_, out uint pairs[PAIRS]) {
    if (DEPTH * SPAN == 1u) {
        pairs[0] = uint(U16(at_).v[0]);
    } else if (PAIRS % 4u == 0u) {
        [[unroll]] for (uint i = 0u; i < PAIRS; i += 4u) {
            uvec4 p = V4(at_).v[i / 4u];
            [[unroll]] for (uint e = 0u; e < 4u; ++e) pairs[i + e] = p[e];
        }
    } else if (PAIRS % 2u == 0u) {
        [[unroll]] for (uint i = 0u; i < PAIRS; i += 2u) {
            uvec2 p = V2(at_).v[i / 2u];
            pairs[i] = p.x;
            pairs[i + 1u] = p.y;
        }
    } else {
        [[unroll]] for (uint i = 0u; i < PAIRS; ++i) pairs[i] = U32(at_).v[i];
    }
}
