// Where elements of fragments lie, for kernels of attention. KHR says nothing of it. Where they lie as in
// NVIDIA's mma.m16n8k16 (two of them side by side; PTX ISA, "Matrix fragments for mma.m16n8k16"), which
// elements_are_known() finds out by looking, known_row() and known_column() tell it.
//
// Before it come SUBGROUP, THREADS, FM, FN, FK, DTYPE, `half`, lane(), and `tile` of at least 96 vectors.

// How an element i of a lane stands in a known fragment: row and column.
uint known_row(uint i) { return lane() / 4u + i / 4u * 8u; }
uint known_column(uint i) { return lane() % 4u * 2u + i % 2u + i / 2u % 2u * 8u; }

// Whether elements of both kinds of fragments lie where known_row and known_column
// say; the same for the workgroup.
bool elements_are_known() {
    if (SUBGROUP != 32u || FM != 16u || FN != 16u || FK != 16u) return false;
    for (uint i = gl_LocalInvocationID.x; i < 64u; i += THREADS) {
        vec4 x = vec4(4u * i) + vec4(0.0, 1.0, 2.0, 3.0);
        tile[i] = floatBitsToUint(x);
        uint word = 64u * 4u + i * 2u; // of eight halves to a vector
        tile[word / 4u][word % 4u] = cut_halves(DTYPE, x.xy);
        tile[word / 4u][word % 4u + 1u] = cut_halves(DTYPE, x.zw);
    }
    barrier();
    coopmat<float, gl_ScopeSubgroup, FM, FN, gl_MatrixUseAccumulator> x;
    coopmat<half, gl_ScopeSubgroup, FM, FK, gl_MatrixUseA> y;
    coopMatLoad(x, tile, 0u, 4u, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(y, tile, 64u, 2u, gl_CooperativeMatrixLayoutRowMajor);
    bool found = x.length() == 8 && y.length() == 8;
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        float want = float(known_row(i) * 16u + known_column(i));
        found = found && x[i] == want && float(y[i]) == want;
    }
    barrier();
    return subgroupBallot(found) == subgroupBallot(true);
}
