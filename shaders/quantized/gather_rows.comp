#version 460
// Rows through the matrices of 4 bits of the experts that they pick, on cooperative matrices: an expert's
// weights are read once for all rows that pick it (matvec_rows.glsl). GATE: silu(gate x) * (up x) of each
// pick; STORE: both of them; else a pick's product with one matrix, rounded or, if it is to be SUMMED, as
// float32. Experts may have biases.
//
// Every workgroup puts the picks in the order of their experts by itself: those of an expert are tiles of up
// to COLUMNS. Its teams then take blocks of 16 outputs of a tile.
//
// Constants: 1 group size, 2 columns (8 or 16), 3 subgroups that share the inner axis, 4 after, 5 inner size,
// 6 fragments may be used, 7 experts, 8 picks at most, 9 rows are scaled (scaled_rows.glsl). HALF: 0 float16,
// 1 bfloat16. FLOATS: matrices are mxfp4.
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
#include "matvec_rows.glsl"

const uint EACH = (EXPERTS + THREADS - 1u) / THREADS; // experts of a thread

const uint PICKS_EACH = (MOST_PICKS + THREADS - 1u) / THREADS;

shared uint16_t sorted[MOST_PICKS]; // picks in the order of their experts
shared uint starts[EXPERTS];        // the place of an expert's first pick
shared uint behind[EXPERTS];        // where the next pick of an expert goes; in the end, where they end
shared uint tiles[MOST_PICKS];      // an expert, and from bit 16 on the place of the tile's first pick
shared uint sums[32];               // of subgroups
uint tile_count;

uint expert_of(uint pick) { return min(AT_U32(picks, pick), EXPERTS - 1u); }

// What threads before this one have; all of them have `all`.
uint before(uint own, out uint all) {
    uint start = subgroupExclusiveAdd(own);
    if (lane() == SUBGROUP - 1u) sums[gl_SubgroupID] = start + own;
    barrier();
    all = 0u;
    [[unroll]] for (uint s = 0u; s < SUBGROUPS; ++s) {
        if (s == gl_SubgroupID) start += all;
        all += sums[s];
    }
    return start;
}

// Where a pick belongs among those of its expert, which lie there in any order.
uint place_of(uint pick) {
    uint expert = expert_of(pick), place = starts[expert];
    for (uint i = starts[expert]; i < behind[expert]; ++i) place += uint(sorted[i]) < pick ? 1u : 0u;
    return place;
}

// Picks in the order of their experts, and their tiles. All workgroups find the same order, as each makes
// some of a tile's outputs.
void sort_picks() {
    for (uint i = thread(); i < EXPERTS; i += THREADS) behind[i] = 0u;
    barrier();
    for (uint pick = thread(); pick < count; pick += THREADS) atomicAdd(behind[expert_of(pick)], 1u);
    barrier();
    // Tiles from bit 16 on.
    uint own = 0u, all;
    [[unroll]] for (uint e = 0u; e < EACH; ++e) {
        uint expert = thread() * EACH + e, found = expert < EXPERTS ? behind[expert] : 0u;
        own += found + ((found + COLUMNS - 1u) / COLUMNS << 16);
    }
    uint start = before(own, all), place = start & 0xffffu, tile = start >> 16;
    [[unroll]] for (uint e = 0u; e < EACH; ++e) {
        uint expert = thread() * EACH + e;
        if (expert >= EXPERTS) continue;
        uint found = behind[expert];
        for (uint i = 0u; i < found; i += COLUMNS) tiles[tile++] = expert | (place + i << 16);
        starts[expert] = behind[expert] = place;
        place += found;
    }
    tile_count = all >> 16;
    barrier();
    for (uint pick = thread(); pick < count; pick += THREADS)
        sorted[atomicAdd(behind[expert_of(pick)], 1u)] = uint16_t(pick);
    barrier();
    uint places[PICKS_EACH];
    [[unroll]] for (uint i = 0u; i < PICKS_EACH; ++i) {
        uint pick = thread() + i * THREADS;
        places[i] = pick < count ? place_of(pick) : 0u;
    }
    barrier();
    [[unroll]] for (uint i = 0u; i < PICKS_EACH; ++i) {
        uint pick = thread() + i * THREADS;
        if (pick < count) sorted[places[i]] = uint16_t(pick);
    }
    barrier();
}

