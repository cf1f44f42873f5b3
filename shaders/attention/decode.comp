#version 460
// Attention of one query token over a key/value cache. A workgroup takes the heads of one key/value head (HEADS of them
// at a time) and a share of the keys. Clusters of eight lanes take a key each, with their own running maximum and sum, so
// nothing waits inside the loop; clusters are joined at the end, and shares by the workgroup that finishes last.
// With FUSED, queries and the new key come straight from their projections: they are normalized (NORM), rotated, and
// the new key and value are written to the cache, as its last row.
// Constants: 1 dtype, 2 features (a multiple of 64), 3 subgroup size, 4 query heads of a workgroup, 5 query heads per
// key/value head, 6 flags, 7 the bits of eps.
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
layout(constant_id = 5) const uint GROUP = 2;
layout(constant_id = 6) const uint FLAGS = 0;
layout(constant_id = 7) const uint EPS = 0;
const bool FUSED = (FLAGS & 1u) != 0u, NORM = (FLAGS & 2u) != 0u, TRADITIONAL = (FLAGS & 4u) != 0u;
const bool DIVISORS = (FLAGS & 8u) != 0u, SPLIT = (FLAGS & 16u) != 0u;

layout(push_constant, scalar) uniform Push {
    uint64_t q, new_key, new_value, q_weight, k_weight, frequencies, offset;
    uint64_t keys, values, result;
    uint64_t parts, counters;                // with SPLIT: (maximum, sum, sums of values) of every share; how many are done
    uint key_head, key_row, value_head, value_row; // strides in elements
    uint count, splits;                      // keys, the new one included; shares
    float scale, position_scale;
};

const uint CLUSTER = 8, LANE_WIDTH = WIDTH / CLUSTER, EIGHTS = LANE_WIDTH / 8u, QUADS = LANE_WIDTH / 4u;
const uint CLUSTERS = gl_WorkGroupSize.x / CLUSTER, SUBGROUPS = gl_WorkGroupSize.x / SUBGROUP;
const float LOWEST = -3.402823466e38;

shared float queries[HEADS * WIDTH];
shared float newest[2u * WIDTH];             // the new key, then its value
shared vec2 states[HEADS * SUBGROUPS];       // maximum and sum of a subgroup's keys
shared vec4 gathered[HEADS * SUBGROUPS * WIDTH / 4u];
shared uint finished;

float best[HEADS], total[HEADS];
vec4 own_q[HEADS * QUADS], sums[HEADS * QUADS];
vec4 key[QUADS], value[QUADS];               // a lane's slice of the key in hand

float rounded(float x) {
    if (DTYPE == BFLOAT16) return bf16_to_f32(f32_to_bf16(x));
    return DTYPE == FLOAT16 ? f16_to_f32(f32_to_f16(x)) : x;
}

// One head, normalized and rotated by a subgroup, to shared memory; `key` is the new key.
void prepare(uint64_t from, uint64_t weight, bool key, uint to) {
    const uint PAIRS = WIDTH / 2u / SUBGROUP + (WIDTH / 2u % SUBGROUP == 0u ? 0u : 1u);
    vec2 y[PAIRS];
    float squares = 0.0;
    [[unroll]] for (uint i = 0u; i < PAIRS; ++i) {
        uint pair = gl_SubgroupInvocationID + i * SUBGROUP;
        uint a = TRADITIONAL ? 2u * pair : pair, b = TRADITIONAL ? a + 1u : pair + WIDTH / 2u;
        bool inside = pair < WIDTH / 2u;
        y[i] = inside ? vec2(fetch(DTYPE, at(DTYPE, from, int64_t(a))), fetch(DTYPE, at(DTYPE, from, int64_t(b)))) : vec2(0.0);
        squares += dot(y[i], y[i]);
    }
    float factor = NORM ? 1.0 / sqrt(subgroupAdd(squares) / float(WIDTH) + uintBitsToFloat(EPS)) : 1.0;
    vec2 position = m_two_prod(float(I32(offset).v[0]), position_scale);
    [[unroll]] for (uint i = 0u; i < PAIRS; ++i) {
        uint pair = gl_SubgroupInvocationID + i * SUBGROUP;
        uint a = TRADITIONAL ? 2u * pair : pair, b = TRADITIONAL ? a + 1u : pair + WIDTH / 2u;
        if (pair >= WIDTH / 2u) continue;
        if (NORM) y[i] *= factor * vec2(fetch(DTYPE, at(DTYPE, weight, int64_t(a))), fetch(DTYPE, at(DTYPE, weight, int64_t(b))));
        vec2 r = DTYPE == FLOAT32 ? rotation(position, pair, frequencies, 1l, DIVISORS) : rotation_fast(position, pair, frequencies, DIVISORS);
        vec2 turned = vec2(y[i].x * r.y - y[i].y * r.x, y[i].x * r.x + y[i].y * r.y);
        if (key) {
            newest[a] = rounded(turned.x);
            newest[b] = rounded(turned.y);
        } else {
            queries[to + a] = turned.x * scale;
            queries[to + b] = turned.y * scale;
        }
    }
}

