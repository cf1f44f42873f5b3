// Attention of one query token over many keys on cooperative matrices, in place of what attention_token.glsl
// does with them: a subgroup takes 16 keys at a time, for all heads that share them. Needs
// attention_token.glsl (its shared memory, `prepare` and `masked`), MASKED, which says whether there is a
// mask, fragments.glsl, and HEADS of at most 8.
//
// Scores are queries (heads as rows, of which eight are air) times keys. The two scores of a lane's row lie
// where the right operand of the next product wants them: results are values (features as rows) times
// weights. Loads are 16 bytes of a key or a value; which feature is which row or column of a fragment follows
// from them.

const float LOG2E = 1.4426950408889634, SLACK = 6.0, RAISE = 9.0;
const uint KEY_OCTETS = WIDTH / 32u, VALUE_OCTETS = WIDTH / 64u, BLOCKS = WIDTH / 16u, TALL = 16;

uvec4 query_words[KEY_OCTETS];       // of the lane's head
uvec4 key_words[2u * KEY_OCTETS];    // of two keys
uvec4 value_words[4u * VALUE_OCTETS]; // of four values
coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator> outs[BLOCKS];
float top, weight_sum; // of the lane's head; the maximum in powers of two

// Which of 16 keys is the i-th of four whose scores a lane has.
uint slot_of(uint i) { return quarter() * 2u + i % 2u + i / 2u * 8u; }

void begin_fragments() {
    top = LOWEST;
    weight_sum = 0.0;
    [[unroll]] for (uint b = 0u; b < BLOCKS; ++b)
        outs[b] = coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator>(0.0);
    [[unroll]] for (uint j = 0u; j < KEY_OCTETS; ++j) {
        uint from = min(row_in_half(), HEADS - 1u) * WIDTH + (4u * j + quarter()) * 8u;
        [[unroll]] for (uint w = 0u; w < 4u; ++w) {
            uint pair = pack_halves(DTYPE, vec2(queries[from + 2u * w], queries[from + 2u * w + 1u]));
            query_words[j][w] = row_in_half() < HEADS ? pair : 0u;
        }
    }
}

void ask_fragment_keys(uint kv_head, uint key0, uint last) {
    [[unroll]] for (uint c = 0u; c < 2u; ++c) {
        int64_t j = int64_t(min(key0 + row_in_half() + 8u * c, last - 1u));
        uint64_t from = at(DTYPE, keys, int64_t(kv_head) * int64_t(key_head) + j * int64_t(key_row));
        [[unroll]] for (uint o = 0u; o < KEY_OCTETS; ++o)
            key_words[c * KEY_OCTETS + o] = V4(from).v[4u * o + quarter()];
    }
}

void ask_fragment_values(uint kv_head, uint key0, uint last) {
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        int64_t j = int64_t(min(key0 + slot_of(i), last - 1u));
        uint64_t from = at(DTYPE, values, int64_t(kv_head) * int64_t(value_head) + j * int64_t(value_row));
        [[unroll]] for (uint o = 0u; o < VALUE_OCTETS; ++o)
            value_words[i * VALUE_OCTETS + o] = V4(from).v[8u * o + row_in_half()];
    }
}

// A score in powers of two. Numbers as low as floats are must not become -inf.
float in_powers_of_two(float s) { return s * LOG2E < LOWEST && s >= LOWEST ? LOWEST : s * LOG2E; }

// Scores of the lane's head and its four keys, in powers of two; -inf from key `last` on.
vec4 fragment_scores(uint kv_head, uint key0, uint last) {
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
                half2 x = halves(key_words[i / 2u * KEY_OCTETS + j][2u * k + i % 2u]);
                b[2u * i] = x.x;
                b[2u * i + 1u] = x.y;
            }
            s = coopMatMulAdd(a, b, s);
        }
    }
    vec4 x;
    uint h = min(row_in_half(), HEADS - 1u);
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint j = key0 + slot_of(i);
        float score = s[i] * (score_scale * LOG2E);
        if (MASKED) score = in_powers_of_two(masked(kv_head, h, min(j, last - 1u), s[i] * score_scale));
        x[i] = j < last ? score : uintBitsToFloat(0xff800000u);
    }
    return x;
}

// Weights of four keys by their scores. The maximum is left as it is until it grows by much, as in
// attention_weights.glsl.
vec4 fragment_weights(vec4 x) {
    float found = max(max(x.x, x.y), max(x.z, x.w));
    found = max(found, subgroupShuffleXor(found, 1u));
    found = max(found, subgroupShuffleXor(found, 2u));
    if (subgroupBallot(found > top + SLACK) != uvec4(0u)) {
        float next = max(top, found), fix = exp2(top - next);
        top = next;
        weight_sum *= fix;
        // Columns of results are heads.
        float first = subgroupShuffle(fix, quarter() * 8u),
              second = subgroupShuffle(fix, quarter() * 8u + 4u);
        [[unroll]] for (uint b = 0u; b < BLOCKS; ++b) {
            outs[b][0] *= first;
            outs[b][1] *= second;
            outs[b][4] *= first;
            outs[b][5] *= second;
        }
    }
    vec4 weights = exp2(x - (top - RAISE));
    weight_sum += quad_sum(weights);
    return weights;
}

