// Mixtures of experts in runs: the router's logits, the picks, and which matrices these name. Every workgroup
// finds the picks on its own from the logits, and keeps them until the next token's or layer's. An expert
// that all tokens have is the pick behind these.
// Included by interpreter.comp.
#include "float_key.glsl"
#include "router.glsl"
#include "scores.glsl"

// Of a token, and of a layer. [host]
const uint MOST_PICKS = 16, MOST_EXPERTS = 512;
// Keys of the experts' logits or scores, above what makes them differ, and 0 behind the last expert: where
// rows of mixtures leave room behind them, because there is no other shared memory left where heads are wide.
const uint KEYS_QUADS = MOST_EXPERTS / 4u, KEYS = MOST_OCTETS - KEYS_QUADS;
shared uint picked[MOST_PICKS]; // experts, that with the largest logit first
shared float picked_logits[MOST_PICKS] /* or scores */, shares[MOST_PICKS];

// n / d where `per` is 1 / d; of numbers below 2^20.
uint divided(uint n, float per) { return uint((float(n) + 0.5) * per); }

// ---- the router ----

// This thread's quads of a row of the router's matrix, or of the shared expert's: words, scale and bias.
void ask_router(uint expert, out uvec4 parts[QUADS_]) {
    bool shared_row = SHARED && expert == quad(HEAD).w;
    uint from = shared_row ? ROUTER_SHARED : ROUTER_MATRIX;
    uvec4 matrix = quad(from), format = quad(ROUTER_FORMAT);
    uint64_t words = first_address(matrix), scales = second_address(matrix),
             biases = first_address(quad(from + 1u));
    if (shared_row) expert = 0u;
    [[unroll]] for (uint i = 0u; i < QUADS_; ++i) parts[i] = uvec4(0u);
    [[unroll]] for (uint i = 0u; i < QUADS_; ++i) {
        if (i * gl_WorkGroupSize.x >= inner / 4u) break;
        uint element = expert * inner + 4u * min(thread() + i * gl_WorkGroupSize.x, inner / 4u - 1u);
        parts[i] = router_part(words, scales, biases, element, format.x, format.y);
    }
}

// The sums over the workgroup, which meets; with its products' memory, in halves for every other expert.
vec2 router_sum(vec2 sums, uint parity) {
    uint at_ = parity * 2u * SUBGROUPS;
    sums = subgroupAdd(sums);
    if (gl_SubgroupInvocationID < 2u)
        split_sums[at_ + 2u * gl_SubgroupID + gl_SubgroupInvocationID] = sums[gl_SubgroupInvocationID];
    barrier();
    sums = vec2(0.0);
    [[unroll]] for (uint s = 0u; s < SUBGROUPS; ++s)
        sums += vec2(split_sums[at_ + 2u * s], split_sums[at_ + 2u * s + 1u]);
    return sums;
}

// Logits of the normalized row, an expert's by a workgroup. The norm's factor is multiplied in the end.
void route(uvec4 next_row) {
    uvec4 head = quad(HEAD), source = quad(SOURCE);
    inner = head.y;
    uint experts = quad(ROUTER_FORMAT).z, bits = quad(ROUTER_FORMAT).x, parity = 0u;
    uvec4 asked[QUADS_], parts[QUADS_];
    uvec2 weights[QUADS_], own[QUADS_];
    ask_router(min(gl_WorkGroupID.x, experts - 1u), parts);
    ask_weights(second_address(source), weights);
    ask_row(first_address(source), asked);
    take_row(first_address(source), asked, own);
    barrier(); // all have finished the step before
    if (thread() < ROW_QUADS) rows[(row ^ ROW_QUADS) + thread()] = next_row;
    for (uint expert = gl_WorkGroupID.x; expert < experts; expert += gl_NumWorkGroups.x) {
        if (expert != gl_WorkGroupID.x) ask_router(expert, parts);
        vec2 sums = vec2(0.0);
        [[unroll]] for (uint i = 0u; i < QUADS_; ++i) {
            uint at_ = thread() + i * gl_WorkGroupSize.x;
            if (at_ >= inner / 4u) break;
            vec4 x = unpack(own[i]);
            sums += vec2(
                router_product(x * unpack(weights[i]), parts[i], 4u * at_, bits), dot_add(x, x, 0.0));
        }
        sums = router_sum(sums, parity);
        float logit = sums.x * norm_factor(sums.y, inner, uintBitsToFloat(head.z));
        if (thread() == 0u) Tagged(second_address(quad(ROUTER_BIASES))).v[expert] = tagged(bits_of(logit));
        parity ^= 1u;
    }
    if (lost) stopped = 1u;
    barrier();
}

// ---- the picks ----

// The share of the shared expert, of which the logit may stand at `from`.
float shared_share(uint64_t from) {
    if (quad(SHARED_AND_SCORING).x != SHARE_SIGMOID) return 1.0;
    uint spins = 0u, w = Tagged(from).v[0];
    while (stale(w) && !gives_up(spins)) w = Tagged(from).v[0];
    return as_stored(DTYPE, m_sigmoid(of_bits(DTYPE, w & 0xffffu)));
}

