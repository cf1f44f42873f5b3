#version 460
// Softmax attention with an online softmax. A workgroup takes ROWS query rows that share a key/value head
// (several heads of a group, several queries) and walks a split of the keys, KEYS at a time:
//   1. PARTS threads per key make its dot products with every row;
//   2. a subgroup per row (a thread without subgroup arithmetic) turns them into weights
//      against a running maximum;
//   3. threads across the value's columns (TILE_SPLITS of them per column, each a split of the
//      keys of a tile) add the weighted values.
// Constants: 1 dtype, 2 flags, 3 rows, 4 subgroup size, 5 keys, 6 threads per key, 7 quads of a key, 8 quads
// of a value, 9 mask kind. VARIANT: team.glsl.
#include "common.glsl"
#include "floats.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const uint FLAGS = 0;
layout(constant_id = 3) const uint ROWS = 1;
layout(constant_id = 4) const uint SUBGROUP = 32;
layout(constant_id = 5) const uint KEYS = 32;
layout(constant_id = 6) const uint PARTS = 4;
layout(constant_id = 7) const uint KEY_QUADS = 16;
layout(constant_id = 8) const uint VALUE_QUADS = 16;
layout(constant_id = 9) const uint MASK = 0;
// Flags. [host]
const uint K_VECTOR_FLAG = 1, V_VECTOR_FLAG = 2, SPLIT_FLAG = 4;
// Queries and keys are aligned quads, and so many as KEY_QUADS says.
const bool K_VECTOR = (FLAGS & K_VECTOR_FLAG) != 0u;
const bool V_VECTOR = (FLAGS & V_VECTOR_FLAG) != 0u;
const bool SPLIT = (FLAGS & SPLIT_FLAG) != 0u;    // store sums and maxima for the combining kernel
// Kinds of masks; 0 is none. [host]
const uint CAUSAL = 1, KEEP = 2, ADDITIVE = 3;

#if VARIANT == 1
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#define SYNC() { if (gl_WorkGroupSize.x <= SUBGROUP) subgroupBarrier(); else barrier(); }
#else
#define SYNC() barrier()
#endif

layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Strides {
    int64_t q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row;
    int64_t mask_batch, mask_head, mask_row, mask_key, out_batch, out_head, out_row;
};

layout(push_constant, scalar) uniform Push {
    uint64_t q, k, v, mask, result, maxima; // maxima: with SPLIT, (maximum, sum) of every row of every split
    Strides strides;
    uint64_t sinks;                          // of the heads, or 0; with SPLIT they are the combining kernel's
    uint64_t factors; // matrix.comp: of float32 queries, keys and values
    uint batches, heads, kv_heads, queries, keys, key_width, value_width, splits;
    float scale;
};

const float LOWEST = -3.402823466e38;
const uint THREADS = gl_WorkGroupSize.x;
const uint ACROSS = VALUE_QUADS < THREADS ? VALUE_QUADS : THREADS; // threads across a value
const uint TILE_SPLITS = THREADS / ACROSS;                // threads per column of values
const uint COLUMNS = (VALUE_QUADS + ACROSS - 1u) / ACROSS; // quads of a thread

shared vec4 tile_q[ROWS * KEY_QUADS];
shared float dots[ROWS * KEYS * PARTS];
shared float row_max[ROWS], row_sum[ROWS], row_fix[ROWS];
shared vec4 gathered[THREADS];

vec4 sums[ROWS * COLUMNS];

// Row r of the group: head and query.
uvec2 head_query(uint kv_head, uint r) {
    uint group = heads / kv_heads;
    return uvec2(kv_head * group + r / queries, r % queries);
}

vec4 key_quad(uint64_t row, uint quad) {
    uint64_t from = row + (uint64_t(quad * 4u) << float_shift(DTYPE));
    return K_VECTOR ? fetch4(DTYPE, true, from)
                    : fetch4_tail(DTYPE, false, from, int(key_width) - int(quad * 4u));
}

void load_queries(uint batch, uint kv_head, uint first, uint count) {
    for (uint i = gl_LocalInvocationID.x; i < ROWS * KEY_QUADS; i += THREADS) {
        uvec2 hq = head_query(kv_head, first + min(i / KEY_QUADS, count - 1u));
        int64_t from = int64_t(batch) * strides.q_batch + int64_t(hq.x) * strides.q_head
            + int64_t(hq.y) * strides.q_row;
        tile_q[i] = key_quad(at(DTYPE, q, from), i % KEY_QUADS) * scale;
    }
    for (uint i = gl_LocalInvocationID.x; i < ROWS; i += THREADS) {
        row_max[i] = LOWEST;
        row_sum[i] = 0.0;
    }
    [[unroll]] for (uint i = 0u; i < ROWS * COLUMNS; ++i) sums[i] = vec4(0.0);
}

