#version 460
// Latent attention of one query token (DeepSeek-V2): all heads share keys of LATENT features, which are
// values, too, and ROTATED more that have positions. The new key comes from its projection: its latent part
// is normalized, the other one rotated, as those of the queries are, and both are written to their caches, as
// the last row. A workgroup takes HEADS heads and a split of the keys; splits are joined by the workgroup
// that finishes last. A subgroup takes KEYS keys at a time, of which a lane has octets.
// Constants: 1 dtype (16-bit floats), 2 subgroup size, 3 latent features (a multiple of 8), 4 rotated ones (a
// multiple of 8), 5 heads of a workgroup, 6 flags.
#include "common.glsl"
#include "floats.glsl"
#include "bias.glsl"
#include "math.glsl"
#include "rotation.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 10;
layout(constant_id = 2) const uint SUBGROUP = 32;
layout(constant_id = 3) const uint LATENT = 512;
layout(constant_id = 4) const uint ROTATED = 64;
layout(constant_id = 5) const uint HEADS = 2;
layout(constant_id = 6) const uint FLAGS = 0;
// Flags. [host]
const uint TRADITIONAL_FLAG = 1, DIVISORS_FLAG = 2, SPLIT_FLAG = 4;
const bool TRADITIONAL = (FLAGS & TRADITIONAL_FLAG) != 0u, DIVISORS = (FLAGS & DIVISORS_FLAG) != 0u;
const bool SPLIT = (FLAGS & SPLIT_FLAG) != 0u;

layout(push_constant, scalar) uniform Push {
    uint64_t latent_q, rotated_q;           // of heads: dense; query_head elements apart
    uint64_t latent_key, rotated_key, weight; // weight: of the norm
    uint64_t frequencies, offset;
    uint64_t latents, keys;                 // the caches, dense rows
    uint64_t result;
    uint64_t parts, counters; // with SPLIT: (maximum, sum, sums of values) of every split; how many are done
    uint query_head, count;   // count: of keys, the new one included
    float latent_scale, rotated_scale, eps, position_scale;
};

#define splits gl_NumWorkGroups.x
const uint KEYS = 4; // that a subgroup has in hand
const uint SUBGROUPS = gl_WorkGroupSize.x / SUBGROUP;
const uint WIDTH = LATENT + ROTATED;
const uint OCTETS = (LATENT / 8u + SUBGROUP - 1u) / SUBGROUP,
           MORE = (ROTATED / 8u + SUBGROUP - 1u) / SUBGROUP;
const uint ALL = OCTETS + MORE; // of a lane
const float LOWEST = -3.402823466e38;

shared float queries[HEADS * WIDTH];
shared float newest[WIDTH];
shared vec2 states[HEADS * SUBGROUPS]; // maximum and sum of a subgroup's keys
shared float gathered[SUBGROUPS * LATENT];
shared uint finished;

vec4 query[2u * ALL * HEADS];
vec4 sums[2u * OCTETS * HEADS];
float best[HEADS], total[HEADS];
vec4 hand[KEYS * 2u * ALL]; // a lane's octets of keys

// The number of a lane's i-th octet among those of a key, and whether there is one.
uint octet(uint i) {
    return i < OCTETS ? gl_SubgroupInvocationID + i * SUBGROUP
                      : LATENT / 8u + gl_SubgroupInvocationID + (i - OCTETS) * SUBGROUP;
}
bool is_real(uint i) { return octet(i) < (i < OCTETS ? LATENT / 8u : WIDTH / 8u); }

float element(uint64_t from, uint i) { return fetch(DTYPE, at(DTYPE, from, int64_t(i))); }

// The new key's latent part, by a subgroup.
void normalize() {
    float squares = 0.0;
    for (uint i = gl_SubgroupInvocationID; i < LATENT; i += SUBGROUP) {
        float x = element(latent_key, i);
        squares = fma(x, x, squares);
    }
    float factor = norm_factor(subgroupAdd(squares), LATENT, eps);
    for (uint i = gl_SubgroupInvocationID; i < LATENT; i += SUBGROUP)
        newest[i] = as_stored(DTYPE, element(latent_key, i) * factor * element(weight, i));
}

