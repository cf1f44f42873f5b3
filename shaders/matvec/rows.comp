#version 460
// Several rows times the transposes of one to three matrices of 4 bits that share them, on cooperative
// matrices, with what comes before and after as in matvec/fused.comp. Weights are read once for all rows.
//
// The matrix is the left operand, rows of x are columns of the right one. A subgroup takes CHUNK elements of
// 16 rows of FRAGS fragments at a time, and the four lanes that share a row a quarter of each group, so that a
// fragment's elements have one scale. Fields become halves where they lie in a word, two at a time: 128 + q of
// bfloat16, 1024 + q of float16; what is too much is taken from the sums with the bias. Sums of a group are
// the matrix units', those over groups float32.
//
// With STAGED, the rows come to shared memory first, normalized, with the sums of every group. Otherwise
// subgroups read them where they are, and sum them up by a fragment of ones.
//
// Constants: 1 group size, 2 rows, 3 subgroups that share the inner axis, 4 norm, 5 after, 6 inner size,
// 7 the bits of eps, 8 chunks that a subgroup prefetches, 9 fragments may be used, 10 rows come to shared
// memory, 11 fragments of a matrix that a subgroup has. HALF: 0 float16, 1 bfloat16.
#include "common.glsl"
#include "floats.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint GROUP = 64;
layout(constant_id = 2) const uint ROWS = 4;
layout(constant_id = 3) const uint SPLITS = 8;
layout(constant_id = 4) const bool NORM = false;
layout(constant_id = 5) const uint AFTER = 0;
layout(constant_id = 6) const uint INNER = 1024;
layout(constant_id = 7) const uint EPS = 0;
layout(constant_id = 8) const uint DEPTH = 1;
layout(constant_id = 9) const uint FRAGMENTS = 1;
layout(constant_id = 10) const bool STAGED = false;
layout(constant_id = 11) const uint TILES = 1;
const uint FN = 16; // columns of a fragment

#include "matvec.glsl"
#define KNOWN_COLUMNS FN
#include "matvec_fragments.glsl"

const uint SETS = GATED ? 2u : 1u, FRAGS = SETS * TILES, HALVES = 2u * FRAGS, BLOCK = 16u * TILES;
const uint THREADS = gl_WorkGroupSize.x, SUBGROUPS = THREADS / SUBGROUP, TEAMS = SUBGROUPS / SPLITS;
// Fragments of columns, whether the second half of one has any, and rows of x of the largest.
const uint WIDTHS = (ROWS + FN - 1u) / FN, MOST = ROWS < FN ? ROWS : FN;
const bool PAIRED = ROWS > 8u;
// Words of a group that a lane has of a row.
const uint WORDS = GROUP / 32u;
const uint EACH = (OCTETS + THREADS - 1u) / THREADS, PITCH = OCTETS + 1u;

// The rows, an octet in the order 0 4 1 5 2 6 3 7, as the fields of a word become pairs.
shared uvec4 staged[STAGED ? ROWS * PITCH : 1u];
shared float staged_sums[STAGED ? ROWS * GROUPS : 1u]; // of the elements of every group
shared float partial[SUBGROUPS * FRAGS * MOST * 16u];  // of a subgroup's results

// As in matvec/matrix.comp; a word is that of a group and of the lane's words of it.
uvec4 words_of[DEPTH * HALVES];
uint scales_of[PAIRS * HALVES], biases_of[PAIRS * HALVES], next_scales[PAIRS * HALVES],
    next_biases[PAIRS * HALVES];
float total[FRAGS * WIDTHS * 8u]; // of this lane's elements of every accumulator
uvec4 octets_of[PAIRED ? 8u : 4u]; // of a chunk of this lane's rows of x: one, or two that are 8 apart

#define NORM_ROWS ROWS
#include "row_norm.glsl"

uint split() { return gl_SubgroupID % SPLITS; }
uint first_chunk() { return split() * DEPTH; }

// ---- the rows ----

vec4 low_of(uvec4 p) { return vec4(half_pair(DTYPE, p.x), half_pair(DTYPE, p.y)); }
vec4 high_of(uvec4 p) { return vec4(half_pair(DTYPE, p.z), half_pair(DTYPE, p.w)); }

// An octet as it lies in memory, in the order of pairs.
uvec4 paired(uvec4 p) {
    return uvec4((p.x & 0xffffu) | (p.z << 16), (p.x >> 16) | (p.z & 0xffff0000u),
        (p.y & 0xffffu) | (p.w << 16), (p.y >> 16) | (p.w & 0xffff0000u));
}

