// What the kernels share that differentiate attention (attention/vjp.comp tells of them). Before it come
// OUT_DTYPE, of the mask, and MASK.

// Passes. [host]
const uint ROWS_PASS = 0, QUERIES_PASS = 1, KEYS_PASS = 2;
// Kinds of masks; 0 is none. [host]
const uint CAUSAL = 1, KEEP = 2, ADDITIVE = 3;

// In elements.
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Strides {
    int64_t q[3], k[3], v[3], result[3], cotangent[3], by_q[3], by_k[3], by_v[3]; // batch, head, row
    int64_t mask_batch, mask_head, mask_row, mask_key;
};

layout(push_constant, scalar) uniform Push {
    // `rows`: of each query the maximum of its scores in powers of two, one over their sum, and the mean;
    // then what scores become exponents by, if none is hidden.
    uint64_t q, k, v, mask, result, cotangent, by_q, by_k, by_v, rows;
    Strides strides;
    uint64_t factors; // vjp_matrix.comp: of float32 queries, keys, values and cotangents
    uint batches, heads, kv_heads, queries, keys, key_width, value_width;
    float scale;
};

int64_t mask_stride;
#include "attention_score.glsl"

// The last key that a query sees.
int limit_of(uint query) { return int(query) + int(keys) - int(queries); }

// Where the mask of a query begins; `head` is batch and head. Past the end it is that of the last one.
int64_t mask_row_of(uvec2 head, uint query) {
    if (MASK < KEEP) return 0l;
    return int64_t(head.x) * strides.mask_batch + int64_t(head.y) * strides.mask_head
        + int64_t(min(query, queries - 1u)) * strides.mask_row;
}

// The address of what is kept of a query; past the end of the last one.
uint64_t row_at(uvec2 head, uint query) {
    uint64_t first = (uint64_t(head.x) * uint64_t(heads) + uint64_t(head.y)) * uint64_t(queries);
    return rows + (first + uint64_t(min(query, queries - 1u))) * 16ul;
}

// The weight of a masked score, and what the score changes by: nothing where it was hidden.
vec2 weight_and_change(float score, float upward, vec4 row, bool is_there) {
    float weight = is_there ? exp2(score - row.x) * row.y : 0.0;
    return vec2(weight, MASK == ADDITIVE || score != LOWEST ? weight * (upward - row.z) : 0.0);
}

// What is kept of a query, by the sum of its exponentials.
vec4 kept_row(float top, float sum, float mean) { return vec4(top, 1.0 / sum, mean, -top - log2(sum)); }

// The keys that `count` queries see, up to the last one. A query that sees none has all of them.
uint keys_seen(uint query0, uint count) {
    if (MASK != CAUSAL || queries > keys) return keys;
    return uint(limit_of(min(query0 + count, queries) - 1u) + 1);
}

// The first of the queries, `count` at a time, that may see a key, or none at all.
uint first_query(uint key, uint count) {
    if (MASK != CAUSAL || queries > keys) return 0u;
    uint before = keys - queries;
    return key > before ? (key - before) / count * count : 0u;
}
