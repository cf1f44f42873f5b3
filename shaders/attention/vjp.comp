#version 460
// Derivatives of softmax attention along a cotangent of its output; float32 inside, for any width and mask.
// A workgroup keeps BLOCK rows of queries or of keys and walks those of the others, BLOCK at a time. With the
// weights p = softmax(s) and what scores change by, ds = p (cotangent vT - mean), PASS is one of:
//   ROWS     of queries, over keys: maximum and sum of the softmax, and the mean, cotangent . output;
//   QUERIES  of queries, over keys: by_q = scale ds k;
//   KEYS     of keys, over the queries of all heads that share them: by_v = pT cotangent, by_k = scale dsT q.
// A thread has four rows that are kept and four that are walked, and of a derivative four rows and COLUMNS
// quads of features; of wider heads each workgroup takes a share of the features.
//
// Constants: 1 dtype, 2 flags, 3 pass, 4 block, 5 columns, 6 mask kind. The workgroup has (BLOCK / 4)^2
// threads.
#include "common.glsl"
#include "floats.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
const uint OUT_DTYPE = DTYPE;
layout(constant_id = 2) const uint FLAGS = 0;
layout(constant_id = 3) const uint PASS = 0;
layout(constant_id = 4) const uint BLOCK = 32;
layout(constant_id = 5) const uint COLUMNS = 1;
layout(constant_id = 6) const uint MASK = 0;
// Flags: rows are aligned quads. [host]
const uint VECTOR_FLAG = 1;
const bool VECTOR = (FLAGS & VECTOR_FLAG) != 0u;
// Features of a step of a product. [host]
const uint STEP = 16;

#include "attention_derivatives.glsl"

const uint LANES = BLOCK / 4u, THREADS = LANES * LANES;
const uint PITCH = LANES + 1u;                // of rows of weights, against bank conflicts
const uint SHARE = LANES * COLUMNS;           // quads of features that are the workgroup's
const uint SLICES = 2u * STEP * LANES, SLICE_ROWS = SLICES / SHARE;

shared vec4 slices[SLICES];
// Weights of the rows that are walked, by quads of those that are kept.
shared vec4 weights[BLOCK * PITCH];

vec4 of_k[4u * COLUMNS], of_v[4u * COLUMNS];

// Rows of a head, of which there are `count`.
struct Matrix {
    uint64_t from;
    int64_t stride;
    uint width, count;
};

// The quads of rows that are this thread's: those that are kept, and those that are walked, which are LANES
// apart.
uint kept() { return gl_LocalInvocationID.x / LANES; }
uint walked() { return gl_LocalInvocationID.x % LANES; }

// Strides are of batch, head and row; `size` is rows and features.
Matrix head_of(uint64_t base, int64_t strides_[3], uvec2 head, uvec2 size) {
    int64_t first = int64_t(head.x) * strides_[0] + int64_t(head.y) * strides_[1];
    return Matrix(at(DTYPE, base, first), strides_[2], size.y, size.x);
}

Matrix queries_of(uvec2 head) { return head_of(q, strides.q, head, uvec2(queries, key_width)); }
Matrix keys_of(uvec2 head) { return head_of(k, strides.k, head, uvec2(keys, key_width)); }
Matrix values_of(uvec2 head) { return head_of(v, strides.v, head, uvec2(keys, value_width)); }
Matrix outputs_of(uvec2 head) { return head_of(result, strides.result, head, uvec2(queries, value_width)); }
Matrix cotangents_of(uvec2 head) {
    return head_of(cotangent, strides.cotangent, head, uvec2(queries, value_width));
}

// Four features of a row, zeros past the width; past the end the last row again.
vec4 quad_of(Matrix m, uint row, uint quad) {
    int64_t first = int64_t(min(row, m.count - 1u)) * m.stride + int64_t(quad * 4u);
    return fetch4_tail(DTYPE, VECTOR, at(DTYPE, m.from, first), int(m.width) - int(quad * 4u));
}

// x[j][i] is the product of the i-th row that is kept and the j-th that is walked.
void multiply_rows(Matrix a, uint a0, Matrix b, uint b0, out vec4 x[4]) {
    [[unroll]] for (uint j = 0u; j < 4u; ++j) x[j] = vec4(0.0);
    for (uint f0 = 0u; f0 < a.width; f0 += STEP) {
        barrier();
        for (uint i = gl_LocalInvocationID.x; i < BLOCK * (STEP / 4u); i += THREADS) {
            uint row = i % BLOCK, quad = i / BLOCK;
            vec4 of_a = quad_of(a, a0 + row, f0 / 4u + quad), of_b = quad_of(b, b0 + row, f0 / 4u + quad);
            [[unroll]] for (uint e = 0u; e < 4u; ++e) {
                uint feature = (quad * 4u + e) * LANES;
                slices[feature + row / 4u][row % 4u] = of_a[e];
                slices[STEP * LANES + feature + row % LANES][row / LANES] = of_b[e];
            }
        }
        barrier();
        [[unroll]] for (uint f = 0u; f < STEP; ++f) {
            vec4 y = slices[f * LANES + kept()], z = slices[(STEP + f) * LANES + walked()];
            [[unroll]] for (uint j = 0u; j < 4u; ++j) x[j] = fma(y, vec4(z[j]), x[j]);
        }
    }
}

