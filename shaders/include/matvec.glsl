// What both kernels of matvec/ are given, and how they find their work: the matrices'
// results in blocks. Needs common.glsl and the constant AFTER.

// What is done with the results: they are stored, a residual is added, or the first matrix's gate the second
// one's. [host]
const uint AFTER_NOTHING = 0, AFTER_RESIDUAL = 1, AFTER_GATE = 2;
const bool RESIDUAL = AFTER == AFTER_RESIDUAL, GATED = AFTER == AFTER_GATE;

struct Matrix { uint64_t words, scales, biases, result; };

layout(push_constant, scalar) uniform Push {
    uint64_t x, weight; // weight: of the norm
    Matrix matrices[3]; // with a residual, its address is the second one's `words`
    uint ends[3];       // blocks of results up to the end of each matrix
    uint one;           // the bits of 1.0
};

// The matrix of a block, and that matrix's first block.
uint set_of(uint block) { return (block >= ends[0] ? 1u : 0u) + (block >= ends[1] ? 1u : 0u); }
uint start_of(uint set) { return set == 0u ? 0u : ends[set - 1u]; }

float silu(float g) { return g / (1.0 + exp(-g)); }
