// How a subgroup multiplies 16 rows of one matrix of 4 bits, or of two, with several rows of x on cooperative
// matrices, weights read once for all of them.
//
// The matrix is the left operand, rows of x are columns of the right one, which subgroups read where they
// are. A subgroup takes CHUNK elements at a time, and asks for the next ones before it multiplies. The four
// lanes that share a row have a quarter of each group, so that a fragment's elements have one scale. Fields
// become halves where they lie in a word, two at a time: 128 + q of bfloat16, 1024 + q of float16; what is
// too much is taken from the sums with the bias. For that a fragment of ones sums up the rows of x. Sums of a
// group are the matrix units', those over groups float32.
//
// Needs common.glsl, floats.glsl, HALF (0 float16, 1 bfloat16), and before it: GROUP, INNER, SPLITS;
//   SETS: matrices, 1 or 2;
//   COLUMNS: rows of x, at most 16;
//   what follows as prototypes.
const uint DEPTH = 1;
const bool PAIRED = COLUMNS > 8u; // whether a fragment has two octets of columns
const uint FN = 16; // columns of a fragment; drivers leave out those that are none
#define KNOWN_COLUMNS FN
#include "matvec_fragments.glsl"

const uint HALVES = 2u * SETS, BLOCK = 16;
const uint THREADS = gl_WorkGroupSize.x, SUBGROUPS = THREADS / SUBGROUP, TEAMS = SUBGROUPS / SPLITS;
// Words of a group that a lane has of a row.
const uint WORDS = GROUP / 32u;

shared float partial[SUBGROUPS * SETS * COLUMNS * BLOCK]; // of a subgroup's results

// As in matvec/matrix.comp, for each matrix this lane's row of the upper and of the lower half; a word is
// that of a group and of the lane's words of it.
uvec4 words_of[HALVES], next_words[HALVES];
uint scales_of[PAIRS * HALVES], biases_of[PAIRS * HALVES], next_scales[PAIRS * HALVES],
    next_biases[PAIRS * HALVES];
float total[SETS * 8u]; // of this lane's elements of every accumulator

uint split() { return gl_SubgroupID % SPLITS; }

// Addresses of words, scales and biases of each matrix of the set.
struct Addresses { uint64_t words[2], scales[2], biases[2]; };

// Where the 16 rows of a block begin.
Addresses matrices_of(uint block);

// Where a row of x is, of a block in hand; one that can be read where there is none.
uint64_t row_at(uint column);

// ---- the rows ----

uint64_t x_upper, x_lower; // where this lane's part of its columns begins, of the chunk in hand

void begin_rows() {
    uint64_t first = uint64_t(split() * (CHUNK * 2u) + quarter() * WORDS * 16u);
    x_upper = row_at(row_in_half()) + first;
    x_lower = PAIRED ? row_at(row_in_half() + 8u) + first : x_upper;
}

void step_rows() {
    x_upper += uint64_t(SPLITS * CHUNK * 2u);
    x_lower += uint64_t(SPLITS * CHUNK * 2u);
}

// Octet w of a group of a column, in the order of pairs.
uvec4 octet_of(uint64_t column, uint g, uint w) {
    return paired(V4(column + uint64_t((g * (GROUP / 8u) + w) * 16u)).v[0]);
}

// ---- the matrices ----

Addresses ahead; // this lane's part of the chunk that is asked for next

// Where this lane's part of a block begins, from a chunk on.
Addresses addresses_of(uint block, uint chunk) {
    Addresses own = matrices_of(block);
    uint64_t words = uint64_t(row_in_half() * (INNER / 2u) + chunk * (CHUNK / 2u) + quarter() * WORDS * 4u);
    uint64_t group = uint64_t((row_in_half() * GROUPS + chunk * SPAN) * 2u);
    [[unroll]] for (uint s = 0u; s < SETS; ++s) {
        own.words[s] += words;
        own.scales[s] += group;
        own.biases[s] += group;
    }
    return own;
}

