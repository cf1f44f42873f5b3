#version 460
// Derivatives of softmax attention on cooperative matrices, by the passes of attention/vjp.comp. A workgroup
// keeps BLOCKS * 16 rows, of queries or of keys, 16 of them a subgroup's, and walks those of the others,
// WALKED at a time, through shared memory:
//   1. scores = kept . walked, by keys and queries; upward the same by values and cotangents; in float32;
//   2. they become weights and changes of scores, and operands where they are;
//   3. sums += changes . walked; of values += weights . cotangents.
// The next rows are loaded into registers meanwhile.
//
// Weights and changes of scores are rounded to halves once.
//
// Constants: 1 dtype, 2 flags, 3 pass, 4 blocks, 5 subgroup size, 6 rows at a time, 7 features of a key, 8 of
// a value (multiples of 16), 9 mask kind, 10 dtype of mask, result and derivatives. HALF: 0 float16, 1
// bfloat16. Rows lie on multiples of 16 bytes. Float32 queries, keys, values and cotangents are float16 that
// was scaled (matmul/scaled_whole.comp).
#include "common.glsl"
#include "floats.glsl"
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_ballot : require
#if HALF == 1
#extension GL_EXT_bfloat16 : require
#define half bfloat16_t
#else
#define half float16_t
#endif

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 9;
layout(constant_id = 2) const uint FLAGS = 0;
layout(constant_id = 3) const uint PASS = 0;
layout(constant_id = 4) const uint BLOCKS = 4;
layout(constant_id = 5) const uint SUBGROUP = 32;
layout(constant_id = 6) const uint WALKED = 32;
layout(constant_id = 7) const uint KEY_WIDTH = 128;
layout(constant_id = 8) const uint VALUE_WIDTH = 128;
layout(constant_id = 9) const uint MASK = 0;
layout(constant_id = 10) const uint OUT_DTYPE = 9;
// Flags: the next rows are asked for while these are multiplied; sums become operands in registers where the
// elements of fragments lie as we know. [host]
const uint PREFETCH_FLAG = 1, REGISTERS_FLAG = 2;
const bool PREFETCH = (FLAGS & PREFETCH_FLAG) != 0u;
const bool REGISTERS = (FLAGS & REGISTERS_FLAG) != 0u;

const bool SCALED = OUT_DTYPE == FLOAT32;
// Products of scaled values and cotangents are below 2^38, and so is what scores change by, which becomes a
// half. Weights of many keys would be subnormal.
const float CHANGE_SCALE = 1.0 / 8388608.0, WEIGHT_SCALE = SCALED ? 16384.0 : 1.0; // 2^-23, 2^14

#include "attention_derivatives.glsl"

const uint FM = 16u, FN = 16u, FK = 16u;
#define SUMS coopmat<float, gl_ScopeSubgroup, FM, FN, gl_MatrixUseAccumulator>
#define LEFT coopmat<half, gl_ScopeSubgroup, FM, FK, gl_MatrixUseA>
#define RIGHT coopmat<half, gl_ScopeSubgroup, FK, FN, gl_MatrixUseB>
#define ROW_MAJOR gl_CooperativeMatrixLayoutRowMajor
#define COLUMN_MAJOR gl_CooperativeMatrixLayoutColumnMajor

const bool BY_KEYS = PASS == KEYS_PASS, ALL = PASS != ROWS_PASS;
const uint THREADS = BLOCKS * SUBGROUP, ROWS = BLOCKS * FM, PARTS = WALKED / FN;
// Fragments of a row: of x, which are queries or keys, and of y, which are cotangents or values.
const uint X_PARTS = KEY_WIDTH / FK, Y_PARTS = ALL ? VALUE_WIDTH / FK : 1u;
const uint X_SUMS = ALL ? X_PARTS : 1u, Y_SUMS = BY_KEYS ? Y_PARTS : 1u, Y_SCORES = ALL ? PARTS : 1u;
// Octets of halves; rows are one longer than their contents, against bank conflicts.
const uint X_VECTORS = KEY_WIDTH / 8u, X_PITCH = X_VECTORS + 1u, Y_VECTORS = VALUE_WIDTH / 8u,
           Y_PITCH = Y_VECTORS + 1u;
