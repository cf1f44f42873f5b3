// The tiles of a product on cooperative matrices: which ones a workgroup makes, of which matrices, and how
// sums get to the result. Needs matrix_tile.glsl, and before it:
//   slices: shared memory of OUT_ALL uvec4 at least, for what a workgroup multiplies and then for its sums.
#include "gate.glsl"
// The kernel supplies:
void begin_sums();
// Adds the products of k0..k1 to the sums of a tile with this first row, and column of its first matrix; the
// subgroup's part of it begins at `row` and `column` of the tile.
void multiply_slices(Batch at_, uint row0, uint column0, uint k0, uint k1, uint row, uint column);
// Writes rows i * FM of the subgroup's sums to `slices`, from `mine` on, OUT_PITCH from row to row.
void keep_sums(uint i, uint mine);
// Stores the subgroup's part, which begins at row0 and at `column` of the tile, by `store_parts`.
void finish_tile(Batch at_, uint row0, uint column0, uint column);

// The tile's matrices: with GATED they take turns, else the second one's columns begin at `border`.
Sibling own, second;
uint border;

// Whether b's row or column i in the tile is the second's; its distance from the first one that the
// tile has of its matrix, but not behind the last; and where in its matrix that first one is, if it
// is column0 of the first matrix.
const uint TURN = FN / 2u;
bool b_second(uint i) { return GATED ? (i / TURN & 1u) != 0u : SIBLINGS && i >= border; }
uint b_first(bool second_, uint column0) { return second_ && !GATED ? 0u : column0; }
uint b_source(uint i, uint column0) {
    bool second_ = b_second(i);
    uint from = GATED ? i / (2u * TURN) * TURN + i % TURN : second_ ? i - border : i;
    return min(from, (second_ ? second.n : own.n) - 1u - b_first(second_, column0));
}

// A value that is the same for the whole subgroup, told to the compiler.
uint64_t same(uint64_t x) {
    uvec2 words = unpackUint2x32(x);
    return packUint2x32(uvec2(subgroupBroadcastFirst(words.x), subgroupBroadcastFirst(words.y)));
}

// Sets the tile's matrices; returns its first column in the first one.
uint pick_matrices(inout Batch at_, uint column0) {
#ifdef OWN_PUSH
    own = Sibling(b, 0ul, 0ul, at_.result, n, n);
    border = BN;
    return column0;
#else
    own = Sibling(b, c, extra, at_.result, n, n);
    border = BN;
    if (!SIBLINGS) return column0;
    Siblings list = Siblings(extra);
    uint s = 0u;
    while (!GATED && column0 >= list.all[s].end) ++s; // the last one ends at n
    own = list.all[s];
    at_.result = own.result;
    at_.n = own.n;
    if (GATED) {
        second = list.all[1];
        return column0 / 2u;
    }
    bool alone = column0 + BN <= own.end || own.end == n;
    second = list.all[alone ? s : s + 1u];
    if (!alone) border = own.end - column0;
    return column0 - (own.end - own.n);
#endif
}

// Four neighbours of the result, from the subgroup's slot in shared memory.
vec4 result_quad(uint mine, uint row, uint quad) {
    uint at_ = mine + row * OUT_PITCH;
    if (!GATED) return uintBitsToFloat(slices[at_ + quad]);
    at_ += quad / (TURN / 4u) * (TURN / 2u) + quad % (TURN / 4u);
    return gate(uintBitsToFloat(slices[at_]), GELU) * uintBitsToFloat(slices[at_ + TURN / 4u]);
}

// Four neighbours of a result's row, and how many of them a lane has of FM rows.
const uint QUADS = GATED ? WN / 8u : WN / 4u, EACH_QUADS = (FM * QUADS + SUBGROUP - 1u) / SUBGROUP;

// What is added to this lane's quads of FM rows.
void ask_addends(Batch at_, uint row0, uint column0, out vec4 added[EACH_QUADS]) {
    [[unroll]] for (uint e = 0u; e < EACH_QUADS; ++e) {
        uint q = e * SUBGROUP + gl_SubgroupInvocationID;
        added[e] = addend(at_, row0 + q / QUADS, column0 + q % QUADS * 4u);
    }
}

// What these quads are multiplied by.
float of_rows[EACH_QUADS];
vec4 of_columns[EACH_QUADS];

void ask_factors(Batch at_, uint row0, uint column0) {
    if (!SCALED_LINES) return;
    [[unroll]] for (uint e = 0u; e < EACH_QUADS; ++e) {
        uint q = e * SUBGROUP + gl_SubgroupInvocationID;
        of_rows[e] = row_factor(at_, row0 + q / QUADS);
        of_columns[e] = column_factors(at_, column0 + q % QUADS * 4u);
    }
}

