// How a subgroup multiplies 16 rows of one matrix, or of two, with several rows of x on cooperative
// matrices, weights read once for all of them. MATRIX_BITS: 4, 8, or 16 for matrices of x's dtype. FLOATS:
// those of 4 bits are small floats (mxfp4). Rows may end within a chunk.
//
// The matrix is the left operand, rows of x are columns of the right one, which subgroups read where they
// are. A subgroup takes CHUNK elements at a time, and asks for the next ones before it multiplies. The four
// lanes that share a row have a quarter of each part that has one scale, so that a fragment's elements have
// one. Fields become halves where they lie in a word, two at a time: 128 + q of bfloat16, 1024 + q of
// float16, bytes as two fields; what is too much is taken from the sums with the bias. For that a fragment
// of ones sums up the rows of x. Sums of a part are the matrix units', those over parts float32.
//
// Needs common.glsl, floats.glsl, HALF (0 float16, 1 bfloat16), and before it: GROUP (CHUNK where there are
// none), INNER, SPLITS;
//   SETS: matrices, 1 or 2;
//   COLUMNS: rows of x, at most 16;
//   SCALED (FLOATS): rows of x are multiplied as scaled_rows.glsl says;
//   what follows as prototypes.
const uint DEPTH = 1;
const bool PAIRED = COLUMNS > 8u; // whether a fragment has two octets of columns
const uint FN = 16; // columns of a fragment; drivers leave out those that are none
#define KNOWN_COLUMNS FN
#include "matvec_fragments.glsl"
#if MATRIX_BITS < 16
const uint BITS = MATRIX_BITS;
#include "quant.glsl"
#ifdef FLOATS
const uint FORMAT = 1; // MXFP4
#else
const uint FORMAT = 0; // AFFINE
#define HAS_BIASES
#endif
#include "packed.glsl"
#endif

const uint HALVES = 2u * SETS, BLOCK = 16;
const uint THREADS = gl_WorkGroupSize.x, SUBGROUPS = THREADS / SUBGROUP, TEAMS = SUBGROUPS / SPLITS;
// Of a part, a lane's words of a row and octets of x, and how often 16 elements are multiplied.
const uint WORDS = PART * MATRIX_BITS / 128u, PART_OCTETS = PART / 32u, STEPS = PART / 16u;
// Parts of the last chunk, if it is no whole one.
const uint TAIL = INNER % CHUNK / PART;
// Bytes of a row of a matrix, and of a group's scale.
const uint ROW_BYTES = INNER * MATRIX_BITS / 8u;
#ifdef FLOATS
const uint SCALE_BYTES = 1;
#else
const uint SCALE_BYTES = 2;
#endif
// Fields that an element is made of.
const uint FIELDS_EACH = MATRIX_BITS == 8 ? 2u : 1u;

shared float partial[SUBGROUPS * SETS * COLUMNS * BLOCK]; // of a subgroup's results

// As in matvec/matrix.comp, for each matrix this lane's row of the upper and of the lower half; a word is
// that of a part and of the lane's words of it. Scales of small floats are bytes.
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
    uint64_t first = uint64_t(split() * (CHUNK * 2u) + quarter() * PART_OCTETS * 16u);
    x_upper = row_at(row_in_half()) + first;
    x_lower = PAIRED ? row_at(row_in_half() + 8u) + first : x_upper;
}

void step_rows() {
    x_upper += uint64_t(SPLITS * CHUNK * 2u);
    x_lower += uint64_t(SPLITS * CHUNK * 2u);
}

// Octet w of part g of a column, in the order of pairs.
uvec4 octet_of(uint64_t column, uint g, uint w) {
    uvec4 octet = V4(column + uint64_t((g * (PART / 8u) + w) * 16u)).v[0];
#if MATRIX_BITS == 16
    return octet;
#elif MATRIX_BITS == 8
    return paired_by_bytes(octet);
#else
#ifdef FLOATS
    if (!SCALED) octet = scaled_x(octet);
#endif
    return paired(octet);
#endif
}

// ---- the matrices ----

Addresses ahead;   // this lane's part of the chunk that is asked for next
uint chunk_ahead; // and its number

uint parts_of(uint chunk) { return TAIL == 0u || chunk + 1u < CHUNKS ? SPAN : TAIL; }

// The group where a chunk begins.
uint group_at(uint chunk) { return chunk * CHUNK / GROUP; }

// Where this lane's part of a block begins, from a chunk on.
Addresses addresses_of(uint block, uint chunk) {
    Addresses own = matrices_of(block);
    uint64_t words = uint64_t(row_in_half() * ROW_BYTES + chunk * 64u + quarter() * WORDS * 4u);
    uint64_t group = uint64_t((row_in_half() * GROUPS + group_at(chunk)) * SCALE_BYTES);
    [[unroll]] for (uint s = 0u; s < SETS; ++s) {
        own.words[s] += words;
        own.scales[s] += group;
        own.biases[s] += group;
    }
    return own;
}