const uint X_EACH = (WALKED * X_VECTORS + THREADS - 1u) / THREADS,
           Y_EACH = ALL ? (WALKED * Y_VECTORS + THREADS - 1u) / THREADS : 1u;
const uint X_SIZE = WALKED * X_PITCH, Y_SIZE = ALL ? WALKED * Y_PITCH : 0u;
const uint KEPT_SIZE = ROWS * (X_PITCH > Y_PITCH ? X_PITCH : Y_PITCH);
// A fragment of sums; a subgroup's slot for those that become operands, where elements lie as we do not know;
// at the end maxima and totals.
const uint FRAGMENT = FM * FN / 4u, SLOT = PARTS * FRAGMENT, SLOTS = ALL ? BLOCKS * SLOT : 0u,
           END_SIZE = BLOCKS * 2u * FRAGMENT;
const uint LOOP_SIZE = X_SIZE + Y_SIZE + SLOTS, LARGER = LOOP_SIZE > KEPT_SIZE ? LOOP_SIZE : KEPT_SIZE,
           SHARED = LARGER > END_SIZE ? LARGER : END_SIZE;

shared uvec4 tile[SHARED];
// What is kept of queries: of all rows, or of those that are walked.
shared vec4 row_of[BY_KEYS ? WALKED : ROWS];

LEFT kept_x[X_PARTS], kept_y[Y_PARTS], weights[PARTS], changes[PARTS];
SUMS scores[PARTS], upward[Y_SCORES], of_x[X_SUMS], of_y[Y_SUMS], tops, totals, rows_in, columns_in;
uvec4 next_x[X_EACH], next_y[Y_EACH];
vec4 next_row;

// The workgroup's work: its head of queries (one after the other, where keys are kept), its first row and how
// many there are; where rows begin that are walked and, in bytes, how far they are apart.
uvec2 head;
uint kept0, count, x_stride, y_stride;
uint64_t x_from, y_from;
vec4 factor; // what products of queries, keys, values and cotangents have to be multiplied by

uint block() { return gl_SubgroupID; }
uint lane() { return gl_SubgroupInvocationID; }
uint slot() { return X_SIZE + Y_SIZE + block() * SLOT; }

// What the lanes of a subgroup wrote to shared memory is there for all of them.
void subgroup_sync() {
    controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
}

#include "attention_fragments.glsl"

// Row and column of an element of this lane.
uint row_in(uint i, bool known) { return known ? known_row(i) : uint(rows_in[i]); }
uint column_in(uint i, bool known) { return known ? known_column(i) : uint(columns_in[i]); }

// Finds out where elements lie.
void number_elements() {
    for (uint i = gl_LocalInvocationID.x; i < 2u * FM * FN; i += THREADS)
        tile[i / 4u][i % 4u] = floatBitsToUint(float(i < FM * FN ? i / FN : i % FN));
    barrier();
    coopMatLoad(rows_in, tile, 0u, FN / 4u, ROW_MAJOR);
    coopMatLoad(columns_in, tile, FM * FN / 4u, FN / 4u, ROW_MAJOR);
    barrier();
}

// A float as a half has it, rounded to nearest: a driver may cut off what is converted.
half rounded(float x) {
    if (DTYPE == FLOAT16) return half(x);
    return half(uintBitsToFloat(floatBitsToUint(x) + 0x8000u & 0xffff0000u));
}

