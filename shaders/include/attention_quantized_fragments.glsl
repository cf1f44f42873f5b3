// Keys and values of attention_token_fragments.glsl that are fields of 4 or 8 bits, in groups of 64 features.
// Words begin at multiples of 16 bytes, rows behind whole rows, and scales of a row lie in one word.
//
// Fields become float16 where they lie in a word (fields.glsl), whatever the dtype: it has the bits for them.
// A group has sums of its own, which its key's scale is multiplied with; of values it has weights of its own
// instead. What is too much is taken from the sums with the biases, so halves are rounded by their bits: a
// driver may take a conversion and back for nothing at all.

const uint GROUPS = WIDTH / CACHE_GROUP, KEY_WORDS = CACHE_BITS / 2u, VALUE_WORDS = CACHE_BITS / 4u;
const uint PAIRS_EACH = 16u / CACHE_BITS; // pairs of fields of a word
const uint FIELD_MASK = CACHE_BITS == 8u ? 0x00ff00ffu : 0x000f000fu;
const float LOWEST_SCALE = -24.0;

// The i-th pair of fields of a word, half of it apart.
half2 field_pair(uint word, uint i) { return halves(((word >> (CACHE_BITS * i)) & FIELD_MASK) | offset_); }

// Of a number: what is none may become zero.
float nearest_half(float x) {
    return uintBitsToFloat((floatBitsToUint(x) + 0x1000u) & 0xffffe000u);
}

uint64_t keys_from, values_from;   // of the workgroup's key/value head: words of its first key
uint64_t key_affine[2], value_affine[2]; // scales, then biases
uint query_pairs[GROUPS * 8u];     // of the lane's head, as halves of a power of two
float fragment_query_sums[GROUPS];
// Of each round words of two keys, and of four values; scales of four keys, then biases, and of their values.
const uint ROUND_KEYS = 2u * GROUPS * KEY_WORDS, ROUND_VALUES = 4u * GROUPS * VALUE_WORDS;
uint key_words[ROUNDS * ROUND_KEYS], value_words[ROUNDS * ROUND_VALUES];
uint asked_keys[ROUNDS * 8u], asked_values[ROUNDS * 8u];
float value_sums[GROUPS]; // what is added to all features of a group

// Scales or biases of a row.
uint row_affine(uint64_t from, uint j, uint row) {
    uint64_t at_ = from + uint64_t(j * (row / CACHE_GROUP * 2u));
    return GROUPS == 2u ? U32(at_).v[0] : uint(U16(at_).v[0]);
}

float affine_part(uint word, uint g) { return half_pair(DTYPE, word)[g]; }

// Where what the workgroup reads begins.
void begin_cache(uint kv_head) {
    score_factor = score_scale * take_more();
    uint64_t key = key_element(kv_head, 0ul), value = value_element(kv_head, 0ul);
    keys_from = word_at(keys, key);
    values_from = word_at(values, value);
    key_affine[0] = key_scales + uint64_t(group_of(key) * 2l);
    key_affine[1] = key_biases + uint64_t(group_of(key) * 2l);
    value_affine[0] = value_scales + uint64_t(group_of(value) * 2l);
    value_affine[1] = value_biases + uint64_t(group_of(value) * 2l);
}

// The query of the lane's head, divided by a power of two so that no half overflows.
void begin_queries() {
    uint from = min(row_in_half(), HEADS - 1u) * WIDTH + quarter() * 16u;
    float most = 0.0;
    [[unroll]] for (uint g = 0u; g < GROUPS; ++g)
        [[unroll]] for (uint f = 0u; f < 16u; ++f) most = max(most, abs(queries[from + g * CACHE_GROUP + f]));
    most = max(most, subgroupShuffleXor(most, 1u));
    most = max(most, subgroupShuffleXor(most, 2u));
    uint unit = clamp(floatBitsToUint(most) & 0x7f800000u, 1u << 23, 253u << 23);
    float per_unit = row_in_half() < HEADS ? uintBitsToFloat((254u << 23) - unit) : 0.0;
    score_factor *= uintBitsToFloat(unit);
    [[unroll]] for (uint g = 0u; g < GROUPS; ++g) {
        value_sums[g] = fragment_query_sums[g] = 0.0;
        [[unroll]] for (uint p = 0u; p < 8u; ++p) {
            uint f = from + g * CACHE_GROUP + p / PAIRS_EACH * (2u * PAIRS_EACH) + p % PAIRS_EACH;
            vec2 x = vec2(queries[f], queries[f + PAIRS_EACH]) * per_unit;
            vec2 q = vec2(m_isnan(x.x) ? x.x : nearest_half(x.x), m_isnan(x.y) ? x.y : nearest_half(x.y));
            query_pairs[g * 8u + p] = pack_halves(FLOAT16, q);
            fragment_query_sums[g] += q.x + q.y;
        }
        fragment_query_sums[g] += subgroupShuffleXor(fragment_query_sums[g], 1u);
        fragment_query_sums[g] += subgroupShuffleXor(fragment_query_sums[g], 2u);
    }
}

