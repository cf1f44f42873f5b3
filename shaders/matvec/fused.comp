#version 460
// A few rows times the transposes of one to three matrices that share their input, quantized or not, with what comes
// before and after: out[i][o] = f(sum over j of g(x[i][j]) * w[o][j]).
//   before: nothing, or RMS norm: its weight multiplies x, its scale, found along the way, multiplies the sum;
//   after:  nothing, a residual added, or silu(first matrix's result) * (second's).
// A team (a subgroup) makes OUTPUTS results of every row. A lane takes CHUNK elements at a time; all sums are float32.
// Constants: 1 dtype, 2 bits (16 or 32: not quantized), 3 group size, 4 subgroup size, 5 rows, 6 outputs, 7 before, 8 after,
// 9 chunks of a lane if they are few (0: any number), 10 the bits of eps.
#include "common.glsl"
#include "floats.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const uint BITS = 4;
layout(constant_id = 3) const uint GROUP = 64;
layout(constant_id = 4) const uint SUBGROUP = 32;
layout(constant_id = 5) const uint ROWS = 1;
layout(constant_id = 6) const uint OUTPUTS = 4;
layout(constant_id = 7) const uint BEFORE = 0;
layout(constant_id = 8) const uint AFTER = 0;
layout(constant_id = 9) const uint CHUNKS = 0;
layout(constant_id = 10) const uint EPS = 0;
const bool NORM = BEFORE == 1u, RESIDUAL = AFTER == 1u, GATED = AFTER == 2u;

#include "quant.glsl"
#define VARIANT 1
#include "team.glsl"

struct Matrix { uint64_t words, scales, biases, result; };

layout(push_constant, scalar) uniform Push {
    uint64_t x, weight; // weight: of the norm
    Matrix matrices[3]; // with a residual, its address is the second one's `words`
    uint inner, ends[3]; // blocks of OUTPUTS results up to the end of each matrix
};

const bool DENSE = BITS >= 16u;
const uint CHUNK = DENSE ? 8u : 32u;             // elements of a lane at a time
const uint WORDS = CHUNK * BITS / 32u;           // and their words
const uint SETS = GATED ? 2u : 1u;               // matrices that a team works on at once
const uint RESULTS = SETS * OUTPUTS;
// 4-bit fields are read where they stand in a mantissa, without a conversion; a few bits of the sum are lost on the way,
// which the 16-bit dtypes do not see.
const bool IN_PLACE = BITS == 4u && DTYPE != FLOAT32;

uint words_of[RESULTS * WORDS];
float scale_of[RESULTS], bias_of[RESULTS];
float total[RESULTS * ROWS], squares[ROWS];

// The words of a chunk: 16 bytes at a time where a chunk is whole quads of words.
void load_words(uint64_t address, uint to) {
    if (WORDS % 4u == 0u) {
        [[unroll]] for (uint i = 0u; i < WORDS; i += 4u) {
            uvec4 p = V4(address).v[i / 4u];
            [[unroll]] for (uint e = 0u; e < 4u; ++e) words_of[to + i + e] = p[e];
        }
    } else if (WORDS % 2u == 0u) {
        [[unroll]] for (uint i = 0u; i < WORDS; i += 2u) {
            uvec2 p = V2(address).v[i / 2u];
            words_of[to + i] = p.x;
            words_of[to + i + 1u] = p.y;
        }
    } else {
        [[unroll]] for (uint i = 0u; i < WORDS; ++i) words_of[to + i] = U32(address).v[i];
    }
}

// Everything of the weights that a chunk needs; asked for first, because it comes from far away.
void load_weights(uint set, uint first, uint chunk) {
    uint row_words = inner / CHUNK * WORDS;
    [[unroll]] for (uint s = 0u; s < SETS; ++s) {
        Matrix m = matrices[set + s];
        [[unroll]] for (uint r = 0u; r < OUTPUTS; ++r) {
            uint64_t row = uint64_t(first + r);
            load_words(m.words + (row * uint64_t(row_words) + uint64_t(chunk * WORDS)) * 4ul, (s * OUTPUTS + r) * WORDS);
            if (DENSE) continue;
            int64_t group = int64_t(row * uint64_t(inner / GROUP) + uint64_t(chunk * 32u / GROUP));
            scale_of[s * OUTPUTS + r] = fetch(DTYPE, at(DTYPE, m.scales, group));
            bias_of[s * OUTPUTS + r] = fetch(DTYPE, at(DTYPE, m.biases, group));
        }
    }
}

// Element e of a chunk.
float element(uint o, uint e) {
    uint bit = e * BITS, word = o * WORDS + bit / 32u, shift = bit & 31u;
    if (BITS == 32u) return uintBitsToFloat(words_of[word]);
    if (BITS == 16u) return (e & 1u) == 0u ? half_pair(DTYPE, words_of[word]).x : half_pair(DTYPE, words_of[word]).y;
    uint v = words_of[word] >> shift;
    if (shift + BITS > 32u) v |= words_of[word + 1u] << (32u - shift);
    return exact_float(v & FIELD);
}

