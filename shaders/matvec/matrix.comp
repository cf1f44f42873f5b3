#version 460
// What matvec/fused.comp does, for matrices of 4 bits on cooperative matrices: unpacking a field takes less
// than one instruction, multiplying none.
//
// The matrix is the left operand: a fragment has 16 of its rows. Fields become halves where they lie in a
// word, two at a time: 128 + q of bfloat16, 1024 + q of float16; what is too much is taken from the sums. A
// subgroup takes CHUNK elements of 16 rows at a time, four lanes a row, 32 elements each. Sums are over all
// four lanes, whose elements may be of different groups: so each row of x stands in as many columns of the
// right operand as a chunk has groups, zero outside of that group. Sums of groups then stay apart, and get
// their scale and bias as float32.
//
// Constants: 1 group size, 2 rows, 3 subgroups that share the inner axis, 4 norm, 5 after, 6 inner size,
// 7 the bits of eps, 8 columns of a fragment, 9 chunks that a subgroup prefetches, 10 fragments may
// be used. HALF: 0 float16, 1 bfloat16.
#include "common.glsl"
#include "floats.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint GROUP = 64;
layout(constant_id = 2) const uint ROWS = 1;
layout(constant_id = 3) const uint SPLITS = 8;
layout(constant_id = 4) const bool NORM = false;
layout(constant_id = 5) const uint AFTER = 0;
layout(constant_id = 6) const uint INNER = 1024;
layout(constant_id = 7) const uint EPS = 0;
layout(constant_id = 8) const uint FN = 16;
layout(constant_id = 9) const uint DEPTH = 1;
layout(constant_id = 10) const uint FRAGMENTS = 1;

#include "matvec.glsl"

#define KNOWN_COLUMNS 8u
#include "matvec_fragments.glsl"

const uint BLOCK = 16;
const uint SETS = GATED ? 2u : 1u, SUBGROUPS = gl_WorkGroupSize.x / SUBGROUP, TEAMS = SUBGROUPS / SPLITS;
// For each matrix, this lane's row of the fragment's upper and of its lower half.
const uint HALVES = 2u * SETS;
const uint EACH = (OCTETS + gl_WorkGroupSize.x - 1u) / gl_WorkGroupSize.x, ZEROS = ROWS * OCTETS;

// The rows, normalized, an octet in the order 0 4 1 5 2 6 3 7, as the fields of a
// word become pairs; then zeros.
shared uvec4 staged[ZEROS + 1u];
shared float staged_sums[ROWS * GROUPS]; // of the elements of every group
shared float partial[2u * SUBGROUPS * SETS * ROWS * BLOCK]; // in turns

// What is prefetched or here of DEPTH chunks; as soon as one has been used, its slot is for the one DEPTH
// further on.
uvec4 words_of[DEPTH * HALVES];
// Scales and biases of the DEPTH chunks in hand, and of the next ones: pairs in words.
uint scales_of[PAIRS * HALVES], biases_of[PAIRS * HALVES], next_scales[PAIRS * HALVES],
    next_biases[PAIRS * HALVES];
vec2 total[HALVES]; // of this lane's two columns

#define NORM_ROWS 1
#include "row_norm.glsl"

uint split() { return gl_SubgroupID % SPLITS; }
uint first_chunk() { return split() * DEPTH; }

// ---- the rows ----

// What RMS norm multiplies a row with.
float factor_of(uvec4 raw[EACH]) {
    float squares = 0.0;
    [[unroll]] for (uint e = 0u; e < EACH; ++e) {
        vec4 low = vec4(half_pair(DTYPE, raw[e].x), half_pair(DTYPE, raw[e].y)),
             high = vec4(half_pair(DTYPE, raw[e].z), half_pair(DTYPE, raw[e].w));
        if (e * gl_WorkGroupSize.x + thread() < OCTETS)
            squares = dot_add(high, high, dot_add(low, low, squares));
    }
    float factor = row_norm_factor(0u, squares, INNER, uintBitsToFloat(EPS));
    barrier();
    return factor;
}

// Stores an octet of a row; returns the sum of what was stored.
float keep(uint at_, vec4 low, vec4 high) {
    uvec4 p = uvec4(pack_halves(DTYPE, vec2(low.x, high.x)), pack_halves(DTYPE, vec2(low.y, high.y)),
        pack_halves(DTYPE, vec2(low.z, high.z)), pack_halves(DTYPE, vec2(low.w, high.w)));
    staged[at_] = p;
    vec2 sum = (half_pair(DTYPE, p.x) + half_pair(DTYPE, p.y))
        + (half_pair(DTYPE, p.z) + half_pair(DTYPE, p.w));
    return sum.x + sum.y;
}