void step() {
    [[unroll]] for (uint s = 0u; s < SETS; ++s) {
        ahead.words[s] += uint64_t(SPLITS * CHUNK / 2u);
        ahead.scales[s] += uint64_t(SPLITS * SPAN * 2u);
        ahead.biases[s] += uint64_t(SPLITS * SPAN * 2u);
    }
}

// Where a subgroup's results of a matrix of the set and a row of x are.
uint part_at(uint subgroup, uint set, uint column) {
    return ((subgroup * SETS + set) * COLUMNS + column) * BLOCK;
}

// Of a chunk of a row, this lane's words of all groups.
uvec4 load_quarter(uint64_t at_) {
    uvec4 p;
    if (WORDS == 4u) return V4(at_).v[0];
    if (WORDS == 2u) {
        uvec2 first = V2(at_).v[0], second = V2(at_ + 32ul).v[0];
        return uvec4(first, second);
    }
    [[unroll]] for (uint g = 0u; g < 4u; ++g) p[g] = U32(at_ + uint64_t(g * 16u)).v[0];
    return p;
}

// Asks for the words, scales and biases of the chunk ahead.
void ask() {
    [[unroll]] for (uint i = 0u; i < HALVES; ++i) {
        uint second = i % 2u * 8u;
        next_words[i] = load_quarter(ahead.words[i / 2u] + uint64_t(second * (INNER / 2u)));
        uint scales[PAIRS], biases[PAIRS];
        load_pairs(ahead.scales[i / 2u] + uint64_t(second * GROUPS * 2u), scales);
        load_pairs(ahead.biases[i / 2u] + uint64_t(second * GROUPS * 2u), biases);
        [[unroll]] for (uint p = 0u; p < PAIRS; ++p) {
            next_scales[i * PAIRS + p] = scales[p];
            next_biases[i * PAIRS + p] = biases[p];
        }
    }
}

void take() {
    [[unroll]] for (uint i = 0u; i < HALVES; ++i) words_of[i] = next_words[i];
    [[unroll]] for (uint i = 0u; i < PAIRS * HALVES; ++i) {
        scales_of[i] = next_scales[i];
        biases_of[i] = next_biases[i];
    }
}

// Of a half's scales and biases in hand, those of group g; the bias with what halves are too large.
vec2 affine_of(uint half_, uint g) {
    vec2 scales = half_pair(DTYPE, scales_of[half_ * PAIRS + g / 2u]),
         biases = half_pair(DTYPE, biases_of[half_ * PAIRS + g / 2u]);
    float scale = scales[g % 2u];
    return vec2(scale, fma(-OFFSET, scale, biases[g % 2u]));
}

// Adds a group of the chunk in hand, of the matrices times all rows.
void multiply_group(uint g) {
    coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator> sums[SETS], of_x;
    [[unroll]] for (uint t = 0u; t < SETS; ++t)
        sums[t] = coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator>(0.0);
    of_x = coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator>(0.0);
    uvec4 octets[2u * WORDS]; // of rows that are eight apart
    [[unroll]] for (uint w = 0u; w < WORDS; ++w) {
        octets[2u * w] = octet_of(x_upper, g, w);
        octets[2u * w + 1u] = PAIRED ? octet_of(x_lower, g, w) : uvec4(0u);
    }
    // 16 elements of a row at a time, four of a lane.
    [[unroll]] for (uint k = 0u; k < 2u * WORDS; ++k) {
        coopmat<half, gl_ScopeSubgroup, 16, FN, gl_MatrixUseB> b;
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            half2 pair = halves(octets[k / 2u * 2u + i / 2u][k % 2u * 2u + i % 2u]);
            b[2u * i] = pair.x;
            b[2u * i + 1u] = pair.y;
        }
        [[unroll]] for (uint t = 0u; t < SETS; ++t) {
            coopmat<half, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> a;
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                uint word = words_of[2u * t + i / 2u][g * WORDS + k / 2u];
                half2 pair = fields(word >> (8u * (k % 2u) + 4u * (i % 2u)));
                a[2u * i] = pair.x;
                a[2u * i + 1u] = pair.y;
            }
            sums[t] = coopMatMulAdd(a, b, sums[t]);
        }
        of_x = coopMatMulAdd(coopmat<half, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>(half(1.0)), b, of_x);
    }
    [[unroll]] for (uint i = 0u; i < HALVES; ++i) {
        vec2 affine = affine_of(i, g);
        [[unroll]] for (uint j = 0u; j < (PAIRED ? 4u : 2u); ++j) {
            uint to = i / 2u * 8u + i % 2u * 4u + j;
            total[to] = fma(affine.x, sums[i / 2u][sum_at(i % 2u, j)], fma(affine.y, of_x[j], total[to]));
        }
    }
}

