// Matrices that indices pick. Needs common.glsl.

// Of the left and of the right matrices: lists of uint32 indices, strides from matrix to matrix, and how many
// there are; and the tiles of groups.glsl.
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Picks {
    uint64_t lists[2];
    int64_t strides[2];
    uint64_t counts[2];
    uint64_t tiles;
};

// Where picked matrix `side` (0: left, 1: right) of a batch begins, in the unit of its stride.
int64_t picked(uint64_t picks, uint side, uint batch) {
    Picks from = Picks(picks);
    uint64_t index = min(uint64_t(AT_U32(from.lists[side], batch)), from.counts[side] - 1ul);
    return int64_t(index) * from.strides[side];
}