// Brings the rows to shared memory, normalized, with the sums of every group. Returns whether
// elements of fragments lie as we know.
bool stage() {
    uvec4 raw[EACH], factors[EACH];
    [[unroll]] for (uint e = 0u; e < EACH; ++e) {
        uint octet = min(e * gl_WorkGroupSize.x + thread(), OCTETS - 1u);
        raw[e] = V4(x).v[octet];
        if (NORM) factors[e] = V4(weight).v[octet];
    }
    // While these are fetched.
    write_numbers();
    if (thread() == 0u) {
        staged[ZEROS] = uvec4(0u);
        staged_offset = one == 0u ? 0u : OFFSET_BITS;
    }
    barrier();
    bool known = FRAGMENTS == 1u && elements_are_known();
    [[dont_unroll]] for (uint row = 0u; row < ROWS; ++row) {
        if (row > 0u) {
            [[unroll]] for (uint e = 0u; e < EACH; ++e)
                raw[e] = V4(x).v[row * OCTETS + min(e * gl_WorkGroupSize.x + thread(), OCTETS - 1u)];
        }
        float factor = NORM ? factor_of(raw) : 1.0;
        [[unroll]] for (uint e = 0u; e < EACH; ++e) {
            uint octet = e * gl_WorkGroupSize.x + thread();
            vec4 low = vec4(half_pair(DTYPE, raw[e].x), half_pair(DTYPE, raw[e].y)),
                 high = vec4(half_pair(DTYPE, raw[e].z), half_pair(DTYPE, raw[e].w));
            if (NORM) {
                low *= factor * vec4(half_pair(DTYPE, factors[e].x), half_pair(DTYPE, factors[e].y));
                high *= factor * vec4(half_pair(DTYPE, factors[e].z), half_pair(DTYPE, factors[e].w));
            }
            float sum = 0.0;
            if (octet < OCTETS) sum = keep(row * OCTETS + octet, low, high);
            // A group is the octets of as many neighbouring lanes.
            [[unroll]] for (uint o = 1u; o < GROUP / 8u; o *= 2u) sum += subgroupShuffleXor(sum, o);
            if (octet < OCTETS && octet % (GROUP / 8u) == 0u)
                staged_sums[row * GROUPS + octet / (GROUP / 8u)] = sum;
        }
    }
    barrier();
    offset_ = staged_offset;
    return known;
}

// ---- the matrices ----

// Where this lane's part of a block begins in each matrix of the set, from a chunk on.
struct Addresses { uint64_t words[2], scales[2], biases[2]; };

Addresses addresses_of(uint block, uint chunk) {
    uint set = set_of(block), first = (block - start_of(set)) * BLOCK + row_in_half();
    uint64_t words = uint64_t(first) * (INNER / 2u) + uint64_t(chunk * (CHUNK / 2u) + quarter() * 16u);
    uint64_t group = (uint64_t(first) * GROUPS + uint64_t(chunk * SPAN)) * 2ul;
    Addresses own;
    [[unroll]] for (uint s = 0u; s < SETS; ++s) {
        own.words[s] = matrices[set + s].words + words;
        own.scales[s] = matrices[set + s].scales + group;
        own.biases[s] = matrices[set + s].biases + group;
    }
    return own;
}

// Asks for the words of the d-th chunk from there.
void ask_for_words(Addresses from, uint d) {
    [[unroll]] for (uint s = 0u; s < SETS; ++s)
        [[unroll]] for (uint h = 0u; h < 2u; ++h)
            words_of[d * HALVES + s * 2u + h] =
                V4(from.words[s] + uint64_t(h * 8u * (INNER / 2u) + d * (CHUNK / 2u))).v[0];
}

// Asks for scales and biases of DEPTH chunks.
void ask_for_scales(Addresses from) {
    [[unroll]] for (uint s = 0u; s < SETS; ++s) {
        [[unroll]] for (uint h = 0u; h < 2u; ++h) {
            uint scales[PAIRS], biases[PAIRS];
            load_pairs(from.scales[s] + uint64_t(h * 8u * GROUPS * 2u), scales);
            load_pairs(from.biases[s] + uint64_t(h * 8u * GROUPS * 2u), biases);
            [[unroll]] for (uint i = 0u; i < PAIRS; ++i) {
                next_scales[(s * 2u + h) * PAIRS + i] = scales[i];
                next_biases[(s * 2u + h) * PAIRS + i] = biases[i];
            }
        }
    }
}