// Stores an octet of a row, and of its group, of which neighbouring lanes have the others, the sum.
void keep(uint row, uint octet, uvec4 p) {
    vec4 sums = low_of(p) + high_of(p);
    float sum = quad_sum(octet < OCTETS ? sums : vec4(0.0));
    [[unroll]] for (uint o = 1u; o < GROUP / 8u; o *= 2u) sum += subgroupShuffleXor(sum, o);
    if (octet >= OCTETS) return;
    staged[row * PITCH + octet] = paired(p);
    if (octet % (GROUP / 8u) == 0u) staged_sums[row * GROUPS + octet / (GROUP / 8u)] = sum;
}

uvec4 normalized(uvec4 p, uvec4 weights, float factor) {
    vec4 low = low_of(p) * (factor * low_of(weights)), high = high_of(p) * (factor * high_of(weights));
    return uvec4(pack_halves(DTYPE, low.xy), pack_halves(DTYPE, low.zw), pack_halves(DTYPE, high.xy),
        pack_halves(DTYPE, high.zw));
}

uint octet_of(uint e) { return e * THREADS + thread(); }

// Brings the rows to shared memory, normalized.
void stage() {
    uvec4 raw[ROWS * EACH], weights[EACH];
    [[unroll]] for (uint e = 0u; e < EACH; ++e) {
        uint octet = min(octet_of(e), OCTETS - 1u);
        [[unroll]] for (uint row = 0u; row < ROWS; ++row)
            raw[row * EACH + e] = V4(x).v[row * OCTETS + octet];
        if (NORM) weights[e] = V4(weight).v[octet];
    }
    float factors[ROWS];
    [[unroll]] for (uint row = 0u; row < ROWS; ++row) {
        float squares = 0.0;
        [[unroll]] for (uint e = 0u; e < EACH; ++e) {
            vec4 low = low_of(raw[row * EACH + e]), high = high_of(raw[row * EACH + e]);
            if (octet_of(e) < OCTETS) squares = dot_add(high, high, dot_add(low, low, squares));
        }
        if (NORM) {
            squares = subgroupAdd(squares);
            if (lane() == 0u) row_squares[row * SUBGROUPS + gl_SubgroupID] = squares;
        }
    }
    if (NORM) barrier();
    [[unroll]] for (uint row = 0u; row < ROWS; ++row) {
        float squares = 0.0;
        if (NORM) [[unroll]] for (uint s = 0u; s < SUBGROUPS; ++s) squares += row_squares[row * SUBGROUPS + s];
        factors[row] = NORM ? norm_factor(squares, INNER, uintBitsToFloat(EPS)) : 1.0;
    }
    [[unroll]] for (uint row = 0u; row < ROWS; ++row)
        [[unroll]] for (uint e = 0u; e < EACH; ++e) {
            uvec4 p = raw[row * EACH + e];
            keep(row, octet_of(e), NORM ? normalized(p, weights[e], factors[row]) : p);
        }
}

// Prepares everything but the matrices; returns whether elements of fragments lie as we know.
bool prepare() {
    write_numbers();
    if (thread() == 0u) staged_offset = one == 0u ? 0u : OFFSET_BITS;
    if (STAGED) stage();
    barrier();
    offset_ = staged_offset;
    return FRAGMENTS == 1u && elements_are_known();
}

// Octet i of a row, in the order of pairs.
uvec4 octet_at(uint row, uint i) {
    row = min(row, ROWS - 1u);
    if (STAGED) return staged[row * PITCH + i];
    return paired(V4(x).v[row * OCTETS + i]);
}

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

// Asks for the words of the d-th chunk from there.
void ask_for_words(Addresses from, uint d) {
    [[unroll]] for (uint i = 0u; i < HALVES; ++i)
        words_of[d * HALVES + i] = load_quarter(
            from.words[i / (2u * TILES)]
            + uint64_t(i % (2u * TILES) * 8u * (INNER / 2u) + d * (CHUNK / 2u)));
}

