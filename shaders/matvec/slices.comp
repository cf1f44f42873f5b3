#version 460
// Up to eight rows times the transposes of one to three matrices of 4 bits that share them, on cooperative
// matrices, with what comes after as in matvec/fused.comp. Subgroups keep slices of the rows (slices.glsl).
//
// A team takes a block of 16 outputs at a time, or one of each matrix of a pair. In each row of a block
// scales have a line of their own; so a team brings them to shared memory side by side, a block ahead.
//
// Constants: 1 group size, 2 rows, 3 slices of a row: subgroups of a team, 4 after, 5 inner size, 6 fragments
// may be used, 7 blocks whose sums are kept. HALF: 0 float16, 1 bfloat16.
#include "common.glsl"
#include "floats.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint GROUP = 64;
layout(constant_id = 2) const uint ROWS = 4;
layout(constant_id = 3) const uint SPLITS = 16;
layout(constant_id = 4) const uint AFTER = 0;
layout(constant_id = 5) const uint INNER = 4096;
layout(constant_id = 6) const uint FRAGMENTS = 1;
layout(constant_id = 7) const uint BUFFERS = 1;
#include "matvec.glsl"
const uint SETS = GATED ? 2u : 1u, COLUMNS = ROWS, KEPT = SETS;
#include "slices.glsl"
#include "matvec_results.glsl"

uint64_t row_at(uint column) { return x + uint64_t(min(column, ROWS - 1u) * OCTETS * 16u); }

// The first row of a block, in its matrix.
uint64_t first_row(uint block) { return uint64_t((block - start_of(set_of(block))) * BLOCK); }

// Asks for the words of a block's matrix of the set next.
void look_ahead(uint block, uint s) {
    words_ahead = matrices[set_of(block) + s].words + first_row(block) * ROW_BYTES
        + uint64_t(row_in_half() * ROW_BYTES + slice() * (SLICE / 2u) + quarter() * WORDS * 4u);
}

// ---- scales and biases ----

// Pairs of a row of a matrix, and from row to row, which begin in different banks; those that a thread asks
// for.
const uint ROW_PAIRS = SPLITS * PAIRS, PAIR_PITCH = (SPLITS | 1u) * PAIRS;
const uint TEAM_THREADS = SPLITS * SUBGROUP;
const uint PAIRS_EACH = (BLOCK * ROW_PAIRS + TEAM_THREADS - 1u) / TEAM_THREADS;
// Scales and biases of the team's blocks, of those in hand and of the next ones.
const uint LISTS = 2u * SETS, TEAM_PAIRS = LISTS * BLOCK * PAIR_PITCH;
shared uint affine_pairs[2u * TEAMS * TEAM_PAIRS];
uint asked[LISTS * PAIRS_EACH];
uint pairs_in_hand; // 0 or 1
uint set_in_hand;

// A thread's pair e: its number among those of a block.
uint pair_of(uint e) { return e * TEAM_THREADS + slice() * SUBGROUP + lane(); }

// Asks for those of a block.
void ask_scales(uint block) {
    uint set = set_of(block);
    [[unroll]] for (uint s = 0u; s < SETS; ++s) [[unroll]] for (uint e = 0u; e < PAIRS_EACH; ++e) {
        uint i = min(pair_of(e), BLOCK * ROW_PAIRS - 1u);
        uint64_t from = first_row(block) * (GROUPS * 2u)
            + uint64_t(i / ROW_PAIRS * (GROUPS * 2u) + i % ROW_PAIRS * 4u);
        asked[2u * s * PAIRS_EACH + e] = U32(matrices[set + s].scales + from).v[0];
        asked[(2u * s + 1u) * PAIRS_EACH + e] = U32(matrices[set + s].biases + from).v[0];
    }
}

uint pairs_at(uint buffer_, uint list, uint row) {
    return (buffer_ * TEAMS + team()) * TEAM_PAIRS + (list * BLOCK + row) * PAIR_PITCH;
}

