// How a subgroup multiplies 16 rows of one matrix of 4 bits, or of two, with several rows of x on cooperative
// matrices, weights read once for all of them. FLOATS: matrices are small floats (mxfp4). Rows may end
// within a chunk.
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
//   SCALED (FLOATS): rows of x are multiplied as scaled_rows.glsl says;
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
// Groups of the last chunk, if it is no whole one; bytes of a group's scale.
const uint TAIL = GROUPS % SPAN;
#ifdef FLOATS
const uint SCALE_BYTES = 1;
#else
const uint SCALE_BYTES = 2;
#endif

shared float partial[SUBGROUPS * SETS * COLUMNS * BLOCK]; // of a subgroup's results

// As in matvec/matrix.comp, for each matrix this lane's row of the upper and of the lower half; a word is
// that of a group and of the lane's words of it. Scales of small floats are bytes.
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
    uvec4 octet = V4(column + uint64_t((g * (GROUP / 8u) + w) * 16u)).v[0];
#ifdef FLOATS
    if (!SCALED) octet = scaled_x(octet);
#endif
    return paired(octet);
}

// ---- the matrices ----

Addresses ahead;   // this lane's part of the chunk that is asked for next
uint chunk_ahead; // and its number

uint groups_of(uint chunk) { return TAIL == 0u || chunk + 1u < CHUNKS ? SPAN : TAIL; }

// Where this lane's part of a block begins, from a chunk on.
Addresses addresses_of(uint block, uint chunk) {
    Addresses own = matrices_of(block);
    uint64_t words = uint64_t(row_in_half() * (INNER / 2u) + chunk * (CHUNK / 2u) + quarter() * WORDS * 4u);
    uint64_t group = uint64_t((row_in_half() * GROUPS + chunk * SPAN) * SCALE_BYTES);
    [[unroll]] for (uint s = 0u; s < SETS; ++s) {
        own.words[s] += words;
        own.scales[s] += group;
        own.biases[s] += group;
    }
    return own;
}

void step() {
    chunk_ahead += SPLITS;
    [[unroll]] for (uint s = 0u; s < SETS; ++s) {
        ahead.words[s] += uint64_t(SPLITS * CHUNK / 2u);
        ahead.scales[s] += uint64_t(SPLITS * SPAN * SCALE_BYTES);
        ahead.biases[s] += uint64_t(SPLITS * SPAN * SCALE_BYTES);
    }
}

// Where a subgroup's results of a matrix of the set and a row of x are.
uint part_at(uint subgroup, uint set, uint column) {
    return ((subgroup * SETS + set) * COLUMNS + column) * BLOCK;
}

// Of a chunk of a row, this lane's words of all groups, of which there are so many.
uvec4 load_quarter(uint64_t at_, uint groups) {
    uvec4 p = uvec4(0u);
    if (WORDS == 4u) return V4(at_).v[0];
    if (WORDS == 2u) {
        uvec2 first = V2(at_).v[0], second = uvec2(0u);
        if (TAIL == 0u || groups == SPAN) second = V2(at_ + 32ul).v[0];
        return uvec4(first, second);
    }
    [[unroll]] for (uint g = 0u; g < 4u; ++g)
        if (TAIL == 0u || g < groups) p[g] = U32(at_ + uint64_t(g * 16u)).v[0];
    return p;
}

#ifdef FLOATS
// The scales of so many groups of a chunk, a byte each.
uint load_codes(uint64_t at_, uint groups) {
    if (GROUPS % 4u == 0u) return U32(at_).v[0];
    uint codes = 0u;
    if (GROUPS % 2u == 0u) {
        [[unroll]] for (uint g = 0u; g < SPAN; g += 2u)
            if (g < groups) codes |= uint(U16(at_ + uint64_t(g)).v[0]) << (8u * g);
    } else {
        [[unroll]] for (uint g = 0u; g < SPAN; ++g)
            if (g < groups) codes |= uint(U8(at_ + uint64_t(g)).v[0]) << (8u * g);
    }
    return codes;
}
#else
// The scales or biases of so many groups of a chunk, in pairs.
void load_numbers(uint64_t at_, uint groups, out uint pairs[PAIRS]) {
    if (TAIL == 0u) {
        load_pairs(at_, pairs);
        return;
    }
    [[unroll]] for (uint p = 0u; p < PAIRS; ++p) pairs[p] = 0u;
    [[unroll]] for (uint g = 0u; g < SPAN; ++g)
        if (g < groups) pairs[g / 2u] |= uint(U16(at_ + uint64_t(g * 2u)).v[0]) << (g % 2u * 16u);
}
#endif