// Asks for scales and biases of DEPTH chunks.
void ask_for_scales(Addresses from) {
    [[unroll]] for (uint i = 0u; i < HALVES; ++i) {
        uint scales[PAIRS], biases[PAIRS];
        uint64_t row = uint64_t(i % (2u * TILES) * 8u * GROUPS * 2u);
        load_pairs(from.scales[i / (2u * TILES)] + row, scales);
        load_pairs(from.biases[i / (2u * TILES)] + row, biases);
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

// Of a half's scales and biases in hand, those of group g of the d-th chunk; the bias with what halves are
// too large.
vec2 affine_of(uint half_, uint d, uint g) {
    uint i = d * SPAN + g;
    vec2 scales = half_pair(DTYPE, scales_of[half_ * PAIRS + i / 2u]),
         biases = half_pair(DTYPE, biases_of[half_ * PAIRS + i / 2u]);
    float scale = scales[i % 2u];
    return vec2(scale, fma(-OFFSET, scale, biases[i % 2u]));
}

// Asks for this lane's octets of a group of the n-th rows.
void ask_for_octets(uint n, uint chunk, uint g) {
    uint row = n * FN + row_in_half(), first = chunk * (CHUNK / 8u) + g * (GROUP / 8u) + quarter() * WORDS;
    [[unroll]] for (uint w = 0u; w < WORDS; ++w) {
        octets_of[g * WORDS + w] = octet_at(row, first + w);
        if (PAIRED) octets_of[4u + g * WORDS + w] = octet_at(row + 8u, first + w);
    }
}

// Adds a group of a chunk of the matrices times all rows.
void multiply_group(uint d, uint chunk, uint g) {
    // 16 elements of a row at a time, four of a lane.
    coopmat<half, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> a[FRAGS * 2u * WORDS];
    [[unroll]] for (uint t = 0u; t < FRAGS; ++t) {
        [[unroll]] for (uint k = 0u; k < 2u * WORDS; ++k) {
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                uint word = words_of[d * HALVES + 2u * t + i / 2u][g * WORDS + k / 2u];
                half2 pair = fields(word >> (8u * (k % 2u) + 4u * (i % 2u)));
                a[t * 2u * WORDS + k][2u * i] = pair.x;
                a[t * 2u * WORDS + k][2u * i + 1u] = pair.y;
            }
        }
    }
    vec2 affine[HALVES];
    [[unroll]] for (uint i = 0u; i < HALVES; ++i) affine[i] = affine_of(i, d, g);
    [[unroll]] for (uint n = 0u; n < WIDTHS; ++n) {
        coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator> sums[FRAGS], of_x;
        [[unroll]] for (uint t = 0u; t < FRAGS; ++t)
            sums[t] = coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator>(0.0);
        of_x = coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator>(0.0);
        if (WIDTHS > 1u) ask_for_octets(n, chunk, g);
        [[unroll]] for (uint w = 0u; w < WORDS; ++w) {
            uvec4 p = octets_of[g * WORDS + w], q = uvec4(0u);
            if (PAIRED) q = octets_of[4u + g * WORDS + w];
            [[unroll]] for (uint k = 0u; k < 2u; ++k) {
                coopmat<half, gl_ScopeSubgroup, 16, FN, gl_MatrixUseB> b;
                half2 pairs[4] = half2[4](
                    halves(p[2u * k]), halves(p[2u * k + 1u]), halves(q[2u * k]), halves(q[2u * k + 1u]));
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    b[2u * i] = pairs[i].x;
                    b[2u * i + 1u] = pairs[i].y;
                }
                [[unroll]] for (uint t = 0u; t < FRAGS; ++t)
                    sums[t] = coopMatMulAdd(a[t * 2u * WORDS + 2u * w + k], b, sums[t]);
                if (!STAGED)
                    of_x = coopMatMulAdd(
                        coopmat<half, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>(half(1.0)), b, of_x);
            }
        }
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            if (!PAIRED && j >= 2u) continue;
            uint row = min(n * FN + quarter() * 2u + j % 2u + j / 2u * 8u, ROWS - 1u);
            float sum = STAGED ? staged_sums[row * GROUPS + chunk * SPAN + g] : of_x[j];
            [[unroll]] for (uint i = 0u; i < HALVES; ++i) {
                uint e = (i % 2u) * 4u + j, to = (i / 2u * WIDTHS + n) * 8u + e;
                total[to] = fma(affine[i].x, sums[i / 2u][e], fma(affine[i].y, sum, total[to]));
            }
        }
    }
}

void multiply(uint d, uint chunk) {
    if (WIDTHS == 1u) [[unroll]] for (uint g = 0u; g < SPAN; ++g) ask_for_octets(0u, chunk, g);
    [[unroll]] for (uint g = 0u; g < SPAN; ++g) multiply_group(d, chunk, g);
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
    [[unroll]] for (uint i = 0u; i < FRAGS * WIDTHS * 8u; ++i) total[i] = 0.0;
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

// ---- the results ----

// Where a subgroup's results of a fragment and a row of x are.
uint part_at(uint subgroup, uint frag, uint row) { return ((subgroup * FRAGS + frag) * MOST + row) * 16u; }

// The sums of the n-th fragment of columns, where others see them.
void keep_totals(uint n) {
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        uint row = quarter() * 2u + j % 2u + j / 2u * 8u;
        if (!PAIRED && j >= 2u || n * FN + row >= ROWS) continue;
        [[unroll]] for (uint i = 0u; i < HALVES; ++i)
            partial[part_at(gl_SubgroupID, i / 2u, row) + row_in_half() + i % 2u * 8u] =
                total[(i / 2u * WIDTHS + n) * 8u + (i % 2u) * 4u + j];
    }
}

