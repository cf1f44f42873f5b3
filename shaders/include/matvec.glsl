// What kernels of matvec/ are given, and how they find their work: the matrices' results in blocks. Needs
// common.glsl, floats.glsl and the constant AFTER.
#include "bias.glsl"

// What is done with the results, in this order: biases are added, a residual is added or the first matrix's
// gate, silu or gelu, is applied to the second one's. [host]
const uint AFTER_RESIDUAL = 1, AFTER_GATE = 2, AFTER_BIASES = 4, AFTER_GELU = 8;
const bool RESIDUAL = (AFTER & AFTER_RESIDUAL) != 0u, GATED = (AFTER & AFTER_GATE) != 0u;
const bool BIASED = (AFTER & AFTER_BIASES) != 0u, GELU = (AFTER & AFTER_GELU) != 0u;

struct Matrix { uint64_t words, scales, biases, result; };

// With biases: where a matrix's results go, and what is added to each of their rows; nothing at address 0.
struct Target {
    uint64_t result, bias;
    uint at_once, unused; // at_once: the product is not rounded before
};
// Before the product: the sum of a residual and the normalized row, times a weight, takes the row's place. It
// is stored as well, unless `result` is 0.
struct RowSum {
    uint64_t weight, residual, result;
    float eps;
    uint unused;
};
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Targets { Target all[3]; RowSum sum; };

layout(push_constant, scalar) uniform Push {
    uint64_t x, weight; // weight: of the norm
    // With a residual, its address is the second one's `words`; with biases, the targets' address is the
    // first one's `result`.
    Matrix matrices[3];
    uint ends[3];       // blocks of results up to the end of each matrix
    uint one;           // the bits of 1.0
};

// The matrix of a block, and that matrix's first block.
uint set_of(uint block) { return (block >= ends[0] ? 1u : 0u) + (block >= ends[1] ? 1u : 0u); }
uint start_of(uint set) { return set == 0u ? 0u : ends[set - 1u]; }

Target target_of(uint set) {
    if (BIASED) return Targets(matrices[0].result).all[set];
    return Target(matrices[set].result, 0ul, 0u, 0u);
}

// Asks for the bits of a target's bias for its results in a column; where it has none, for others.
uint ask_bias(uint dtype, Target to, uint column) {
    return fetch_bits(dtype, to.bias == 0ul ? matrices[0].result : at(dtype, to.bias, int64_t(column)));
}

// A result with its bias, if its target has one.
float biased(uint dtype, Target to, float y, uint bias) {
    return to.bias == 0ul ? y : with_bias(dtype, y, bias, to.at_once != 0u);
}

#include "gate.glsl"
