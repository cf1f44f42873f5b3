#version 460
// Softmax attention of many queries on cooperative matrices, with an online softmax. A workgroup takes
// BLOCKS * FM queries of a head and walks a split of the keys, KEYS at a time, through shared memory. A
// subgroup has FM of the queries and, of each tile, one of TILE_SPLITS splits of the keys:
//   1. scores = queries . keys, float32 fragments;
//   2. they become weights against a running maximum (attention_weights.glsl);
//   3. sums += weights . values, and total += weights . ones.
// At the end the subgroups that have the same rows join theirs (attention_end.glsl). The next tile is
// loaded into registers meanwhile.
//
// A weight is the sum of two halves, so that rounding it does not show in the result; its
// total is made of the same two.
//
// Constants: 1 dtype, 2 flags, 3 blocks, 4 subgroup size, 5 keys, 6 splits of a tile, 7 features of a key,
// 8 of a value (multiples of 16), 9 mask kind, 10 to 12 fragment, 13 dtype of mask, sinks and result. HALF: 0
// float16, 1 bfloat16. Rows of q, k and v lie on multiples of 16 bytes. Float32 ones are float16 that was
// scaled (matmul/scaled_whole.comp).
#include "common.glsl"
#include "floats.glsl"
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require
#if HALF == 1
#extension GL_EXT_bfloat16 : require
#define half bfloat16_t
#else
#define half float16_t
#endif

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 9;
layout(constant_id = 2) const uint FLAGS = 0;
layout(constant_id = 3) const uint BLOCKS = 4;
layout(constant_id = 4) const uint SUBGROUP = 32;
layout(constant_id = 5) const uint KEYS = 64;
layout(constant_id = 6) const uint TILE_SPLITS = 1;
layout(constant_id = 7) const uint KEY_WIDTH = 128;
layout(constant_id = 8) const uint VALUE_WIDTH = 128;
layout(constant_id = 9) const uint MASK = 0;
layout(constant_id = 10) const uint FM = 16;
layout(constant_id = 11) const uint FN = 16;
layout(constant_id = 12) const uint FK = 16;
layout(constant_id = 13) const uint OUT_DTYPE = 9;
// Flags. [host]
const uint Q_SHARED_FLAG = 1, REGISTERS_FLAG = 2, SPLIT_FLAG = 4;
const bool Q_SHARED = (FLAGS & Q_SHARED_FLAG) != 0u;  // queries stay in shared memory instead of registers
// Weigh in registers where the elements of fragments lie as we know.
const bool REGISTERS = (FLAGS & REGISTERS_FLAG) != 0u;
const bool SPLIT = (FLAGS & SPLIT_FLAG) != 0u;     // store sums and maxima for the combining kernel
const bool SCALED = OUT_DTYPE == FLOAT32;
const bool FLOATS = SPLIT || SCALED; // results are float32
// Kinds of masks; 0 is none. [host]
const uint CAUSAL = 1, KEEP = 2, ADDITIVE = 3;

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

const uint THREADS = BLOCKS * TILE_SPLITS * SUBGROUP;
const uint ROWS = BLOCKS * FM;
const uint PART = KEYS / TILE_SPLITS; // keys of a tile that are a subgroup's
const uint VALUES = VALUE_WIDTH / FN, PARTS = PART / FN; // fragments
// Octets of halves; rows are one longer than their contents, against bank conflicts.
const uint K_VECTORS = KEY_WIDTH / 8u, K_PITCH = K_VECTORS + 1u, V_VECTORS = VALUE_WIDTH / 8u,
           V_PITCH = V_VECTORS + 1u;
const uint K_EACH = (KEYS * K_VECTORS + THREADS - 1u) / THREADS,
           V_EACH = (KEYS * V_VECTORS + THREADS - 1u) / THREADS;
const uint Q_EACH = (ROWS * K_VECTORS + THREADS - 1u) / THREADS;
// A subgroup's slot for FM x PART floats, where the keys are.
const uint SLOT_PITCH = PART / 4u + 1u, SLOT = FM * SLOT_PITCH, SLOTS_SIZE = SLOT * BLOCKS * TILE_SPLITS;
const uint K_SIZE = KEYS * K_PITCH > SLOTS_SIZE ? KEYS * K_PITCH : SLOTS_SIZE, V_SIZE = KEYS * V_PITCH,
           Q_SIZE = ROWS * K_PITCH;