// Of a half's scales and biases, those of the d-th chunk for this lane's two columns.
uvec2 affine_of(uint half_, uint d) {
    uint i = half_ * PAIRS;
    if (SPAN == 4u) i += d * 2u;
    if (SPAN == 2u) i += d;
    if (SPAN == 1u) i += d / 2u;
    uvec2 pair = uvec2(scales_of[i], biases_of[i]);
    if (SPAN == 4u && quarter() % 2u == 1u) pair = uvec2(scales_of[i + SPAN / 4u], biases_of[i + SPAN / 4u]);
    // Both columns are of the same group.
    if (SPAN == 1u) pair = ((pair >> (d % 2u * 16u)) & 0xffffu) * 0x10001u;
    return pair;
}

// The sums of the chunk's groups that this lane has.
vec2 group_sums(uint chunk) {
    vec2 sums;
    [[unroll]] for (uint j = 0u; j < 2u; ++j) {
        uint column = quarter() * 2u + j;
        sums[j] = staged_sums[min(column / SPAN, ROWS - 1u) * GROUPS + chunk * SPAN + column % SPAN];
    }
    return sums;
}

void multiply(uint d, uint chunk) {
    // Two of each matrix, to be added.
    coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator> sums[HALVES];
    [[unroll]] for (uint i = 0u; i < HALVES; ++i)
        sums[i] = coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator>(0.0);
    // This lane's column of the right operand is a row of x where the lane's
    // elements are of the column's group.
    uint column = row_in_half();
    bool real = column < ROWS * SPAN && column % SPAN == quarter() * SPAN / 4u;
    uint from = real ? (column / SPAN) * OCTETS + chunk * (CHUNK / 8u) + quarter() * 4u : ZEROS;
    [[unroll]] for (uint w = 0u; w < 4u; ++w) {
        uvec4 p = staged[real ? from + w : ZEROS];
        [[unroll]] for (uint k = 0u; k < 2u; ++k) {
            coopmat<half, gl_ScopeSubgroup, 16, FN, gl_MatrixUseB> b =
                coopmat<half, gl_ScopeSubgroup, 16, FN, gl_MatrixUseB>(half(0.0));
            half2 first = halves(p[2u * k]), second = halves(p[2u * k + 1u]);
            b[0] = first.x;
            b[1] = first.y;
            b[2] = second.x;
            b[3] = second.y;
            [[unroll]] for (uint s = 0u; s < SETS; ++s) {
                coopmat<half, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> a;
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    half2 pair = fields(
                        words_of[d * HALVES + 2u * s + i / 2u][w] >> (8u * k + 4u * (i % 2u)));
                    a[2u * i] = pair.x;
                    a[2u * i + 1u] = pair.y;
                }
                sums[2u * s + k] = coopMatMulAdd(a, b, sums[2u * s + k]);
            }
        }
    }
    vec2 of_x = group_sums(chunk);
    [[unroll]] for (uint i = 0u; i < HALVES; ++i) {
        uvec2 affine = affine_of(i, d);
        vec2 scale = half_pair(DTYPE, affine.x), bias = half_pair(DTYPE, affine.y);
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            uint e = sum_at(i % 2u, j), s = i / 2u * 2u;
            float sum = fma(-OFFSET, of_x[j], sums[s][e] + sums[s + 1u][e]);
            total[i][j] = fma(scale[j], sum, fma(bias[j], of_x[j], total[i][j]));
        }
    }
}

// Where a subgroup's split of a result is.
uint part_at(uint turn, uint subgroup, uint set, uint row) {
    return (((turn * SUBGROUPS + subgroup) * SETS + set) * ROWS + row) * BLOCK;
}

