// How quantized/gather_rows.comp multiplies affine matrices whose rows are whole slices, with tiles of up to
// eight picks (slices.glsl).
//
// A unit is 16 outputs of a tile from each of two matrices, or 32 from one. A team takes units that follow
// each other.
const bool TWO = SETS == 2u; // whether there are two matrices
const uint KEPT = 2;
#include "slices.glsl"

const uint UNIT = TWO ? BLOCK : 2u * BLOCK; // outputs

#include "gather_picks.glsl"
#include "gate.glsl"

// Output i of a matrix of the set, as a row of the expert's matrix.
uint output_of(uint unit, uint set, uint i) { return unit * UNIT + (TWO ? 0u : set * BLOCK) + i; }

uint64_t matrix_row(uint tile, uint output_) {
    return uint64_t(tile & 0xffffu) * uint64_t(outputs) + uint64_t(output_);
}

// ---- the rows ----

// The slices of a tile's rows.
void take_rows(uint tile) {
    uint pick;
    pick_of(tile, row_in_half(), pick);
    take_slices(row_of(pick));
}

// ---- the matrices ----

// The block that is asked for next: its tile, unit and set, and where this lane's scales and biases are.
uint tile_ahead, unit_ahead, set_ahead;
uint64_t scales_ahead, biases_ahead;

// Scales and biases of this lane's rows of both halves: of the block in hand, and of the next one.
uint scales_of[2u * PAIRS], biases_of[2u * PAIRS], next_scales[2u * PAIRS], next_biases[2u * PAIRS];

void look_ahead() {
    uint64_t row = matrix_row(tiles[tile_ahead], output_of(unit_ahead, 0u, row_in_half()));
    uint64_t of_row = uint64_t(slice() * (SLICE / 2u) + quarter() * WORDS * 4u);
    words_ahead = words[0] + row * ROW_BYTES + of_row;
    uint64_t group = (row * GROUPS + uint64_t(slice() * (SLICE / GROUP))) * 2u;
    scales_ahead = scales[0] + group;
    biases_ahead = biases[0] + group;
}

void step_ahead(uint units) {
    const uint64_t ROWS = uint64_t(BLOCK * ROW_BYTES), OF_GROUPS = uint64_t(BLOCK * GROUPS * 2u);
    set_ahead ^= 1u;
    if (set_ahead == 0u && ++unit_ahead == units) {
        unit_ahead = 0u;
        ++tile_ahead;
        look_ahead();
        return;
    }
    if (!TWO) {
        words_ahead += ROWS;
        scales_ahead += OF_GROUPS;
        biases_ahead += OF_GROUPS;
    } else if (set_ahead == 1u) {
        words_ahead += words[1] - words[0];
        scales_ahead += scales[1] - scales[0];
        biases_ahead += biases[1] - biases[0];
    } else {
        words_ahead += words[0] - words[1] + ROWS;
        scales_ahead += scales[0] - scales[1] + OF_GROUPS;
        biases_ahead += biases[0] - biases[1] + OF_GROUPS;
    }
}

// Asks for scales and biases of the block ahead.
void ask_scales() {
    [[unroll]] for (uint h = 0u; h < 2u; ++h) {
        uint pairs[PAIRS];
        uint64_t row = uint64_t(h * 8u * GROUPS * 2u);
        load_pairs(scales_ahead + row, pairs);
        [[unroll]] for (uint p = 0u; p < PAIRS; ++p) next_scales[h * PAIRS + p] = pairs[p];
        load_pairs(biases_ahead + row, pairs);
        [[unroll]] for (uint p = 0u; p < PAIRS; ++p) next_biases[h * PAIRS + p] = pairs[p];
    }
}

// Asks for a team's first block.
void begin(uint place, uint unit) {
    tile_ahead = place;
    unit_ahead = unit;
    set_ahead = 0u;
    look_ahead();
    [[unroll]] for (uint g = 0u; g < PARTS; ++g) ask_words(g);
    ask_scales();
}

