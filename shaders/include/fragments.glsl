// Halves of cooperative matrices, and where a fragment's elements lie.
//
// KHR says nothing of that. Every workgroup looks whether they lie as in NVIDIA's mma.m16n8k16 (PTX ISA,
// "Matrix fragments for mma.m16n8k16"); otherwise it does without fragments.
//
// Needs common.glsl, floats.glsl, and before it: HALF (0 float16, 1 bfloat16), SUBGROUP (32);
//   FRAGMENT_DTYPE, the dtype of HALF; DTYPE if it is not defined;
//   FN, KNOWN_COLUMNS: columns of a fragment, and how many of them hold something.
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require
#if HALF == 1
#extension GL_EXT_bfloat16 : require
#define half bfloat16_t
#define half2 bf16vec2
half2 halves(uint w) { return uintBitsToBFloat16EXT(unpack16(w)); }
#else
#define half float16_t
#define half2 f16vec2
half2 halves(uint w) { return unpackFloat2x16(w); }
#endif

#ifndef FRAGMENT_DTYPE
#define FRAGMENT_DTYPE DTYPE
#endif

// To see where elements lie: 16 x 16 halves, 16 x FN halves and floats.
shared uvec4 numbers[32u + 2u * FN + 4u * FN];

uint lane() { return gl_SubgroupInvocationID; }
uint row_in_half() { return lane() / 4u; }
uint quarter() { return lane() % 4u; }
uint thread() { return gl_SubgroupID * SUBGROUP + lane(); }

// Element i of `columns` a row, at most 256 elements: its number.
void write_numbers() {
    for (uint i = thread(); i < 128u; i += gl_WorkGroupSize.x)
        numbers[i / 4u][i % 4u] = cut_halves(FRAGMENT_DTYPE, vec2(2u * i, 2u * i + 1u));
    for (uint i = thread(); i < 8u * FN; i += gl_WorkGroupSize.x) {
        numbers[32u + i / 4u][i % 4u] = cut_halves(FRAGMENT_DTYPE, vec2(2u * i, 2u * i + 1u));
        numbers[32u + 2u * FN + i / 2u][i * 2u % 4u] = floatBitsToUint(float(2u * i));
        numbers[32u + 2u * FN + i / 2u][i * 2u % 4u + 1u] = floatBitsToUint(float(2u * i + 1u));
    }
}

// Of this lane's element i along 16: its index on the axis that lanes of one row share, and on the other.
uint shared_axis(uint i) { return quarter() * 2u + i % 2u + i / 2u % 2u * 8u; }
uint own_axis(uint i) { return row_in_half() + i / 4u * 8u; }

// An accumulator's element for a half of the rows and one of this lane's first two columns; with 16 columns,
// two more of them lie behind these.
uint sum_at(uint half_, uint j) { return (FN == 16u ? 4u : 2u) * half_ + j; }

bool elements_are_known() {
    coopmat<half, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> a;
    coopmat<half, gl_ScopeSubgroup, 16, FN, gl_MatrixUseB> b;
    coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator> c;
    coopMatLoad(a, numbers, 0u, 2u, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(b, numbers, 32u, FN / 8u, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(c, numbers, 32u + 2u * FN, FN / 4u, gl_CooperativeMatrixLayoutRowMajor);
    bool found = a.length() == 8 && b.length() == FN / 2u && c.length() == FN / 2u;
    [[unroll]] for (uint i = 0u; i < 8u; ++i)
        found = found && float(a[i]) == float(own_axis(i) * 16u + shared_axis(i));
    [[unroll]] for (uint i = 0u; i < KNOWN_COLUMNS / 2u; ++i)
        found = found && float(b[i]) == float(shared_axis(i) * FN + own_axis(i));
    [[unroll]] for (uint i = 0u; i < 4u; ++i) [[unroll]] for (uint n = 0u; n < KNOWN_COLUMNS; n += 8u) {
        uint column = n + quarter() * 2u + i % 2u;
        found = found
            && c[sum_at(i / 2u, i % 2u) + n / 4u] == float((row_in_half() + i / 2u * 8u) * FN + column);
    }
    return subgroupBallot(found) == subgroupBallot(true);
}