// What a half holds of a weight, cut off. By bits: a driver may take a conversion and back for nothing at
// all.
float upper_half(float x) {
    return uintBitsToFloat(floatBitsToUint(x) & (DTYPE == FLOAT16 ? 0xffffe000u : 0xffff0000u));
}

uint low_pair(uint a, uint b) { return (a & 0xffffu) | (b << 16); }
uint high_pair(uint a, uint b) { return (a >> 16) | (b & 0xffff0000u); }

// Adds the values, weighed: by what a half holds of a weight, and by what it does not.
void add_fragments(vec4 weights) {
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
            uint p = value_words[o][w], q = value_words[VALUE_OCTETS + o][w],
                 r = value_words[2u * VALUE_OCTETS + o][w], s = value_words[3u * VALUE_OCTETS + o][w];
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

// The keys first..last. As soon as keys or values are used, those of the next round are asked for.
void take_fragments(uint kv_head, uint first, uint last) {
    uint key0 = first + gl_SubgroupID * TALL;
    if (key0 < last) {
        ask_fragment_keys(kv_head, key0, last);
        ask_fragment_values(kv_head, key0, last);
    }
    for (; key0 < last; key0 += SUBGROUPS * TALL) {
        vec4 x = fragment_scores(kv_head, key0, last);
        ask_fragment_keys(kv_head, key0 + SUBGROUPS * TALL, last);
        vec4 weights = fragment_weights(x);
        add_fragments(weights);
        ask_fragment_values(kv_head, key0 + SUBGROUPS * TALL, last);
    }
}

// Leaves what the subgroup has in shared memory, as join_clusters does.
void join_fragments() {
    float sum = weight_sum + subgroupShuffleXor(weight_sum, 1u);
    sum += subgroupShuffleXor(sum, 2u);
    if (row_in_half() < HEADS && quarter() == 0u)
        states[row_in_half() * SUBGROUPS + gl_SubgroupID] = vec2((top - RAISE) / LOG2E, sum);
    [[unroll]] for (uint o = 0u; o < VALUE_OCTETS; ++o) {
        [[unroll]] for (uint c = 0u; c < 2u; ++c) {
            uint head = quarter() * 2u + c;
            if (head >= HEADS) continue;
            uint to = (head * SUBGROUPS + gl_SubgroupID) * (WIDTH / 4u) + (8u * o + row_in_half()) * 2u;
            [[unroll]] for (uint w = 0u; w < 4u; w += 2u)
                gathered[to + w / 2u] = vec4(outs[4u * o + w][c], outs[4u * o + w][4u + c],
                    outs[4u * o + w + 1u][c], outs[4u * o + w + 1u][4u + c]);
        }
    }
}

// The same without fragments: a subgroup takes a key at a time, for one head after the other.
void take_keys_plainly(uint kv_head, uint first, uint last) {
    const uint each = (WIDTH / 4u + SUBGROUP - 1u) / SUBGROUP;
    [[dont_unroll]] for (uint h = 0u; h < HEADS; ++h) {
        float most = LOWEST, sum = 0.0;
        vec4 y[each];
        [[unroll]] for (uint i = 0u; i < each; ++i) y[i] = vec4(0.0);
        for (uint j = first + gl_SubgroupID; j < last; j += SUBGROUPS) {
            uint64_t key_at = at(DTYPE, keys,
                         int64_t(kv_head) * int64_t(key_head) + int64_t(j) * int64_t(key_row)),
                     value_at = at(DTYPE, values,
                         int64_t(kv_head) * int64_t(value_head) + int64_t(j) * int64_t(value_row));
            float s = 0.0;
            vec4 v[each];
            [[unroll]] for (uint i = 0u; i < each; ++i) {
                uint quad = min(lane() + i * SUBGROUP, WIDTH / 4u - 1u), f = h * WIDTH + quad * 4u;
                vec4 x = vec4(queries[f], queries[f + 1u], queries[f + 2u], queries[f + 3u]);
                bool real = lane() + i * SUBGROUP < WIDTH / 4u;
                if (real) s = dot_add(x, fetch4(DTYPE, true, key_at + uint64_t(quad * 8u)), s);
                v[i] = fetch4(DTYPE, true, value_at + uint64_t(quad * 8u));
            }
            s = masked(kv_head, h, j, subgroupAdd(s) * score_scale);
            float next = max(most, s), fix = exp(most - next), w = exp(s - next);
            most = next;
            sum = fma(sum, fix, w);
            [[unroll]] for (uint i = 0u; i < each; ++i) y[i] = fma(v[i], vec4(w), y[i] * fix);
        }
        if (lane() == 0u) states[h * SUBGROUPS + gl_SubgroupID] = vec2(most, sum);
        [[unroll]] for (uint i = 0u; i < each; ++i)
            if (lane() + i * SUBGROUP < WIDTH / 4u)
                gathered[(h * SUBGROUPS + gl_SubgroupID) * (WIDTH / 4u) + lane() + i * SUBGROUP] = y[i];
    }
}