// Adds the weights of rows that are walked, of the first of which `b` has the row b0, times these rows.
#define ADD_ROWS(sums, b, b0, share) \
    for (uint w0 = 0u; w0 < BLOCK; w0 += SLICE_ROWS) { \
        barrier(); \
        for (uint i = gl_LocalInvocationID.x; i < SLICES; i += THREADS) \
            slices[i] = quad_of(b, (b0) + w0 + i / SHARE, (share) * SHARE + i % SHARE); \
        barrier(); \
        for (uint w = 0u; w < min(SLICE_ROWS, BLOCK); ++w) { \
            vec4 weight = weights[(w0 + w) * PITCH + kept()]; \
            [[unroll]] for (uint c = 0u; c < COLUMNS; ++c) { \
                vec4 y = slices[w * SHARE + c * LANES + walked()]; \
                [[unroll]] for (uint i = 0u; i < 4u; ++i) \
                    sums[i * COLUMNS + c] = fma(vec4(weight[i]), y, sums[i * COLUMNS + c]); \
            } \
        } \
    }

// The masked score of products of queries and keys.
float score_of(float x, uvec2 head, uint query, uint key) {
    return masked_score(x, key, keys, limit_of(query), mask_row_of(head, query));
}

// Turns products of queries and keys into weights, and those of cotangents and values into changes of scores.
// The rows of queries are kept, or else walked.
void weigh(uvec2 head, uint kept0, uint walked0, inout vec4 x[4], inout vec4 changes[4]) {
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uint at_kept = kept0 + kept() * 4u + i, at_walked = walked0 + j * LANES + walked();
            uint query = PASS == KEYS_PASS ? at_walked : at_kept;
            uint key = PASS == KEYS_PASS ? at_kept : at_walked;
            float score = score_of(x[j][i], head, query, key);
            vec2 y = weight_and_change(score, changes[j][i], F4(row_at(head, query)).v[0], query < queries);
            x[j][i] = y.x;
            changes[j][i] = y.y;
        }
    }
}

// Where others see them. Whoever needs what was there before has it behind the barrier.
void share_weights(vec4 x[4]) {
    barrier();
    [[unroll]] for (uint j = 0u; j < 4u; ++j) weights[(j * LANES + walked()) * PITCH + kept()] = x[j];
}

void store_quad(Matrix to, uint row, uint first, vec4 y) {
    if (row >= to.count || first >= to.width) return;
    uint64_t address = at(DTYPE, to.from, int64_t(row) * to.stride + int64_t(first));
    if (VECTOR) { store_float4(DTYPE, address, 0ul, y); return; }
    [[unroll]] for (uint e = 0u; e < 4u; ++e)
        if (first + e < to.width) store_float(DTYPE, address, int64_t(e), y[e]);
}

// Sums of the rows from row0 on.
#define STORE_SUMS(sums, to, row0, share, factor) \
    [[unroll]] for (uint i = 0u; i < 4u; ++i) \
        [[unroll]] for (uint c = 0u; c < COLUMNS; ++c) \
            store_quad(to, row0 + kept() * 4u + i, (share * SHARE + c * LANES + walked()) * 4u, \
                sums[i * COLUMNS + c] * factor);

// One row's maximum, sum and mean, of what the threads have found.
void store_row(uvec2 head, uint query0) {
    uint r = gl_LocalInvocationID.x;
    if (r >= BLOCK || query0 + r >= queries) return;
    float top = LOWEST, sum = 0.0, mean = 0.0;
    for (uint i = 0u; i < LANES; ++i) top = max(top, weights[i * LANES + r / 4u][r % 4u]);
    for (uint i = 0u; i < LANES; ++i)
        sum += weights[(LANES + i) * LANES + r / 4u][r % 4u]
            * exp2(weights[i * LANES + r / 4u][r % 4u] - top);
    Matrix a = cotangents_of(head), b = outputs_of(head);
    for (uint quad = 0u; quad * 4u < value_width; ++quad)
        mean = dot_add(quad_of(a, query0 + r, quad), quad_of(b, query0 + r, quad), mean);
    F4(row_at(head, query0 + r)).v[0] = kept_row(top, sum, mean);
}

