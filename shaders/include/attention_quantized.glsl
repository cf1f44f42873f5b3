// Rows of a quantized cache for attention of one token, and the new row, which is quantized as MLX does it
// before it is used. Fields are multiplied as they are; scales and biases are multiplied with what a lane's
// part of a row gives, which lies in one group. Needs attention_token.glsl, quant.glsl, affine.glsl, and
// before it:
//   CACHE_BITS, CACHE_GROUP (a divisor of WIDTH);
//   MANY_ROUNDS: two keys are asked for ahead, which takes registers and pays only in long splits.

uint64_t key_scales, key_biases, value_scales, value_biases;

// The address of element e of words, a multiple of 8: an octet is CACHE_BITS bytes.
uint64_t word_at(uint64_t words, uint64_t e) { return words + (e >> 3) * uint64_t(CACHE_BITS); }

// Element e's group.
int64_t group_of(uint64_t e) { return int64_t(e / uint64_t(CACHE_GROUP)); }

uint64_t key_element(uint kv_head, uint64_t j) {
    return uint64_t(kv_head) * uint64_t(key_head) + j * uint64_t(key_row);
}
uint64_t value_element(uint kv_head, uint64_t j) {
    return uint64_t(kv_head) * uint64_t(value_head) + j * uint64_t(value_row);
}

// Parts of a lane's features that have a scale of their own, and octets of a part: all are one part where a
// lane's neighbours lie in one group.
const uint LANE_GROUPS = CACHE_GROUP % LANE_WIDTH == 0u ? 1u : OCTETS, GROUP_OCTETS = OCTETS / LANE_GROUPS;

// What a lane asked for of one or two keys and then of their values: its octets' fields, and the bits of
// scale and bias of its parts.
const uint SETS = MANY_ROUNDS ? 2u : 1u, VALUE = SETS * OCTETS, VALUE_GROUPS = SETS * LANE_GROUPS;
uvec2 asked_fields[2u * SETS * OCTETS], asked_affine[2u * SETS * LANE_GROUPS];
// Of every head: sums of a part of the query, and of weighed biases of a part of values.
float query_sums[HEADS * LANE_GROUPS], bias_sums[HEADS * LANE_GROUPS];

// Asks for the fields of a lane's octets of the row that begins at `words`: at a multiple of 16 bytes where
// fields have 4 or 8 bits, else of four.
void ask_fields(uint to, uint64_t words) {
    const bool paired = OCTETS % 2u == 0u;
    [[unroll]] for (uint i = 0u; i < OCTETS; i += paired ? 2u : 1u) {
        uint e = feature(i * 8u);
        uint64_t from = word_at(words, uint64_t(e));
        uvec2 first, second = uvec2(0u);
        if (CACHE_BITS == 8u && paired) {
            uvec4 w = V4(from).v[0];
            first = w.xy;
            second = w.zw;
        } else if (CACHE_BITS == 4u && paired) {
            uvec2 w = V2(from).v[0];
            first = uvec2(w.x, 0u);
            second = uvec2(w.y, 0u);
        } else {
            first = packed8(CACHE_BITS, words, e);
            if (paired) second = packed8(CACHE_BITS, words, e + 8u);
        }
        asked_fields[to + i] = first;
        if (paired) asked_fields[to + i + 1u] = second;
    }
}

// Asks for scales and biases of a lane's parts of the row that begins at element `row`.
void ask_affine(uint to, uint64_t scales, uint64_t biases, uint64_t row) {
    [[unroll]] for (uint p = 0u; p < LANE_GROUPS; ++p) {
        int64_t group = group_of(row + uint64_t(feature(p * GROUP_OCTETS * 8u)));
        asked_affine[to + p] = uvec2(
            fetch_bits(DTYPE, at(DTYPE, scales, group)), fetch_bits(DTYPE, at(DTYPE, biases, group)));
    }
}

void ask_quantized_key(uint set, uint kv_head, uint j0, uint last) {
    uint64_t row = key_element(kv_head, uint64_t(asked_key(j0, last)));
    ask_fields(set * OCTETS, word_at(keys, row));
    ask_affine(set * LANE_GROUPS, key_scales, key_biases, row);
}

void ask_quantized_value(uint set, uint kv_head, uint j0, uint last) {
    uint64_t row = value_element(kv_head, uint64_t(asked_key(j0, last)));
    ask_fields(VALUE + set * OCTETS, word_at(values, row));
    ask_affine(VALUE_GROUPS + set * LANE_GROUPS, value_scales, value_biases, row);
}