// Sums of the lanes that have the same row of x.
void keep_totals(uint turn) {
    [[unroll]] for (uint i = 0u; i < HALVES; ++i) {
        vec2 t = total[i];
        uint at_ = row_in_half() + i % 2u * 8u;
        if (SPAN == 1u) {
            [[unroll]] for (uint j = 0u; j < 2u; ++j)
                if (quarter() * 2u + j < ROWS)
                    partial[part_at(turn, gl_SubgroupID, i / 2u, quarter() * 2u + j) + at_] = t[j];
        } else {
            float sum = t.x + t.y;
            if (SPAN == 4u) sum += subgroupShuffleXor(sum, 1u);
            uint row = quarter() * 2u / SPAN;
            if (row < ROWS && quarter() * 2u % SPAN == 0u)
                partial[part_at(turn, gl_SubgroupID, i / 2u, row) + at_] = sum;
        }
    }
}

void take_scales() {
    [[unroll]] for (uint i = 0u; i < PAIRS * HALVES; ++i) {
        scales_of[i] = next_scales[i];
        biases_of[i] = next_biases[i];
    }
}

// Adds DEPTH chunks from `chunk` on, and asks for those that come next, into their slots.
void add_chunks(uint chunk, Addresses next) {
    take_scales();
    ask_for_scales(next);
    [[unroll]] for (uint d = 0u; d < DEPTH; ++d) {
        multiply(d, chunk + d);
        ask_for_words(next, d);
    }
}

// Sums of a block; afterwards, the first chunks of the `next` block are prefetched, if there is one.
void sum_up(uint block, uint next) {
    [[unroll]] for (uint i = 0u; i < HALVES; ++i) total[i] = vec2(0.0);
    uint chunk = first_chunk();
    for (; chunk + SPLITS * DEPTH < CHUNKS; chunk += SPLITS * DEPTH)
        add_chunks(chunk, addresses_of(block, chunk + SPLITS * DEPTH));
    if (next < ends[2]) {
        add_chunks(chunk, addresses_of(next, first_chunk()));
    } else {
        take_scales();
        [[unroll]] for (uint d = 0u; d < DEPTH; ++d) multiply(d, chunk + d);
    }
}

// The same without fragments: lanes walk the words of a matrix row.
void sum_up_plainly(uint block, uint turn) {
    uint set = set_of(block), first = (block - start_of(set)) * BLOCK;
    for (uint i = 0u; i < SETS * ROWS * BLOCK; ++i) {
        uint s = i / (ROWS * BLOCK), row = i / BLOCK % ROWS;
        uint64_t o = uint64_t(first + i % BLOCK);
        float sum = 0.0;
        for (uint w = split() * SUBGROUP + lane(); w < OCTETS; w += SPLITS * SUBGROUP) {
            uint v = AT_U32(matrices[set + s].words, o * OCTETS + w);
            uint64_t group = o * GROUPS + w / (GROUP / 8u);
            uvec4 p = staged[row * OCTETS + w];
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
        if (lane() == 0u) partial[part_at(turn, gl_SubgroupID, s, row) + i % BLOCK] = sum;
    }
}

float joined(uint turn, uint team, uint set, uint row, uint i) {
    float y = 0.0;
    [[unroll]] for (uint s = 0u; s < SPLITS; ++s)
        y += partial[part_at(turn, team * SPLITS + s, set, row) + i];
    return y;
}

#include "matvec_results.glsl"

// Joins the splits and stores the results of the workgroup's blocks.
void finish(uint base, uint turn) {
    barrier();
    [[unroll]] for (uint e = 0u; e < RESULTS_EACH; ++e) {
        uint i = result_of(e);
        if (!is_result(base, i)) continue;
        uint team = i / (ROWS * BLOCK), row = i / BLOCK % ROWS;
        float y = joined(turn, team, 0u, row, i % BLOCK), gated = 0.0;
        if (GATED) gated = joined(turn, team, 1u, row, i % BLOCK);
        finish_result(base, e, y, gated);
    }
}

void main() {
    uint stride = gl_NumWorkGroups.x * TEAMS, base = gl_WorkGroupID.x * TEAMS,
         block = base + gl_SubgroupID / SPLITS, turn = 0u;
    if (block < ends[2]) {
        Addresses first = addresses_of(block, first_chunk());
        ask_for_scales(first);
        [[unroll]] for (uint d = 0u; d < DEPTH; ++d) ask_for_words(first, d);
    }
    bool known = stage();
    for (; base < ends[2]; base += stride, block += stride, turn ^= 1u) {
        if (RESIDUAL || BIASED) ask_for_addends(base);
        if (block < ends[2]) {
            if (known) {
                sum_up(block, block + stride);
                keep_totals(turn);
            } else {
                sum_up_plainly(block, turn);
            }
        }
        finish(base, turn);
    }
}