// The vector of `size` rows of so many vectors that is this thread's i-th: row and column. What is past the
// end is the last again.
uvec2 vector_at(uint i, uint size, uint vectors) {
    uint thread = gl_LocalInvocationID.x;
    if (THREADS % vectors == 0u && size % (THREADS / vectors) == 0u)
        return uvec2(i * (THREADS / vectors) + thread / vectors, thread % vectors);
    uint x = min(i * THREADS + thread, size * vectors - 1u);
    return uvec2(x / vectors, x % vectors);
}

// That vector in memory, of the last row instead of those past it.
uvec4 fetch_vector(uint64_t from, uint stride, uvec2 x, uint size) {
    return V4(from + uint64_t(min(x.x, size - 1u)) * uint64_t(stride) + uint64_t(x.y * 16u)).v[0];
}

uint64_t head_row_at(uint dtype, uint64_t base, int64_t strides_[3], uvec2 which, uint row) {
    return at(dtype, base,
        int64_t(which.x) * strides_[0] + int64_t(which.y) * strides_[1] + int64_t(row) * strides_[2]);
}

uint64_t head_at(uint64_t base, int64_t strides_[3], uvec2 which, uint row) {
    return head_row_at(DTYPE, base, strides_, which, row);
}

uint64_t store_at(uint64_t base, int64_t strides_[3], uvec2 which) {
    return head_row_at(OUT_DTYPE, base, strides_, which, kept0 + block() * FM);
}

#define KEEP_ROWS(kept, parts, from, stride, vectors, pitch) \
    barrier(); \
    for (uint i = gl_LocalInvocationID.x; i < ROWS * vectors; i += THREADS) \
        tile[i / vectors * pitch + i % vectors] = \
            fetch_vector(from, stride, uvec2(i / vectors, i % vectors), count); \
    barrier(); \
    [[unroll]] for (uint kk = 0u; kk < parts; ++kk) \
        coopMatLoad(kept[kk], tile, block() * FM * pitch + kk * FK / 8u, pitch, ROW_MAJOR);

// The rows that stay.
void keep_rows(uvec2 kv_head) {
    uint64_t x = BY_KEYS ? head_at(k, strides.k, kv_head, kept0) : head_at(q, strides.q, head, kept0);
    uint x_apart = uint(BY_KEYS ? strides.k[2] : strides.q[2]) * 2u;
    KEEP_ROWS(kept_x, X_PARTS, x, x_apart, X_VECTORS, X_PITCH)
    if (ALL) {
        uint64_t y = BY_KEYS ? head_at(v, strides.v, kv_head, kept0)
                             : head_at(cotangent, strides.cotangent, head, kept0);
        uint y_apart = uint(BY_KEYS ? strides.v[2] : strides.cotangent[2]) * 2u;
        KEEP_ROWS(kept_y, Y_PARTS, y, y_apart, Y_VECTORS, Y_PITCH)
    }
    if (PASS == QUERIES_PASS)
        for (uint i = gl_LocalInvocationID.x; i < ROWS; i += THREADS)
            row_of[i] = F4(row_at(head, kept0 + i)).v[0];
    barrier();
}

// Where rows of this head are that are walked.
void walk_head(uvec2 kv_head) {
    x_from = BY_KEYS ? head_at(q, strides.q, head, 0u) : head_at(k, strides.k, kv_head, 0u);
    y_from = BY_KEYS ? head_at(cotangent, strides.cotangent, head, 0u) : head_at(v, strides.v, kv_head, 0u);
}

// Asks for rows from `walked0` on, the last of which is before `walked1`.
void fetch_tile(uint walked0, uint walked1) {
    uint size = walked1 - walked0;
    uint64_t x = x_from + uint64_t(walked0) * uint64_t(x_stride),
             y = y_from + uint64_t(walked0) * uint64_t(y_stride);
    [[unroll]] for (uint i = 0u; i < X_EACH; ++i)
        next_x[i] = fetch_vector(x, x_stride, vector_at(i, WALKED, X_VECTORS), size);
    if (ALL) {
        [[unroll]] for (uint i = 0u; i < Y_EACH; ++i)
            next_y[i] = fetch_vector(y, y_stride, vector_at(i, WALKED, Y_VECTORS), size);
    }
    if (BY_KEYS) next_row = F4(row_at(head, walked0 + min(gl_LocalInvocationID.x, WALKED - 1u))).v[0];
}