void load_lane(uint64_t key_at, uint64_t value_at) {
    uint lane = gl_SubgroupInvocationID % CLUSTER;
    [[unroll]] for (uint i = 0u; i < EIGHTS; ++i) // neighbouring lanes read neighbouring 16 bytes
    {
        uint64_t to = uint64_t(i * CLUSTER * 8u + lane * 8u) << float_shift(DTYPE);
        fetch8(DTYPE, true, key_at + to, key[2u * i], key[2u * i + 1u]);
        fetch8(DTYPE, true, value_at + to, value[2u * i], value[2u * i + 1u]);
    }
}

// The feature of element e of a lane's slice.
uint feature(uint e) { return e / 8u * CLUSTER * 8u + gl_SubgroupInvocationID % CLUSTER * 8u + e % 8u; }

// Sum over a cluster. By shuffles: they take a fraction of the time of a clustered operation on NVIDIA.
float cluster_sum(float x) {
    [[unroll]] for (uint step_ = 1u; step_ < CLUSTER; step_ *= 2u) x += subgroupShuffleXor(x, step_);
    return x;
}

void weigh(bool real) {
    [[unroll]] for (uint h = 0u; h < HEADS; ++h) {
        float s = 0.0;
        [[unroll]] for (uint i = 0u; i < QUADS; ++i) s = dot_add(own_q[h * QUADS + i], key[i], s);
        s = cluster_sum(s);
        s = real ? s : LOWEST;
        float top = max(best[h], s), fix = exp(best[h] - top), weight = real ? exp(s - top) : 0.0;
        best[h] = top;
        total[h] = fma(total[h], fix, weight);
        [[unroll]] for (uint i = 0u; i < QUADS; ++i)
            sums[h * QUADS + i] = fma(value[i], vec4(weight), sums[h * QUADS + i] * fix);
    }
}

void take_keys(uint kv_head, uint first, uint last) {
    uint cluster = gl_SubgroupID * (SUBGROUP / CLUSTER) + gl_SubgroupInvocationID / CLUSTER;
    uint64_t key_base = at(DTYPE, keys, int64_t(kv_head) * int64_t(key_head));
    uint64_t value_base = at(DTYPE, values, int64_t(kv_head) * int64_t(value_head));
    // All lanes of a subgroup take part in the sums, so all go round equally often.
    for (uint j0 = first; j0 < last; j0 += CLUSTERS) {
        uint j = min(j0 + cluster, last - 1u);
        load_lane(at(DTYPE, key_base, int64_t(j) * int64_t(key_row)), at(DTYPE, value_base, int64_t(j) * int64_t(value_row)));
        weigh(j0 + cluster < last);
    }
}

void take_newest() {
    [[unroll]] for (uint i = 0u; i < QUADS; ++i)
        [[unroll]] for (uint e = 0u; e < 4u; ++e) {
            key[i][e] = newest[feature(i * 4u + e)];
            value[i][e] = newest[WIDTH + feature(i * 4u + e)];
        }
    uint cluster = gl_SubgroupID * (SUBGROUP / CLUSTER) + gl_SubgroupInvocationID / CLUSTER;
    weigh(cluster == 0u);
}

uint64_t part_of(uint kv_head, uint block, uint split, uint h) {
    uint64_t row = (uint64_t(kv_head) * uint64_t(GROUP) + uint64_t(block * HEADS + h)) * uint64_t(splits) + uint64_t(split);
    return parts + row * uint64_t(WIDTH + 4u) * 4ul;
}

// Joins the clusters of every subgroup, for the first of them to leave in shared memory.
void join_clusters() {
    [[unroll]] for (uint h = 0u; h < HEADS; ++h) {
        // The lanes of a cluster have the same.
        float top = best[h];
        [[unroll]] for (uint step_ = CLUSTER; step_ < SUBGROUP; step_ *= 2u) top = max(top, subgroupShuffleXor(top, step_));
        float fix = exp(best[h] - top), sum = total[h] * fix;
        [[unroll]] for (uint step_ = CLUSTER; step_ < SUBGROUP; step_ *= 2u) sum += subgroupShuffleXor(sum, step_);
        [[unroll]] for (uint i = 0u; i < QUADS; ++i) {
            vec4 y = sums[h * QUADS + i] * fix;
            [[unroll]] for (uint step_ = CLUSTER; step_ < SUBGROUP; step_ *= 2u) y += subgroupShuffleXor(y, step_);
            if (gl_SubgroupInvocationID < CLUSTER) gathered[(h * SUBGROUPS + gl_SubgroupID) * (WIDTH / 4u) + feature(i * 4u) / 4u] = y;
        }
        if (gl_SubgroupInvocationID == 0u) states[h * SUBGROUPS + gl_SubgroupID] = vec2(top, sum);
    }
}