void find_rows(uvec2 head, uvec2 kv_head, uint query0) {
    vec4 tops = vec4(LOWEST), sums = vec4(0.0), x[4];
    for (uint key0 = 0u; key0 < keys_seen(query0, BLOCK); key0 += BLOCK) {
        multiply_rows(queries_of(head), query0, keys_of(kv_head), key0, x);
        vec4 old = tops;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            uint key = key0 + j * LANES + walked();
            [[unroll]] for (uint i = 0u; i < 4u; ++i)
                x[j][i] = score_of(x[j][i], head, query0 + kept() * 4u + i, key);
            tops = max(tops, x[j]);
        }
        sums *= exp2(old - tops);
        [[unroll]] for (uint j = 0u; j < 4u; ++j) sums += exp2(x[j] - tops);
    }
    barrier();
    weights[walked() * LANES + kept()] = tops;
    weights[(LANES + walked()) * LANES + kept()] = sums;
    barrier();
    store_row(head, query0);
}

void differentiate_queries(uvec2 head, uvec2 kv_head, uint query0, uint share) {
    vec4 x[4], changes[4];
    [[unroll]] for (uint i = 0u; i < 4u * COLUMNS; ++i) of_k[i] = vec4(0.0);
    for (uint key0 = 0u; key0 < keys_seen(query0, BLOCK); key0 += BLOCK) {
        multiply_rows(queries_of(head), query0, keys_of(kv_head), key0, x);
        multiply_rows(cotangents_of(head), query0, values_of(kv_head), key0, changes);
        weigh(head, query0, key0, x, changes);
        share_weights(changes);
        ADD_ROWS(of_k, keys_of(kv_head), key0, share)
    }
    Matrix to = head_of(by_q, strides.by_q, head, uvec2(queries, key_width));
    STORE_SUMS(of_k, to, query0, share, scale)
}

void differentiate_keys(uvec2 at_keys, uint key0, uint share) {
    vec4 x[4], changes[4];
    [[unroll]] for (uint i = 0u; i < 4u * COLUMNS; ++i) of_k[i] = of_v[i] = vec4(0.0);
    for (uint i = 0u; i < heads / kv_heads; ++i) {
        uvec2 head = uvec2(at_keys.x, at_keys.y * (heads / kv_heads) + i);
        for (uint query0 = first_query(key0, BLOCK); query0 < queries; query0 += BLOCK) {
            multiply_rows(keys_of(at_keys), key0, queries_of(head), query0, x);
            multiply_rows(values_of(at_keys), key0, cotangents_of(head), query0, changes);
            weigh(head, key0, query0, x, changes);
            share_weights(x);
            ADD_ROWS(of_v, cotangents_of(head), query0, share)
            share_weights(changes);
            ADD_ROWS(of_k, queries_of(head), query0, share)
        }
    }
    Matrix to_k = head_of(by_k, strides.by_k, at_keys, uvec2(keys, key_width));
    Matrix to_v = head_of(by_v, strides.by_v, at_keys, uvec2(keys, value_width));
    STORE_SUMS(of_k, to_k, key0, share, scale)
    STORE_SUMS(of_v, to_v, key0, share, 1.0)
}

// Shares of the features, each a workgroup's.
uint shares() {
    if (PASS == ROWS_PASS) return 1u;
    uint width = PASS == QUERIES_PASS ? key_width : max(key_width, value_width);
    return max(1u, (width + SHARE * 4u - 1u) / (SHARE * 4u));
}

void main() {
    if (MASK >= KEEP) mask_stride = strides.mask_key;
    uint blocks = ((PASS == KEYS_PASS ? keys : queries) + BLOCK - 1u) / BLOCK;
    uint each = batches * (PASS == KEYS_PASS ? kv_heads : heads) * shares();
    // The planner keeps the number of workgroups of work within 32 bits. What walks the most comes first.
    for (uint t = gl_WorkGroupID.x; t < blocks * each; t += gl_NumWorkGroups.x) {
        uint share = t % shares(), head = t % each / shares(), block = t / each;
        if (PASS == KEYS_PASS) {
            differentiate_keys(uvec2(head / kv_heads, head % kv_heads), block * BLOCK, share);
        } else {
            uvec2 of = uvec2(head / heads, head % heads), kv = uvec2(of.x, of.y / (heads / kv_heads));
            uint query0 = (blocks - 1u - block) * BLOCK;
            if (PASS == ROWS_PASS) find_rows(of, kv, query0);
            else differentiate_queries(of, kv, query0, share);
        }
    }
}
