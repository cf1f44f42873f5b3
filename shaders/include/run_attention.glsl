// Attentions of one token in runs, over dense caches and quantized ones: workgroups share heads and keys,
// leave their parts with tags, and join them. Included by interpreter.comp.

const uint HEADS = 1; // of a workgroup at a time
uint64_t q, new_key, new_value, q_weight, k_weight, frequencies, offset, keys, values, mask;
uint query_head, key_head, key_row, value_head, value_row;
float scale, position_scale;
uint norm_eps;
#define EPS norm_eps
#define sequence 0u
#define masked(kv_head, h, j, s) (mask != 0ul && uint(U8(mask).v[j]) == 0u ? LOWEST : (s))
const bool QUANTIZED = CACHE_BITS < 16u, MANY_ROUNDS = false;
#include "attention_token.glsl"
#include "affine.glsl"
#include "attention_quantized.glsl"

uvec2 pair_at(uint64_t from, uint i) {
    return uvec2(Tagged(from).v[first_of(pair_of_lane(i))], Tagged(from).v[second_of(pair_of_lane(i))]);
}

void ask_pairs(uint64_t from, out uvec2 bits[PAIRS]) {
    [[unroll]] for (uint i = 0u; i < PAIRS; ++i) bits[i] = pair_at(from, i);
}

void take_pairs(uint64_t from, inout uvec2 bits[PAIRS], out vec2 y[PAIRS]) {
    uint spins = 0u;
    [[unroll]] for (uint i = 0u; i < PAIRS; ++i) {
        while (stale(bits[i]) && !gives_up(spins)) bits[i] = pair_at(from, i);
        y[i] = half_pair(DTYPE, pair_of(bits[i]));
    }
}

float take(uint64_t from, uint i) {
    uint spins = 0u, w = Tagged(from).v[i];
    while (stale(w) && !gives_up(spins)) w = Tagged(from).v[i];
    return half_pair(DTYPE, w & 0xffffu).x;
}

// A split's part: maximum, sum, sums of values, each in two words.
uint64_t part_of(uint64_t parts, uint head, uint splits, uint split) {
    return parts + uint64_t((head * splits + split) * (WIDTH + 4u)) * 8ul;
}

void mark(uint64_t part, uint i, float x) {
    uint bits = floatBitsToUint(x);
    Tagged2(part).v[i] = uvec2(tagged(bits >> 16), tagged(bits & 0xffffu));
}

float marked(uint64_t part, uint i) {
    uint spins = 0u;
    uvec2 w = Tagged2(part).v[i];
    while (stale(w) && !gives_up(spins)) w = Tagged2(part).v[i];
    return uintBitsToFloat((w.x << 16) | (w.y & 0xffffu));
}

void store_result(uint head, uint i, float x) {
    uint bits = bits_of(x);
    uvec4 to = quad(RESULT_AND_MARKED);
    Tagged(second_address(to)).v[head * WIDTH + i] = tagged(bits);
    U16(first_address(to)).v[head * WIDTH + i] = uint16_t(bits);
}