void ask_fragment_keys(uint set, uint kv_head, uint key0, uint last) {
    [[unroll]] for (uint c = 0u; c < 2u; ++c) {
        uint j = min(key0 + row_in_half() + 8u * c, max(last, 1u) - 1u);
        uint64_t from = keys_from + uint64_t(j * (key_row / 8u * CACHE_BITS) + quarter() * (2u * CACHE_BITS));
        [[unroll]] for (uint g = 0u; g < GROUPS; ++g) {
            uint to = set * ROUND_KEYS + (c * GROUPS + g) * KEY_WORDS;
            uint64_t at_ = from + uint64_t(g * (CACHE_GROUP / 8u * CACHE_BITS));
            if (CACHE_BITS == 8u) {
                uvec4 w = V4(at_).v[0];
                [[unroll]] for (uint i = 0u; i < KEY_WORDS; ++i) key_words[to + i] = w[i];
            } else {
                uvec2 w = V2(at_).v[0];
                [[unroll]] for (uint i = 0u; i < KEY_WORDS; ++i) key_words[to + i] = w[i];
            }
        }
    }
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint j = min(key0 + slot_of(i), max(last, 1u) - 1u);
        [[unroll]] for (uint k = 0u; k < 2u; ++k)
            asked_keys[set * 8u + 4u * k + i] = row_affine(key_affine[k], j, key_row);
    }
}

void ask_fragment_values(uint set, uint kv_head, uint key0, uint last) {
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint j = min(key0 + slot_of(i), max(last, 1u) - 1u);
        uint64_t from = values_from
            + uint64_t(j * (value_row / 8u * CACHE_BITS) + row_in_half() * CACHE_BITS);
        [[unroll]] for (uint g = 0u; g < GROUPS; ++g) {
            uint to = set * ROUND_VALUES + (i * GROUPS + g) * VALUE_WORDS;
            uint64_t at_ = from + uint64_t(g * (CACHE_GROUP / 8u * CACHE_BITS));
            if (CACHE_BITS == 8u) {
                uvec2 w = V2(at_).v[0];
                [[unroll]] for (uint n = 0u; n < VALUE_WORDS; ++n) value_words[to + n] = w[n];
            } else {
                value_words[to] = U32(at_).v[0];
            }
        }
        [[unroll]] for (uint k = 0u; k < 2u; ++k)
            asked_values[set * 8u + 4u * k + i] = row_affine(value_affine[k], j, value_row);
    }
}

vec4 fragment_scores(uint set, uint kv_head, uint key0, uint last) {
    vec4 s = vec4(0.0);
    [[unroll]] for (uint g = 0u; g < GROUPS; ++g) {
        coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator> products =
            coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator>(0.0);
        [[unroll]] for (uint m = 0u; m < 4u; ++m) {
            coopmat<half, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> a =
                coopmat<half, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>(half(0.0));
            coopmat<half, gl_ScopeSubgroup, 16, FN, gl_MatrixUseB> b;
            [[unroll]] for (uint i = 0u; i < 2u; ++i) {
                uint p = 2u * m + i;
                half2 q = halves(query_pairs[g * 8u + p]);
                a[2u * i] = q.x;
                a[2u * i + 1u] = q.y;
                [[unroll]] for (uint c = 0u; c < 2u; ++c) {
                    uint word = key_words[set * ROUND_KEYS + (c * GROUPS + g) * KEY_WORDS + p / PAIRS_EACH];
                    half2 x = field_pair(word, p % PAIRS_EACH);
                    b[4u * c + 2u * i] = x.x;
                    b[4u * c + 2u * i + 1u] = x.y;
                }
            }
            products = coopMatMulAdd(a, b, products);
        }
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            float scale_ = affine_part(asked_keys[set * 8u + i], g),
                  bias = affine_part(asked_keys[set * 8u + 4u + i], g);
            s[i] = fma(scale_, products[i], fma(fma(-OFFSET, scale_, bias), fragment_query_sums[g], s[i]));
        }
    }
    vec4 x;
    [[unroll]] for (uint i = 0u; i < 4u; ++i)
        x[i] = fragment_score(kv_head, key0 + slot_of(i), last, s[i]);
    return x;
}