void subgroup_barrier() {
    controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
}

// Stores FM rows of sums that the subgroup has in its slot.
void store_rows(Batch at_, uint row0, uint column0, uint column, uint mine, vec4 added[EACH_QUADS]) {
    [[unroll]] for (uint e = 0u; e < EACH_QUADS; ++e) {
        uint q = e * SUBGROUP + gl_SubgroupInvocationID, row = q / QUADS, quad = q % QUADS;
        if (FM * QUADS % SUBGROUP != 0u && q >= FM * QUADS) continue;
        uint in_tile = column + quad * 4u;
        bool second_ = SIBLINGS && !GATED && in_tile >= border;
        Batch to = at_;
        if (second_) to.result = second.result;
        if (second_) to.n = second.n;
        vec4 x = result_quad(mine, row, quad);
        // The smaller factor first: their product, or that with the larger one, may be no float.
        if (SCALED_LINES) {
            vec4 rows = vec4(of_rows[e]);
            x = x * min(rows, of_columns[e]) * max(rows, of_columns[e]);
        }
        store_sum(to, row0 + row, second_ ? in_tile - border : column0 + in_tile, x, added[e]);
    }
}

// Stores the subgroup's part, by its own slot of the shared memory; `column` is where it begins in the tile.
// One loop for all of it: a multiprocessor waits for code that it has not run lately (64 x 4096 by 4096 in 4
// bits on an H200: 43 µs written out, 36 so). But sums have numbers that the compiler knows, and a call that
// the driver does not inline would keep them in memory all along.
void store_parts(Batch at_, uint row0, uint column0, uint column) {
    uint mine = gl_SubgroupID * OUT_SIZE;
    [[dont_unroll]] for (uint part = 0u; part < WM / FM; ++part) {
        // All at once, because no load goes before a store.
        vec4 added[EACH_QUADS];
        ask_addends(at_, row0 + part * FM, column0 + column, added);
        ask_factors(at_, row0 + part * FM, column0 + column);
#define KEEP_SUMS(i) if (part == i) keep_sums(i, mine)
        WRITTEN_OUT(WM / FM, KEEP_SUMS)
        subgroup_barrier();
        store_rows(at_, row0 + part * FM, column0, column, mine, added);
        subgroup_barrier();
    }
}

// A tile's place, and its matrices are picked: its operands, first row, and column of its first matrix.
struct Place { Batch at_; uint row0, column0; };

Place place_of(uint batch, uint row_tile, uint column0) {
    uvec2 rows = tile_rows(row_tile, BM);
    Batch at_ = batch_at(batch);
    if (GROUPED) at_ = group_at(rows);
    column0 = pick_matrices(at_, column0);
    return Place(at_, rows.x, column0);
}

// Of the subgroup: where its part of a tile begins.
uint own_row() { return gl_SubgroupID / ACROSS * WM; }
uint own_column() { return gl_SubgroupID % ACROSS * WN; }

// Adds the products of k0..k1.
void multiply_tile(Place place, uint k0, uint k1) {
    if (k0 < k1) multiply_slices(place.at_, place.row0, place.column0, k0, k1, own_row(), own_column());
}

void store_tile(Place place) {
    uint column = own_column();
    finish_tile(place.at_, place.row0 + own_row(), place.column0, GATED ? column / 2u : column);
}

// Makes a split of the tile of a batch, with this tile of rows and first column, by `place_of`,
// `multiply_tile` and `store_tile`; `number` counts the tiles of all batches.
void make_tile(uint batch, uint split, uint row_tile, uint column0, uint64_t number);

// Tiles in bands of rows, so that those that run at once share slices of a and b in the cache.
const uint BAND = 8;

// All tiles of a workgroup, and all splits of them. Long integers take long to divide.
void make_tiles() {
    uint rows = row_tiles(BM), columns = (n + BN - 1u) / BN;
    uint64_t each = uint64_t(rows) * uint64_t(columns), all = each * uint64_t(batches) * uint64_t(splits);
    for (uint64_t t = uint64_t(gl_WorkGroupID.x); t < all; t += uint64_t(gl_NumWorkGroups.x)) {
        uint z = all >> 32 == 0ul ? uint(t) / uint(each) : uint(t / each), i = uint(t - uint64_t(z) * each);
        uint band = i / (BAND * columns), high = min(BAND, rows - band * BAND),
             in_band = i - band * BAND * columns;
        make_tile(z / splits, z % splits, band * BAND + in_band % high, in_band / high * BN,
            uint64_t(z / splits) * each + uint64_t(i));
    }
}
