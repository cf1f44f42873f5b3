// Products of rows with a matrix for each row: rows of the result that follow one another are a group as
// long as they pick the same matrix, and a tile has rows of one group only. `walk` is the address of the
// picks, of rows of a (left) and of matrices of b (right). Needs gemm.glsl and picks.glsl.

// Tiles of rows: each one's first row; behind the last one stands the number of rows.
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer Tiles { uint count, firsts[]; };

uint row_tiles(uint height) {
    return GROUPED ? Tiles(Picks(walk).tiles).count : (m + height - 1u) / height;
}

// The first row of a tile, and the end of those that it may have.
uvec2 tile_rows(uint tile, uint height) {
    if (!GROUPED) return uvec2(tile * height, m);
    Tiles tiles = Tiles(Picks(walk).tiles);
    return uvec2(tiles.firsts[tile], tiles.firsts[tile + 1u]);
}

// The row of a that makes this row of the result.
int64_t row_of_a(uint row) { return GROUPED ? picked(walk, 0u, row) : int64_t(row); }

// The operands of a tile with these rows, instead of those of a batch.
Batch group_at(uvec2 rows) { return Batch(a, uint64_t(picked(walk, 1u, rows.x)), 0ul, result, rows.y, n); }
