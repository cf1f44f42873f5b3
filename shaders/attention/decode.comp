#version 460
// Attention of one query token over a key/value cache. A workgroup takes the heads of one key/value head
// (HEADS of them at a time) and a split of the keys; splits are joined by the workgroup that finishes last.
// With FUSED, queries and the new key come straight from their projections: they are normalized (NORM),
// rotated, and the new key and value are written to the cache, as its last row.
// VARIANT 1 is for quantized caches: their rows are words, scales and biases, and what
// is written is quantized before. VARIANT 2 has cooperative matrices multiply all heads that share keys with
// them: for caches that are long, in all. VARIANT 3 is that for quantized caches.
// Constants: 1 dtype, 2 features (a multiple of 64), 3 subgroup size, 4 query heads of a workgroup,
// 5 query heads per key/value head, 6 flags, 7 the bits of eps, 8 the bits of the position's scale; of a
// quantized cache 9 bits, 10 group size; 11 features that are rotated; 12 elements from a query head to the
// next one, where these come from projections.
#include "common.glsl"
#include "floats.glsl"
#include "math.glsl"
#include "rotation.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 10;
layout(constant_id = 2) const uint WIDTH = 128;
layout(constant_id = 3) const uint SUBGROUP = 32;
layout(constant_id = 4) const uint HEADS = 2;
layout(constant_id = 5) const uint SHARING = 2;
layout(constant_id = 6) const uint FLAGS = 0;
layout(constant_id = 7) const uint EPS = 0;
layout(constant_id = 8) const uint POSITION_SCALE = 0x3f800000;
#if VARIANT == 1 || VARIANT == 3
#define QUANTIZED_CACHE
layout(constant_id = 9) const uint BITS = 8;
layout(constant_id = 10) const uint GROUP = 64;
#endif
layout(constant_id = 11) const uint ROTATED = 128;
layout(constant_id = 12) const uint QUERY_HEAD = 128; // from a query head to the next one
// Flags. [host]
const uint FUSED_FLAG = 1, NORM_FLAG = 2, TRADITIONAL_FLAG = 4, DIVISORS_FLAG = 8, SPLIT_FLAG = 16,
           FRAGMENTS_FLAG = 32, // may be used, once it is seen where elements lie
           SINKS_FLAG = 64, KEEP_FLAG = 128, ADDITIVE_FLAG = 256, POSITIONS_FLAG = 512,
           MANY_ROUNDS_FLAG = 1024,
           MARKED_FLAG = 2048; // results of splits go to a run, too, with its tag
const bool FUSED = (FLAGS & FUSED_FLAG) != 0u, NORM = (FLAGS & NORM_FLAG) != 0u;
const bool TRADITIONAL = (FLAGS & TRADITIONAL_FLAG) != 0u;
const bool DIVISORS = (FLAGS & DIVISORS_FLAG) != 0u, SPLIT = (FLAGS & SPLIT_FLAG) != 0u;
const bool SINKS = (FLAGS & SINKS_FLAG) != 0u; // heads have scores that take their share and add no value
// A mask says which keys are seen, or is added to their scores.
const bool KEEP = (FLAGS & KEEP_FLAG) != 0u, ADDITIVE = (FLAGS & ADDITIVE_FLAG) != 0u;
const bool MASKED = KEEP || ADDITIVE;
const bool POSITIONS = (FLAGS & POSITIONS_FLAG) != 0u; // every sequence has its own
const bool QUANTIZED = VARIANT == 1 || VARIANT == 3;
// The split that quantizes the new key and its value takes no other keys: that is as long as many keys.
const bool APART = QUANTIZED && FUSED && SPLIT;
const bool MANY_ROUNDS = (FLAGS & MANY_ROUNDS_FLAG) != 0u; // of keys, in a split
const bool MARKED = (FLAGS & MARKED_FLAG) != 0u;

// What `more` points to: where the rest of a quantized cache is, another factor of its scores or 0, and the
// sinks of so many heads, which those of all sequences share; a mask with its strides, and how many key/value
// heads a sequence has; where a run reads results as words with its tag.
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer More {
    uint64_t key_scales, key_biases, value_scales, value_biases, factor, sinks;
    uint64_t mask;
    int64_t mask_sequence, mask_head, mask_key;
    uint64_t marked;
    uint sinks_count, sequence_heads;
    uint tag, unused;
};
layout(buffer_reference, scalar, buffer_reference_align = 16) coherent volatile buffer Tagged4 { uvec4 v; };