void fit_more(float fix) {
    [[unroll]] for (uint g = 0u; g < GROUPS; ++g) value_sums[g] *= fix;
}

// A weight is multiplied with its value's scale, so the maximum is that of both together.
vec4 fragment_weights(uint set, vec4 x) {
    vec4 y;
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        float most = abs(affine_part(asked_values[set * 8u + i], 0u));
        if (GROUPS == 2u) most = max(most, abs(affine_part(asked_values[set * 8u + i], 1u)));
        y[i] = x[i] + max(log2(most), LOWEST_SCALE);
    }
    raise_top(y);
    vec4 weights = exp2(x - (top - RAISE));
    weight_sum += quad_sum(weights);
    return weights;
}

void add_fragments(uint set, vec4 weights) {
    [[unroll]] for (uint g = 0u; g < GROUPS; ++g) {
        coopmat<half, gl_ScopeSubgroup, 16, FN, gl_MatrixUseB> scaled =
            coopmat<half, gl_ScopeSubgroup, 16, FN, gl_MatrixUseB>(half(0.0));
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            float w = nearest_half(weights[i] * affine_part(asked_values[set * 8u + i], g));
            scaled[i] = half(w);
            float bias = affine_part(asked_values[set * 8u + 4u + i], g);
            value_sums[g] = fma(weights[i], bias, fma(-OFFSET, w, value_sums[g]));
        }
        [[unroll]] for (uint n = 0u; n < VALUE_WORDS; ++n) {
            const uint from = set * ROUND_VALUES + g * VALUE_WORDS + n, apart = GROUPS * VALUE_WORDS;
            uint p = value_words[from], q = value_words[from + apart], r = value_words[from + 2u * apart],
                 s = value_words[from + 3u * apart];
            // Fields of two keys beside each other.
            uint early[2] = uint[2](low_pair(p, q), high_pair(p, q)),
                 late[2] = uint[2](low_pair(r, s), high_pair(r, s));
            const uint each = 4u / VALUE_WORDS; // fragments of a word: two features are rows of each
            [[unroll]] for (uint k = 0u; k < each; ++k) {
                coopmat<half, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> a;
                [[unroll]] for (uint i = 0u; i < 2u; ++i) {
                    uint field = 2u * k + i, part = field / PAIRS_EACH, nth = field % PAIRS_EACH;
                    half2 first = field_pair(early[part], nth), second = field_pair(late[part], nth);
                    a[4u * i] = first.x;
                    a[4u * i + 1u] = first.y;
                    a[4u * i + 2u] = second.x;
                    a[4u * i + 3u] = second.y;
                }
                uint block = g * 4u + n * each + k;
                outs[block] = coopMatMulAdd(a, scaled, outs[block]);
            }
        }
    }
}

// Adds what all features of a group get.
void end_fragments() {
    [[unroll]] for (uint g = 0u; g < GROUPS; ++g) {
        float sum = value_sums[g] + subgroupShuffleXor(value_sums[g], 1u);
        sum += subgroupShuffleXor(sum, 2u);
        float first = subgroupShuffle(sum, quarter() * 8u),
              second = subgroupShuffle(sum, quarter() * 8u + 4u);
        [[unroll]] for (uint b = 4u * g; b < 4u * g + 4u; ++b) {
            outs[b][0] += first;
            outs[b][1] += second;
            outs[b][4] += first;
            outs[b][5] += second;
        }
    }
}

// Four features of a row that begins at element `row` of words.
vec4 field_quad(uint64_t words, uint64_t scales, uint64_t biases, uint64_t row, uint quad) {
    int64_t group = group_of(row + uint64_t(quad * 4u));
    float scale_ = fetch(DTYPE, at(DTYPE, scales, group)), bias = fetch(DTYPE, at(DTYPE, biases, group));
    uvec2 octet = packed8(CACHE_BITS, word_at(words, row), quad * 4u & ~7u);
    vec4 fields = (quad & 1u) == 0u ? fields4(CACHE_BITS, octet, 0u) : fields4(CACHE_BITS, octet, 4u);
    return fma(vec4(scale_), fields, vec4(bias));
}

vec4 key_quad(uint kv_head, uint j, uint quad) {
    return field_quad(keys, key_scales, key_biases, key_element(kv_head, uint64_t(j)), quad);
}

vec4 value_quad(uint kv_head, uint j, uint quad) {
    return field_quad(values, value_scales, value_biases, value_element(kv_head, uint64_t(j)), quad);
}