void step() {
    uint groups = SPLITS * SPAN;
    if (GROUP > CHUNK) groups = group_at(chunk_ahead + SPLITS) - group_at(chunk_ahead);
    chunk_ahead += SPLITS;
    [[unroll]] for (uint s = 0u; s < SETS; ++s) {
        ahead.words[s] += uint64_t(SPLITS * 64u);
        ahead.scales[s] += uint64_t(groups * SCALE_BYTES);
        ahead.biases[s] += uint64_t(groups * SCALE_BYTES);
    }
}

// Where a subgroup's results of a matrix of the set and a row of x are.
uint part_at(uint subgroup, uint set, uint column) {
    return ((subgroup * SETS + set) * COLUMNS + column) * BLOCK;
}

// Of a chunk of a row, this lane's words of all parts, of which there are so many.
uvec4 load_quarter(uint64_t at_, uint parts) {
    uvec4 p = uvec4(0u);
    if (WORDS == 4u) return V4(at_).v[0];
    if (WORDS == 2u) {
        uvec2 first = V2(at_).v[0], second = uvec2(0u);
        if (TAIL == 0u || parts == SPAN) second = V2(at_ + 32ul).v[0];
        return uvec4(first, second);
    }
    [[unroll]] for (uint g = 0u; g < 4u; ++g)
        if (TAIL == 0u || g < parts) p[g] = U32(at_ + uint64_t(g * 16u)).v[0];
    return p;
}

#ifdef FLOATS
// The scales of so many parts of a chunk, a byte each.
uint load_codes(uint64_t at_, uint parts) {
    if (GROUPS % 4u == 0u) return U32(at_).v[0];
    uint codes = 0u;
    if (GROUPS % 2u == 0u) {
        [[unroll]] for (uint g = 0u; g < SPAN; g += 2u)
            if (g < parts) codes |= uint(U16(at_ + uint64_t(g)).v[0]) << (8u * g);
    } else {
        [[unroll]] for (uint g = 0u; g < SPAN; ++g)
            if (g < parts) codes |= uint(U8(at_ + uint64_t(g)).v[0]) << (8u * g);
    }
    return codes;
}
#endif
#ifdef HAS_BIASES
// The scales or biases of so many parts of a chunk, in pairs.
void load_numbers(uint64_t at_, uint parts, out uint pairs[PAIRS]) {
    if (TAIL == 0u) {
        load_pairs(at_, pairs);
        return;
    }
    [[unroll]] for (uint p = 0u; p < PAIRS; ++p) pairs[p] = 0u;
    [[unroll]] for (uint g = 0u; g < SPAN; ++g)
        if (g < parts) pairs[g / 2u] |= uint(U16(at_ + uint64_t(g * 2u)).v[0]) << (g % 2u * 16u);
}
#endif

// Asks for the words, scales and biases of the chunk ahead.
void ask() {
    uint parts = parts_of(chunk_ahead);
    [[unroll]] for (uint i = 0u; i < HALVES; ++i) {
        uint second = i % 2u * 8u;
        next_words[i] = load_quarter(ahead.words[i / 2u] + uint64_t(second * ROW_BYTES), parts);
#ifdef FLOATS
        next_scales[i * PAIRS] = load_codes(ahead.scales[i / 2u] + uint64_t(second * GROUPS), parts);
#endif
#ifdef HAS_BIASES
        uint scales[PAIRS], biases[PAIRS];
        load_numbers(ahead.scales[i / 2u] + uint64_t(second * GROUPS * 2u), parts, scales);
        load_numbers(ahead.biases[i / 2u] + uint64_t(second * GROUPS * 2u), parts, biases);
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

// Of a half's scales and biases in hand, those of part g; the bias with what halves are too large.
vec2 affine_of(uint half_, uint g) {
#ifdef FLOATS
    return vec2(scale_of((scales_of[half_ * PAIRS] >> (8u * g)) & 0xffu), 0.0);
#elif MATRIX_BITS == 16
    return vec2(1.0, 0.0);
#else
    vec2 scales = half_pair(DTYPE, scales_of[half_ * PAIRS + g / 2u]),
         biases = half_pair(DTYPE, biases_of[half_ * PAIRS + g / 2u]);
    float scale = scales[g % 2u];
    return vec2(scale, fma(MATRIX_BITS == 8 ? -17.0 * OFFSET : -OFFSET, scale, biases[g % 2u]));
#endif
}

// Pair j of step k of part g of a lane's words: field f of the elements where these are two.
half2 pair_at(uvec4 words, uint g, uint k, uint j, uint f) {
#if MATRIX_BITS == 16
    return halves(words[g * WORDS + 2u * k + j]);
#elif MATRIX_BITS == 8
    return fields(words[g * WORDS + k] >> (8u * j + 4u * f));
#else
    return pair_of_word(words[g * WORDS + k / 2u], 2u * (k % 2u) + j);
#endif
}

// Adds a part of the chunk in hand, of the matrices times all rows.
void multiply_part(uint g) {
    coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator> sums[SETS * FIELDS_EACH];
    [[unroll]] for (uint t = 0u; t < SETS * FIELDS_EACH; ++t)
        sums[t] = coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator>(0.0);
#ifdef HAS_BIASES
    coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator> of_x;
    of_x = coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator>(0.0);
#endif
    uvec4 octets[2u * PART_OCTETS]; // of rows that are eight apart
    [[unroll]] for (uint w = 0u; w < PART_OCTETS; ++w) {
        octets[2u * w] = octet_of(x_upper, g, w);
        octets[2u * w + 1u] = PAIRED ? octet_of(x_lower, g, w) : uvec4(0u);
    }
    // 16 elements of a row at a time, four of a lane.
    [[unroll]] for (uint k = 0u; k < STEPS; ++k) {
        coopmat<half, gl_ScopeSubgroup, 16, FN, gl_MatrixUseB> b;
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            half2 pair = halves(octets[k / 2u * 2u + i / 2u][k % 2u * 2u + i % 2u]);
            b[2u * i] = pair.x;
            b[2u * i + 1u] = pair.y;
        }
        [[unroll]] for (uint t = 0u; t < SETS * FIELDS_EACH; ++t) {
            coopmat<half, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> a;
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                uvec4 words = words_of[t / FIELDS_EACH * 2u + i / 2u];
                half2 pair = pair_at(words, g, k, i % 2u, t % FIELDS_EACH);
                a[2u * i] = pair.x;
                a[2u * i + 1u] = pair.y;
            }
            sums[t] = coopMatMulAdd(a, b, sums[t]);
        }
#ifdef HAS_BIASES
        of_x = coopMatMulAdd(coopmat<half, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>(half(1.0)), b, of_x);
#endif
    }
    [[unroll]] for (uint i = 0u; i < HALVES; ++i) {
        vec2 affine = affine_of(i, g);
        [[unroll]] for (uint j = 0u; j < (PAIRED ? 4u : 2u); ++j) {
            uint to = i / 2u * 8u + i % 2u * 4u + j, t = i / 2u * FIELDS_EACH, e = sum_at(i % 2u, j);
            float sum = sums[t][e];
            if (FIELDS_EACH == 2u) sum = fma(16.0, sums[t + FIELDS_EACH - 1u][e], sum);
#ifdef HAS_BIASES
            total[to] = fma(affine.y, of_x[j], total[to]);
#endif
            total[to] = fma(affine.x, sum, total[to]);
        }
    }
}