layout(push_constant, scalar) uniform Push {
    uint64_t q, new_key, new_value, q_weight, k_weight, frequencies, offset;
    uint64_t keys, values, result;           // keys and values are the words of quantized ones
    // With SPLIT: (maximum, sum, sums of values) of every split; how many are done.
    uint64_t parts, counters;
    // Strides in elements, of quantized rows in those that they stand for.
    uint key_head, key_row, value_head, value_row;
    uint count;                              // keys, the new one included
    float score_scale;                       // of a quantized cache without the factor that is in memory
    More more;                               // of quantized caches, and with SINKS, MASKED or POSITIONS
};

const uint SUBGROUPS = gl_WorkGroupSize.x / SUBGROUP;
// Most splits of the keys. [host]
const uint MOST_SPLITS = 64;
#define splits gl_NumWorkGroups.x
#define position_scale uintBitsToFloat(POSITION_SCALE)
#if VARIANT == 1
float scale;
#elif VARIANT >= 2
const float scale = 1.0; // queries are rounded before they are multiplied
#else
#define scale score_scale
#endif
#define sequence (POSITIONS ? gl_WorkGroupID.z / more.sequence_heads : 0u)
float masked(uint kv_head, uint h, uint j, float s);
#include "attention_token.glsl"
#ifdef QUANTIZED_CACHE
#define CACHE_BITS BITS
#define CACHE_GROUP GROUP
#include "quant.glsl"
#include "affine.glsl"
#include "attention_quantized.glsl"

// Reads where the rest of a quantized cache is, and the factor, which is the result.
float take_more() {
    key_scales = more.key_scales;
    key_biases = more.key_biases;
    value_scales = more.value_scales;
    value_biases = more.value_biases;
    uint64_t from = more.factor;
    return from == 0ul ? 1.0 : fetch(DTYPE, from);
}
#endif
#if VARIANT >= 2
const uint FN = 16;
#define KNOWN_COLUMNS FN
#if VARIANT == 3
#define FRAGMENT_DTYPE FLOAT16
#endif
#include "fragments.glsl"
#include "attention_token_fragments.glsl"
#ifdef QUANTIZED_CACHE
#include "fields.glsl"
#include "attention_quantized_fragments.glsl"
#else
#include "attention_dense_fragments.glsl"
#endif
#endif

shared uint finished;

uint bits_at(uint64_t from, uint i) { return fetch_bits(DTYPE, at(DTYPE, from, int64_t(i))); }

void ask_pairs(uint64_t from, out uvec2 bits[PAIRS]) {
    [[unroll]] for (uint i = 0u; i < PAIRS; ++i)
        bits[i] = uvec2(bits_at(from, first_of(pair_of_lane(i))), bits_at(from, second_of(pair_of_lane(i))));
}

void take_pairs(uint64_t from, inout uvec2 bits[PAIRS], out vec2 y[PAIRS]) {
    [[unroll]] for (uint i = 0u; i < PAIRS; ++i)
        y[i] = vec2(of_bits(DTYPE, bits[i].x), of_bits(DTYPE, bits[i].y));
}

// What the mask leaves of the score of key j for one of the workgroup's heads. Of a hidden key it is the
// lowest number, so that a head that sees nothing averages, as in MLX.
float masked(uint kv_head, uint h, uint j, float s) {
    if (!MASKED) return s;
    uint head = kv_head % more.sequence_heads * SHARING + gl_WorkGroupID.y * HEADS + h;
    int64_t from = int64_t(kv_head / more.sequence_heads) * more.mask_sequence
        + int64_t(head) * more.mask_head + int64_t(j) * more.mask_key;
    if (ADDITIVE) return s + fetch(DTYPE, at(DTYPE, more.mask, from));
    return uint(AT_U8(more.mask, from)) == 0u ? LOWEST : s;
}

// The sink of one of the workgroup's heads.
float sink_of(uint kv_head, uint block, uint h) {
    uint head = (kv_head * SHARING + block * HEADS + h) % more.sinks_count;
    return fetch(DTYPE, at(DTYPE, more.sinks, int64_t(head)));
}

uint64_t part_of(uint kv_head, uint block, uint split, uint h) {
    uint64_t row = (uint64_t(kv_head) * uint64_t(SHARING) + uint64_t(block * HEADS + h)) * uint64_t(splits)
        + uint64_t(split);
    return parts + row * uint64_t(WIDTH + 4u) * 4ul;
}

