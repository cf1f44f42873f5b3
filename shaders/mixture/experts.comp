#version 460
// Rows through the quantized matrices of the experts that they pick, used transposed. GATED: of each pick
// silu(gate x) * (up x), where x is its token's row; else a token's picks, a row of x each, are weighed by
// their shares and summed, and `addend` is added unless it is 0. Constants: qmv.glsl (ROWS is 1), 9 gated.
#define MATRICES 2u
#include "qmv.glsl"
layout(constant_id = 9) const uint GATED = 0;

layout(push_constant, scalar) uniform Push {
    uint64_t x, result;
    uint64_t picks, shares; // of each token: uint32, and of x's dtype
    uint64_t addend;         // of the result's shape
    uint64_t words[2], scales[2], biases[2]; // of gate and up, or of one matrix
    uint tokens, per_token, outputs, inner, experts;
};

Matrix matrix(uint i) { return Matrix(words[i], scales[i], biases[i], inner); }

// The first row of the expert of a pick.
uint64_t expert(uint pick) { return uint64_t(min(AT_U32(picks, pick), experts - 1u)) * uint64_t(outputs); }

uint64_t x_at(uint row) { return x + (uint64_t(row) * uint64_t(inner) << float_shift(DTYPE)); }

void gated(uint pick, uint first, uint tail) {
    uint64_t row = expert(pick) + uint64_t(first), from = x_at(pick / per_token);
    for (uint part = TEAM_LANE; part < row_parts(inner); part += TEAM_SIZE) {
        add_part(matrix(0u), part, from, 0u, row, tail, 1.0, 0u);
        add_part(matrix(1u), part, from, 0u, row, tail, 1.0, OUTPUTS);
    }
}

void summed(uint token, uint first, uint tail) {
    uint parts = row_parts(inner);
    // Picks' parts one after another, so that short rows leave no lane idle.
    for (uint i = TEAM_LANE; i < parts * per_token; i += TEAM_SIZE) {
        uint pick = token * per_token + i / parts;
        float share = fetch(DTYPE, at(DTYPE, shares, int64_t(pick)));
        add_part(matrix(0u), i % parts, x_at(pick), 0u, expert(pick) + uint64_t(first), tail, share, 0u);
    }
}

void outputs_of(uint row, uint block) {
    uint first = block * OUTPUTS, tail = min(OUTPUTS, outputs - first) - 1u;
    [[unroll]] for (uint i = 0u; i < 2u * OUTPUTS; ++i) total[i] = 0.0;
    if (GATED != 0u) gated(row, first, tail);
    else summed(row, first, tail);
    [[unroll]] for (uint r = 0u; r < OUTPUTS; ++r) {
        float sum = team_sum(total[r]);
        if (GATED != 0u) sum = sum / (1.0 + exp(-sum)) * team_sum(total[OUTPUTS + r]);
        if (TEAM_LANE != r % TEAM_SIZE || r > tail) continue;
        int64_t to = int64_t(uint64_t(row) * uint64_t(outputs) + uint64_t(first + r));
        if (addend != 0ul) sum += fetch(DTYPE, at(DTYPE, addend, to));
        store_float(DTYPE, result, to, sum);
    }
}

void main() {
    uint blocks = (outputs + OUTPUTS - 1u) / OUTPUTS, rows = GATED != 0u ? tokens * per_token : tokens;
    for (uint row = gl_WorkGroupID.y; row < rows; row += gl_NumWorkGroups.y)
        for (uint block = TEAM_ID; block < blocks; block += TEAM_COUNT) outputs_of(row, block);
}