// The other part of the new key, or of a head's query, which is scaled.
void rotate(uint64_t from, bool key, uint to) {
    vec2 position = m_two_prod(float(I32(offset).v[0]), position_scale);
    for (uint pair = gl_SubgroupInvocationID; pair < ROTATED / 2u; pair += SUBGROUP) {
        uint a = TRADITIONAL ? 2u * pair : pair, b = TRADITIONAL ? a + 1u : a + ROTATED / 2u;
        vec2 r = rotation_fast(position, pair, frequencies, DIVISORS);
        float x = element(from, a), y = element(from, b);
        vec2 turned = vec2(x * r.y - y * r.x, x * r.x + y * r.y);
        turned = vec2(as_stored(DTYPE, turned.x), as_stored(DTYPE, turned.y));
        if (key) {
            newest[LATENT + a] = turned.x;
            newest[LATENT + b] = turned.y;
        } else {
            queries[to + a] = turned.x * rotated_scale;
            queries[to + b] = turned.y * rotated_scale;
        }
    }
}

// Queries of the heads from `head` on, and the new key, to shared memory.
void prepare(uint head, bool newest_here) {
    for (uint i = gl_SubgroupID; i < HEADS + 2u; i += SUBGROUPS) {
        if (i >= 2u) {
            uint h = i - 2u;
            rotate(at(DTYPE, rotated_q, int64_t((head + h) * query_head)), false, h * WIDTH + LATENT);
        } else if (newest_here) {
            if (i == 0u) normalize();
            else rotate(rotated_key, true, 0u);
        }
    }
    for (uint i = gl_LocalInvocationID.x; i < HEADS * LATENT; i += gl_WorkGroupSize.x)
        queries[i / LATENT * WIDTH + i % LATENT] = element(latent_q, head * LATENT + i) * latent_scale;
    barrier();
}

void take_queries() {
    [[unroll]] for (uint h = 0u; h < HEADS; ++h) {
        best[h] = LOWEST;
        total[h] = 0.0;
        [[unroll]] for (uint i = 0u; i < 2u * OCTETS; ++i) sums[h * 2u * OCTETS + i] = vec4(0.0);
        [[unroll]] for (uint i = 0u; i < 2u * ALL; ++i)
            [[unroll]] for (uint e = 0u; e < 4u; ++e)
                query[h * 2u * ALL + i][e] = is_real(i / 2u)
                    ? queries[h * WIDTH + octet(i / 2u) * 8u + i % 2u * 4u + e] : 0.0;
    }
}

// Takes the k-th key in hand, if it is real.
void weigh(uint k, bool real) {
    [[unroll]] for (uint h = 0u; h < HEADS; ++h) {
        float s = 0.0;
        [[unroll]] for (uint i = 0u; i < 2u * ALL; ++i)
            s = dot_add(query[h * 2u * ALL + i], hand[k * 2u * ALL + i], s);
        s = real ? subgroupAdd(s) : LOWEST;
        float top = max(best[h], s), fix = exp(best[h] - top), part = real ? exp(s - top) : 0.0;
        best[h] = top;
        total[h] = fma(total[h], fix, part);
        [[unroll]] for (uint i = 0u; i < 2u * OCTETS; ++i)
            sums[h * 2u * OCTETS + i] =
                fma(hand[k * 2u * ALL + i], vec4(part), sums[h * 2u * OCTETS + i] * fix);
    }
}

// Takes the keys first..last, which are in the caches.
void take_keys(uint first, uint last) {
    // All lanes of a subgroup go round equally often.
    for (uint j0 = first + gl_SubgroupID * KEYS; j0 < last; j0 += SUBGROUPS * KEYS) {
        [[unroll]] for (uint k = 0u; k < KEYS; ++k) {
            uint64_t j = uint64_t(min(j0 + k, last - 1u));
            [[unroll]] for (uint i = 0u; i < ALL; ++i) {
                uint o = octet(i);
                uint64_t from = i < OCTETS
                    ? latents + (j * LATENT + uint64_t(min(o, LATENT / 8u - 1u) * 8u)) * 2ul
                    : keys + (j * ROTATED + uint64_t(min(o - LATENT / 8u, ROTATED / 8u - 1u) * 8u)) * 2ul;
                fetch8(DTYPE, true, from, hand[(k * ALL + i) * 2u], hand[(k * ALL + i) * 2u + 1u]);
            }
        }
        [[unroll]] for (uint k = 0u; k < KEYS; ++k) weigh(k, j0 + k < last);
    }
}

// Takes the new key, by one subgroup.
void take_newest() {
    if (gl_SubgroupID != SUBGROUPS - 1u) return;
    [[unroll]] for (uint i = 0u; i < 2u * ALL; ++i)
        [[unroll]] for (uint e = 0u; e < 4u; ++e)
            hand[i][e] = is_real(i / 2u) ? newest[octet(i / 2u) * 8u + i % 2u * 4u + e] : 0.0;
    weigh(0u, true);
}