// Asks for the words, scales and biases of the chunk ahead.
void ask() {
    uint groups = groups_of(chunk_ahead);
    [[unroll]] for (uint i = 0u; i < HALVES; ++i) {
        uint second = i % 2u * 8u;
        next_words[i] = load_quarter(ahead.words[i / 2u] + uint64_t(second * (INNER / 2u)), groups);
#ifdef FLOATS
        next_scales[i * PAIRS] = load_codes(ahead.scales[i / 2u] + uint64_t(second * GROUPS), groups);
#else
        uint scales[PAIRS], biases[PAIRS];
        load_numbers(ahead.scales[i / 2u] + uint64_t(second * GROUPS * 2u), groups, scales);
        load_numbers(ahead.biases[i / 2u] + uint64_t(second * GROUPS * 2u), groups, biases);
        [[unroll]] for (uint p = 0u; p < PAIRS; ++p) {
            next_scales[i * PAIRS + p] = scales[p];
            next_biases[i * PAIRS + p] = biases[p];
        }
#endif
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
#ifdef FLOATS
    return vec2(scale_of((scales_of[half_ * PAIRS] >> (8u * g)) & 0xffu), 0.0);
#else
    vec2 scales = half_pair(DTYPE, scales_of[half_ * PAIRS + g / 2u]),
         biases = half_pair(DTYPE, biases_of[half_ * PAIRS + g / 2u]);
    float scale = scales[g % 2u];
    return vec2(scale, fma(-OFFSET, scale, biases[g % 2u]));
#endif
}

// Adds a group of the chunk in hand, of the matrices times all rows.
void multiply_group(uint g) {
    coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator> sums[SETS];
    [[unroll]] for (uint t = 0u; t < SETS; ++t)
        sums[t] = coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator>(0.0);
#ifndef FLOATS
    coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator> of_x;
    of_x = coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator>(0.0);
#endif
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
                half2 pair = pair_of_word(word, 2u * (k % 2u) + i % 2u);
                a[2u * i] = pair.x;
                a[2u * i + 1u] = pair.y;
            }
            sums[t] = coopMatMulAdd(a, b, sums[t]);
        }
#ifndef FLOATS
        of_x = coopMatMulAdd(coopmat<half, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>(half(1.0)), b, of_x);
#endif
    }
    [[unroll]] for (uint i = 0u; i < HALVES; ++i) {
        vec2 affine = affine_of(i, g);
        [[unroll]] for (uint j = 0u; j < (PAIRED ? 4u : 2u); ++j) {
            uint to = i / 2u * 8u + i % 2u * 4u + j;
#ifndef FLOATS
            total[to] = fma(affine.y, of_x[j], total[to]);
#endif
            total[to] = fma(affine.x, sums[i / 2u][sum_at(i % 2u, j)], total[to]);
        }
    }
}

// Asks for the chunk ahead, and adds the one before it, of so many groups.
void add_chunk(uint groups) {
    take();
    ask();
    [[unroll]] for (uint g = 0u; g < SPAN; ++g) if (TAIL == 0u || g < groups) multiply_group(g);
    step_rows();
}

// Looks ahead to a block's first chunk.
void look_at(uint block) {
    ahead = addresses_of(block, split());
    chunk_ahead = split();
}

// Asks for it.
void begin(uint block) {
    look_at(block);
    ask();
}

// Sums of a block that was begun; the `next` one is begun, if it comes before `end`. (With a bool instead of
// the latter an H200 gives 8 % fewer tokens with 16 rows.)
void sum_up(uint next, uint end) {
    [[unroll]] for (uint i = 0u; i < SETS * 8u; ++i) total[i] = 0.0;
    begin_rows();
    for (uint chunk = split(); chunk + SPLITS < CHUNKS; chunk += SPLITS) {
        step();
        add_chunk(SPAN);
    }
    uint groups = groups_of(chunk_ahead);
    if (next < end) look_at(next);
    add_chunk(groups);
}

// The sums, where others see them.
void keep_totals() {
    [[unroll]] for (uint j = 0u; j < (PAIRED ? 4u : 2u); ++j) {
        uint column = quarter() * 2u + j % 2u + j / 2u * 8u;
        if (column < COLUMNS) [[unroll]] for (uint i = 0u; i < HALVES; ++i) {
            float sum = total[i / 2u * 8u + i % 2u * 4u + j];
#ifdef FLOATS
            sum *= SUM_FACTOR;
#endif
            partial[part_at(gl_SubgroupID, i / 2u, column) + row_in_half() + i % 2u * 8u] = sum;
        }
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
            uint64_t group = uint64_t((o * GROUPS + w / (GROUP / 8u)) * SCALE_BYTES);
            uvec4 p = V4(row).v[w];
#ifdef FLOATS
            vec4 low, high;
            elements8(uvec2(v, 0u), low, high);
            float product = dot_add(vec4(half_pair(DTYPE, p.x), half_pair(DTYPE, p.y)), low, 0.0);
            product = dot_add(vec4(half_pair(DTYPE, p.z), half_pair(DTYPE, p.w)), high, product);
            sum = fma(scale_of(uint(U8(of_block.scales[s] + group).v[0])), product, sum);
#else
            p = paired(p);
            float product = 0.0, of_x = 0.0;
            [[unroll]] for (uint e = 0u; e < 4u; ++e) {
                vec2 y = half_pair(DTYPE, p[e]), q = vec2((v >> (4u * e)) & 15u, (v >> (4u * e + 16u)) & 15u);
                product += dot(q, y);
                of_x += y.x + y.y;
            }
            sum = fma(fetch(DTYPE, of_block.scales[s] + group), product,
                fma(fetch(DTYPE, of_block.biases[s] + group), of_x, sum));
#endif
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