// Joins the subgroups and stores the result, or the split's part of it.
void join_subgroups(uint kv_head, uint block, uint split) {
    uint thread = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID;
    for (uint i = thread; i < HEADS * WIDTH; i += gl_WorkGroupSize.x) {
        uint h = i / WIDTH, feature_ = i % WIDTH;
        float top, sum, y = joined(h, feature_, top, sum);
        if (SPLIT) {
            uint64_t part = part_of(kv_head, block, split, h);
            F4C(part).v[1u + feature_ / 4u][feature_ % 4u] = y;
            if (feature_ == 0u) F4C(part).v[0] = vec4(top, sum, 0.0, 0.0);
        } else {
            if (SINKS) sum += exp(sink_of(kv_head, block, h) - top);
            store_float(DTYPE, result,
                int64_t(kv_head * SHARING + block * HEADS + h) * int64_t(WIDTH) + int64_t(feature_), y / sum);
        }
    }
}

// Joins the splits of a head, by a subgroup: a lane has quads of the result, and the maximum and the sum of
// some splits. Sums of the first splits are on their way while these are compared.
void join_head(uint kv_head, uint block, uint h) {
    const uint quads = WIDTH / 4u, each = (quads + SUBGROUP - 1u) / SUBGROUP;
    const uint rounds = (MOST_SPLITS + SUBGROUP - 1u) / SUBGROUP;
    const uint AHEAD = 8;
    uint lane = gl_SubgroupInvocationID;
    vec2 split_states[rounds];
    vec4 asked[AHEAD * each], y[each];
    [[unroll]] for (uint r = 0u; r < rounds; ++r)
        split_states[r] = F4C(part_of(kv_head, block, min(lane + r * SUBGROUP, splits - 1u), h)).v[0].xy;
    [[unroll]] for (uint e = 0u; e < AHEAD; ++e)
        [[unroll]] for (uint i = 0u; i < each; ++i)
            asked[e * each + i] = F4C(part_of(kv_head, block, min(e, splits - 1u), h))
                .v[1u + min(lane + i * SUBGROUP, quads - 1u)];
    [[unroll]] for (uint i = 0u; i < each; ++i) y[i] = vec4(0.0);
    float most = SINKS ? sink_of(kv_head, block, h) : LOWEST, sum = 0.0, weights[rounds];
    [[unroll]] for (uint r = 0u; r < rounds; ++r) most = max(most, split_states[r].x);
    most = subgroupMax(most);
    [[unroll]] for (uint r = 0u; r < rounds; ++r) {
        weights[r] = lane + r * SUBGROUP < splits ? exp(split_states[r].x - most) : 0.0;
        sum = fma(split_states[r].y, weights[r], sum);
    }
    sum = subgroupAdd(sum);
    if (SINKS) sum += exp(sink_of(kv_head, block, h) - most);
    [[unroll]] for (uint r = 0u; r < rounds; ++r) {
        for (uint s = r * SUBGROUP; s < min(splits, (r + 1u) * SUBGROUP); s += AHEAD) {
            [[unroll]] for (uint e = 0u; e < AHEAD; ++e) {
                float weight = subgroupShuffle(weights[r], (s + e) % SUBGROUP);
                [[unroll]] for (uint i = 0u; i < each; ++i) {
                    if (s + e < splits) y[i] = fma(asked[e * each + i], vec4(weight), y[i]);
                    asked[e * each + i] = F4C(part_of(kv_head, block, min(s + AHEAD + e, splits - 1u), h))
                        .v[1u + min(lane + i * SUBGROUP, quads - 1u)];
                }
            }
        }
    }
    uint64_t head = uint64_t(kv_head) * uint64_t(SHARING) + uint64_t(block * HEADS + h);
    [[unroll]] for (uint i = 0u; i < each; ++i) {
        if (lane + i * SUBGROUP >= quads) continue;
        uint64_t to = head * uint64_t(quads) + uint64_t(lane + i * SUBGROUP);
        vec4 x = y[i] / sum;
        store_float4(DTYPE, result, to, x);
        if (!MARKED) continue;
        uint first = pack_halves(DTYPE, x.xy), second = pack_halves(DTYPE, x.zw);
        Tagged4(more.marked + to * 16ul).v =
            uvec4(first & 0xffffu, first >> 16, second & 0xffffu, second >> 16) | (more.tag << 16);
    }
}

// The workgroup that finishes last joins the splits of its heads.
void join_splits(uint kv_head, uint block) {
    uint thread = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID;
    uint64_t counter = counters + uint64_t(kv_head * (SHARING / HEADS) + block) * 4ul;
    memoryBarrierBuffer();
    barrier();
    if (thread == 0u) {
        uint before = atomicAdd(U32(counter).v[0], 1u);
        finished = before + 1u == splits ? 1u : 0u;
        if (finished == 1u) U32(counter).v[0] = 0u;
    }
    barrier();
    if (finished == 0u) return;
    memoryBarrierBuffer();
    for (uint first = 0u; first < HEADS; first += SUBGROUPS)
        if (first + gl_SubgroupID < HEADS) join_head(kv_head, block, first + gl_SubgroupID);
}

