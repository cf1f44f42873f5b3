// How quantized/gather_rows.comp multiplies where a subgroup reads rows of x anew for each block (as
// matvec_rows.glsl says): any format, inner size and number of columns that it knows.
#include "matvec_rows.glsl"
#include "gather_picks.glsl"
#include "gate.glsl"

uint blocks() { return outputs / BLOCK; }
uint tile_of(uint block) { return tiles[block / blocks()]; }
uint first_output(uint block) { return block % blocks() * BLOCK; }

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
    pick_of(tile_of(block_in_hand), column, pick);
    return row_of(pick);
}

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
        if (block >= all || !pick_of(tile_of(block), column, pick)) continue;
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
