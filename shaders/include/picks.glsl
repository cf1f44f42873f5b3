// Matrices that indices pick. Needs common.glsl.
// `picks` is the address of what kernels::matmul::Picks packs, six 64-bit words: the lists of uint32 indices
// of the left and right matrices, the distances of neighbouring matrices, and how many matrices there are.

// Where picked matrix `side` (0: left, 1: right) of a batch begins, in the unit of its distance.
int64_t picked(uint64_t picks, uint side, uint batch) {
    uint64_t index = uint64_t(AT_U32(U64(picks).v[side], batch));
    index = min(index, U64(picks).v[4u + side] - 1ul);
    return int64_t(index) * I64(picks).v[2u + side];
}