// One head and split.
void attend(uint head, uint split, uint splits, uint count) {
    uint kv_head = head / SHARING;
    uint old = count - 1u, each = (old + splits - 1u) / splits, from = min(old, split * each),
         last = min(old, from + each);
    if (QUANTIZED) ask_quantized_keys(kv_head, from, last);
    else ask_keys(kv_head, from, last);
    bool newest_here = split == splits - 1u;
    for (uint i = 0u; i < 2u; i += SUBGROUPS) {
        bool key = i + gl_SubgroupID == 1u;
        if (i + gl_SubgroupID > 1u || key && !newest_here) continue;
        prepare(key ? new_key + uint64_t(kv_head * WIDTH) * 4ul : q + uint64_t(head * query_head) * 4ul,
            key ? k_weight : q_weight, key, 0u);
    }
    if (newest_here) for (uint i = gl_WorkGroupSize.x - 1u - thread(); i < WIDTH; i += gl_WorkGroupSize.x)
        newest[WIDTH + i] = take(new_value, kv_head * WIDTH + i);
    barrier();
    bool writes = newest_here && head % SHARING == 0u;
    if (QUANTIZED && newest_here) quantize_newest(kv_head, count - 1u, writes);
    take_queries();
    if (QUANTIZED) take_quantized_keys(kv_head, from, last);
    else take_keys(kv_head, from, last, true);
    if (QUANTIZED && newest_here) barrier(); // subgroups have changed parts of the new row
    if (newest_here) take_newest(kv_head, last);
    join_clusters();
    barrier();
    uint64_t part = part_of(first_address(quad(PARTS_AND_OFFSET)), head, splits, split);
    for (uint i = thread(); i < WIDTH; i += gl_WorkGroupSize.x) {
        float top, sum, y = joined(0u, i, top, sum);
        if (splits == 1u) { store_result(head, i, y / sum); continue; }
        mark(part, 4u + i, y);
        if (i == 0u) {
            mark(part, 0u, top);
            mark(part, 1u, sum);
        }
    }
    if (!QUANTIZED && writes) for (uint i = thread(); i < WIDTH; i += gl_WorkGroupSize.x) {
        int64_t to = int64_t(count - 1u);
        store_float(DTYPE, keys, int64_t(kv_head) * int64_t(key_head) + to * int64_t(key_row) + int64_t(i),
            newest[i]);
        store_float(DTYPE, values,
            int64_t(kv_head) * int64_t(value_head) + to * int64_t(value_row) + int64_t(i), newest[WIDTH + i]);
    }
}

void join_parts(uint head, uint splits) {
    for (uint i = thread(); i < WIDTH; i += gl_WorkGroupSize.x) {
        float top = LOWEST, sum = 0.0, y = 0.0;
        for (uint s = 0u; s < splits; ++s) {
            uint64_t part = part_of(first_address(quad(PARTS_AND_OFFSET)), head, splits, s);
            float other = marked(part, 0u), more = marked(part, 1u), value = marked(part, 4u + i);
            float next = max(top, other), fix = exp(top - next), add = exp(other - next);
            y = y * fix + value * add;
            sum = sum * fix + more * add;
            top = next;
        }
        store_result(head, i, y / sum);
    }
}

void attention(uvec4 next_row) {
    uvec4 head_ = quad(COUNT_AND_SCALE), more = quad(EPS_AND_HEADS), a = quad(Q_AND_KEY);
    uvec4 b = quad(VALUE_AND_Q_WEIGHT), c = quad(K_WEIGHT_AND_FREQUENCIES), d = quad(CACHES);
    uvec4 strides = quad(STRIDES);
    uint count = head_.y, splits = head_.z, heads = more.z;
    scale = uintBitsToFloat(head_.w);
    norm_eps = more.x;
    position_scale = uintBitsToFloat(more.y);
    query_head = more.w;
    q = first_address(a);
    new_key = second_address(a);
    new_value = first_address(b);
    q_weight = second_address(b);
    k_weight = first_address(c);
    frequencies = second_address(c);
    keys = first_address(d);
    values = second_address(d);
    offset = second_address(quad(PARTS_AND_OFFSET));
    mask = first_address(quad(MASK_AND_FACTOR));
    if (QUANTIZED) {
        uint64_t factor = second_address(quad(MASK_AND_FACTOR));
        if (factor != 0ul) scale *= fetch(DTYPE, factor);
        key_scales = first_address(quad(KEY_AFFINE));
        key_biases = second_address(quad(KEY_AFFINE));
        value_scales = first_address(quad(VALUE_AFFINE));
        value_biases = second_address(quad(VALUE_AFFINE));
    }
    key_head = strides.x;
    key_row = strides.y;
    value_head = strides.z;
    value_row = strides.w;
    barrier(); // all have finished the step before
    if (thread() < ROW_QUADS) rows[(row ^ ROW_QUADS) + thread()] = next_row;
    for (uint item = gl_WorkGroupID.x; item < heads * splits; item += gl_NumWorkGroups.x) {
        attend(item % heads, item / heads, splits, count);
        barrier();
    }
    if (splits > 1u)
        for (uint head = gl_WorkGroupID.x; head < heads; head += gl_NumWorkGroups.x) join_parts(head, splits);
    if (lost) stopped = 1u;
    barrier();
}