uint64_t part_of(uint head, uint split) {
    return parts + (uint64_t(head) * uint64_t(splits) + uint64_t(split)) * uint64_t(LATENT + 4u) * 4ul;
}

// Joins the subgroups and stores the results of the heads, or the split's part of them.
void join_subgroups(uint head, uint split) {
    [[unroll]] for (uint h = 0u; h < HEADS; ++h) {
        [[unroll]] for (uint i = 0u; i < 2u * OCTETS; ++i)
            [[unroll]] for (uint e = 0u; e < 4u; ++e)
                if (is_real(i / 2u))
                    gathered[gl_SubgroupID * LATENT + octet(i / 2u) * 8u + i % 2u * 4u + e] =
                        sums[h * 2u * OCTETS + i][e];
        if (gl_SubgroupInvocationID == 0u) states[h * SUBGROUPS + gl_SubgroupID] = vec2(best[h], total[h]);
        barrier();
        float top = LOWEST, sum = 0.0;
        for (uint s = 0u; s < SUBGROUPS; ++s) top = max(top, states[h * SUBGROUPS + s].x);
        for (uint s = 0u; s < SUBGROUPS; ++s)
            sum = fma(states[h * SUBGROUPS + s].y, exp(states[h * SUBGROUPS + s].x - top), sum);
        uint64_t part = SPLIT ? part_of(head + h, split) : 0ul;
        for (uint i = gl_LocalInvocationID.x; i < LATENT; i += gl_WorkGroupSize.x) {
            float y = 0.0;
            for (uint s = 0u; s < SUBGROUPS; ++s)
                y = fma(gathered[s * LATENT + i], exp(states[h * SUBGROUPS + s].x - top), y);
            if (SPLIT) F4C(part).v[1u + i / 4u][i % 4u] = y;
            else store_float(DTYPE, result, int64_t((head + h) * LATENT + i), y / sum);
        }
        if (SPLIT && gl_LocalInvocationID.x == 0u) F4C(part).v[0] = vec4(top, sum, 0.0, 0.0);
        barrier();
    }
}

// The workgroup that finishes last joins the splits of its heads.
void join_splits(uint head) {
    uint64_t counter = counters + uint64_t(head / HEADS) * 4ul;
    memoryBarrierBuffer();
    barrier();
    if (gl_LocalInvocationID.x == 0u) {
        finished = atomicAdd(U32(counter).v[0], 1u) + 1u == splits ? 1u : 0u;
        if (finished == 1u) U32(counter).v[0] = 0u;
    }
    barrier();
    if (finished == 0u) return;
    memoryBarrierBuffer();
    for (uint i = gl_LocalInvocationID.x; i < HEADS * LATENT; i += gl_WorkGroupSize.x) {
        uint h = i / LATENT, feature = i % LATENT;
        float top = LOWEST, sum = 0.0, y = 0.0;
        for (uint s = 0u; s < splits; ++s) top = max(top, F4C(part_of(head + h, s)).v[0].x);
        for (uint s = 0u; s < splits; ++s) {
            uint64_t part = part_of(head + h, s);
            float fix = exp(F4C(part).v[0].x - top);
            sum = fma(F4C(part).v[0].y, fix, sum);
            y = fma(F4C(part).v[1u + feature / 4u][feature % 4u], fix, y);
        }
        store_float(DTYPE, result, int64_t(head * LATENT + i), y / sum);
    }
}

void main() {
    uint split = gl_WorkGroupID.x, head = gl_WorkGroupID.y * HEADS, old = count - 1u;
    uint each = (old + splits - 1u) / splits, first = min(old, split * each), last = min(old, first + each);
    bool newest_here = split == splits - 1u;
    prepare(head, newest_here);
    if (newest_here && head == 0u) for (uint i = gl_LocalInvocationID.x; i < WIDTH; i += gl_WorkGroupSize.x) {
        if (i < LATENT) store_float(DTYPE, latents, int64_t(old) * int64_t(LATENT) + int64_t(i), newest[i]);
        else store_float(DTYPE, keys, int64_t(old) * int64_t(ROTATED) + int64_t(i - LATENT), newest[i]);
    }
    take_queries();
    take_keys(first, last);
    if (newest_here) take_newest();
    join_subgroups(head, split);
    if (SPLIT) join_splits(head);
}
