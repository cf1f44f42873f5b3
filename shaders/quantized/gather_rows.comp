#version 460
// Rows through the matrices of 4 bits of the experts that they pick, on cooperative matrices: an expert's
// weights are read once for a tile of rows that pick it. GATE: silu(gate x) * (up x) of each
// pick; STORE: both of them; else a pick's product with one matrix, rounded or, if it is to be SUMMED, as
// float32. Experts may have biases.
//
// Every workgroup puts the picks in the order of their experts by itself: those of an expert are tiles of up
// to COLUMNS. Its teams then take blocks of 16 outputs of a tile (gather_blocks.glsl), or two of them at a
// time (SLICES, gather_slices.glsl).
//
// Constants: 1 group size, 2 columns (8 or 16), 3 subgroups that share the inner axis, 4 after, 5 inner size,
// 6 fragments may be used, 7 experts, 8 picks at most, 9 rows are scaled (scaled_rows.glsl), 10 units whose
// sums are kept (SLICES). HALF: 0 float16, 1 bfloat16. FLOATS: matrices are mxfp4.
#include "common.glsl"
#include "floats.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint GROUP = 64;
layout(constant_id = 2) const uint COLUMNS = 8;
layout(constant_id = 3) const uint SPLITS = 4;
layout(constant_id = 4) const uint AFTER = 0;
layout(constant_id = 5) const uint INNER = 1024;
layout(constant_id = 6) const uint FRAGMENTS = 1;
layout(constant_id = 7) const uint EXPERTS = 128;
layout(constant_id = 8) const uint MOST_PICKS = 128;
layout(constant_id = 9) const uint ROWS_SCALED = 0;
layout(constant_id = 10) const uint BUFFERS = 1;
const bool SCALED = ROWS_SCALED == 1u;

layout(push_constant, scalar) uniform Push {
    uint64_t x, result;
    uint64_t picks; // an expert for each, uint32
    uint64_t rows;  // the row of x of each pick, uint32; 0: each row is for per_row picks
    uint64_t words[2], scales[2], biases[2]; // of gate and up, or of one matrix
    uint64_t added[2]; // biases of their products (experts, outputs), or 0
    uint64_t other;    // STORE: where up's products go
    uint count, per_row, row_count, outputs; // of picks, picks of a row, rows of x
};

// What happens to the products. [host]
const uint ROUNDED = 0, GATE = 1, SUMMED = 2, STORE = 3;

const uint SETS = AFTER == GATE || AFTER == STORE ? 2u : 1u;
#ifdef SLICES
#include "gather_slices.glsl"
#else
#include "gather_blocks.glsl"
#endif