vec2 affine_at(uint i) { return vec2(of_bits(DTYPE, asked_affine[i].x), of_bits(DTYPE, asked_affine[i].y)); }

// The heads' scores of the key in hand.
void score_fields(uint set, out float scores[HEADS]) {
    [[unroll]] for (uint h = 0u; h < HEADS; ++h) scores[h] = 0.0;
    [[unroll]] for (uint p = 0u; p < LANE_GROUPS; ++p) {
        float products[HEADS];
        [[unroll]] for (uint h = 0u; h < HEADS; ++h) products[h] = 0.0;
        [[unroll]] for (uint i = p * GROUP_OCTETS; i < (p + 1u) * GROUP_OCTETS; ++i) {
            vec4 low = fields4(CACHE_BITS, asked_fields[set * OCTETS + i], 0u),
                 high = fields4(CACHE_BITS, asked_fields[set * OCTETS + i], 4u);
            [[unroll]] for (uint h = 0u; h < HEADS; ++h) {
                products[h] = dot_add(own_q[h * QUADS + 2u * i], low, products[h]);
                products[h] = dot_add(own_q[h * QUADS + 2u * i + 1u], high, products[h]);
            }
        }
        vec2 affine = affine_at(set * LANE_GROUPS + p);
        [[unroll]] for (uint h = 0u; h < HEADS; ++h)
            scores[h] = fma(affine.x, products[h], fma(affine.y, query_sums[h * LANE_GROUPS + p], scores[h]));
    }
    [[unroll]] for (uint h = 0u; h < HEADS; ++h) scores[h] = cluster_sum(scores[h]);
}

// Makes what a head has fit a new maximum.
void raise(uint h, float top) {
    float fix = exp(best[h] - top);
    best[h] = top;
    total_weight[h] *= fix;
    [[unroll]] for (uint i = 0u; i < QUADS; ++i) sums[h * QUADS + i] *= fix;
    [[unroll]] for (uint p = 0u; p < LANE_GROUPS; ++p) bias_sums[h * LANE_GROUPS + p] *= fix;
}

// Takes the value in hand, of key j, by the key's scores.
void weigh_fields(uint set, uint kv_head, uint j, bool real, float scores[HEADS]) {
    float weights[HEADS];
    [[unroll]] for (uint h = 0u; h < HEADS; ++h) {
        float s = real ? masked(kv_head, h, j, scores[h]) : LOWEST;
        if (s > best[h]) raise(h, s);
        weights[h] = real ? exp(s - best[h]) : 0.0;
        total_weight[h] += weights[h];
    }
    [[unroll]] for (uint p = 0u; p < LANE_GROUPS; ++p) {
        vec2 affine = affine_at(VALUE_GROUPS + set * LANE_GROUPS + p);
        float scaled[HEADS];
        [[unroll]] for (uint h = 0u; h < HEADS; ++h) {
            scaled[h] = weights[h] * affine.x;
            bias_sums[h * LANE_GROUPS + p] = fma(weights[h], affine.y, bias_sums[h * LANE_GROUPS + p]);
        }
        [[unroll]] for (uint i = p * GROUP_OCTETS; i < (p + 1u) * GROUP_OCTETS; ++i) {
            vec4 low = fields4(CACHE_BITS, asked_fields[VALUE + set * OCTETS + i], 0u),
                 high = fields4(CACHE_BITS, asked_fields[VALUE + set * OCTETS + i], 4u);
            [[unroll]] for (uint h = 0u; h < HEADS; ++h) {
                sums[h * QUADS + 2u * i] = fma(low, vec4(scaled[h]), sums[h * QUADS + 2u * i]);
                sums[h * QUADS + 2u * i + 1u] = fma(high, vec4(scaled[h]), sums[h * QUADS + 2u * i + 1u]);
            }
        }
    }
}

// A round; as soon as its key or its value was used, the one that comes in its place is asked for.
void quantized_round(uint set, uint kv_head, uint j0, uint last) {
    float scores[HEADS];
    score_fields(set, scores);
    ask_quantized_key(set, kv_head, j0 + SETS * CLUSTERS, last);
    weigh_fields(set, kv_head, key_of(j0), key_of(j0) < last, scores);
    ask_quantized_value(set, kv_head, j0 + SETS * CLUSTERS, last);
}

// Asks for the first rounds of the keys first..last.
void ask_quantized_keys(uint kv_head, uint first, uint last) {
    [[unroll]] for (uint set = 0u; set < SETS; ++set) {
        ask_quantized_key(set, kv_head, first + set * CLUSTERS, last);
        ask_quantized_value(set, kv_head, first + set * CLUSTERS, last);
    }
}