void store_tile() {
    [[unroll]] for (uint i = 0u; i < X_EACH; ++i) {
        uvec2 x = vector_at(i, WALKED, X_VECTORS);
        tile[x.x * X_PITCH + x.y] = next_x[i];
    }
    if (ALL) {
        [[unroll]] for (uint i = 0u; i < Y_EACH; ++i) {
            uvec2 x = vector_at(i, WALKED, Y_VECTORS);
            tile[X_SIZE + x.x * Y_PITCH + x.y] = next_y[i];
        }
    }
    if (BY_KEYS && gl_LocalInvocationID.x < WALKED) row_of[gl_LocalInvocationID.x] = next_row;
}

void multiply_rows() {
    RIGHT z;
    [[unroll]] for (uint f = 0u; f < PARTS; ++f) scores[f] = SUMS(0.0);
    [[unroll]] for (uint kk = 0u; kk < X_PARTS; ++kk) {
        [[unroll]] for (uint f = 0u; f < PARTS; ++f) {
            coopMatLoad(z, tile, f * FN * X_PITCH + kk * FK / 8u, X_PITCH, COLUMN_MAJOR);
            scores[f] = coopMatMulAdd(kept_x[kk], z, scores[f]);
        }
    }
    if (SCALED) {
        [[unroll]] for (uint f = 0u; f < PARTS; ++f)
            scores[f] = scores[f] * min(factor.x, factor.y) * max(factor.x, factor.y);
    }
    if (!ALL) return;
    [[unroll]] for (uint f = 0u; f < PARTS; ++f) upward[f] = SUMS(0.0);
    [[unroll]] for (uint kk = 0u; kk < Y_PARTS; ++kk) {
        [[unroll]] for (uint f = 0u; f < PARTS; ++f) {
            coopMatLoad(z, tile, X_SIZE + f * FN * Y_PITCH + kk * FK / 8u, Y_PITCH, COLUMN_MAJOR);
            upward[f] = coopMatMulAdd(kept_y[kk], z, upward[f]);
        }
    }
    if (SCALED) {
        [[unroll]] for (uint f = 0u; f < PARTS; ++f) upward[f] = upward[f] * CHANGE_SCALE;
    }
}

// Query and key of an element.
uvec2 place_of(uint f, uint i, uint walked0, bool known) {
    uint of_kept = kept0 + block() * FM + row_in(i, known),
         of_walked = walked0 + f * FN + column_in(i, known);
    return BY_KEYS ? uvec2(of_walked, of_kept) : uvec2(of_kept, of_walked);
}

float score_of(float x, uvec2 place) {
    return masked_score(x, place.y, keys, limit_of(place.x), mask_row_of(head, place.x));
}

// Scores become weights, and what comes from above becomes their changes.
void weigh(uint walked0, bool masked, bool known) {
    [[unroll]] for (uint f = 0u; f < PARTS; ++f) {
        [[unroll]] for (uint i = 0u; i < scores[f].length(); ++i) {
            vec4 row = row_of[BY_KEYS ? f * FN + column_in(i, known) : block() * FM + row_in(i, known)];
            vec2 y;
            if (masked) {
                uvec2 place = place_of(f, i, walked0, known);
                y = weight_and_change(score_of(scores[f][i], place), upward[f][i], row, place.x < queries);
            } else {
                y.x = exp2(fma(scores[f][i], scale * LOG2E, row.w));
                y.y = y.x * (upward[f][i] - row.z);
            }
            if (known) {
                if (BY_KEYS) weights[f][i] = rounded(y.x * WEIGHT_SCALE);
                changes[f][i] = rounded(y.y);
            } else {
                scores[f][i] = y.x * WEIGHT_SCALE;
                upward[f][i] = y.y;
            }
        }
    }
}