void keep_scales(uint buffer_) {
    [[unroll]] for (uint l = 0u; l < LISTS; ++l) [[unroll]] for (uint e = 0u; e < PAIRS_EACH; ++e) {
        uint i = pair_of(e);
        if (BLOCK * ROW_PAIRS % TEAM_THREADS == 0u || i < BLOCK * ROW_PAIRS)
            affine_pairs[pairs_at(buffer_, l, i / ROW_PAIRS) + i % ROW_PAIRS] = asked[l * PAIRS_EACH + e];
    }
}

vec2 affine_of(uint half_, uint g) {
    uint at_ = slice() * PAIRS + g / 2u, row = row_in_half() + 8u * half_, list = 2u * set_in_hand;
    float scale = half_pair(DTYPE, affine_pairs[pairs_at(pairs_in_hand, list, row) + at_])[g % 2u];
    float bias = half_pair(DTYPE, affine_pairs[pairs_at(pairs_in_hand, list + 1u, row) + at_])[g % 2u];
    return vec2(scale, fma(-OFFSET, scale, bias));
}

// ---- blocks ----

// Multiplies the team's block with all rows, and asks for the next one, if there is one.
void multiply(uint block, uint next, uint buffer_) {
    bool follows = next < ends[2];
    if (follows) ask_scales(next);
    [[dont_unroll]] for (uint s = 0u; s < SETS; ++s) {
        set_in_hand = s;
        bool is_last = s + 1u == SETS;
        if (!is_last) look_ahead(block, 1u);
        else if (follows) look_ahead(next, 0u);
        multiply_block(s, buffer_, !is_last || follows);
    }
    if (follows) keep_scales(1u - pairs_in_hand);
}

// The same without fragments.
void multiply_rows_plainly(uint block, uint buffer_) {
    uint set = set_of(block);
    for (uint i = 0u; i < SETS * COLUMNS * BLOCK; ++i) {
        uint s = i / (COLUMNS * BLOCK), column = i / BLOCK % COLUMNS;
        uint64_t own = first_row(block) + uint64_t(i % BLOCK), groups = own * (GROUPS * 2u);
        Matrix m = matrices[set + s];
        multiply_plainly(s, buffer_, column, i % BLOCK, row_at(column), m.words + own * ROW_BYTES,
            m.scales + groups, m.biases + groups);
    }
}

// Adds the slices up and stores the results of the workgroup's blocks.
void finish(uint base, uint buffer_) {
    [[unroll]] for (uint e = 0u; e < RESULTS_EACH; ++e) {
        uint i = result_of(e);
        if (!is_result(base, i)) continue;
        uint team_ = i / (ROWS * BLOCK), row = i / BLOCK % ROWS;
        float y = joined(team_, buffer_, 0u, row, i % BLOCK), gated = 0.0;
        if (GATED) gated = joined(team_, buffer_, 1u, row, i % BLOCK);
        finish_result(base, e, y, gated);
    }
}

void main() {
    uint stride = gl_NumWorkGroups.x * TEAMS, base = gl_WorkGroupID.x * TEAMS, block = base + team();
    if (block < ends[2]) {
        look_ahead(block, 0u);
        [[unroll]] for (uint g = 0u; g < PARTS; ++g) ask_words(g);
        ask_scales(block);
    }
    write_numbers();
    if (thread() == 0u) staged_offset = one == 0u ? 0u : OFFSET_BITS;
    barrier();
    offset_ = staged_offset;
    bool known = FRAGMENTS == 1u && elements_are_known();
    if (known) take_slices(row_at(row_in_half()));
    pairs_in_hand = 0u;
    if (block < ends[2]) keep_scales(0u);
    barrier();
    uint buffer_ = 0u;
    for (; base < ends[2]; base += stride, block += stride) {
        if (RESIDUAL || BIASED) ask_for_addends(base);
        if (block < ends[2]) {
            if (known) multiply(block, block + stride, buffer_);
            else multiply_rows_plainly(block, buffer_);
        }
        barrier();
        finish(base, buffer_);
        // With two buffers a team fills one while others read the other.
        if (BUFFERS == 1u) barrier();
        buffer_ = (buffer_ + 1u) % BUFFERS;
        pairs_in_hand = 1u - pairs_in_hand;
    }
}