vec2 affine_of(uint half_, uint g) {
    float scale = half_pair(DTYPE, scales_of[half_ * PAIRS + g / 2u])[g % 2u];
    return vec2(scale, fma(-OFFSET, scale, half_pair(DTYPE, biases_of[half_ * PAIRS + g / 2u])[g % 2u]));
}

// Multiplies the block in hand, and asks for the next one, if it follows.
void multiply(uint s, uint buffer_, bool follows) {
    [[unroll]] for (uint p = 0u; p < 2u * PAIRS; ++p) {
        scales_of[p] = next_scales[p];
        biases_of[p] = next_biases[p];
    }
    if (follows) ask_scales();
    multiply_block(s, buffer_, follows);
}

// The same without fragments.
void multiply_rows_plainly(uint tile, uint unit, uint s, uint buffer_) {
    uint m = TWO ? s : 0u;
    for (uint i = 0u; i < COLUMNS * BLOCK; ++i) {
        uint pick;
        pick_of(tile, i / BLOCK, pick);
        uint64_t own = matrix_row(tile, output_of(unit, s, i % BLOCK)), groups = own * GROUPS * 2ul;
        multiply_plainly(s, buffer_, i / BLOCK, i % BLOCK, row_of(pick), words[m] + own * ROW_BYTES,
            scales[m] + groups, biases[m] + groups);
    }
}

// ---- results ----

// A column's output of a set, with the expert's bias.
float output_sum(uint tile, uint unit, uint buffer_, uint set, uint column, uint i) {
    float y = joined(team(), buffer_, set, column, i);
    uint64_t bias = added[TWO ? set : 0u];
    if (bias == 0ul) return y;
    return y + fetch(DTYPE, at(DTYPE, bias, int64_t(matrix_row(tile, output_of(unit, set, i)))));
}

// Stores a unit's results.
void finish(uint tile, uint unit, uint buffer_) {
    for (uint r = slice() * SUBGROUP + lane(); r < COLUMNS * UNIT; r += SPLITS * SUBGROUP) {
        uint column = r / UNIT, set = TWO ? 0u : r / BLOCK % 2u, i = r % BLOCK, pick;
        if (!pick_of(tile, column, pick)) continue;
        float y = output_sum(tile, unit, buffer_, set, column, i);
        int64_t to = int64_t(uint64_t(pick) * uint64_t(outputs) + uint64_t(output_of(unit, set, i)));
        if (TWO) {
            float second = output_sum(tile, unit, buffer_, 1u, column, i);
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
    // Units of a tile and in all. A team has `own` of them, and none has more than `most`, as often as all
    // of them come to the barriers.
    uint units = outputs / UNIT, all = tile_count * units;
    uint teams = gl_NumWorkGroups.x * TEAMS, number = gl_WorkGroupID.x * TEAMS + team();
    uint first = all / teams * number + min(all % teams, number);
    uint own = all / teams + (number < all % teams ? 1u : 0u), most = (all + teams - 1u) / teams;
    uint place = first / units, unit = first % units, tile = 0u, buffer_ = 0u;
    if (own > 0u && known) begin(place, unit);
    bool fresh = true; // whether the tile is another one
    for (uint u = 0u; u < most; ++u) {
        if (u < own) {
            if (fresh) {
                tile = tiles[place];
                if (known) take_rows(tile);
            }
            [[dont_unroll]] for (uint s = 0u; s < 2u; ++s) {
                if (known) {
                    bool follows = s == 0u || u + 1u < own;
                    if (follows) step_ahead(units);
                    multiply(s, buffer_, follows);
                } else {
                    multiply_rows_plainly(tile, unit, s, buffer_);
                }
            }
        }
        barrier();
        if (u < own) finish(tile, unit, buffer_);
        // With two buffers a team fills one while others read the other.
        if (BUFFERS == 1u) barrier();
        buffer_ = (buffer_ + 1u) % BUFFERS;
        fresh = ++unit == units;
        if (fresh) {
            unit = 0u;
            ++place;
        }
    }
}