// Sums become operands in shared memory, where a lane has a few pairs of them. Loops over fragments have no
// barriers in them: that would put all fragments into memory.
const uint PAIRS = (PARTS * FM * FN / 2u + SUBGROUP - 1u) / SUBGROUP;

void pack_slot() {
    uint packed[PAIRS];
    subgroup_sync();
    [[unroll]] for (uint i = 0u; i < PAIRS; ++i) {
        uint pair = min(lane() + i * SUBGROUP, PARTS * FM * FN / 2u - 1u), from = slot() + pair / 2u;
        packed[i] = pack_halves(DTYPE,
            uintBitsToFloat(uvec2(tile[from][pair % 2u * 2u], tile[from][pair % 2u * 2u + 1u])));
    }
    subgroup_sync();
    [[unroll]] for (uint i = 0u; i < PAIRS; ++i) {
        uint pair = min(lane() + i * SUBGROUP, PARTS * FM * FN / 2u - 1u);
        tile[slot() + pair / 4u][pair % 4u] = packed[i];
    }
    subgroup_sync();
}

#define SHARE_OPERANDS(sums, operands) \
    subgroup_sync(); \
    [[unroll]] for (uint f = 0u; f < PARTS; ++f) \
        coopMatStore(sums[f], tile, slot() + f * FRAGMENT, FN / 4u, ROW_MAJOR); \
    pack_slot(); \
    [[unroll]] for (uint f = 0u; f < PARTS; ++f) \
        coopMatLoad(operands[f], tile, slot() + f * FRAGMENT / 2u, FK / 8u, ROW_MAJOR);

void share_operands() {
    SHARE_OPERANDS(upward, changes)
    if (BY_KEYS) { SHARE_OPERANDS(scores, weights) }
}

void add_rows() {
    RIGHT z;
    if (BY_KEYS) {
        [[unroll]] for (uint f = 0u; f < PARTS; ++f) {
            [[unroll]] for (uint j = 0u; j < Y_SUMS; ++j) {
                coopMatLoad(z, tile, X_SIZE + f * FK * Y_PITCH + j * FN / 8u, Y_PITCH, ROW_MAJOR);
                of_y[j] = coopMatMulAdd(weights[f], z, of_y[j]);
            }
        }
    }
    [[unroll]] for (uint f = 0u; f < PARTS; ++f) {
        [[unroll]] for (uint j = 0u; j < X_SUMS; ++j) {
            coopMatLoad(z, tile, f * FK * X_PITCH + j * FN / 8u, X_PITCH, ROW_MAJOR);
            of_x[j] = coopMatMulAdd(changes[f], z, of_x[j]);
        }
    }
}

// Maxima and sums of the elements at one place of all fragments.
void add_scores(uint walked0, bool masked, bool known) {
    [[unroll]] for (uint i = 0u; i < tops.length(); ++i) {
        float top = tops[i], sum = 0.0;
        [[unroll]] for (uint f = 0u; f < PARTS; ++f) {
            scores[f][i] = masked ? score_of(scores[f][i], place_of(f, i, walked0, known))
                                  : scores[f][i] * (scale * LOG2E);
            top = max(top, scores[f][i]);
        }
        [[unroll]] for (uint f = 0u; f < PARTS; ++f) sum += exp2(scores[f][i] - top);
        totals[i] = totals[i] * exp2(tops[i] - top) + sum;
        tops[i] = top;
    }
}

// Whether a tile has elements that count differently. Of tiles before its last key a query sees every key.
bool is_masked(uint walked0, uint walked1) {
    if (MASK >= KEEP || walked0 + WALKED > walked1) return true;
    uint query = BY_KEYS ? walked0 : kept0, key = BY_KEYS ? kept0 + ROWS : walked0 + WALKED;
    return MASK == CAUSAL && int(key) > limit_of(query) + 1;
}

