// What both ways of moving elements are told. The first pass does not read `indices`: they are those of the
// row. The last one over indices writes no elements any more. All addresses are valid nevertheless: some
// drivers load what they then do not use.
layout(push_constant, scalar) uniform Push {
    uint64_t source, destination, indices, out_indices, offsets, rows, length, splits, chunk;
    uint shift, reads_indices, writes_elements;
};
