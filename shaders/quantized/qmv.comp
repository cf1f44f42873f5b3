#version 460
// Few rows times a quantized matrix used transposed: out[i][o] = sum over j of x[i][j] * (scale
// q[o][j] + bias). Constants: qmv.glsl.
#include "qmv.glsl"
#include "picks.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t x, words, scales, biases, result;
    uint64_t picks; // GATHER: lists of matrices, at distances in rows
    uint rows, outputs, inner, batches;
    uint stride; // from batch to batch, in rows of the matrices; 0: one matrix for all
};

// Outputs block, block+1.. of rows row.. of a batch.
void block_of_outputs(uint batch, uint row, uint block) {
    uint here = min(ROWS, rows - row), output_ = block * OUTPUTS, tail = min(OUTPUTS, outputs - output_) - 1u;
    uint64_t to_row = uint64_t(batch) * uint64_t(rows) + uint64_t(row);
#ifdef GATHER
    uint64_t first = uint64_t(output_) + uint64_t(picked(picks, 1u, batch));
    uint64_t x_index = uint64_t(row) + uint64_t(picked(picks, 0u, batch));
#else
    uint64_t first = uint64_t(output_) + uint64_t(batch) * uint64_t(stride);
    uint64_t x_index = to_row;
#endif
    uint64_t bytes = uint64_t(inner) << float_shift(DTYPE);
    [[unroll]] for (uint i = 0u; i < OUTPUTS * ROWS; ++i) total[i] = 0.0;
    // Rows and outputs past the end repeat the last one and are not stored.
    uint64_t x_row = x + x_index * bytes;
    Matrix w = Matrix(words, scales, biases, inner);
    for (uint part = TEAM_LANE; part < row_parts(inner); part += TEAM_SIZE)
        add_part(w, part, x_row, here - 1u, first, tail, 1.0, 0u);
    [[unroll]] for (uint r = 0u; r < OUTPUTS; ++r) {
        [[unroll]] for (uint i = 0u; i < ROWS; ++i) {
            float sum = team_sum(total[r * ROWS + i]);
            if (TEAM_LANE == (r * ROWS + i) % TEAM_SIZE && r <= tail && i < here) {
                uint64_t to = (to_row + uint64_t(i)) * uint64_t(outputs) + uint64_t(output_ + r);
                store_float(DTYPE, result, int64_t(to), sum);
            }
        }
    }
}

void main() {
    uint blocks = (outputs + OUTPUTS - 1u) / OUTPUTS;
    for (uint batch = gl_WorkGroupID.z; batch < batches; batch += gl_NumWorkGroups.z)
        for (uint row = gl_WorkGroupID.y * ROWS; row < rows; row += gl_NumWorkGroups.y * ROWS)
            for (uint block = TEAM_ID; block < blocks; block += TEAM_COUNT)
                block_of_outputs(batch, row, block);
}