// The keys of a split, in rows first..last, and whether the new row is the split's to write. Where
// cooperative matrices take keys, it is one of them.
bool find_keys(uint split, out uint first, out uint last) {
    uint old = FUSED && (VARIANT < 2 || APART) ? count - 1u : count;
    uint shares = APART ? splits - 1u : splits;
    uint each = (old + shares - 1u) / shares;
    first = min(old, split * each);
    last = min(old, first + each);
    bool ends = split == splits - 1u;
    if (VARIANT == 2) return FUSED && first < last && last == count;
    if (VARIANT == 3 && APART && ends) last = count;
    return FUSED && ends;
}

void main() {
    uint split = gl_WorkGroupID.x, block = gl_WorkGroupID.y, kv_head = gl_WorkGroupID.z, first, last;
    uint thread = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID;
    uint64_t first_q = at(DTYPE, q, int64_t(kv_head * SHARING + block * HEADS) * int64_t(QUERY_HEAD));
    bool newest_here = find_keys(split, first, last);
    // The first keys are on their way while queries are prepared.
#if VARIANT == 1
    scale = score_scale * take_more();
    ask_quantized_keys(kv_head, first, last);
#elif VARIANT >= 2
    begin_cache(kv_head);
    ask_fragments(kv_head, first, FUSED ? min(last, count - 1u) : last);
#endif
    if (FUSED) {
        for (uint i = 0u; i < HEADS + 1u; i += SUBGROUPS) {
            uint h = i + gl_SubgroupID;
            bool key = h == HEADS;
            if (h > HEADS || key && !newest_here) continue;
            uint64_t from = key ? at(DTYPE, new_key, int64_t(kv_head * WIDTH))
                                : at(DTYPE, first_q, int64_t(h * QUERY_HEAD));
            prepare(from, key ? k_weight : q_weight, key, h * WIDTH);
        }
        if (newest_here) for (uint i = thread; i < WIDTH; i += gl_WorkGroupSize.x)
            newest[WIDTH + i] = fetch(DTYPE, at(DTYPE, new_value, int64_t(kv_head * WIDTH + i)));
    } else {
        for (uint i = thread; i < HEADS * WIDTH; i += gl_WorkGroupSize.x)
            queries[i] = fetch(DTYPE, at(DTYPE, first_q, int64_t(i))) * scale;
    }
#if VARIANT >= 2
    write_numbers();
#endif
#if VARIANT == 3
    if (thread == 0u) staged_offset = count == 0u ? 0u : OFFSET_BITS;
#endif
    barrier();
#ifdef QUANTIZED_CACHE
    if (newest_here) quantize_newest(kv_head, count - 1u, block == 0u);
#else
    if (newest_here && block == 0u) for (uint i = thread; i < WIDTH; i += gl_WorkGroupSize.x) {
        int64_t row = int64_t(count - 1u);
        store_float(DTYPE, keys, int64_t(kv_head) * int64_t(key_head) + row * int64_t(key_row) + int64_t(i),
            newest[i]);
        store_float(DTYPE, values,
            int64_t(kv_head) * int64_t(value_head) + row * int64_t(value_row) + int64_t(i),
            newest[WIDTH + i]);
    }
#endif
#if VARIANT == 3
    offset_ = staged_offset;
#endif
#if VARIANT >= 2
    bool known = (FLAGS & FRAGMENTS_FLAG) != 0u && elements_are_known();
    if (newest_here) { // the new row is read where it was written
        memoryBarrierBuffer();
        barrier();
        ask_fragments(kv_head, first, last);
    }
    if (known) {
        begin_fragments();
        take_fragments(kv_head, first, last);
        join_fragments();
    } else {
        take_keys_plainly(kv_head, first, last);
    }
#else
    take_queries();
#if VARIANT == 1
    take_quantized_keys(kv_head, first, last);
    if (FUSED) barrier(); // subgroups have changed parts of the new row
#else
    take_keys(kv_head, first, last, false);
#endif
    if (newest_here) take_newest(kv_head, count - 1u);
    join_clusters();
#endif
    barrier();
    join_subgroups(kv_head, block, split);
    if (SPLIT) join_splits(kv_head, block);
}