// At the end: sums of all but the first of the subgroups that have the same rows; then results, in as
// many rounds as the space takes.
const uint OUT_PITCH = VALUE_WIDTH / 4u + 1u, OUT_SIZE = FM * OUT_PITCH,
           JOIN_SIZE = OUT_SIZE * BLOCKS * (TILE_SPLITS - 1u);
const uint TILES = K_SIZE + V_SIZE, Q_AT = Q_SHARED ? TILES : 0u;
const uint LOOP_SIZE = Q_SHARED ? TILES + Q_SIZE : TILES > Q_SIZE ? TILES : Q_SIZE;
const uint END_SIZE = JOIN_SIZE > OUT_SIZE ? JOIN_SIZE : OUT_SIZE,
           SHARED = LOOP_SIZE > END_SIZE ? LOOP_SIZE : END_SIZE;
const uint AT_ONCE = SHARED / OUT_SIZE, ROUNDS = (BLOCKS + AT_ONCE - 1u) / AT_ONCE;

shared uvec4 tile[SHARED];
shared float row_top[ROWS * TILE_SPLITS], row_fix[ROWS * TILE_SPLITS];

uvec4 next_k[K_EACH], next_v[V_EACH];
coopmat<half, gl_ScopeSubgroup, FM, FK, gl_MatrixUseA> query[Q_SHARED ? 1u : KEY_WIDTH / FK];
coopmat<float, gl_ScopeSubgroup, FM, FN, gl_MatrixUseAccumulator> scores[PARTS], sums[VALUES], total;
coopmat<half, gl_ScopeSubgroup, FM, FK, gl_MatrixUseA> high[PART / FK], low[PART / FK]; // the weights

// The workgroup's work: its head's first query and queries, where rows begin, in bytes how far they are apart
// (the planner keeps that small), and the last key that the first query sees.
uint first_query, count, q_stride, k_stride, v_stride, out_stride;
uint64_t q_from, k_from, v_from, out_from;
float sink; // of the head, in powers of two
vec3 factor; // what products of queries, keys and values have to be multiplied by
int first_limit;

uint block() { return gl_SubgroupID % BLOCKS; }
uint tile_split() { return gl_SubgroupID / BLOCKS; }
uint slot() { return gl_SubgroupID * SLOT; }
uint lane() { return gl_SubgroupInvocationID; }

// What the lanes of a subgroup wrote to shared memory is there for all of them.
void subgroup_sync() {
    controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
}

#include "attention_weights.glsl"

uvec4 next_q[Q_EACH];

// The vector of `rows` rows of so many vectors that is this thread's i-th: row and column. What is
// past the end is the last again.
uvec2 vector_at(uint i, uint rows, uint vectors) {
    uint lane_ = gl_LocalInvocationID.x;
    if (THREADS % vectors == 0u && rows % (THREADS / vectors) == 0u)
        return uvec2(i * (THREADS / vectors) + lane_ / vectors, lane_ % vectors);
    uint x = min(i * THREADS + lane_, rows * vectors - 1u);
    return uvec2(x / vectors, x % vectors);
}

// That vector in memory, of the last row instead of those past it. Nothing branches: a branch per load would
// wait for every load by itself.
uvec4 fetch_vector(uint64_t from, uint stride, uvec2 x, uint rows) {
    return V4(from + uint64_t(min(x.x, rows - 1u) * stride + x.y * 16u)).v[0];
}

void fetch_queries() {
    [[unroll]] for (uint i = 0u; i < Q_EACH; ++i)
        next_q[i] = fetch_vector(q_from, q_stride, vector_at(i, ROWS, K_VECTORS), count);
}

