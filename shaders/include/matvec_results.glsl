// How kernels of matvec/ on cooperative matrices finish their results: a thread has some of those of its
// workgroup's blocks, BLOCK of every row and matrix.
//
// Needs matvec.glsl and matvec_fragments.glsl, and before it: ROWS, BLOCK, SETS, TEAMS.

const uint RESULTS = TEAMS * ROWS * BLOCK,
           RESULTS_EACH = (RESULTS + gl_WorkGroupSize.x - 1u) / gl_WorkGroupSize.x;
float residual[RESULTS_EACH];
uint bias[SETS * RESULTS_EACH]; // bits

uint result_of(uint e) { return e * gl_WorkGroupSize.x + thread(); }
uint block_of(uint base, uint i) { return base + i / (ROWS * BLOCK); }
bool is_result(uint base, uint i) { return i < RESULTS && block_of(base, i) < ends[2]; }

// The column of result i among those of its matrix.
uint column_of(uint block, uint i) { return (block - start_of(set_of(block))) * BLOCK + i % BLOCK; }

// Where result i is among those of its matrix.
int64_t result_at(uint base, uint i) {
    uint block = block_of(base, i), set = set_of(block), start = start_of(set);
    return int64_t(uint64_t(i / BLOCK % ROWS) * uint64_t((ends[set] - start) * BLOCK)
        + uint64_t(column_of(block, i)));
}

// Asks for what is added to the results of the blocks from `base` on.
void ask_for_addends(uint base) {
    [[unroll]] for (uint e = 0u; e < RESULTS_EACH; ++e) {
        uint i = result_of(e), block = block_of(base, i);
        if (!is_result(base, i)) continue;
        if (RESIDUAL) residual[e] = fetch(DTYPE, at(DTYPE, matrices[1].words, result_at(base, i)));
        if (BIASED) [[unroll]] for (uint s = 0u; s < SETS; ++s)
            bias[e * SETS + s] = ask_bias(DTYPE, target_of(set_of(block) + s), column_of(block, i));
    }
}

// Stores the thread's result e, of which the matrix gave y, and the other one `gated`.
void finish_result(uint base, uint e, float y, float gated) {
    uint i = result_of(e), set = set_of(block_of(base, i));
    Target to = target_of(set);
    if (BIASED) y = biased(DTYPE, to, y, bias[e * SETS]);
    if (BIASED && GATED) gated = biased(DTYPE, target_of(set + 1u), gated, bias[e * SETS + SETS - 1u]);
    if (GATED) y = gate(y, GELU) * gated;
    if (RESIDUAL) y += residual[e];
    store_float(DTYPE, to.result, result_at(base, i), y);
}