// Joins the subgroups and stores the result, or the share's part of it.
void join_subgroups(uint kv_head, uint block, uint split) {
    uint thread = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID;
    for (uint i = thread; i < HEADS * WIDTH / 4u; i += gl_WorkGroupSize.x) {
        uint h = i / (WIDTH / 4u), quad = i % (WIDTH / 4u);
        float top = LOWEST, sum = 0.0;
        for (uint s = 0u; s < SUBGROUPS; ++s) top = max(top, states[h * SUBGROUPS + s].x);
        vec4 y = vec4(0.0);
        for (uint s = 0u; s < SUBGROUPS; ++s) {
            float weight = exp(states[h * SUBGROUPS + s].x - top);
            sum = fma(states[h * SUBGROUPS + s].y, weight, sum);
            y = fma(gathered[(h * SUBGROUPS + s) * (WIDTH / 4u) + quad], vec4(weight), y);
        }
        if (SPLIT) {
            uint64_t part = part_of(kv_head, block, split, h);
            F4C(part).v[1u + quad] = y;
            if (quad == 0u) F4C(part).v[0] = vec4(top, sum, 0.0, 0.0);
        } else {
            uint64_t to = (uint64_t(kv_head) * uint64_t(GROUP) + uint64_t(block * HEADS + h)) * uint64_t(WIDTH / 4u) + uint64_t(quad);
            store_float4(DTYPE, result, to, y / sum);
        }
    }
}

// The workgroup that finishes last joins the shares of its heads.
void join_splits(uint kv_head, uint block) {
    uint thread = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID;
    uint64_t counter = counters + uint64_t(kv_head * (GROUP / HEADS) + block) * 4ul;
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
    for (uint i = thread; i < HEADS * WIDTH / 4u; i += gl_WorkGroupSize.x) {
        uint h = i / (WIDTH / 4u), quad = i % (WIDTH / 4u);
        float top = LOWEST, sum = 0.0;
        vec4 y = vec4(0.0);
        for (uint s = 0u; s < splits; ++s) {
            uint64_t part = part_of(kv_head, block, s, h);
            vec2 state = F4C(part).v[0].xy;
            vec4 more = F4C(part).v[1u + quad];
            float next = max(top, state.x), fix = exp(top - next), add = exp(state.x - next);
            y = y * fix + more * add;
            sum = sum * fix + state.y * add;
            top = next;
        }
        uint64_t to = (uint64_t(kv_head) * uint64_t(GROUP) + uint64_t(block * HEADS + h)) * uint64_t(WIDTH / 4u) + uint64_t(quad);
        store_float4(DTYPE, result, to, y / sum);
    }
}

void main() {
    uint split = gl_WorkGroupID.x, block = gl_WorkGroupID.y, kv_head = gl_WorkGroupID.z;
    uint thread = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID;
    uint64_t first_q = at(DTYPE, q, int64_t(kv_head * GROUP + block * HEADS) * int64_t(WIDTH));
    bool newest_here = FUSED && split == splits - 1u;
    if (FUSED) {
        for (uint h = gl_SubgroupID; h < HEADS + 1u; h += SUBGROUPS) {
            if (h < HEADS) prepare(at(DTYPE, first_q, int64_t(h * WIDTH)), q_weight, false, h * WIDTH);
            else if (newest_here) prepare(at(DTYPE, new_key, int64_t(kv_head * WIDTH)), k_weight, true, 0u);
        }
        if (newest_here) for (uint i = thread; i < WIDTH; i += gl_WorkGroupSize.x)
            newest[WIDTH + i] = fetch(DTYPE, at(DTYPE, new_value, int64_t(kv_head * WIDTH + i)));
    } else {
        for (uint i = thread; i < HEADS * WIDTH; i += gl_WorkGroupSize.x) queries[i] = fetch(DTYPE, at(DTYPE, first_q, int64_t(i))) * scale;
    }
    barrier();
    if (newest_here && block == 0u) for (uint i = thread; i < WIDTH; i += gl_WorkGroupSize.x) {
        int64_t row = int64_t(count - 1u);
        store_float(DTYPE, keys, int64_t(kv_head) * int64_t(key_head) + row * int64_t(key_row) + int64_t(i), newest[i]);
        store_float(DTYPE, values, int64_t(kv_head) * int64_t(value_head) + row * int64_t(value_row) + int64_t(i), newest[WIDTH + i]);
    }
    [[unroll]] for (uint h = 0u; h < HEADS; ++h) {
        best[h] = LOWEST;
        total[h] = 0.0;
        [[unroll]] for (uint i = 0u; i < QUADS; ++i) {
            sums[h * QUADS + i] = vec4(0.0);
            [[unroll]] for (uint e = 0u; e < 4u; ++e) own_q[h * QUADS + i][e] = queries[h * WIDTH + feature(i * 4u + e)];
        }
    }
    uint old = FUSED ? count - 1u : count, each = (old + splits - 1u) / splits;
    uint first = min(old, split * each), last = min(old, first + each);
    take_keys(kv_head, first, last);
    if (newest_here) take_newest();
    join_clusters();
    barrier();
    join_subgroups(kv_head, block, split);
    if (SPLIT) join_splits(kv_head, block);
}