void use_tile(uint walked0, uint walked1, bool known) {
    bool masked = is_masked(walked0, walked1);
    multiply_rows();
    if (!ALL) {
        add_scores(walked0, masked, known);
        return;
    }
    if (masked) weigh(walked0, true, known);
    else weigh(walked0, false, known);
    if (!known) share_operands();
    add_rows();
}

// Walks rows of as many heads as share keys, where these are kept.
void walk(uvec2 kv_head, uint walked0, uint walked1, bool known) {
    uint members = BY_KEYS ? heads / kv_heads : 1u;
    if (walked0 >= walked1) return;
    walk_head(kv_head);
    uint last = members * ((walked1 - walked0 + WALKED - 1u) / WALKED), next = walked0;
    fetch_tile(next, walked1);
    store_tile();
    barrier();
    for (uint step = 1u; step <= last; ++step) {
        uint now = next;
        uvec2 of = head;
        // The last tile once more, behind the last: a branch would let the compiler move the loads to where
        // they are used.
        if (step < last) next += WALKED;
        if (next >= walked1) {
            next = walked0;
            ++head.y;
            walk_head(kv_head);
        }
        uvec2 next_head = head;
        if (PREFETCH) fetch_tile(next, walked1);
        head = of;
        use_tile(now, walked1, known);
        head = next_head;
        barrier();
        if (!PREFETCH) fetch_tile(next, walked1);
        store_tile();
        barrier();
    }
}

void store_sums(SUMS x, uint64_t to, int64_t stride, uint part, bool known) {
    [[unroll]] for (uint i = 0u; i < x.length(); ++i) {
        uint row = row_in(i, known), column = part * FN + column_in(i, known);
        if (block() * FM + row >= count) continue;
        uint64_t address = at(OUT_DTYPE, to, int64_t(row) * stride + int64_t(column));
        if (!known) store_float(OUT_DTYPE, address, 0l, x[i]);
        else if (i % 2u == 0u) {
            vec2 pair = vec2(x[i], x[i + 1u]);
            if (SCALED) F2(address).v[0] = pair;
            else U32(address).v[0] = pack_halves(DTYPE, pair);
        }
    }
}

// What of each row the other passes need.
void store_rows() {
    barrier();
    coopMatStore(tops, tile, block() * 2u * FRAGMENT, FN / 4u, ROW_MAJOR);
    coopMatStore(totals, tile, block() * 2u * FRAGMENT + FRAGMENT, FN / 4u, ROW_MAJOR);
    barrier();
    for (uint r = gl_LocalInvocationID.x; r < count; r += THREADS) {
        uint from = r / FM * 2u * FRAGMENT + r % FM * (FN / 4u);
        float top = LOWEST, sum = 0.0, mean = 0.0;
        for (uint i = 0u; i < FN; ++i) top = max(top, uintBitsToFloat(tile[from + i / 4u][i % 4u]));
        for (uint i = 0u; i < FN; ++i)
            sum += uintBitsToFloat(tile[from + FRAGMENT + i / 4u][i % 4u])
                * exp2(uintBitsToFloat(tile[from + i / 4u][i % 4u]) - top);
        uint64_t a = head_at(cotangent, strides.cotangent, head, kept0 + r),
                 b = head_row_at(OUT_DTYPE, result, strides.result, head, kept0 + r);
        [[unroll]] for (uint i = 0u; i < VALUE_WIDTH / 8u; ++i) {
            vec4 x[2], y[2];
            fetch8(DTYPE, true, at(DTYPE, a, int64_t(i * 8u)), x[0], x[1]);
            fetch8(OUT_DTYPE, true, at(OUT_DTYPE, b, int64_t(i * 8u)), y[0], y[1]);
            if (SCALED) {
                // As values are.
                y[0] = y[0] / factor.z;
                y[1] = y[1] / factor.z;
            }
            mean = dot_add(x[1], y[1], dot_add(x[0], y[0], mean));
        }
        if (SCALED) mean = mean * CHANGE_SCALE;
        F4(row_at(head, kept0 + r)).v[0] = kept_row(top, sum, mean);
    }
}