// ---- blocks of a tile's outputs ----

uint blocks() { return outputs / BLOCK; }
uint tile_of(uint block) { return tiles[block / blocks()]; }
uint first_output(uint block) { return block % blocks() * BLOCK; }

// The pick of a column of a block's tile, where it has one.
bool pick_of(uint block, uint column, out uint pick) {
    uint tile = tile_of(block), place = (tile >> 16) + column, end = behind[tile & 0xffffu];
    pick = uint(sorted[min(place, end - 1u)]);
    return place < end;
}

Addresses matrices_of(uint block) {
    uint64_t row = uint64_t(tile_of(block) & 0xffffu) * uint64_t(outputs) + uint64_t(first_output(block));
    Addresses of_block;
    [[unroll]] for (uint s = 0u; s < SETS; ++s) {
        of_block.words[s] = words[s] + row * ROW_BYTES;
        of_block.scales[s] = scales[s] + row * (GROUPS * SCALE_BYTES);
        of_block.biases[s] = biases[s] + row * (GROUPS * SCALE_BYTES);
    }
    return of_block;
}

uint block_in_hand;

uint64_t row_at(uint column) {
    uint pick;
    pick_of(block_in_hand, column, pick);
    uint row = rows == 0ul ? pick / per_row : min(AT_U32(rows, pick), row_count - 1u);
    return x + uint64_t(row) * (OCTETS * 16u);
}

#include "gate.glsl"

// Result i of a block's column, of one of the matrices, with the expert's bias.
float result_of(uint block, uint team, uint set, uint column, uint i) {
    float y = joined(team, set, column, i);
    if (added[set] == 0ul) return y;
    uint64_t row = uint64_t(tile_of(block) & 0xffffu) * uint64_t(outputs) + uint64_t(first_output(block));
    return y + fetch(DTYPE, at(DTYPE, added[set], int64_t(row + uint64_t(i))));
}

// Joins the splits and stores the results of the workgroup's blocks from `base` on.
void finish(uint base, uint all) {
    for (uint i = thread(); i < TEAMS * COLUMNS * BLOCK; i += THREADS) {
        uint team = i / (COLUMNS * BLOCK), column = i / BLOCK % COLUMNS, block = base + team, pick;
        if (block >= all || !pick_of(block, column, pick)) continue;
        float y = result_of(block, team, 0u, column, i % BLOCK);
        int64_t to = int64_t(uint64_t(pick) * uint64_t(outputs) + uint64_t(first_output(block) + i % BLOCK));
        if (SETS == 2u) {
            float second = result_of(block, team, 1u, column, i % BLOCK);
            if (AFTER == GATE) y = gate(y, false) * second;
            else store_float(DTYPE, other, to, second);
        }
        store_float(AFTER == SUMMED ? FLOAT32 : DTYPE, result, to, y);
    }
}

void main() {
    write_numbers();
    if (thread() == 0u) staged_offset = outputs == 0u ? 0u : OFFSET_BITS;
    sort_picks();
    offset_ = staged_offset;
    bool known = FRAGMENTS == 1u && elements_are_known();
    uint all = tile_count * blocks(), stride = gl_NumWorkGroups.x * TEAMS, base = gl_WorkGroupID.x * TEAMS,
         block = base + gl_SubgroupID / SPLITS;
    if (known && block < all) begin(block);
    for (; base < all; base += stride, block += stride) {
        block_in_hand = block;
        if (block < all) {
            if (known) {
                sum_up(block + stride, all);
                keep_totals();
            } else {
                sum_up_plainly(block);
            }
        }
        barrier();
        finish(base, all);
        barrier();
    }
}