// The same without fragments: lanes walk the words of a matrix row.
void sum_up_plainly(uint block, uint n) {
    uint set = set_of(block), first = (block - start_of(set)) * BLOCK, count = min(ROWS - n * FN, MOST);
    for (uint i = 0u; i < FRAGS * count * 16u; ++i) {
        uint frag = i / (count * 16u), row = i / 16u % count, s = frag / TILES;
        uint64_t o = uint64_t(first + frag % TILES * 16u + i % 16u);
        float sum = 0.0;
        for (uint w = split() * SUBGROUP + lane(); w < OCTETS; w += SPLITS * SUBGROUP) {
            uint v = AT_U32(matrices[set + s].words, o * OCTETS + w);
            uint64_t group = o * GROUPS + w / (GROUP / 8u);
            uvec4 p = octet_at(n * FN + row, w);
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
        if (lane() == 0u) partial[part_at(gl_SubgroupID, frag, row) + i % 16u] = sum;
    }
}

// A thread's results of the workgroup's blocks for a fragment of columns.
const uint RESULTS = TEAMS * TILES * MOST * 16u, RESULTS_EACH = (RESULTS + THREADS - 1u) / THREADS;
float residual[WIDTHS * RESULTS_EACH];

uint result_of(uint e) { return e * THREADS + thread(); }
uint block_of(uint base, uint i) { return base + i / (TILES * MOST * 16u); }
uint row_of(uint n, uint i) { return n * FN + i / 16u % MOST; }
bool is_result(uint base, uint n, uint i) {
    return i < RESULTS && block_of(base, i) < ends[2] && row_of(n, i) < ROWS;
}

// Where result i is among those of its matrix.
int64_t result_at(uint base, uint n, uint i) {
    uint block = block_of(base, i), set = set_of(block), start = start_of(set);
    uint column = (block - start) * BLOCK + i / (MOST * 16u) % TILES * 16u + i % 16u;
    return int64_t(uint64_t(row_of(n, i)) * uint64_t((ends[set] - start) * BLOCK) + uint64_t(column));
}

void ask_for_residuals(uint base) {
    [[unroll]] for (uint n = 0u; n < WIDTHS; ++n)
        [[unroll]] for (uint e = 0u; e < RESULTS_EACH; ++e)
            if (is_result(base, n, result_of(e)))
                residual[n * RESULTS_EACH + e] =
                    fetch(DTYPE, at(DTYPE, matrices[1].words, result_at(base, n, result_of(e))));
}

float joined(uint team, uint frag, uint row, uint i) {
    float y = 0.0;
    [[unroll]] for (uint s = 0u; s < SPLITS; ++s) y += partial[part_at(team * SPLITS + s, frag, row) + i];
    return y;
}

// Joins the splits and stores the workgroup's results of the n-th fragment of columns.
void finish(uint base, uint n) {
    [[unroll]] for (uint e = 0u; e < RESULTS_EACH; ++e) {
        uint i = result_of(e);
        if (!is_result(base, n, i)) continue;
        uint team = i / (TILES * MOST * 16u), tile = i / (MOST * 16u) % TILES, row = i / 16u % MOST;
        float y = joined(team, tile, row, i % 16u);
        if (GATED) y = silu(y) * joined(team, TILES + tile, row, i % 16u);
        if (RESIDUAL) y += residual[n * RESULTS_EACH + e];
        store_float(DTYPE, matrices[set_of(block_of(base, i))].result, result_at(base, n, i), y);
    }
}

void main() {
    uint stride = gl_NumWorkGroups.x * TEAMS, base = gl_WorkGroupID.x * TEAMS,
         block = base + gl_SubgroupID / SPLITS;
    if (block < ends[2]) {
        Addresses first = addresses_of(block, first_chunk());
        ask_for_scales(first);
        [[unroll]] for (uint d = 0u; d < DEPTH; ++d) ask_for_words(first, d);
    }
    bool known = prepare();
    for (; base < ends[2]; base += stride, block += stride) {
        if (RESIDUAL) ask_for_residuals(base);
        if (known && block < ends[2]) sum_up(block, block + stride);
        [[unroll]] for (uint n = 0u; n < WIDTHS; ++n) {
            if (block < ends[2]) {
                if (known) keep_totals(n);
                else sum_up_plainly(block, n);
            }
            barrier();
            finish(base, n);
            barrier();
        }
    }
}