void load_queries() {
    [[unroll]] for (uint i = 0u; i < Q_EACH; ++i) {
        uvec2 x = vector_at(i, ROWS, K_VECTORS);
        tile[Q_AT + x.x * K_PITCH + x.y] = next_q[i];
    }
    if (Q_SHARED) return;
    barrier();
    [[unroll]] for (uint kk = 0u; kk < KEY_WIDTH / FK; ++kk)
        coopMatLoad(query[kk], tile, block() * FM * K_PITCH + kk * FK / 8u, K_PITCH,
            gl_CooperativeMatrixLayoutRowMajor);
    barrier();
}

// Asks for the tile of `rows` keys from `key0` on.
void fetch_tile(uint key0, uint rows) {
    uint64_t k_tile = k_from + uint64_t(key0) * uint64_t(k_stride),
             v_tile = v_from + uint64_t(key0) * uint64_t(v_stride);
    [[unroll]] for (uint i = 0u; i < K_EACH; ++i)
        next_k[i] = fetch_vector(k_tile, k_stride, vector_at(i, KEYS, K_VECTORS), rows);
    [[unroll]] for (uint i = 0u; i < V_EACH; ++i)
        next_v[i] = fetch_vector(v_tile, v_stride, vector_at(i, KEYS, V_VECTORS), rows);
}

// Keys past the end are not looked at; values there have the weight 0 and must be numbers.
void store_tile(uint rows) {
    if (rows < KEYS) {
        [[unroll]] for (uint i = 0u; i < V_EACH; ++i)
            if (vector_at(i, KEYS, V_VECTORS).x >= rows) next_v[i] = uvec4(0u);
    }
    [[unroll]] for (uint i = 0u; i < K_EACH; ++i) {
        uvec2 x = vector_at(i, KEYS, K_VECTORS);
        tile[x.x * K_PITCH + x.y] = next_k[i];
    }
    [[unroll]] for (uint i = 0u; i < V_EACH; ++i) {
        uvec2 x = vector_at(i, KEYS, V_VECTORS);
        tile[K_SIZE + x.x * V_PITCH + x.y] = next_v[i];
    }
}

void multiply_keys() {
    [[unroll]] for (uint f = 0u; f < PARTS; ++f)
        scores[f] = coopmat<float, gl_ScopeSubgroup, FM, FN, gl_MatrixUseAccumulator>(0.0);
    [[unroll]] for (uint kk = 0u; kk < KEY_WIDTH / FK; ++kk) {
        if (Q_SHARED)
            coopMatLoad(query[0], tile, Q_AT + block() * FM * K_PITCH + kk * FK / 8u, K_PITCH,
                gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint f = 0u; f < PARTS; ++f) {
            coopmat<half, gl_ScopeSubgroup, FK, FN, gl_MatrixUseB> y;
            coopMatLoad(y, tile, (tile_split() * PART + f * FN) * K_PITCH + kk * FK / 8u, K_PITCH,
                gl_CooperativeMatrixLayoutColumnMajor);
            scores[f] = coopMatMulAdd(query[Q_SHARED ? 0u : kk], y, scores[f]);
        }
    }
    if (SCALED) {
        [[unroll]] for (uint f = 0u; f < PARTS; ++f)
            scores[f] = scores[f] * min(factor.x, factor.y) * max(factor.x, factor.y);
    }
}

void add_values() {
    coopmat<half, gl_ScopeSubgroup, FK, FN, gl_MatrixUseB> y =
        coopmat<half, gl_ScopeSubgroup, FK, FN, gl_MatrixUseB>(half(1.0));
    [[unroll]] for (uint kk = 0u; kk < PART / FK; ++kk)
        total = coopMatMulAdd(low[kk], y, coopMatMulAdd(high[kk], y, total));
    [[unroll]] for (uint kk = 0u; kk < PART / FK; ++kk) {
        [[unroll]] for (uint j = 0u; j < VALUES; ++j) {
            coopMatLoad(y, tile, K_SIZE + (tile_split() * PART + kk * FK) * V_PITCH + j * FN / 8u, V_PITCH,
                gl_CooperativeMatrixLayoutRowMajor);
            sums[j] = coopMatMulAdd(low[kk], y, coopMatMulAdd(high[kk], y, sums[j]));
        }
    }
}

