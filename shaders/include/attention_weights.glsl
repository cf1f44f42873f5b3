// From scores to weights, for attention/matrix.comp: masks, running maxima,
// exponentials. Scores are in powers of two.
//
// Where elements of fragments lie as attention_fragments.glsl knows, a lane has two rows and four lanes a
// row, and weights become operands where they are. Elsewhere scores pass through shared memory.

const float SLACK = 6.0, RAISE = 9.0;

// The rows of this lane when elements are known: last key, mask, maximum.
ivec2 limits;
int64_t masks[2];
int64_t mask_from, mask_stride; // of the first query
vec2 tops;

#include "attention_score.glsl"
#include "attention_fragments.glsl"

// What a half holds of a weight, cut off. By bits: a driver may take a conversion and back for nothing at
// all.
float upper(float x) {
    return uintBitsToFloat(floatBitsToUint(x) & (DTYPE == FLOAT16 ? 0xffffe000u : 0xffff0000u));
}

// Of row r of the workgroup the last key that it sees and its mask; rows past the end are the last again.
int limit_of(uint r) { return first_limit + int(min(r, count - 1u)); }
int64_t mask_of(uint r) {
    return MASK >= KEEP ? mask_from + int64_t(min(r, count - 1u)) * strides.mask_row : 0l;
}

void begin_rows(uint batch, uint head) {
    if (MASK >= KEEP) {
        mask_stride = strides.mask_key;
        mask_from = int64_t(batch) * strides.mask_batch + int64_t(head) * strides.mask_head
            + int64_t(first_query) * strides.mask_row;
    }
    uint r = block() * FM + lane() / 4u;
    limits = ivec2(limit_of(r), limit_of(r + 8u));
    masks[0] = mask_of(r);
    masks[1] = mask_of(r + 8u);
    tops = vec2(LOWEST);
    for (uint i = lane(); i < FM; i += SUBGROUP) row_top[gl_SubgroupID * FM + i] = LOWEST;
    total = coopmat<float, gl_ScopeSubgroup, FM, FN, gl_MatrixUseAccumulator>(0.0);
    [[unroll]] for (uint j = 0u; j < VALUES; ++j)
        sums[j] = coopmat<float, gl_ScopeSubgroup, FM, FN, gl_MatrixUseAccumulator>(0.0);
}

// Multiplies the rows of what was summed by row_fix.
void rescale() {
    subgroup_sync();
    coopmat<float, gl_ScopeSubgroup, FM, FN, gl_MatrixUseAccumulator> fix;
    coopMatLoad(fix, row_fix, gl_SubgroupID * FM, 0u, gl_CooperativeMatrixLayoutColumnMajor);
    total = total * fix;
    [[unroll]] for (uint j = 0u; j < VALUES; ++j) sums[j] = sums[j] * fix;
    subgroup_sync();
}

// The maximum of a row is left as it is until it grows by much: weights reach 2^(SLACK + RAISE), which
// float16 still has. RAISE keeps small ones away from its subnormal numbers.
void weigh_registers(uint key0, uint key1, bool masked) {
    if (masked) {
        [[unroll]] for (uint f = 0u; f < PARTS; ++f)
            [[unroll]] for (uint i = 0u; i < 8u; ++i)
                scores[f][i] = masked_score(
                    scores[f][i], key0 + f * 16u + known_column(i), key1, limits[i / 4u], masks[i / 4u]);
    } else {
        [[unroll]] for (uint f = 0u; f < PARTS; ++f) scores[f] = scores[f] * (scale * LOG2E);
    }
    vec2 found = vec2(LOWEST);
    [[unroll]] for (uint f = 0u; f < PARTS; ++f)
        [[unroll]] for (uint i = 0u; i < 8u; ++i) found[i / 4u] = max(found[i / 4u], scores[f][i]);
    found = max(found, vec2(subgroupShuffleXor(found.x, 1u), subgroupShuffleXor(found.y, 1u)));
    found = max(found, vec2(subgroupShuffleXor(found.x, 2u), subgroupShuffleXor(found.y, 2u)));
    if (subgroupBallot(found.x > tops.x + SLACK || found.y > tops.y + SLACK) != uvec4(0u)) {
        vec2 old = tops;
        tops = max(tops, found);
        if (lane() % 4u == 0u) {
            row_fix[gl_SubgroupID * FM + lane() / 4u] = exp2(old.x - tops.x);
            row_fix[gl_SubgroupID * FM + lane() / 4u + 8u] = exp2(old.y - tops.y);
        }
        rescale();
    }
    vec2 least = tops - RAISE;
    [[unroll]] for (uint f = 0u; f < PARTS; ++f) {
        [[unroll]] for (uint i = 0u; i < 8u; ++i) {
            float weight = exp2(scores[f][i] - least[i / 4u]);
            float h = upper(weight);
            high[f][i] = half(h);
            low[f][i] = half(weight - h);
        }
    }
}

