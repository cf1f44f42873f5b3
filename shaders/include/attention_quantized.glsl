// Rows of a quantized cache for attention of one token: an octet of words, scales and biases at a time,
// and the new row, which is quantized as MLX does it before it is used. Needs attention_token.glsl,
// quant.glsl, affine.glsl, and before it:
//   BITS, GROUP (a divisor of WIDTH); more (addresses of scales and biases), count.

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

// Features first..first + 8 of the row that begins at element `row`.
void load_octet(
    uint64_t words, uint64_t scales, uint64_t biases, uint64_t row, uint first, out vec4 low, out vec4 high) {
    uvec2 fields = packed8(word_at(words, row), first);
    int64_t group = group_of(row + uint64_t(first));
    vec4 s = vec4(fetch(DTYPE, at(DTYPE, scales, group))),
         bias = vec4(fetch(DTYPE, at(DTYPE, biases, group)));
    low = fma(s, fields8_low(fields), bias);
    high = fma(s, fields8_high(fields), bias);
}

uint64_t key_element(uint kv_head, uint64_t j) {
    return uint64_t(kv_head) * uint64_t(key_head) + j * uint64_t(key_row);
}
uint64_t value_element(uint kv_head, uint64_t j) {
    return uint64_t(kv_head) * uint64_t(value_head) + j * uint64_t(value_row);
}

void load_quantized(uint kv_head, uint64_t j) {
    uint64_t key_at = key_element(kv_head, j), value_at = value_element(kv_head, j);
    [[unroll]] for (uint i = 0u; i < OCTETS; ++i) {
        uint first = feature(i * 8u);
        load_octet(keys, key_scales, key_biases, key_at, first, key[2u * i], key[2u * i + 1u]);
        load_octet(values, value_scales, value_biases, value_at, first, value[2u * i], value[2u * i + 1u]);
    }
}

// Stores an octet of fields as they lie in memory.
void store_packed8(uint64_t to, uint64_t fields) {
    if (BITS == 8u) U64(to).v[0] = fields;
    else if (BITS == 4u) U32(to).v[0] = uint(fields);
    else for (uint i = 0u; i < BITS; ++i) U8(to).v[i] = uint8_t(fields >> (8u * i));
}

// Quantizes elements from..from + GROUP of the new rows in shared memory, by a subgroup, and leaves
// there what they stand for. With `store`, they become element `to` and those behind it. Its loops stay
// loops: exact divisions are long.
void quantize_group(uint from, uint64_t words, uint64_t scales, uint64_t biases, uint64_t to, bool store) {
    uint begin = gl_SubgroupInvocationID * 8u;
    float low = uintBitsToFloat(0x7f800000u), high = -low;
    for (uint i = begin; i < GROUP; i += SUBGROUP * 8u)
        [[unroll]] for (uint e = 0u; e < 8u; ++e) {
            low = min(low, newest[from + i + e]);
            high = max(high, newest[from + i + e]);
        }
    vec2 affine = affine_of(subgroupMin(low), subgroupMax(high)),
         kept = vec2(rounded(affine.x), rounded(affine.y));
    for (uint i = begin; i < GROUP; i += SUBGROUP * 8u) {
        uint64_t fields = 0ul;
        [[dont_unroll]] for (uint e = 0u; e < 8u; ++e) {
            uint field = field_of(newest[from + i + e], affine);
            fields |= uint64_t(field) << (e * BITS);
            newest[from + i + e] = fma(kept.x, exact_float(field), kept.y);
        }
        if (store) store_packed8(word_at(words, to + uint64_t(i)), fields);
    }
    if (!store || begin != 0u) return;
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