void dot_products(uint64_t head, uint key0, uint key1) {
    uint part = gl_LocalInvocationID.x % PARTS;
    for (uint j = gl_LocalInvocationID.x / PARTS; j < KEYS; j += THREADS / PARTS) {
        uint64_t row = at(DTYPE, head, int64_t(min(key0 + j, key1 - 1u)) * strides.k_row);
        float d[ROWS];
        [[unroll]] for (uint r = 0u; r < ROWS; ++r) d[r] = 0.0;
        for (uint i = part; i < KEY_QUADS; i += PARTS) {
            vec4 y = key_quad(row, i);
            [[unroll]] for (uint r = 0u; r < ROWS; ++r) d[r] = dot_add(tile_q[r * KEY_QUADS + i], y, d[r]);
        }
        [[unroll]] for (uint r = 0u; r < ROWS; ++r) dots[(r * KEYS + j) * PARTS + part] = d[r];
    }
}

// What a hidden key scores: the most negative number of the dtype, as in MLX, so that a
// row that sees nothing averages.
float hidden() {
    return DTYPE == FLOAT16 ? -65504.0 : DTYPE == BFLOAT16 ? uintBitsToFloat(0xff7f0000u) : LOWEST;
}

// The masked score of a row and a key; -inf past the end.
float score(uint batch, uvec2 hq, uint r, uint j, uint key, uint key1) {
    if (key >= key1) return uintBitsToFloat(0xff800000u);
    float s = 0.0;
    [[unroll]] for (uint p = 0u; p < PARTS; ++p) s += dots[(r * KEYS + j) * PARTS + p];
    if (MASK == CAUSAL && int(key) > int(hq.y) + int(keys) - int(queries)) return hidden();
    if (MASK >= KEEP) {
        int64_t from = int64_t(batch) * strides.mask_batch + int64_t(hq.x) * strides.mask_head
            + int64_t(hq.y) * strides.mask_row + int64_t(key) * strides.mask_key;
        if (MASK == KEEP) { if (uint(AT_U8(mask, from)) == 0u) return hidden(); }
        else s += fetch(DTYPE, at(DTYPE, mask, from));
    }
    return s;
}

// Weights of a row's keys, left in dots[(r * KEYS + j) * PARTS]. Maxima are finite: a row of -inf alone has
// weights 0, and becomes NaN.
void weigh(uint batch, uint kv_head, uint row, uint r, uint key0, uint key1) {
    uvec2 hq = head_query(kv_head, row);
    float old = row_max[r], top = old, sum = 0.0;
#if VARIANT == 1
    uint lane = gl_SubgroupInvocationID, lanes = SUBGROUP;
#else
    uint lane = 0u, lanes = 1u;
#endif
    for (uint j = lane; j < KEYS; j += lanes) {
        float s = score(batch, hq, r, j, key0 + j, key1);
        dots[(r * KEYS + j) * PARTS] = s;
        top = max(top, s);
    }
#if VARIANT == 1
    top = subgroupMax(top);
#endif
    for (uint j = lane; j < KEYS; j += lanes) {
        float s = dots[(r * KEYS + j) * PARTS];
        float weight = s < LOWEST ? 0.0 : exp(s - top);
        dots[(r * KEYS + j) * PARTS] = weight;
        sum += weight;
    }
#if VARIANT == 1
    sum = subgroupAdd(sum);
    if (gl_SubgroupInvocationID != 0u) return;
#endif
    float fix = exp(old - top);
    row_fix[r] = fix;
    row_max[r] = top;
    row_sum[r] = row_sum[r] * fix + sum;
}

void weigh_all(uint batch, uint kv_head, uint first, uint count, uint key0, uint key1) {
#if VARIANT == 1
    for (uint r = gl_SubgroupID; r < ROWS; r += gl_WorkGroupSize.x / SUBGROUP)
#else
    for (uint r = gl_LocalInvocationID.x; r < ROWS; r += THREADS)
#endif
        weigh(batch, kv_head, first + min(r, count - 1u), r, key0, key1);
}

vec4 value_quad(uint64_t row, uint quad) {
    uint64_t from = row + (uint64_t(quad * 4u) << float_shift(DTYPE));
    return V_VECTOR ? fetch4(DTYPE, true, from)
                    : fetch4_tail(DTYPE, false, from, int(value_width) - int(quad * 4u));
}

void add_values(uint64_t head, uint key0, uint key1) {
    uint tile_split = gl_LocalInvocationID.x / ACROSS, column = gl_LocalInvocationID.x % ACROSS;
    [[unroll]] for (uint i = 0u; i < ROWS * COLUMNS; ++i) sums[i] *= row_fix[i / COLUMNS];
    if (tile_split >= TILE_SPLITS) return;
    uint count = min(KEYS, key1 - key0);
    for (uint j = tile_split; j < count; j += TILE_SPLITS) {
        uint64_t row = at(DTYPE, head, int64_t(key0 + j) * strides.v_row);
        [[unroll]] for (uint c = 0u; c < COLUMNS; ++c) {
            if (column + c * ACROSS >= VALUE_QUADS) continue;
            vec4 y = value_quad(row, column + c * ACROSS);
            [[unroll]] for (uint r = 0u; r < ROWS; ++r)
                sums[r * COLUMNS + c] = fma(vec4(dots[(r * KEYS + j) * PARTS]), y, sums[r * COLUMNS + c]);
        }
    }
}

