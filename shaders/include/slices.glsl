// How subgroups multiply slices of up to eight rows of x, which they keep in registers, with matrices of 4
// bits on cooperative matrices: so a loop over the matrices' rows reads weights alone, and L1, which takes a
// line a cycle, is left to them. A team of SPLITS subgroups has a row's slices; what these give for a block
// of 16 rows of a matrix is added up in shared memory.
//
// Fragments are filled as in matvec_rows.glsl: the four lanes that share a row of the matrix have a quarter
// of each part that has one scale.
//
// Needs common.glsl, floats.glsl, HALF (0 float16, 1 bfloat16), and before it: GROUP, INNER, SPLITS;
//   COLUMNS: rows of x, at most eight;
//   KEPT: blocks whose sums are kept together, and BUFFERS: how many times over;
//   what follows as prototypes.
const uint SLICE = INNER / SPLITS, DEPTH = SLICE / 128u; // chunks whose scales are loaded together
const uint FN = 16; // columns of a fragment; drivers leave out those that are none
#define KNOWN_COLUMNS FN
#include "matvec_fragments.glsl"
const uint BITS = MATRIX_BITS, FORMAT = 0; // AFFINE
#include "quant.glsl"
#include "packed.glsl"

const uint THREADS = gl_WorkGroupSize.x, SUBGROUPS = THREADS / SUBGROUP, TEAMS = SUBGROUPS / SPLITS;
const uint BLOCK = 16; // rows of a matrix that make a fragment
// Parts of a slice; of a part, a lane's words of a row and octets of x, and how often 16 elements are
// multiplied.
const uint PARTS = SLICE / PART, WORDS = PART / 32u, PART_OCTETS = WORDS, STEPS = PART / 16u;
const uint ROW_BYTES = INNER / 2u;

uint slice() { return gl_SubgroupID % SPLITS; }
uint team() { return gl_SubgroupID / SPLITS; }

// A column's sums; with four more floats lanes store to all banks.
const uint PITCH = BLOCK + 4u;
shared float partial[BUFFERS * SUBGROUPS * KEPT * COLUMNS * PITCH];

// Where a subgroup's sums of a column begin.
uint sums_of(uint buffer_, uint subgroup, uint set, uint column) {
    return (((buffer_ * SUBGROUPS + subgroup) * KEPT + set) * COLUMNS + column) * PITCH;
}

// What all slices have of a column's sum with row i of a block.
float joined(uint team_, uint buffer_, uint set, uint column, uint i) {
    float y = 0.0;
    [[unroll]] for (uint s = 0u; s < SPLITS; ++s)
        y += partial[sums_of(buffer_, team_ * SPLITS + s, set, column) + i];
    return y;
}

// ---- the rows ----

coopmat<half, gl_ScopeSubgroup, 16, FN, gl_MatrixUseB> rows_of_x[SLICE / 16u];
vec2 of_x[PARTS]; // sums of this lane's two columns

// Takes the slices of the rows, and their sums; `row` is where this lane's one begins.
void take_slices(uint64_t row) {
    uint64_t own = row + uint64_t(slice() * (SLICE * 2u) + quarter() * PART_OCTETS * 16u);
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

// Where this lane's part of the block is that is asked for next. A part's words are replaced as soon as it is
// multiplied: of the lane's row of the upper and of the lower half.
uint64_t words_ahead;
uint words_of[2u * PARTS * WORDS];

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

// Of a half of the block in hand, scale and bias of part g; the bias with what halves are too large.
vec2 affine_of(uint half_, uint g);

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

// The slice of a block times all columns, to where the others see it, as one of the set. Asks for the words
// of the next one, if it follows.
void multiply_block(uint s, uint buffer_, bool follows) {
    total[0] = total[1] = vec2(0.0);
    [[unroll]] for (uint g = 0u; g < PARTS; ++g) add_part(g, follows);
    [[unroll]] for (uint h = 0u; h < 2u; ++h) [[unroll]] for (uint j = 0u; j < 2u; ++j) {
        uint column = quarter() * 2u + j;
        if (COLUMNS == 8u || column < COLUMNS)
            partial[sums_of(buffer_, gl_SubgroupID, s, column) + h * 8u + row_in_half()] = total[h][j];
    }
}

// The same of one column and row i of a block without fragments: lanes walk the octets of a slice. Both rows
// begin there, and the latter's scales and biases.
void multiply_plainly(uint s, uint buffer_, uint column, uint i, uint64_t row, uint64_t words,
    uint64_t scales, uint64_t biases) {
    float sum = 0.0;
    for (uint w = slice() * (SLICE / 8u) + lane(); w < (slice() + 1u) * (SLICE / 8u); w += SUBGROUP) {
        uvec4 p = V4(row).v[w];
        vec4 low, high, x_low = vec4(half_pair(DTYPE, p.x), half_pair(DTYPE, p.y)),
                        x_high = vec4(half_pair(DTYPE, p.z), half_pair(DTYPE, p.w));
        elements8(uvec2(AT_U32(words, w), 0u), low, high);
        float product = dot_add(x_high, high, dot_add(x_low, low, 0.0));
        uint64_t group = uint64_t(w / (GROUP / 8u) * 2u);
        float of_octet = dot(x_low, vec4(1.0)) + dot(x_high, vec4(1.0));
        sum = fma(fetch(DTYPE, biases + group), of_octet, sum);
        sum = fma(fetch(DTYPE, scales + group), product, sum);
    }
    sum = subgroupAdd(sum);
    if (lane() == 0u) partial[sums_of(buffer_, gl_SubgroupID, s, column) + i] = sum;
}
