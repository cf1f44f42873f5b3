#version 460
// Several rows times the transposes of one to three matrices that share them, on cooperative matrices
// (matvec_rows.glsl), with what comes after as in matvec/fused.comp.
//
// Constants: 1 group size, 2 rows, 3 subgroups that share the inner axis, 4 after, 5 inner size, 6 fragments
// may be used. HALF: 0 float16, 1 bfloat16. MATRIX_BITS: 4, 8, or 16 for matrices that are not quantized.
// FLOATS: those of 4 bits are mxfp4.
#include "common.glsl"
#include "floats.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint GROUP = 64;
layout(constant_id = 2) const uint ROWS = 4;
layout(constant_id = 3) const uint SPLITS = 8;
layout(constant_id = 4) const uint AFTER = 0;
layout(constant_id = 5) const uint INNER = 1024;
layout(constant_id = 6) const uint FRAGMENTS = 1;
#include "matvec.glsl"
const uint SETS = GATED ? 2u : 1u, COLUMNS = ROWS;
const bool SCALED = false;
#include "matvec_rows.glsl"

Addresses matrices_of(uint block) {
    uint set = set_of(block);
    uint64_t row = uint64_t((block - start_of(set)) * BLOCK);
    Addresses of_block;
    [[unroll]] for (uint s = 0u; s < SETS; ++s) {
        of_block.words[s] = matrices[set + s].words + row * ROW_BYTES;
        of_block.scales[s] = matrices[set + s].scales + row * (GROUPS * SCALE_BYTES);
        of_block.biases[s] = matrices[set + s].biases + row * (GROUPS * SCALE_BYTES);
    }
    return of_block;
}

uint64_t row_at(uint column) { return x + uint64_t(min(column, ROWS - 1u) * OCTETS * 16u); }

#include "matvec_results.glsl"

// Joins the splits and stores the workgroup's results.
void finish(uint base) {
    [[unroll]] for (uint e = 0u; e < RESULTS_EACH; ++e) {
        uint i = result_of(e);
        if (!is_result(base, i)) continue;
        uint team = i / (ROWS * BLOCK), row = i / BLOCK % ROWS;
        float y = joined(team, 0u, row, i % BLOCK), gated = 0.0;
        if (GATED) gated = joined(team, 1u, row, i % BLOCK);
        finish_result(base, e, y, gated);
    }
}

void main() {
    uint stride = gl_NumWorkGroups.x * TEAMS, base = gl_WorkGroupID.x * TEAMS,
         block = base + gl_SubgroupID / SPLITS;
    if (block < ends[2]) begin(block);
    write_numbers();
    if (thread() == 0u) staged_offset = one == 0u ? 0u : OFFSET_BITS;
    barrier();
    offset_ = staged_offset;
    bool known = FRAGMENTS == 1u && elements_are_known();
    for (; base < ends[2]; base += stride, block += stride) {
        if (RESIDUAL || BIASED) ask_for_addends(base);
        if (block < ends[2]) {
            if (known) {
                sum_up(block + stride, ends[2]);
                keep_totals();
            } else {
                sum_up_plainly(block);
            }
        }
        barrier();
        finish(base);
        barrier();
    }
}
