#version 460
// Rows through the quantized matrices of the experts that they pick, used transposed, with the experts'
// biases. STORE: of each pick gate x and up x, where x is its token's row; GATE: silu(gate x) * (up x);
// SUM: a token's picks, a row of x each, are weighed by their shares and summed. Constants: qmv.glsl (ROWS is
// 1), 9 after.
#define MATRICES 2u
#include "qmv.glsl"
layout(constant_id = 9) const uint AFTER = 0;
// What happens to the products. [host]
const uint STORE = 0, GATE = 1, SUM = 2;

layout(push_constant, scalar) uniform Push {
    uint64_t x, result;
    uint64_t picks, shares; // of each token: uint32, and of share_dtype
    uint64_t other;          // STORE: where up's products go; SUM: what is added to the result, or 0
    uint64_t words[2], scales[2], biases[2]; // of gate and up, or of one matrix
    uint64_t others;                         // the addresses of Others, or 0
    uint tokens, per_token, outputs, inner, experts;
    uint share_dtype;
    uint shared_experts; // 1 if there is one that all tokens have, whose number is behind the others'
};

// What few mixtures have.
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Others {
    uint64_t added[2];                       // biases of products (experts, outputs), or 0
    uint64_t words[2], scales[2], biases[2]; // of the expert that all tokens have
};

// The number of a pick's expert.
uint number_of(uint pick) { return min(AT_U32(picks, pick), experts + shared_experts - 1u); }

// Its matrices, which begin with row 0, or those of all experts.
Matrix matrix(uint i, uint number) {
    if (number == experts) {
        Others its = Others(others);
        return Matrix(its.words[i], its.scales[i], its.biases[i], inner);
    }
    return Matrix(words[i], scales[i], biases[i], inner);
}

// Its first row in these.
uint64_t row_of(uint number) { return number == experts ? 0ul : uint64_t(number) * uint64_t(outputs); }

uint64_t x_at(uint row) { return x + (uint64_t(row) * uint64_t(inner) << float_shift(DTYPE)); }

float share_of(uint pick) { return fetch(share_dtype, at(share_dtype, shares, int64_t(pick))); }

// What is added to a product of matrix m.
float bias_of(uint m, uint pick, uint i) {
    uint64_t added = others == 0ul ? 0ul : Others(others).added[m];
    uint number = number_of(pick);
    if (added == 0ul || number == experts) return 0.0;
    return fetch(DTYPE, at(DTYPE, added, int64_t(row_of(number) + uint64_t(i))));
}

// What is added to the sum of a token's picks.
float bias_of_sum(uint token, uint i) {
    float sum = 0.0;
    if (others == 0ul || Others(others).added[0] == 0ul) return sum;
    for (uint pick = token * per_token; pick < (token + 1u) * per_token; ++pick)
        sum = fma(share_of(pick), bias_of(0u, pick, i), sum);
    return sum;
}

void paired(uint pick, uint first, uint tail) {
    uint number = number_of(pick);
    Matrix gate = matrix(0u, number), up = matrix(1u, number);
    uint64_t row = row_of(number) + uint64_t(first), from = x_at(pick / per_token);
    for (uint part = TEAM_LANE; part < row_parts(inner); part += TEAM_SIZE) {
        add_part(gate, part, from, 0u, row, tail, 1.0, 0u);
        add_part(up, part, from, 0u, row, tail, 1.0, OUTPUTS);
    }
}

// All of the workgroup works on the same outputs: a token has few of them.
void summed(uint token, uint first, uint tail) {
    uint parts = row_parts(inner), lane = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID;
    // Picks' parts one after another, so that short rows leave no lane idle.
    for (uint i = lane; i < parts * per_token; i += gl_WorkGroupSize.x) {
        uint pick = token * per_token + i / parts, number = number_of(pick);
        float share = share_of(pick);
        uint64_t row = row_of(number) + uint64_t(first);
        add_part(matrix(0u, number), i % parts, x_at(pick), 0u, row, tail, share, 0u);
    }
}

void outputs_of(uint row, uint block) {
    uint first = block * OUTPUTS, tail = min(OUTPUTS, outputs - first) - 1u;
    [[unroll]] for (uint i = 0u; i < 2u * OUTPUTS; ++i) total[i] = 0.0;
    if (AFTER == SUM) summed(row, first, tail);
    else paired(row, first, tail);
    [[unroll]] for (uint r = 0u; r < OUTPUTS; ++r) {
        float sum = AFTER == SUM ? group_sum(total[r]) : team_sum(total[r]), second = 0.0;
        if (AFTER != SUM) second = team_sum(total[OUTPUTS + r]);
        if (TEAM_LANE != r % TEAM_SIZE || r > tail || AFTER == SUM && gl_SubgroupID != 0u) continue;
        sum += AFTER == SUM ? bias_of_sum(row, first + r) : bias_of(0u, row, first + r);
        if (AFTER != SUM) second += bias_of(1u, row, first + r);
        int64_t to = int64_t(uint64_t(row) * uint64_t(outputs) + uint64_t(first + r));
        if (AFTER == GATE) sum = sum / (1.0 + exp(-sum)) * second;
        if (AFTER == STORE) store_float(DTYPE, other, to, second);
        if (AFTER == SUM && other != 0ul) sum += fetch(DTYPE, at(DTYPE, other, to));
        store_float(DTYPE, result, to, sum);
    }
}

void main() {
    uint blocks = (outputs + OUTPUTS - 1u) / OUTPUTS, rows = AFTER == SUM ? tokens : tokens * per_token;
    uint first = AFTER == SUM ? gl_WorkGroupID.x : TEAM_ID,
         step = AFTER == SUM ? gl_NumWorkGroups.x : TEAM_COUNT;
    for (uint row = gl_WorkGroupID.y; row < rows; row += gl_NumWorkGroups.y)
        for (uint block = first; block < blocks; block += step) outputs_of(row, block);
}