// The tile in shared memory, whose keys are key0 and so on, those before key1.
void use_tile(uint key0, uint key1, bool known) {
    multiply_keys();
    // Of the tiles before its last key, the first query sees every key.
    bool masked = MASK >= KEEP || key0 + KEYS > key1
        || (MASK == CAUSAL && int(key0 + KEYS) > first_limit + 1);
    if (known) weigh_registers(key0 + tile_split() * PART, key1, masked);
    else weigh_shared(key0 + tile_split() * PART, key1, masked);
    add_values();
}

#include "attention_end.glsl"

void walk_keys(uint key0, uint key1, bool known) {
    fetch_queries();
    if (key0 >= key1) return;
    fetch_tile(key0, min(KEYS, key1 - key0));
    load_queries();
    store_tile(key1 - key0);
    barrier();
    for (; key0 < key1; key0 += KEYS) {
        // The last tile once more, behind the last: a branch would let the compiler move
        // the loads to where they are used.
        uint next = key0 + KEYS < key1 ? key0 + KEYS : key0;
        fetch_tile(next, min(KEYS, key1 - next));
        use_tile(key0, key1, known);
        barrier();
        store_tile(key1 - next);
        barrier();
    }
}

void attend(uint batch, uint head, uint split, bool known) {
    uint kv_head = head / (heads / kv_heads);
    uint each = ((keys + splits - 1u) / splits + KEYS - 1u) / KEYS * KEYS;
    uint key0 = min(keys, split * each), key1 = min(keys, key0 + each);
    if (MASK == CAUSAL && queries <= keys) // skip keys that no query of this workgroup sees
        key1 = uint(clamp(first_limit + int(count), int(key0), int(key1)));
    q_from = at(DTYPE, q,
        int64_t(batch) * strides.q_batch + int64_t(head) * strides.q_head
            + int64_t(first_query) * strides.q_row);
    k_from = at(DTYPE, k, int64_t(batch) * strides.k_batch + int64_t(kv_head) * strides.k_head);
    v_from = at(DTYPE, v, int64_t(batch) * strides.v_batch + int64_t(kv_head) * strides.v_head);
    uint64_t row0 = (uint64_t(split) * uint64_t(batches) + uint64_t(batch)) * uint64_t(heads)
        + uint64_t(head);
    row0 = row0 * uint64_t(queries) + uint64_t(first_query);
    if (SPLIT) out_from = result + row0 * uint64_t(VALUE_WIDTH * 4u);
    else
        out_from = at(OUT_DTYPE, result,
            int64_t(batch) * strides.out_batch + int64_t(head) * strides.out_head
                + int64_t(first_query) * strides.out_row);
    if (sinks != 0ul) sink = fetch(OUT_DTYPE, at(OUT_DTYPE, sinks, int64_t(head))) * LOG2E;
    begin_rows(batch, head);
    walk_keys(key0, key1, known);
    finish(row0, known);
}

void all_work(bool known) {
    uint blocks = (queries + ROWS - 1u) / ROWS, all_heads = batches * heads;
    // The planner keeps the number of workgroups of work within 32 bits. Queries
    // that see the most keys come first.
    uint all = all_heads * blocks * splits;
    for (uint t = gl_WorkGroupID.x; t < all; t += gl_NumWorkGroups.x) {
        uint rest = t / splits, head = rest % all_heads;
        first_query = (blocks - 1u - rest / all_heads) * ROWS;
        count = min(ROWS, queries - first_query);
        first_limit = int(first_query) + int(keys) - int(queries);
        attend(head / heads, head % heads, t % splits, known);
    }
}

void main() {
    q_stride = uint(strides.q_row) * 2u;
    k_stride = uint(strides.k_row) * 2u;
    v_stride = uint(strides.v_row) * 2u;
    out_stride = SPLIT ? VALUE_WIDTH * 4u : uint(strides.out_row) << float_shift(OUT_DTYPE);
    if (SCALED) factor = vec3(AT_F32(factors, 0u), AT_F32(factors, 1u), AT_F32(factors, 2u));
    if (REGISTERS && elements_are_known()) all_work(true);
    else all_work(false);
}
