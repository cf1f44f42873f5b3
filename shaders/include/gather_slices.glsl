// How quantized/gather_rows.comp multiplies affine matrices whose rows are whole slices, with tiles of up to
// eight picks.
//
// A unit is 16 outputs of a tile from each of two matrices, or 32 from one. A team of SPLITS subgroups takes
// units that follow each other. Each of its subgroups has a slice of the inner axis, and keeps its part of
// the tile's rows in registers; so the loop reads weights alone, and L1, which takes a line a cycle, is left
// to them. What the slices give is added up behind a barrier.
//
// Fragments are filled as in matvec_rows.glsl: the four lanes that share a row of the matrix have a quarter
// of each part that has one scale.
const bool TWO = SETS == 2u; // whether there are two matrices
const uint SLICE = INNER / SPLITS, DEPTH = SLICE / 128u; // chunks whose scales are loaded together
const uint FN = 16; // columns of a fragment; drivers leave out those that are none
#define KNOWN_COLUMNS FN
#include "matvec_fragments.glsl"
const uint BITS = MATRIX_BITS, FORMAT = 0; // AFFINE
#include "quant.glsl"
#include "packed.glsl"

const uint THREADS = gl_WorkGroupSize.x, SUBGROUPS = THREADS / SUBGROUP, TEAMS = SUBGROUPS / SPLITS;
// Outputs of a fragment and of a unit.
const uint BLOCK = 16, UNIT = TWO ? BLOCK : 2u * BLOCK;
// Parts of a slice; of a part, a lane's words of a row and octets of x, and how often 16 elements are
// multiplied.
const uint PARTS = SLICE / PART, WORDS = PART / 32u, PART_OCTETS = WORDS, STEPS = PART / 16u;
const uint ROW_BYTES = INNER / 2u;

#include "gather_picks.glsl"
#include "gate.glsl"

// A column's sums; with four more floats lanes store to all banks.
const uint PITCH = BLOCK + 4u;
shared float partial[BUFFERS * SUBGROUPS * 2u * COLUMNS * PITCH];

// Where a subgroup's sums of a column begin.
uint sums_of(uint buffer_, uint subgroup, uint set, uint column) {
    return (((buffer_ * SUBGROUPS + subgroup) * 2u + set) * COLUMNS + column) * PITCH;
}

// Output i of a matrix of the set, as a row of the expert's matrix.
uint output_of(uint unit, uint set, uint i) { return unit * UNIT + (TWO ? 0u : set * BLOCK) + i; }

uint64_t matrix_row(uint tile, uint output_) {
    return uint64_t(tile & 0xffffu) * uint64_t(outputs) + uint64_t(output_);
}

// ---- the rows ----

coopmat<half, gl_ScopeSubgroup, 16, FN, gl_MatrixUseB> rows_of_x[SLICE / 16u];
vec2 of_x[PARTS]; // sums of this lane's two columns

uint slice() { return gl_SubgroupID % SPLITS; }
uint team() { return gl_SubgroupID / SPLITS; }

// The slice of a tile's rows, and their sums.
void take_rows(uint tile) {
    uint pick;
    pick_of(tile, row_in_half(), pick);
    uint64_t own = row_of(pick) + uint64_t(slice() * (SLICE * 2u) + quarter() * PART_OCTETS * 16u);
    [[unroll]] for (uint g = 0u; g < PARTS; ++g) {
        coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator> all;
        all = coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator>(0.0);
        [[unroll]] for (uint w = 0u; w < PART_OCTETS; ++w) {
            uvec4 octet = paired(V4(own + uint64_t(g * PART * 2u + w * 16u)).v[0]);
            [[unroll]] for (uint k = 0u; k < 2u; ++k) {
                uint to = g * STEPS + w * 2u + k;
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    half2 pair = i < 2u ? halves(octet[k * 2u + i % 2u]) : half2(half(0.0));
                    rows_of_x[to][2u * i] = pair.x;
                    rows_of_x[to][2u * i + 1u] = pair.y;
                }
                all = coopMatMulAdd(coopmat<half, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>(half(1.0)),
                    rows_of_x[to], all);
            }
        }
        of_x[g] = vec2(all[0], all[1]);
    }
}

// ---- the matrices ----

// This lane's part of the block that is asked for next, and where that block is: tile, unit and set.
uint64_t words_ahead, scales_ahead, biases_ahead;
uint tile_ahead, unit_ahead, set_ahead;

// What was asked for: this lane's row of the upper and of the lower half. A part's words are replaced as soon
// as it is multiplied; scales and biases of the block in hand are kept beside those of the next one.
uint words_of[2u * PARTS * WORDS];
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

// Asks for the words of a part of the block ahead.
void ask_words(uint g) {
    [[unroll]] for (uint h = 0u; h < 2u; ++h) {
        uint to = (h * PARTS + g) * WORDS;
        uint64_t of_part = words_ahead + uint64_t(h * 8u * ROW_BYTES + g * PART / 2u);
        if (WORDS == 4u) {
            uvec4 p = V4(of_part).v[0];
            [[unroll]] for (uint e = 0u; e < 4u; ++e) words_of[to + e] = p[e];
        } else if (WORDS == 2u) {
            uvec2 p = V2(of_part).v[0];
            words_of[to] = p.x;
            words_of[to + 1u] = p.y;
        } else {
            words_of[to] = U32(of_part).v[0];
        }
    }
}