// The keys first..last, the first rounds of which are asked for.
void take_quantized_keys(uint kv_head, uint first, uint last) {
    [[unroll]] for (uint s = 0u; s < HEADS * LANE_GROUPS; ++s) {
        query_sums[s] = bias_sums[s] = 0.0;
        [[unroll]] for (uint i = 0u; i < 2u * GROUP_OCTETS; ++i)
            query_sums[s] += quad_sum(own_q[s * 2u * GROUP_OCTETS + i]);
    }
    for (uint j0 = first; j0 < last; j0 += SETS * CLUSTERS) {
        quantized_round(0u, kv_head, j0, last);
        if (MANY_ROUNDS) quantized_round(1u, kv_head, j0 + CLUSTERS, last);
    }
    [[unroll]] for (uint i = 0u; i < HEADS * QUADS; ++i) sums[i] += vec4(bias_sums[i / (2u * GROUP_OCTETS)]);
}

// Stores an octet of fields as they lie in memory.
void store_packed8(uint64_t to, uint64_t fields) {
    if (CACHE_BITS == 8u) U64(to).v[0] = fields;
    else if (CACHE_BITS == 4u) U32(to).v[0] = uint(fields);
    else for (uint i = 0u; i < CACHE_BITS; ++i) U8(to).v[i] = uint8_t(fields >> (8u * i));
}

// The octet of an element's neighbours' fields, of a subgroup that has an element a lane.
uint64_t octet_of_lanes(uint field) {
    uint bit = gl_SubgroupInvocationID % 8u * CACHE_BITS;
    uvec2 octet = unpackUint2x32(uint64_t(field) << bit);
    [[unroll]] for (uint apart = 1u; apart < 8u; apart *= 2u) octet |= subgroupShuffleXor(octet, apart);
    return packUint2x32(octet);
}

// Loops around exchanges between lanes have bounds that a compiler knows to be the same for all lanes: on
// NVIDIA an exchange takes many times as long where it does not.

// Quantizes elements from..from + CACHE_GROUP of the new rows in shared memory, by a subgroup, and leaves
// there what they stand for. With `store`, they become element `to` and those behind it. Its loop stays a
// loop: exact divisions are long.
void quantize_group(uint from, uint64_t words, uint64_t scales, uint64_t biases, uint64_t to, bool store) {
    uint lane = gl_SubgroupInvocationID;
    float low = uintBitsToFloat(0x7f800000u), high = -low;
    [[unroll]] for (uint base = 0u; base < CACHE_GROUP; base += SUBGROUP) {
        float x = newest[from + min(base + lane, CACHE_GROUP - 1u)];
        low = min(low, x);
        high = max(high, x);
    }
    vec2 affine = scale_and_bias(CACHE_BITS, subgroupMin(low), subgroupMax(high)),
         kept = vec2(rounded(affine.x), rounded(affine.y));
    [[dont_unroll]] for (uint base = 0u; base < CACHE_GROUP; base += SUBGROUP) {
        uint i = min(base + lane, CACHE_GROUP - 1u);
        bool real = base + lane < CACHE_GROUP;
        uint field = field_of(CACHE_BITS, newest[from + i], affine);
        uint64_t octet = octet_of_lanes(field);
        if (real) newest[from + i] = fma(kept.x, exact_float(field), kept.y);
        if (real && store && lane % 8u == 0u) store_packed8(word_at(words, to + uint64_t(i)), octet);
    }
    if (!store || lane != 0u) return;
    store_float(DTYPE, scales, group_of(to), affine.x);
    store_float(DTYPE, biases, group_of(to), affine.y);
}

// Quantizes the new key and its value, which become row `row`, a group a subgroup, and with `store` writes
// them to the cache.
void quantize_newest(uint kv_head, uint row, bool store) {
    uint64_t key_at = key_element(kv_head, uint64_t(row)), value_at = value_element(kv_head, uint64_t(row));
    for (uint first = 0u; first < 2u * WIDTH; first += SUBGROUPS * CACHE_GROUP) {
        uint i = first + gl_SubgroupID * CACHE_GROUP;
        bool of_key = i < WIDTH;
        if (i >= 2u * WIDTH) continue;
        uint64_t to = of_key ? key_at + uint64_t(i) : value_at + uint64_t(i - WIDTH);
        quantize_group(i, of_key ? keys : values, of_key ? key_scales : value_scales,
            of_key ? key_biases : value_biases, to, store);
    }
}