void store_results(uvec2 kv_head, bool known) {
    uint64_t to_x = BY_KEYS ? store_at(by_k, strides.by_k, kv_head) : store_at(by_q, strides.by_q, head);
    int64_t x_apart = BY_KEYS ? strides.by_k[2] : strides.by_q[2];
    [[unroll]] for (uint j = 0u; j < X_SUMS; ++j) {
        of_x[j] = of_x[j] * scale;
        if (SCALED) {
            // The smallest factor, the largest, then the other one: a product of two may be no float.
            vec3 f = vec3(BY_KEYS ? factor.x : factor.y, factor.z, factor.w);
            float least = min(min(f.x, f.y), f.z), most = max(max(f.x, f.y), f.z);
            float other = max(min(f.x, f.y), min(max(f.x, f.y), f.z));
            of_x[j] = of_x[j] * (1.0 / CHANGE_SCALE) * least * most * other;
        }
        store_sums(of_x[j], to_x, x_apart, j, known);
    }
    if (!BY_KEYS) return;
    uint64_t to_y = store_at(by_v, strides.by_v, kv_head);
    [[unroll]] for (uint j = 0u; j < Y_SUMS; ++j) {
        if (SCALED) of_y[j] = of_y[j] * (factor.w / WEIGHT_SCALE);
        store_sums(of_y[j], to_y, strides.by_v[2], j, known);
    }
}

void differentiate(uvec2 kept_head, uint row0, bool known) {
    uint group = heads / kv_heads, all = BY_KEYS ? keys : queries;
    uvec2 kv_head = uvec2(kept_head.x, BY_KEYS ? kept_head.y : kept_head.y / group);
    head = uvec2(kept_head.x, BY_KEYS ? kept_head.y * group : kept_head.y);
    kept0 = row0;
    count = min(ROWS, all - row0);
    [[unroll]] for (uint j = 0u; j < X_SUMS; ++j) of_x[j] = SUMS(0.0);
    [[unroll]] for (uint j = 0u; j < Y_SUMS; ++j) of_y[j] = SUMS(0.0);
    tops = SUMS(LOWEST);
    totals = SUMS(0.0);
    keep_rows(kv_head);
    if (BY_KEYS) walk(kv_head, first_query(row0, WALKED), queries, known);
    else walk(kv_head, 0u, keys_seen(row0, ROWS), known);
    if (ALL) store_results(kv_head, known);
    else store_rows();
}

void all_work(bool known) {
    uint all_heads = batches * (BY_KEYS ? kv_heads : heads), of_batch = BY_KEYS ? kv_heads : heads;
    uint blocks = ((BY_KEYS ? keys : queries) + ROWS - 1u) / ROWS;
    // The planner keeps the number of workgroups of work within 32 bits. What walks the most comes first.
    for (uint t = gl_WorkGroupID.x; t < all_heads * blocks; t += gl_NumWorkGroups.x) {
        uint which = t % all_heads, block_ = t / all_heads;
        differentiate(uvec2(which / of_batch, which % of_batch),
            (BY_KEYS ? block_ : blocks - 1u - block_) * ROWS, known);
    }
}

void main() {
    if (MASK >= KEEP) mask_stride = strides.mask_key;
    if (SCALED)
        factor = vec4(AT_F32(factors, 0u), AT_F32(factors, 1u), AT_F32(factors, 2u), AT_F32(factors, 3u));
    x_stride = uint(BY_KEYS ? strides.q[2] : strides.k[2]) * 2u;
    y_stride = uint(BY_KEYS ? strides.cotangent[2] : strides.v[2]) * 2u;
    if (REGISTERS && elements_are_known()) {
        all_work(true);
    } else {
        number_elements();
        all_work(false);
    }
}
