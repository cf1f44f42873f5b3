// The experts of a token: those of its `count` largest scores, and their shares (scores.glsl). A subgroup
// takes a token, a lane every SUBGROUP-th logit and, in the end, one of the picks. Needs common.glsl,
// floats.glsl, keys.glsl with WIDTH 32, scores.glsl, subgroup arithmetic, the constants DTYPE, SUBGROUP and
// EACH, logits of a lane (at most 32), and the push constants logits, picks, shares, experts and count; and
// how many logits and picks a token has besides these, which are of an expert that all tokens have (OTHERS
// and MORE_PICKS).

// How scores are made, where their bias is, and what shares are made with.
uint scoring = 0u;
uint64_t score_bias = 0ul;
float share_eps = 0.0, share_factor = 1.0;
uint share_dtype = DTYPE;

// The float of a key; none has the key 0.
float of_key(uint key) { return uintBitsToFloat(key ^ ((key >> 31) != 0u ? 0x80000000u : 0xffffffffu)); }

float logit_of(uint token, uint expert) {
    return fetch(DTYPE, at(DTYPE, logits, int64_t(token) * int64_t(experts + OTHERS) + int64_t(expert)));
}

void route(uint token) {
    bool scored = (scoring & SIGMOIDS) != 0u;
    uint lane = gl_SubgroupInvocationID, keys[EACH];
    [[unroll]] for (uint i = 0u; i < EACH; ++i) {
        uint e = lane + i * SUBGROUP, real = min(e, experts - 1u);
        float x = logit_of(token, real);
        if (scored) x = score_of(scoring, x) + preference(score_bias, real);
        keys[i] = e < experts ? key_of(FLOAT32, floatBitsToUint(x)) : 0u;
    }
    uint pick = 0u;
    float mine = 0.0, largest = 0.0;
    for (uint c = 0u; c < count; ++c) {
        uint best = 0u;
        [[unroll]] for (uint i = 0u; i < EACH; ++i) best = max(best, keys[i]);
        best = subgroupMax(best);
        uint at_ = 0xffffffffu;
        [[unroll]] for (uint i = 0u; i < EACH; ++i)
            if (keys[i] == best) at_ = min(at_, lane + i * SUBGROUP);
        at_ = subgroupMin(at_);
        [[unroll]] for (uint i = 0u; i < EACH; ++i)
            if (lane + i * SUBGROUP == at_) keys[i] = 0u;
        if (c == 0u) largest = of_key(best);
        if (lane == c) { pick = at_; mine = of_key(best); }
    }
    float part = 0.0;
    if (lane < count) part = scored ? score_of(scoring, logit_of(token, pick)) : exp(mine - largest);
    float all = subgroupAdd(part);
    if (lane >= count) return;
    float share = scored ? share_of_score(scoring, part, all, share_eps, share_factor) : part / all;
    uint64_t to = uint64_t(token) * uint64_t(count + MORE_PICKS) + uint64_t(lane);
    AT_U32(picks, to) = pick;
    store_float(share_dtype, shares, int64_t(to), share);
}