// The maxima of known rows, where others see them.
void keep_tops() {
    if (lane() % 4u != 0u) return;
    row_top[gl_SubgroupID * FM + lane() / 4u] = tops.x;
    row_top[gl_SubgroupID * FM + lane() / 4u + 8u] = tops.y;
}

// Lanes that share a row in shared memory.
const uint LANES = SUBGROUP > FM ? SUBGROUP / FM : 1u, PAIRS = PART / 2u / LANES;

// Weights of a row, in the slot of its scores: first the high halves, then the low ones.
void weigh_row(uint r, uint key0, uint key1, bool masked) {
    uint from = slot() + r * SLOT_PITCH, state = gl_SubgroupID * FM + r;
    int limit = limit_of(block() * FM + r);
    int64_t mask_row = mask_of(block() * FM + r);
    float old = row_top[state], top = old;
    vec2 x[PAIRS];
    [[unroll]] for (uint i = 0u; i < PAIRS; ++i) {
        uint column = (i * LANES + lane() % LANES) * 2u;
        [[unroll]] for (uint e = 0u; e < 2u; ++e) {
            float y = uintBitsToFloat(tile[from + column / 4u][column % 4u + e]);
            x[i][e] = masked ? masked_score(y, key0 + column + e, key1, limit, mask_row)
                             : y * (scale * LOG2E);
            top = max(top, x[i][e]);
        }
    }
    [[unroll]] for (uint o = 1u; o < LANES; o *= 2u) top = max(top, subgroupShuffleXor(top, o));
    subgroup_sync();
    [[unroll]] for (uint i = 0u; i < PAIRS; ++i) {
        uint word = i * LANES + lane() % LANES;
        vec2 weight = exp2(x[i] - (top - RAISE));
        vec2 h = vec2(upper(weight.x), upper(weight.y));
        tile[from + word / 4u][word % 4u] = cut_halves(DTYPE, h);
        tile[from + PART / 8u + word / 4u][word % 4u] = cut_halves(DTYPE, weight - h);
    }
    if (lane() % LANES == 0u) {
        row_top[state] = top;
        row_fix[state] = exp2(old - top);
    }
}

void weigh_shared(uint key0, uint key1, bool masked) {
    barrier(); // the keys, whose slot this is, have been read
    [[unroll]] for (uint f = 0u; f < PARTS; ++f)
        coopMatStore(scores[f], tile, slot() + f * FN / 4u, SLOT_PITCH, gl_CooperativeMatrixLayoutRowMajor);
    subgroup_sync();
    [[unroll]] for (uint r = 0u; r < FM; r += SUBGROUP / LANES)
        weigh_row(r + lane() / LANES, key0, key1, masked);
    rescale();
    [[unroll]] for (uint kk = 0u; kk < PART / FK; ++kk) {
        coopMatLoad(high[kk], tile, slot() + kk * FK / 8u, SLOT_PITCH, gl_CooperativeMatrixLayoutRowMajor);
        coopMatLoad(low[kk], tile, slot() + PART / 8u + kk * FK / 8u, SLOT_PITCH,
            gl_CooperativeMatrixLayoutRowMajor);
    }
}
