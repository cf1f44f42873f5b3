// Attention of one query token over many keys on cooperative matrices, in place of what attention_token.glsl
// does with them: a subgroup takes 16 keys at a time, for all heads that share them. Needs
// attention_token.glsl (its shared memory, `prepare` and `masked`), MASKED and MANY_ROUNDS, which say whether
// there is a mask and whether two rounds of keys are on their way, fragments.glsl, and HEADS of at most 8.
// How keys and values lie in memory attention_dense_fragments.glsl or attention_quantized_fragments.glsl
// knows.
//
// Scores are queries (heads as rows, of which eight are air) times keys. The two scores of a lane's row lie
// where the right operand of the next product wants them: results are values (features as rows) times
// weights. Which feature is which row or column of a fragment follows from loads that are as long as can be.

const float LOG2E = 1.4426950408889634, SLACK = 6.0;
const uint VALUE_OCTETS = WIDTH / 64u, BLOCKS = WIDTH / 16u, TALL = 16;
const uint STRIDE = SUBGROUPS * TALL; // keys of a round of the workgroup
const uint ROUNDS = MANY_ROUNDS ? 2u : 1u; // whose keys and values are on their way

coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator> outs[BLOCKS];
float top, weight_sum; // of the lane's head; the maximum in powers of two
float score_factor;    // of products of queries and keys

// What weights are raised by, in powers of two, so that small ones keep their bits as halves. No weight is
// more than SLACK above that, which float16 still has.
#ifdef QUANTIZED_CACHE
const float RAISE = 8.0;
#else
const float RAISE = 9.0;
#endif

// Which of 16 keys is the i-th of four whose scores a lane has.
uint slot_of(uint i) { return quarter() * 2u + i % 2u + i / 2u * 8u; }

// A score in powers of two. Numbers as low as floats are must not become -inf.
float in_powers_of_two(float s) { return s * LOG2E < LOWEST && s >= LOWEST ? LOWEST : s * LOG2E; }

// A score of one of the lane's keys in powers of two, from what was computed of it; -inf from key `last` on.
float fragment_score(uint kv_head, uint j, uint last, float s) {
    float score = s * (score_factor * LOG2E);
    uint h = min(row_in_half(), HEADS - 1u);
    if (MASKED) score = in_powers_of_two(masked(kv_head, h, min(j, last - 1u), s * score_factor));
    return j < last ? score : uintBitsToFloat(0xff800000u);
}

// Whatever else is weighed with the lane's head has to fit a new maximum, too.
void fit_more(float fix);

// Raises the maximum of the lane's head to what was found for its keys, but only if that is much more, as in
// attention_weights.glsl, and makes the sums fit it.
void raise_top(vec4 x) {
    float found = max(max(x.x, x.y), max(x.z, x.w));
    found = max(found, subgroupShuffleXor(found, 1u));
    found = max(found, subgroupShuffleXor(found, 2u));
    if (subgroupBallot(found > top + SLACK) != uvec4(0u)) {
        float next = max(top, found), fix = exp2(top - next);
        top = next;
        weight_sum *= fix;
        fit_more(fix);
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
}

uint low_pair(uint a, uint b) { return (a & 0xffffu) | (b << 16); }
uint high_pair(uint a, uint b) { return (a >> 16) | (b & 0xffff0000u); }

// Finds what the workgroup reads, and the factor of its scores.
void begin_cache(uint kv_head);

// Takes the queries from shared memory.
void begin_queries();

// Asks for the keys of a round that begins with key0, and for their values; `set` is the round's place among
// those on their way.
void ask_fragment_keys(uint set, uint kv_head, uint key0, uint last);
void ask_fragment_values(uint set, uint kv_head, uint key0, uint last);

// Scores of the lane's head and its four keys, in powers of two; -inf from key `last` on.
vec4 fragment_scores(uint set, uint kv_head, uint key0, uint last);

// Weights of four keys by their scores.
vec4 fragment_weights(uint set, vec4 x);

// Adds the values, weighed.
void add_fragments(uint set, vec4 weights);

// A round. As soon as keys or values are used, those that come in their place are asked for.
void fragment_round(uint set, uint kv_head, uint key0, uint last) {
    uint next = key0 + ROUNDS * STRIDE;
    vec4 x = fragment_scores(set, kv_head, key0, last);
    ask_fragment_keys(set, kv_head, next, last);
    vec4 weights = fragment_weights(set, x);
    add_fragments(set, weights);
    ask_fragment_values(set, kv_head, next, last);
}

// Begins with no keys and the queries in shared memory.
void begin_fragments() {
    top = LOWEST;
    weight_sum = 0.0;
    [[unroll]] for (uint b = 0u; b < BLOCKS; ++b)
        outs[b] = coopmat<float, gl_ScopeSubgroup, 16, FN, gl_MatrixUseAccumulator>(0.0);
    begin_queries();
}

// Asks for the subgroup's first rounds of the keys first..last.
void ask_fragments(uint kv_head, uint first, uint last) {
    uint key0 = first + gl_SubgroupID * TALL;
    [[unroll]] for (uint set = 0u; set < ROUNDS; ++set) {
        ask_fragment_keys(set, kv_head, key0 + set * STRIDE, last);
        ask_fragment_values(set, kv_head, key0 + set * STRIDE, last);
    }
}

// The keys first..last, the first rounds of which are asked for.
void take_fragments(uint kv_head, uint first, uint last) {
    for (uint key0 = first + gl_SubgroupID * TALL; key0 < last; key0 += ROUNDS * STRIDE) {
        fragment_round(0u, kv_head, key0, last);
        // Behind the last key this one weighs nothing.
        if (MANY_ROUNDS) fragment_round(ROUNDS - 1u, kv_head, key0 + STRIDE, last);
    }
}

// Adds what is still missing in the sums.
void end_fragments();

// Leaves what the subgroup has in shared memory, as join_clusters does.
void join_fragments() {
    end_fragments();
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

// Four features of a key, and of a value.
vec4 key_quad(uint kv_head, uint j, uint quad);
vec4 value_quad(uint kv_head, uint j, uint quad);

// The same without fragments: a subgroup takes a key at a time, for one head after the other.
void take_keys_plainly(uint kv_head, uint first, uint last) {
    const uint each = (WIDTH / 4u + SUBGROUP - 1u) / SUBGROUP;
    [[dont_unroll]] for (uint h = 0u; h < HEADS; ++h) {
        float most = LOWEST, sum = 0.0;
        vec4 y[each];
        [[unroll]] for (uint i = 0u; i < each; ++i) y[i] = vec4(0.0);
        for (uint j = first + gl_SubgroupID; j < last; j += SUBGROUPS) {
            float s = 0.0;
            vec4 v[each];
            [[unroll]] for (uint i = 0u; i < each; ++i) {
                uint quad = min(lane() + i * SUBGROUP, WIDTH / 4u - 1u), f = h * WIDTH + quad * 4u;
                vec4 x = vec4(queries[f], queries[f + 1u], queries[f + 2u], queries[f + 3u]);
                bool real = lane() + i * SUBGROUP < WIDTH / 4u;
                if (real) s = dot_add(x, key_quad(kv_head, j, quad), s);
                v[i] = value_quad(kv_head, j, quad);
            }
            s = masked(kv_head, h, j, subgroupAdd(s) * score_factor);
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