void store_quad(uint batch, uint split, uvec2 hq, uint quad, vec4 y, float sum) {
    uint left = value_width - quad * 4u;
    if (SPLIT) {
        uint64_t row = (uint64_t(batch) * uint64_t(heads) + uint64_t(hq.x)) * uint64_t(queries)
            + uint64_t(hq.y);
        uint64_t all = uint64_t(batches) * uint64_t(heads) * uint64_t(queries);
        uint64_t to = (uint64_t(split) * all + row) * uint64_t(value_width) + uint64_t(quad * 4u);
        [[unroll]] for (uint e = 0u; e < 4u; ++e) if (e < left) AT_F32(result, to + uint64_t(e)) = y[e];
        return;
    }
    y = sum > 0.0 ? y / sum : vec4(uintBitsToFloat(0x7fc00000u));
    int64_t to = int64_t(batch) * strides.out_batch + int64_t(hq.x) * strides.out_head
        + int64_t(hq.y) * strides.out_row + int64_t(quad * 4u);
    if (V_VECTOR) store_float4(DTYPE, result, uint64_t(to) / 4ul, y);
    else [[unroll]] for (uint e = 0u; e < 4u; ++e)
        if (e < left) store_float(DTYPE, result, to + int64_t(e), y[e]);
}

void finish(uint batch, uint kv_head, uint split, uint first, uint count) {
    uint lane = gl_LocalInvocationID.x, tile_split = lane / ACROSS, column = lane % ACROSS;
    for (uint r = 0u; r < count; ++r) {
        uvec2 hq = head_query(kv_head, first + r);
        float sum = row_sum[r];
        if (!SPLIT && sinks != 0ul) sum += exp(fetch(DTYPE, at(DTYPE, sinks, int64_t(hq.x))) - row_max[r]);
        [[unroll]] for (uint c = 0u; c < COLUMNS; ++c) {
            vec4 y = sums[c];
            [[unroll]] for (uint i = 1u; i < ROWS; ++i) if (r == i) y = sums[i * COLUMNS + c];
            if (TILE_SPLITS > 1u) {
                gathered[lane] = y;
                SYNC();
                if (tile_split == 0u)
                    for (uint s = 1u; s < TILE_SPLITS; ++s) y += gathered[s * ACROSS + column];
                SYNC();
            }
            uint quad = column + c * ACROSS;
            if (tile_split == 0u && quad < VALUE_QUADS) store_quad(batch, split, hq, quad, y, sum);
        }
        if (SPLIT && lane == 0u) {
            uint64_t row = (uint64_t(batch) * uint64_t(heads) + uint64_t(hq.x)) * uint64_t(queries)
                + uint64_t(hq.y);
            uint64_t all = uint64_t(batches) * uint64_t(heads) * uint64_t(queries);
            AT_F2(maxima, uint64_t(split) * all + row) = vec2(row_max[r], row_sum[r]);
        }
    }
}

void attend(uint batch, uint kv_head, uint first, uint split) {
    uint count = min(ROWS, heads / kv_heads * queries - first);
    uint each = ((keys + splits - 1u) / splits + KEYS - 1u) / KEYS * KEYS;
    uint key0 = min(keys, split * each), key1 = min(keys, key0 + each);
    if (MASK == CAUSAL && queries <= keys) { // skip keys that no row of this workgroup sees
        uint last = first % queries + count - 1u;
        int seen = int(min(last, queries - 1u)) + int(keys) - int(queries) + 1;
        key1 = uint(clamp(seen, int(key0), int(key1)));
    }
    load_queries(batch, kv_head, first, count);
    SYNC();
    uint64_t k_head = at(DTYPE, k, int64_t(batch) * strides.k_batch + int64_t(kv_head) * strides.k_head);
    uint64_t v_head = at(DTYPE, v, int64_t(batch) * strides.v_batch + int64_t(kv_head) * strides.v_head);
    for (; key0 < key1; key0 += KEYS) {
        dot_products(k_head, key0, key1);
        SYNC();
        weigh_all(batch, kv_head, first, count, key0, key1);
        SYNC();
        add_values(v_head, key0, key1);
        SYNC();
    }
    finish(batch, kv_head, split, first, count);
    SYNC();
}

void main() {
    uint blocks = (heads / kv_heads * queries + ROWS - 1u) / ROWS;
    // The planner keeps the number of workgroups of work within 32 bits.
    uint all = batches * kv_heads * blocks * splits;
    for (uint t = gl_WorkGroupID.x; t < all; t += gl_NumWorkGroups.x) {
        uint rest = t / splits, head = rest / blocks;
        attend(head / kv_heads, head % kv_heads, (rest % blocks) * ROWS, t % splits);
    }
}