// Asks for the chunk ahead, and adds the one before it.
void add_chunk() {
    take();
    ask();
    [[unroll]] for (uint g = 0u; g < SPAN; ++g) multiply_group(g);
    step_rows();
}

// Asks for a block's first chunk.
void begin(uint block) {
    ahead = addresses_of(block, split());
    ask();
}

// Sums of a block that was begun; the `next` one is begun, if it comes before `end`. (With a bool instead of
// the latter an H200 gives 8 % fewer tokens with 16 rows.)
void sum_up(uint next, uint end) {
    [[unroll]] for (uint i = 0u; i < SETS * 8u; ++i) total[i] = 0.0;
    begin_rows();
    for (uint chunk = split(); chunk + SPLITS < CHUNKS; chunk += SPLITS) {
        step();
        add_chunk();
    }
    if (next < end) ahead = addresses_of(next, split());
    add_chunk();
}

// The sums, where others see them.
void keep_totals() {
    [[unroll]] for (uint j = 0u; j < (PAIRED ? 4u : 2u); ++j) {
        uint column = quarter() * 2u + j % 2u + j / 2u * 8u;
        if (column < COLUMNS) [[unroll]] for (uint i = 0u; i < HALVES; ++i)
            partial[part_at(gl_SubgroupID, i / 2u, column) + row_in_half() + i % 2u * 8u] =
                total[i / 2u * 8u + i % 2u * 4u + j];
    }
}

// The same without fragments: lanes walk the words of a matrix row.
void sum_up_plainly(uint block) {
    Addresses of_block = matrices_of(block);
    [[unroll]] for (uint s = 0u; s < SETS; ++s) for (uint i = 0u; i < COLUMNS * BLOCK; ++i) {
        uint column = i / BLOCK, o = i % BLOCK;
        uint64_t row = row_at(column);
        float sum = 0.0;
        for (uint w = split() * SUBGROUP + lane(); w < OCTETS; w += SPLITS * SUBGROUP) {
            uint v = AT_U32(of_block.words[s], o * OCTETS + w);
            uint64_t group = uint64_t((o * GROUPS + w / (GROUP / 8u)) * 2u);
            uvec4 p = paired(V4(row).v[w]);
            float product = 0.0, of_x = 0.0;
            [[unroll]] for (uint e = 0u; e < 4u; ++e) {
                vec2 y = half_pair(DTYPE, p[e]), q = vec2((v >> (4u * e)) & 15u, (v >> (4u * e + 16u)) & 15u);
                product += dot(q, y);
                of_x += y.x + y.y;
            }
            sum = fma(fetch(DTYPE, of_block.scales[s] + group), product,
                fma(fetch(DTYPE, of_block.biases[s] + group), of_x, sum));
        }
        sum = subgroupAdd(sum);
        if (lane() == 0u) partial[part_at(gl_SubgroupID, s, column) + o] = sum;
    }
}

// A result of a team's splits.
float joined(uint team, uint set, uint column, uint i) {
    float y = 0.0;
    [[unroll]] for (uint s = 0u; s < SPLITS; ++s) y += partial[part_at(team * SPLITS + s, set, column) + i];
    return y;
}
