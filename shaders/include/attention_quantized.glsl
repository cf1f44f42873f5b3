// Rows of a quantized cache for attention of one token, and the new row, which is quantized as MLX does it
// before it is used. Fields are multiplied as they are; scales and biases are multiplied with what an octet
// gives. Needs attention_token.glsl, quant.glsl, affine.glsl, and before it:
//   BITS, GROUP (a divisor of WIDTH); more (addresses of scales and biases), count;
//   MANY_ROUNDS: two keys are asked for ahead, which takes registers and pays only in long splits.

uint64_t key_scales, key_biases, value_scales, value_biases;

// Reads that, but for the factor, which is the result.
float take_more() {
    key_scales = more.key_scales;
    key_biases = more.key_biases;
    value_scales = more.value_scales;
    value_biases = more.value_biases;
    uint64_t from = more.factor;
    return from == 0ul ? 1.0 : fetch(DTYPE, from);
}

// The address of element e of words, a multiple of 8: an octet is BITS bytes.
uint64_t word_at(uint64_t words, uint64_t e) { return words + (e >> 3) * uint64_t(BITS); }

// Element e's group.
int64_t group_of(uint64_t e) { return int64_t(e / uint64_t(GROUP)); }

uint64_t key_element(uint kv_head, uint64_t j) {
    return uint64_t(kv_head) * uint64_t(key_head) + j * uint64_t(key_row);
}
uint64_t value_element(uint kv_head, uint64_t j) {
    return uint64_t(kv_head) * uint64_t(value_head) + j * uint64_t(value_row);
}

// What a lane asked for of one or two keys and then of their values: fields of its octets, and bits of their
// scales and biases.
const uint SETS = MANY_ROUNDS ? 2u : 1u, VALUE = SETS * OCTETS;
uvec2 asked_fields[2u * SETS * OCTETS], asked_affine[2u * SETS * OCTETS];
// Of every head: sums of an octet of the query, and of weighed biases of an octet's values.
float query_sums[HEADS * OCTETS], bias_sums[HEADS * OCTETS];

// Asks for a lane's octets of the row that begins at element `row`.
void ask_octets(uint to, uint64_t words, uint64_t scales, uint64_t biases, uint64_t row) {
    [[unroll]] for (uint i = 0u; i < OCTETS; ++i) {
        uint first = feature(i * 8u);
        int64_t group = group_of(row + uint64_t(first));
        asked_fields[to + i] = packed8(word_at(words, row), first);
        asked_affine[to + i] = uvec2(
            fetch_bits(DTYPE, at(DTYPE, scales, group)), fetch_bits(DTYPE, at(DTYPE, biases, group)));
    }
}

void ask_quantized_key(uint set, uint kv_head, uint j0, uint last) {
    uint64_t row = key_element(kv_head, uint64_t(asked_key(j0, last)));
    ask_octets(set * OCTETS, keys, key_scales, key_biases, row);
}

void ask_quantized_value(uint set, uint kv_head, uint j0, uint last) {
    uint64_t row = value_element(kv_head, uint64_t(asked_key(j0, last)));
    ask_octets(VALUE + set * OCTETS, values, value_scales, value_biases, row);
}

vec2 affine_at(uvec2 bits) { return vec2(of_bits(DTYPE, bits.x), of_bits(DTYPE, bits.y)); }

// The heads' scores of the key in hand.
void score_fields(uint set, out float scores[HEADS]) {
    [[unroll]] for (uint h = 0u; h < HEADS; ++h) scores[h] = 0.0;
    [[unroll]] for (uint i = 0u; i < OCTETS; ++i) {
        vec4 low = fields8_low(asked_fields[set * OCTETS + i]),
             high = fields8_high(asked_fields[set * OCTETS + i]);
        vec2 affine = affine_at(asked_affine[set * OCTETS + i]);
        [[unroll]] for (uint h = 0u; h < HEADS; ++h) {
            float product = dot_add(own_q[h * QUADS + 2u * i], low, 0.0);
            product = dot_add(own_q[h * QUADS + 2u * i + 1u], high, product);
            scores[h] = fma(affine.x, product, fma(affine.y, query_sums[h * OCTETS + i], scores[h]));
        }
    }
    [[unroll]] for (uint h = 0u; h < HEADS; ++h) scores[h] = cluster_sum(scores[h]);
}