// Waits for the logits.
void take_logits() {
    uvec4 picks = quad(PICKS);
    uint64_t logits = first_address(picks);
    for (uint e = thread(); e < (picks.z + 3u & ~3u); e += gl_WorkGroupSize.x) {
        uint spins = 0u, w = Tagged(logits + uint64_t(min(e, picks.z - 1u)) * 4ul).v[0];
        while (stale(w) && !gives_up(spins)) w = Tagged(logits + uint64_t(min(e, picks.z - 1u)) * 4ul).v[0];
        uint key;
        if (SCORED) {
            float score = score_of(quad(SHARED_AND_SCORING).y, of_bits(DTYPE, w & 0xffffu));
            uint64_t from = second_address(quad(SHARED_MATRIX + 1u));
            score += preference(from, min(e, picks.z - 1u));
            key = float_key(floatBitsToUint(score), 0x80000000u, 0x7f800000u);
        } else {
            // Of equal logits the first one is larger.
            key = float_key(w & 0xffffu, 0x8000u, DTYPE == BFLOAT16 ? 0x7f80u : 0x7c00u);
            key = (key << 16) | (0xffffu - e);
        }
        staged[KEYS + e / 4u][e % 4u] = e < picks.z ? key : 0u;
    }
    if (SHARED && quad(SHARED_AND_SCORING).x != 0u && thread() == 0u)
        shares[picks.w] = shared_share(logits + uint64_t(picks.z) * 4ul);
}

// How many keys are larger; of equal ones the first is.
uint rank_of(uint key, uint expert, uint experts) {
    uvec4 larger = uvec4(0u);
    for (uint i = 0u; i < (experts + 3u) / 4u; ++i) {
        uvec4 others = staged[KEYS + i];
        larger += uvec4(greaterThan(others, uvec4(key)));
        if (!SCORED) continue; // there are no equal ones
        uvec4 before = uvec4(lessThan(uvec4(4u * i) + uvec4(0u, 1u, 2u, 3u), uvec4(expert)));
        larger += uvec4(equal(others, uvec4(key))) * before;
    }
    return larger.x + larger.y + (larger.z + larger.w);
}

// Finds the picks among the keys, and their shares, which are softmax over them alone or of scores. Shares
// are there for a later step.
void pick_experts() {
    uvec4 picks = quad(PICKS);
    for (uint e = thread(); e < picks.z; e += gl_WorkGroupSize.x) {
        uint key = staged[KEYS + e / 4u][e % 4u], rank = rank_of(key, e, picks.z);
        if (rank >= picks.w) continue;
        picked[rank] = e;
        if (SCORED) {
            // It is there: the key was made of it.
            float logit = of_bits(DTYPE, Tagged(first_address(picks)).v[e] & 0xffffu);
            picked_logits[rank] = score_of(quad(SHARED_AND_SCORING).y, logit);
            continue;
        }
        uint high = key >> 16;
        picked_logits[rank] = of_bits(DTYPE, high >= 0x8000u ? high & 0x7fffu : 0xffffu - high);
    }
    barrier();
    if (thread() >= picks.w) return;
    float all = 0.0;
    if (SCORED) {
        uvec4 scores = quad(SHARED_AND_SCORING);
        for (uint i = 0u; i < picks.w; ++i) all += picked_logits[i];
        float mine = picked_logits[thread()];
        shares[thread()] =
            share_of_score(scores.y, mine, all, uintBitsToFloat(scores.z), uintBitsToFloat(scores.w));
        return;
    }
    for (uint i = 0u; i < picks.w; ++i) all += exp(picked_logits[i] - picked_logits[0]);
    shares[thread()] = exp(picked_logits[thread()] - picked_logits[0]) / all;
}

// The share that quad i of the row is weighed with.
float share_of(uint i) {
    return shares[min(divided(i, uintBitsToFloat(quad(PARTS).w)), MOST_PICKS - 1u)];
}

// ---- the matrices ----

// Of a block and a chunk of all picks' beside one another, those of a pick; and how far behind expert 0's its
// expert's words and scales begin, or where the shared expert's are, which is `m` then.
void pick_matrix(inout uint block, inout uint chunk, inout uint m, out uint64_t words, out uint64_t affine) {
    uvec4 strides = quad(EXPERT_STRIDES), parts = quad(PARTS);
    bool weighed = (kind & WEIGHED) != 0u;
    uint pick = divided(weighed ? chunk : block, uintBitsToFloat(parts.y));
    if (weighed) chunk -= pick * parts.x;
    else block -= pick * parts.x;
    bool is_shared = SHARED && quad(SHARED_AND_SCORING).x != 0u && pick == quad(PICKS).w;
    asked_second = is_shared ? SHARED_SECOND : SECOND;
    if (is_shared) m = SHARED_MATRIX;
    // Before there are picks, some expert.
    uint64_t expert = is_shared ? 0ul : uint64_t(min(picked[pick], quad(PICKS).z - 1u));
    words = expert * first_address(strides);
    affine = expert * second_address(strides);
}