// Asks for its scales and biases.
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

// Of a half of the block in hand, scale and bias of part g; the bias with what halves are too large.
vec2 affine_of(uint i, uint g) {
    float scale = half_pair(DTYPE, scales_of[i * PAIRS + g / 2u])[g % 2u];
    return vec2(scale, fma(-OFFSET, scale, half_pair(DTYPE, biases_of[i * PAIRS + g / 2u])[g % 2u]));
}

vec2 total[2]; // of a block, of this lane's row of each half

// Adds part g of a block, and asks for the next block's words of it.
void add_part(uint g, bool follows) {
    coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator> sums;
    sums = coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator>(0.0);
    [[unroll]] for (uint k = 0u; k < STEPS; ++k) {
        coopmat<half, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> a;
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uint word = words_of[(i / 2u * PARTS + g) * WORDS + k / 2u];
            half2 pair = pair_of_word(word, 2u * (k % 2u) + i % 2u);
            a[2u * i] = pair.x;
            a[2u * i + 1u] = pair.y;
        }
        sums = coopMatMulAdd(a, rows_of_x[g * STEPS + k], sums);
    }
    if (follows) ask_words(g);
    [[unroll]] for (uint h = 0u; h < 2u; ++h) {
        vec2 affine = affine_of(h, g);
        total[h] = fma(vec2(affine.y), of_x[g], total[h]);
        total[h] = fma(vec2(affine.x), vec2(sums[sum_at(h, 0u)], sums[sum_at(h, 1u)]), total[h]);
    }
}

// The slice of a block times all columns, to where the others see it. Asks for the next one, if it follows.
void multiply(uint s, uint buffer_, bool follows) {
    [[unroll]] for (uint p = 0u; p < 2u * PAIRS; ++p) {
        scales_of[p] = next_scales[p];
        biases_of[p] = next_biases[p];
    }
    if (follows) ask_scales();
    total[0] = total[1] = vec2(0.0);
    [[unroll]] for (uint g = 0u; g < PARTS; ++g) add_part(g, follows);
    [[unroll]] for (uint h = 0u; h < 2u; ++h) [[unroll]] for (uint j = 0u; j < 2u; ++j) {
        uint column = quarter() * 2u + j;
        partial[sums_of(buffer_, gl_SubgroupID, s, column) + h * 8u + row_in_half()] = total[h][j];
    }
}

// The same without fragments: lanes walk the octets of a slice.
void multiply_plainly(uint tile, uint unit, uint s, uint buffer_) {
    uint first = slice() * (SLICE / 8u), m = TWO ? s : 0u;
    for (uint i = 0u; i < COLUMNS * BLOCK; ++i) {
        uint pick;
        pick_of(tile, i / BLOCK, pick);
        uint64_t row = row_of(pick), own = matrix_row(tile, output_of(unit, s, i % BLOCK));
        float sum = 0.0;
        for (uint w = first + lane(); w < first + SLICE / 8u; w += SUBGROUP) {
            uvec4 p = V4(row).v[w];
            vec4 low, high, x_low = vec4(half_pair(DTYPE, p.x), half_pair(DTYPE, p.y)),
                            x_high = vec4(half_pair(DTYPE, p.z), half_pair(DTYPE, p.w));
            elements8(uvec2(AT_U32(words[m] + own * ROW_BYTES, w), 0u), low, high);
            float product = dot_add(x_high, high, dot_add(x_low, low, 0.0));
            uint64_t group = (own * GROUPS + uint64_t(w / (GROUP / 8u))) * 2u;
            float of_octet = dot(x_low, vec4(1.0)) + dot(x_high, vec4(1.0));
            sum = fma(fetch(DTYPE, biases[m] + group), of_octet, sum);
            sum = fma(fetch(DTYPE, scales[m] + group), product, sum);
        }
        sum = subgroupAdd(sum);
        if (lane() == 0u) partial[sums_of(buffer_, gl_SubgroupID, s, i / BLOCK) + i % BLOCK] = sum;
    }
}

// ---- results ----

// What all slices have of a column's output of a set, with the expert's bias.
float joined(uint tile, uint unit, uint buffer_, uint set, uint column, uint i) {
    float y = 0.0;
    [[unroll]] for (uint s = 0u; s < SPLITS; ++s)
        y += partial[sums_of(buffer_, team() * SPLITS + s, set, column) + i];
    uint64_t bias = added[TWO ? set : 0u];
    if (bias == 0ul) return y;
    return y + fetch(DTYPE, at(DTYPE, bias, int64_t(matrix_row(tile, output_of(unit, set, i)))));
}

// Stores a unit's results.
void finish(uint tile, uint unit, uint buffer_) {
    for (uint r = slice() * SUBGROUP + lane(); r < COLUMNS * UNIT; r += SPLITS * SUBGROUP) {
        uint column = r / UNIT, set = TWO ? 0u : r / BLOCK % 2u, i = r % BLOCK, pick;
        if (!pick_of(tile, column, pick)) continue;
        float y = joined(tile, unit, buffer_, set, column, i);
        int64_t to = int64_t(uint64_t(pick) * uint64_t(outputs) + uint64_t(output_of(unit, set, i)));
        if (TWO) {
            float second = joined(tile, unit, buffer_, 1u, column, i);
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
                    multiply_plainly(tile, unit, s, buffer_);
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
