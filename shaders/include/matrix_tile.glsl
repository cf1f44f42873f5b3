// Sizes of the tiles of a product on cooperative matrices: a workgroup makes a BM x BN tile of the result
// from BK-deep slices of a and b, a subgroup a WM x WN part of it in FM x FN fragments with float32 sums.
//
// With SIBLINGS, b is a list of up to three matrices that lie along k, at `extra`, with a result each; `n`
// counts the columns of them all, and a tile has columns of at most two. With GATED, half of a fragment's
// columns are the first one's and half the second one's, and the result is gate(first) * second.
//
// Needs gemm.glsl, and before it: HALF (0 float16, 1 bfloat16).
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_ballot : require
#if HALF == 1
#extension GL_EXT_bfloat16 : require
#define half bfloat16_t
#else
#define half float16_t
#endif
layout(constant_id = 4) const uint BM = 128;
layout(constant_id = 5) const uint BN = 128;
layout(constant_id = 6) const uint BK = 32;
layout(constant_id = 7) const uint WM = 64;
layout(constant_id = 8) const uint WN = 64;
layout(constant_id = 9) const uint FM = 16; // of a fragment, as the device offers them
layout(constant_id = 10) const uint FN = 16;
layout(constant_id = 11) const uint FK = 16;
layout(constant_id = 12) const uint SUBGROUP = 32;

// Flags. [host]
const uint SIBLINGS_FLAG = 64, GATED_FLAG = 128, GELU_FLAG = 4096;
const bool SIBLINGS = (FLAGS & SIBLINGS_FLAG) != 0u, GATED = (FLAGS & GATED_FLAG) != 0u;
const bool GELU = (FLAGS & GELU_FLAG) != 0u; // the gate; else silu

struct Sibling {
    uint64_t b, scales, biases, result; // scales and biases of a quantized one
    uint n, end;                        // its columns, and the first one of all that is behind them
};
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Siblings { Sibling all[3]; };

const uint THREADS = (BM / WM) * (BN / WN) * SUBGROUP;
const uint ACROSS = BN / WN; // subgroups along n
// The result passes through shared memory, FM rows of every subgroup at a time.
const uint OUT_PITCH = WN / 4u + 1u, OUT_SIZE = FM * OUT_PITCH, OUT_ALL = OUT_SIZE * (THREADS / SUBGROUP);

// `CALL(i)` for i below `count`, which is at most eight. No loop: the driver does not write out one that has
// a barrier, a shuffle or a call in it, and arrays that it indexes would lie in memory (a product of 512 rows
// took seven times as long).
#define WRITTEN_OUT(count, CALL) \
    { \
        CALL(0u); \
        if ((count) > 1u) CALL(1u); \
        if ((count) > 2u) CALL(2u); \
        if ((count) > 3u) CALL(3u); \
        if ((count) > 4u) CALL(4u); \
        if ((count) > 5u) CALL(5u); \
        if ((count) > 6u) CALL(6u); \
        if ((count) > 7u) CALL(7u); \
    }