// Asks for the chunk ahead, and adds the one before it, of so many parts.
void add_chunk(uint parts) {
    take();
    ask();
    [[unroll]] for (uint g = 0u; g < SPAN; ++g) if (TAIL == 0u || g < parts) multiply_part(g);
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
    uint parts = parts_of(chunk_ahead);
    if (next < end) look_at(next);
    add_chunk(parts);
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

// Octet w of row `row` of a matrix.
void elements_of(uint64_t words, uint row, uint w, out vec4 low, out vec4 high) {
#if MATRIX_BITS == 16
    uvec4 p = V4(words).v[row * OCTETS + w];
    low = vec4(half_pair(DTYPE, p.x), half_pair(DTYPE, p.y));
    high = vec4(half_pair(DTYPE, p.z), half_pair(DTYPE, p.w));
#elif MATRIX_BITS == 8
    elements8(V2(words).v[row * OCTETS + w], low, high);
#else
    elements8(uvec2(AT_U32(words, row * OCTETS + w), 0u), low, high);
#endif
}

// The same without fragments: lanes walk the octets of a matrix row.
void sum_up_plainly(uint block) {
    Addresses of_block = matrices_of(block);
    [[unroll]] for (uint s = 0u; s < SETS; ++s) for (uint i = 0u; i < COLUMNS * BLOCK; ++i) {
        uint column = i / BLOCK, o = i % BLOCK;
        uint64_t row = row_at(column);
        float sum = 0.0;
        for (uint w = split() * SUBGROUP + lane(); w < OCTETS; w += SPLITS * SUBGROUP) {
            uvec4 p = V4(row).v[w];
            vec4 low, high, x_low = vec4(half_pair(DTYPE, p.x), half_pair(DTYPE, p.y)),
                            x_high = vec4(half_pair(DTYPE, p.z), half_pair(DTYPE, p.w));
            elements_of(of_block.words[s], o, w, low, high);
            float product = dot_add(x_high, high, dot_add(x_low, low, 0.0)), scale = 1.0;
            uint64_t group = uint64_t((o * GROUPS + w / (GROUP / 8u)) * SCALE_BYTES);
#ifdef FLOATS
            scale = scale_of(uint(U8(of_block.scales[s] + group).v[0]));
#endif
#ifdef HAS_BIASES
            scale = fetch(DTYPE, of_block.scales[s] + group);
            float of_x = dot(x_low, vec4(1.0)) + dot(x_high, vec4(1.0));
            sum = fma(fetch(DTYPE, of_block.biases[s] + group), of_x, sum);
#endif
            sum = fma(scale, product, sum);
        }
#ifdef FLOATS
        if (SCALED) sum *= 1.0 / X_FACTOR;
#endif
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