// Makes what a head has fit a new maximum.
void raise(uint h, float top) {
    float fix = exp(best[h] - top);
    best[h] = top;
    total_weight[h] *= fix;
    [[unroll]] for (uint i = 0u; i < QUADS; ++i) sums[h * QUADS + i] *= fix;
    [[unroll]] for (uint i = 0u; i < OCTETS; ++i) bias_sums[h * OCTETS + i] *= fix;
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
    [[unroll]] for (uint i = 0u; i < OCTETS; ++i) {
        vec4 low = fields8_low(asked_fields[VALUE + set * OCTETS + i]),
             high = fields8_high(asked_fields[VALUE + set * OCTETS + i]);
        vec2 affine = affine_at(asked_affine[VALUE + set * OCTETS + i]);
        [[unroll]] for (uint h = 0u; h < HEADS; ++h) {
            vec4 weight = vec4(weights[h] * affine.x);
            sums[h * QUADS + 2u * i] = fma(low, weight, sums[h * QUADS + 2u * i]);
            sums[h * QUADS + 2u * i + 1u] = fma(high, weight, sums[h * QUADS + 2u * i + 1u]);
            bias_sums[h * OCTETS + i] = fma(weights[h], affine.y, bias_sums[h * OCTETS + i]);
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

// The keys first..last.
void take_quantized_keys(uint kv_head, uint first, uint last) {
    [[unroll]] for (uint i = 0u; i < HEADS * OCTETS; ++i) {
        query_sums[i] = quad_sum(own_q[2u * i]) + quad_sum(own_q[2u * i + 1u]);
        bias_sums[i] = 0.0;
    }
    [[unroll]] for (uint set = 0u; set < SETS; ++set) {
        ask_quantized_key(set, kv_head, first + set * CLUSTERS, last);
        ask_quantized_value(set, kv_head, first + set * CLUSTERS, last);
    }
    for (uint j0 = first; j0 < last; j0 += SETS * CLUSTERS) {
        quantized_round(0u, kv_head, j0, last);
        if (MANY_ROUNDS) quantized_round(1u, kv_head, j0 + CLUSTERS, last);
    }
    [[unroll]] for (uint i = 0u; i < HEADS * OCTETS; ++i) {
        sums[2u * i] += vec4(bias_sums[i]);
        sums[2u * i + 1u] += vec4(bias_sums[i]);
    }
}

// Stores an octet of fields as they lie in memory.
void store_packed8(uint64_t to, uint64_t fields) {
    if (BITS == 8u) U64(to).v[0] = fields;
    else if (BITS == 4u) U32(to).v[0] = uint(fields);
    else for (uint i = 0u; i < BITS; ++i) U8(to).v[i] = uint8_t(fields >> (8u * i));
}

shared uint newest_fields[2u * WIDTH];

// Quantizes elements from..from + GROUP of the new rows in shared memory, by a subgroup, and leaves
// there what they stand for. With `store`, they become element `to` and those behind it. Its loop stays
// a loop: exact divisions are long.
void quantize_group(uint from, uint64_t words, uint64_t scales, uint64_t biases, uint64_t to, bool store) {
    uint lane = gl_SubgroupInvocationID;
    float low = uintBitsToFloat(0x7f800000u), high = -low;
    for (uint i = lane; i < GROUP; i += SUBGROUP) {
        low = min(low, newest[from + i]);
        high = max(high, newest[from + i]);
    }
    vec2 affine = affine_of(subgroupMin(low), subgroupMax(high)),
         kept = vec2(rounded(affine.x), rounded(affine.y));
    [[dont_unroll]] for (uint i = lane; i < GROUP; i += SUBGROUP) {
        uint field = field_of(newest[from + i], affine);
        newest_fields[from + i] = field;
        newest[from + i] = fma(kept.x, exact_float(field), kept.y);
    }
    if (!store) return;
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    for (uint i = lane * 8u; i < GROUP; i += SUBGROUP * 8u) {
        uint64_t fields = 0ul;
        [[unroll]] for (uint e = 0u; e < 8u; ++e)
            fields |= uint64_t(newest_fields[from + i + e]) << (e * BITS);
        store_packed8(word_at(words, to + uint64_t(i)), fields);
    }
    if (lane != 0u) return;
    store_float(DTYPE, scales, group_of(to), affine.x);
    store_float(DTYPE, biases, group_of(to), affine.y);
}

// Quantizes the new key and its value, a group a subgroup, and with `store` writes them to the cache.
void quantize_newest(uint kv_head, bool store) {
    uint64_t key_at = key_element(kv_head, uint64_t(count - 1u)),
             value_at = value_element(kv_head, uint64_t(count - 1u));
    for (uint i = gl_SubgroupID * GROUP; i < 2u * WIDTH; i += SUBGROUPS * GROUP) {
        bool of_key = i < WIDTH;
        uint64_t to = of_key ? key_at + uint64_t(i) : value_at + uint64_t(i - WIDTH);
        quantize_group(i, of_key ? keys : values, of_key ? key_scales : value_scales,
            of_key ? key_biases : value_biases, to, store);
    }
}
