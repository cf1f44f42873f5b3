#version 460
// Several rows times the transposes of one to three matrices of 4 bits that share them, on cooperative
// matrices, with what comes after as in matvec/fused.comp. Weights are read once for all rows.
//
// The matrix is the left operand, rows of x are columns of the right one, which subgroups read where they
// are. A subgroup takes CHUNK elements of 16 rows of one matrix, or of two, at a time, and the four lanes
// that share a row a quarter of each group, so that a fragment's elements have one scale. Fields become
// halves where they lie in a word, two at a time: 128 + q of bfloat16, 1024 + q of float16; what is too much
// is taken from the sums with the bias. For that a fragment of ones sums up the rows of x. Sums of a group
// are the matrix units', those over groups float32.
//
// Constants: 1 group size, 2 rows, 3 subgroups that share the inner axis, 4 after, 5 inner size, 6 fragments
// may be used. HALF: 0 float16, 1 bfloat16.
#include "common.glsl"
#include "floats.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint GROUP = 64;
layout(constant_id = 2) const uint ROWS = 4;
layout(constant_id = 3) const uint SPLITS = 8;
layout(constant_id = 4) const uint AFTER = 0;
layout(constant_id = 5) const uint INNER = 1024;
layout(constant_id = 6) const uint FRAGMENTS = 1;
const uint DEPTH = 1; // more take registers that are short
const uint FN = 16; // columns of a fragment, of which ROWS are there

#include "matvec.glsl"
#define KNOWN_COLUMNS FN
#include "matvec_fragments.glsl"

const uint SETS = GATED ? 2u : 1u, HALVES = 2u * SETS, BLOCK = 16;
const uint THREADS = gl_WorkGroupSize.x, SUBGROUPS = THREADS / SUBGROUP, TEAMS = SUBGROUPS / SPLITS;
const bool PAIRED = ROWS > 8u; // whether the second half of the columns has any
// Words of a group that a lane has of a row.
const uint WORDS = GROUP / 32u;

shared float partial[SUBGROUPS * SETS * ROWS * BLOCK]; // of a subgroup's results

// As in matvec/matrix.comp, for each matrix this lane's row of the upper and of the lower half; a word is
// that of a group and of the lane's words of it.
uvec4 words_of[HALVES];
uint scales_of[PAIRS * HALVES], biases_of[PAIRS * HALVES], next_scales[PAIRS * HALVES],
    next_biases[PAIRS * HALVES];
float total[SETS * 8u]; // of this lane's elements of every accumulator

uint split() { return gl_SubgroupID % SPLITS; }

// ---- the rows ----

// Octet i of a row, in the order of pairs.
uvec4 octet_at(uint row, uint i) { return paired(V4(x).v[min(row, ROWS - 1u) * OCTETS + i]); }

// ---- the matrices ----

// Where this lane's part of a block begins in each matrix of the set, from a chunk on.
struct Addresses { uint64_t words[2], scales[2], biases[2]; };