// Sums of the even and of the odd fields' products: 1 + q / 256 and 1 + q / 16 times x. The ones are taken away later.
void add_in_place(uint w, vec4 low, vec4 high, inout vec2 sum) {
    [[unroll]] for (uint pair = 0u; pair < 4u; ++pair) {
        uint v = pair == 0u ? w << 15 : pair == 1u ? w << 7 : pair == 2u ? w >> 1 : w >> 9;
        vec2 y = pair < 2u ? (pair == 0u ? low.xy : low.zw) : (pair == 2u ? high.xy : high.zw);
        sum.x = fma(uintBitsToFloat((v & 0x78000u) | 0x3f800000u), y.x, sum.x);
        sum.y = fma(uintBitsToFloat((v & 0x780000u) | 0x3f800000u), y.y, sum.y);
    }
}

void add_chunk(uint chunk) {
    vec2 parts[RESULTS * ROWS], sums[ROWS];
    [[unroll]] for (uint i = 0u; i < RESULTS * ROWS; ++i) parts[i] = vec2(0.0);
    [[unroll]] for (uint i = 0u; i < ROWS; ++i) sums[i] = vec2(0.0);
    uint64_t row_bytes = uint64_t(inner) << float_shift(DTYPE);
    [[unroll]] for (uint e = 0u; e < CHUNK; e += 8u) {
        uint64_t from = uint64_t(chunk * CHUNK + e) << float_shift(DTYPE);
        vec4 low[ROWS], high[ROWS], w_low, w_high;
        if (NORM) fetch8(DTYPE, true, weight + from, w_low, w_high);
        [[unroll]] for (uint i = 0u; i < ROWS; ++i) {
            fetch8(DTYPE, true, x + uint64_t(i) * row_bytes + from, low[i], high[i]);
            if (NORM) {
                squares[i] = dot_add(high[i], high[i], dot_add(low[i], low[i], squares[i]));
                low[i] *= w_low;
                high[i] *= w_high;
            }
            if (!DENSE) sums[i] += (low[i].xy + low[i].zw) + (high[i].xy + high[i].zw);
        }
        [[unroll]] for (uint o = 0u; o < RESULTS; ++o) {
            if (IN_PLACE) {
                [[unroll]] for (uint i = 0u; i < ROWS; ++i) add_in_place(words_of[o * WORDS + e / 8u], low[i], high[i], parts[o * ROWS + i]);
                continue;
            }
            vec4 q = vec4(element(o, e), element(o, e + 1u), element(o, e + 2u), element(o, e + 3u));
            vec4 p = vec4(element(o, e + 4u), element(o, e + 5u), element(o, e + 6u), element(o, e + 7u));
            [[unroll]] for (uint i = 0u; i < ROWS; ++i) {
                vec2 t = parts[o * ROWS + i];
                parts[o * ROWS + i] = vec2(dot_add(q, low[i], t.x), dot_add(p, high[i], t.y));
            }
        }
    }
    [[unroll]] for (uint o = 0u; o < RESULTS; ++o)
        [[unroll]] for (uint i = 0u; i < ROWS; ++i) {
            vec2 t = parts[o * ROWS + i];
            if (IN_PLACE) t = (t - sums[i]) * vec2(256.0, 16.0);
            float product = t.x + t.y, sum = sums[i].x + sums[i].y;
            total[o * ROWS + i] = DENSE ? total[o * ROWS + i] + product
                                        : fma(scale_of[o], product, fma(bias_of[o], sum, total[o * ROWS + i]));
        }
}

float silu(float g) { return g / (1.0 + exp(-g)); }

// Results first.. of the set of matrices that starts with `set`, of `outputs` each.
void make(uint set, uint first, uint outputs) {
    [[unroll]] for (uint i = 0u; i < RESULTS * ROWS; ++i) total[i] = 0.0;
    [[unroll]] for (uint i = 0u; i < ROWS; ++i) squares[i] = 0.0;
    uint chunks = inner / CHUNK;
    if (CHUNKS != 0u) {
        [[unroll]] for (uint c = 0u; c < CHUNKS; ++c) {
            uint chunk = c * SUBGROUP + gl_SubgroupInvocationID;
            if (chunk >= chunks) break;
            load_weights(set, first, chunk);
            add_chunk(chunk);
        }
    } else {
        for (uint chunk = gl_SubgroupInvocationID; chunk < chunks; chunk += SUBGROUP) {
            load_weights(set, first, chunk);
            add_chunk(chunk);
        }
    }
    [[unroll]] for (uint i = 0u; i < ROWS; ++i) {
        float factor = 1.0;
        if (NORM) factor = 1.0 / sqrt(team_sum(squares[i]) / float(inner) + uintBitsToFloat(EPS));
        [[unroll]] for (uint r = 0u; r < OUTPUTS; ++r) {
            float y = team_sum(total[r * ROWS + i]) * factor;
            if (GATED) y = silu(y) * (team_sum(total[(OUTPUTS + r) * ROWS + i]) * factor);
            if (gl_SubgroupInvocationID != (r * ROWS + i) % SUBGROUP) continue;
            int64_t to = int64_t(uint64_t(i) * uint64_t(outputs) + uint64_t(first + r));
            if (RESIDUAL) y += fetch(DTYPE, at(DTYPE, matrices[1].words, to));
            store_float(DTYPE, matrices[set].result, to, y);
        }
    }
}

void main() {
    for (uint block = TEAM_ID; block < ends[2]; block += TEAM_COUNT) {
        uint set = (block >= ends[0] ? 1u : 0u) + (block >= ends[1] ? 1u : 0u);
        uint start = set == 0u ? 0u : ends[set - 1u];
        make(set, (block - start) * OUTPUTS, (ends[set] - start) * OUTPUTS);
    }
}
