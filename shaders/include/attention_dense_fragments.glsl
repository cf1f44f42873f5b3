// Keys and values of attention_token_fragments.glsl that are halves in memory. Loads are 16 bytes.

const uint KEY_OCTETS = WIDTH / 32u;

uvec4 query_words[KEY_OCTETS]; // of the lane's head
// Of each round two keys, and four values.
const uint ROUND_KEYS = 2u * KEY_OCTETS, ROUND_VALUES = 4u * VALUE_OCTETS;
uvec4 key_words[ROUNDS * ROUND_KEYS], value_words[ROUNDS * ROUND_VALUES];

void begin_queries() {
    [[unroll]] for (uint j = 0u; j < KEY_OCTETS; ++j) {
        uint from = min(row_in_half(), HEADS - 1u) * WIDTH + (4u * j + quarter()) * 8u;
        [[unroll]] for (uint w = 0u; w < 4u; ++w) {
            uint pair = pack_halves(DTYPE, vec2(queries[from + 2u * w], queries[from + 2u * w + 1u]));
            query_words[j][w] = row_in_half() < HEADS ? pair : 0u;
        }
    }
}

void ask_fragment_keys(uint set, uint kv_head, uint key0, uint last) {
    [[unroll]] for (uint c = 0u; c < 2u; ++c) {
        int64_t j = int64_t(min(key0 + row_in_half() + 8u * c, max(last, 1u) - 1u));
        uint64_t from = at(DTYPE, keys, int64_t(kv_head) * int64_t(key_head) + j * int64_t(key_row));
        [[unroll]] for (uint o = 0u; o < KEY_OCTETS; ++o)
            key_words[set * ROUND_KEYS + c * KEY_OCTETS + o] = V4(from).v[4u * o + quarter()];
    }
}

void ask_fragment_values(uint set, uint kv_head, uint key0, uint last) {
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        int64_t j = int64_t(min(key0 + slot_of(i), max(last, 1u) - 1u));
        uint64_t from = at(DTYPE, values, int64_t(kv_head) * int64_t(value_head) + j * int64_t(value_row));
        [[unroll]] for (uint o = 0u; o < VALUE_OCTETS; ++o)
            value_words[set * ROUND_VALUES + i * VALUE_OCTETS + o] = V4(from).v[8u * o + row_in_half()];
    }
}

vec4 fragment_scores(uint set, uint kv_head, uint key0, uint last) {
    coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator> s =
        coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator>(0.0);
    [[unroll]] for (uint j = 0u; j < KEY_OCTETS; ++j) {
        [[unroll]] for (uint k = 0u; k < 2u; ++k) {
            coopmat<half, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> a =
                coopmat<half, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>(half(0.0));
            coopmat<half, gl_ScopeSubgroup, 16, FN, gl_MatrixUseB> b;
            [[unroll]] for (uint i = 0u; i < 2u; ++i) {
                half2 q = halves(query_words[j][2u * k + i]);
                a[2u * i] = q.x;
                a[2u * i + 1u] = q.y;
            }
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                half2 x = halves(key_words[set * ROUND_KEYS + i / 2u * KEY_OCTETS + j][2u * k + i % 2u]);
                b[2u * i] = x.x;
                b[2u * i + 1u] = x.y;
            }
            s = coopMatMulAdd(a, b, s);
        }
    }
    vec4 x;
    [[unroll]] for (uint i = 0u; i < 4u; ++i)
        x[i] = fragment_score(kv_head, key0 + slot_of(i), last, s[i]);
    return x;
}

void begin_cache(uint kv_head) { score_factor = score_scale; }

void end_fragments() {}

void fit_more(float fix) {}

vec4 fragment_weights(uint set, vec4 x) {
    raise_top(x);
    vec4 weights = exp2(x - (top - RAISE));
    weight_sum += quad_sum(weights);
    return weights;
}

// What a half holds of a weight, cut off. By bits: a driver may take a conversion and back for nothing at
// all.
float upper_half(float x) {
    return uintBitsToFloat(floatBitsToUint(x) & (DTYPE == FLOAT16 ? 0xffffe000u : 0xffff0000u));
}

// By what a half holds of a weight, and by what it does not.
void add_fragments(uint set, vec4 weights) {
    coopmat<half, gl_ScopeSubgroup, 16, FN, gl_MatrixUseB> high, low;
    high = coopmat<half, gl_ScopeSubgroup, 16, FN, gl_MatrixUseB>(half(0.0));
    low = high;
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        float h = upper_half(weights[i]);
        high[i] = half(h);
        low[i] = half(weights[i] - h);
    }
    [[unroll]] for (uint o = 0u; o < VALUE_OCTETS; ++o) {
        [[unroll]] for (uint w = 0u; w < 4u; ++w) {
            const uint from = set * ROUND_VALUES + o;
            uint p = value_words[from][w], q = value_words[from + VALUE_OCTETS][w],
                 r = value_words[from + 2u * VALUE_OCTETS][w], s = value_words[from + 3u * VALUE_OCTETS][w];
            half2 pairs[4] = half2[4](halves(low_pair(p, q)), halves(low_pair(r, s)),
                halves(high_pair(p, q)), halves(high_pair(r, s)));
            coopmat<half, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> a;
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                a[2u * i] = pairs[i].x;
                a[2u * i + 1u] = pairs[i].y;
            }
            outs[o * 4u + w] = coopMatMulAdd(a, high, outs[o * 4u + w]);
            outs[o * 4u + w] = coopMatMulAdd(a, low, outs[o * 4u + w]);
        }
    }
}

vec4 key_quad(uint kv_head, uint j, uint quad) {
    int64_t from = int64_t(kv_head) * int64_t(key_head) + int64_t(j) * int64_t(key_row);
    return fetch4(DTYPE, true, at(DTYPE, keys, from) + uint64_t(quad * 8u));
}

vec4 value_quad(uint kv_head, uint j, uint quad) {
    int64_t from = int64_t(kv_head) * int64_t(value_head) + int64_t(j) * int64_t(value_row);
    return fetch4(DTYPE, true, at(DTYPE, values, from) + uint64_t(quad * 8u));
}