Addresses addresses_of(uint block, uint chunk) {
    uint set = set_of(block), first = (block - start_of(set)) * BLOCK + row_in_half();
    uint64_t words = uint64_t(first) * (INNER / 2u) + uint64_t(chunk * (CHUNK / 2u) + quarter() * WORDS * 4u);
    uint64_t group = (uint64_t(first) * GROUPS + uint64_t(chunk * SPAN)) * 2ul;
    Addresses own;
    [[unroll]] for (uint s = 0u; s < SETS; ++s) {
        own.words[s] = matrices[set + s].words + words;
        own.scales[s] = matrices[set + s].scales + group;
        own.biases[s] = matrices[set + s].biases + group;
    }
    return own;
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

// Asks for the words of the chunk there.
void ask_for_words(Addresses from) {
    [[unroll]] for (uint i = 0u; i < HALVES; ++i)
        words_of[i] = load_quarter(from.words[i / 2u] + uint64_t(i % 2u * 8u * (INNER / 2u)));
}

// Asks for its scales and biases.
void ask_for_scales(Addresses from) {
    [[unroll]] for (uint i = 0u; i < HALVES; ++i) {
        uint scales[PAIRS], biases[PAIRS];
        uint64_t row = uint64_t(i % 2u * 8u * GROUPS * 2u);
        load_pairs(from.scales[i / 2u] + row, scales);
        load_pairs(from.biases[i / 2u] + row, biases);
        [[unroll]] for (uint p = 0u; p < PAIRS; ++p) {
            next_scales[i * PAIRS + p] = scales[p];
            next_biases[i * PAIRS + p] = biases[p];
        }
    }
}

void take_scales() {
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

// Adds a group of a chunk of the matrices times all rows.
void multiply_group(uint chunk, uint g) {
    coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator> sums[SETS], of_x;
    [[unroll]] for (uint t = 0u; t < SETS; ++t)
        sums[t] = coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator>(0.0);
    of_x = coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator>(0.0);
    uint first = chunk * (CHUNK / 8u) + g * (GROUP / 8u) + quarter() * WORDS;
    uvec4 octets[2u * WORDS]; // of rows that are eight apart
    [[unroll]] for (uint w = 0u; w < WORDS; ++w) {
        octets[2u * w] = octet_at(row_in_half(), first + w);
        octets[2u * w + 1u] = PAIRED ? octet_at(row_in_half() + 8u, first + w) : uvec4(0u);
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
            uint e = i % 2u * 4u + j, to = i / 2u * 8u + e;
            total[to] = fma(affine.x, sums[i / 2u][e], fma(affine.y, of_x[j], total[to]));
        }
    }
}

void multiply(uint chunk) {
    [[unroll]] for (uint g = 0u; g < SPAN; ++g) multiply_group(chunk, g);
}

// Adds a chunk, and asks for the one that comes next as soon as there is room for it.
void add_chunk(uint chunk, Addresses next) {
    take_scales();
    ask_for_scales(next);
    multiply(chunk);
    ask_for_words(next);
}

// Sums of a block; afterwards, the first chunk of the `next` block is prefetched, if there is one.
void sum_up(uint block, uint next) {
    [[unroll]] for (uint i = 0u; i < SETS * 8u; ++i) total[i] = 0.0;
    uint chunk = split();
    for (; chunk + SPLITS < CHUNKS; chunk += SPLITS) add_chunk(chunk, addresses_of(block, chunk + SPLITS));
    if (next < ends[2]) {
        add_chunk(chunk, addresses_of(next, split()));
    } else {
        take_scales();
        multiply(chunk);
    }
}

// ---- the results ----

// Where a subgroup's results of a matrix of the set and a row of x are.
uint part_at(uint subgroup, uint set, uint row) { return ((subgroup * SETS + set) * ROWS + row) * BLOCK; }

// The sums, where others see them.
void keep_totals() {
    [[unroll]] for (uint j = 0u; j < (PAIRED ? 4u : 2u); ++j) {
        uint row = quarter() * 2u + j % 2u + j / 2u * 8u;
        if (row < ROWS) [[unroll]] for (uint i = 0u; i < HALVES; ++i)
            partial[part_at(gl_SubgroupID, i / 2u, row) + row_in_half() + i % 2u * 8u] =
                total[i / 2u * 8u + i % 2u * 4u + j];
    }
}

// The same without fragments: lanes walk the words of a matrix row.
void sum_up_plainly(uint block) {
    uint set = set_of(block), first = (block - start_of(set)) * BLOCK;
    for (uint i = 0u; i < SETS * ROWS * BLOCK; ++i) {
        uint s = i / (ROWS * BLOCK), row = i / BLOCK % ROWS;
        uint64_t o = uint64_t(first + i % BLOCK);
        float sum = 0.0;
        for (uint w = split() * SUBGROUP + lane(); w < OCTETS; w += SPLITS * SUBGROUP) {
            uint v = AT_U32(matrices[set + s].words, o * OCTETS + w);
            uint64_t group = o * GROUPS + w / (GROUP / 8u);
            uvec4 p = octet_at(row, w);
            float product = 0.0, of_x = 0.0;
            [[unroll]] for (uint e = 0u; e < 4u; ++e) {
                vec2 y = half_pair(DTYPE, p[e]), q = vec2((v >> (4u * e)) & 15u, (v >> (4u * e + 16u)) & 15u);
                product += dot(q, y);
                of_x += y.x + y.y;
            }
            sum = fma(fetch(DTYPE, matrices[set + s].scales + group * 2ul), product,
                fma(fetch(DTYPE, matrices[set + s].biases + group * 2ul), of_x, sum));
        }
        sum = subgroupAdd(sum);
        if (lane() == 0u) partial[part_at(gl_SubgroupID, s, row) + i % BLOCK] = sum;
    }
}

#include "matvec_results.glsl"

float joined(uint team, uint set, uint row, uint i) {
    float y = 0.0;
    [[unroll]] for (uint s = 0u; s < SPLITS; ++s) y += partial[part_at(team * SPLITS + s, set, row) + i];
    return y;
}

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
    if (block < ends[2]) {
        Addresses first = addresses_of(block, split());
        ask_for_scales(first);
        ask_for_words(first);
    }
    write_numbers();
    if (thread() == 0u) staged_offset = one == 0u ? 0u : OFFSET_BITS;
    barrier();
    offset_ = staged_offset;
    bool known = FRAGMENTS == 1u && elements_are_known();
    for (; base < ends[2]; base += stride, block += stride) {
        if (RESIDUAL || BIASED) ask_for_addends(base);
        if (block < ends[2]) {
            if (known) {
                sum_up(block, block + stride);
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
