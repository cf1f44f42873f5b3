// Attention of one query token, as workgroups do it: clusters of eight lanes take a key each, with their own
// running maximum and sum, so nothing waits inside the loop; they are joined at the end. Needs common.glsl,
// floats.glsl, math.glsl, rotation.glsl, subgroup arithmetic and shuffles, and before it: DTYPE, WIDTH,
// SUBGROUP, SUBGROUPS, HEADS, NORM, TRADITIONAL, DIVISORS, EPS; QUANTIZED, whether keys and values are;
//   ROTATED, how many of the features are rotated;
//   offset, frequencies, scale, position_scale; keys, values, key_head, key_row, value_head, value_row;
//   `sequence`, which position is the workgroup's, and `masked(kv_head, h, j, s)`, what a mask leaves of a
//   score.
// Quantized keys and values need attention_quantized.glsl behind it.

const uint CLUSTER = 8, LANE_WIDTH = WIDTH / CLUSTER, OCTETS = LANE_WIDTH / 8u, QUADS = LANE_WIDTH / 4u;
const uint CLUSTERS = gl_WorkGroupSize.x / CLUSTER;
const float LOWEST = -3.402823466e38;

shared float queries[HEADS * WIDTH];
shared float newest[2u * WIDTH];             // the new key, then its value
shared vec2 states[HEADS * SUBGROUPS];       // maximum and sum of a subgroup's keys
shared vec4 gathered[HEADS * SUBGROUPS * WIDTH / 4u];

// The features that are rotated together, and behind those neighbours that are not.
const uint PAIRS = WIDTH / 2u / SUBGROUP + (WIDTH / 2u % SUBGROUP == 0u ? 0u : 1u); // of a lane
bool is_rotated(uint pair) { return ROTATED == WIDTH || pair < ROTATED / 2u; }
bool is_apart(uint pair) { return !TRADITIONAL && is_rotated(pair); }
uint first_of(uint pair) { return is_apart(pair) ? pair : 2u * pair; }
uint second_of(uint pair) { return is_apart(pair) ? pair + ROTATED / 2u : 2u * pair + 1u; }

// The pair of a lane in round i; behind the last one, that one.
uint pair_of_lane(uint i) { return min(gl_SubgroupInvocationID + i * SUBGROUP, WIDTH / 2u - 1u); }

// The bits of a lane's pairs of the head at `from`: they are asked for, then taken as soon as they are there.
void ask_pairs(uint64_t from, out uvec2 bits[PAIRS]);
void take_pairs(uint64_t from, inout uvec2 bits[PAIRS], out vec2 y[PAIRS]);

float best[HEADS], total_weight[HEADS];
vec4 own_q[HEADS * QUADS], sums[HEADS * QUADS];
vec4 key[QUADS], value[QUADS];               // a lane's slice of the key in hand

float rounded(float x) {
    if (DTYPE == BFLOAT16) return bf16_to_f32(f32_to_bf16(x));
    return DTYPE == FLOAT16 ? f16_to_f32(f32_to_f16(x)) : x;
}

// One head, normalized and rotated by a subgroup, to shared memory; `key` is the new key.
void prepare(uint64_t from, uint64_t weight, bool key, uint to) {
    vec2 y[PAIRS], weights[PAIRS], turns[PAIRS];
    uvec2 bits[PAIRS];
    ask_pairs(from, bits);
    vec2 position = m_two_prod(float(I32(offset).v[sequence]), position_scale);
    [[unroll]] for (uint i = 0u; i < PAIRS; ++i) {
        uint pair = pair_of_lane(i);
        if (NORM)
            weights[i] = vec2(fetch(DTYPE, at(DTYPE, weight, int64_t(first_of(pair)))),
                fetch(DTYPE, at(DTYPE, weight, int64_t(second_of(pair)))));
        uint turned = min(pair, ROTATED / 2u - 1u);
        turns[i] = DTYPE == FLOAT32 ? rotation(position, turned, frequencies, 1l, DIVISORS)
                                    : rotation_fast(position, turned, frequencies, DIVISORS);
        if (!is_rotated(pair)) turns[i] = vec2(0.0, 1.0);
    }
    take_pairs(from, bits, y);
    float squares = 0.0;
    [[unroll]] for (uint i = 0u; i < PAIRS; ++i)
        if (gl_SubgroupInvocationID + i * SUBGROUP < WIDTH / 2u) squares += dot(y[i], y[i]);
    float factor = NORM ? norm_factor(subgroupAdd(squares), WIDTH, uintBitsToFloat(EPS)) : 1.0;
    [[unroll]] for (uint i = 0u; i < PAIRS; ++i) {
        uint pair = gl_SubgroupInvocationID + i * SUBGROUP;
        uint a = first_of(pair), b = second_of(pair);
        if (pair >= WIDTH / 2u) continue;
        if (NORM) y[i] *= factor * weights[i];
        vec2 r = turns[i], turned = vec2(y[i].x * r.y - y[i].y * r.x, y[i].x * r.x + y[i].y * r.y);
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
    [[unroll]] for (uint i = 0u; i < OCTETS; ++i) // neighbouring lanes read neighbouring 16 bytes
    {
        uint64_t to = uint64_t(i * CLUSTER * 8u + lane * 8u) << float_shift(DTYPE);
        fetch8(DTYPE, true, key_at + to, key[2u * i], key[2u * i + 1u]);
        fetch8(DTYPE, true, value_at + to, value[2u * i], value[2u * i + 1u]);
    }
}

// The feature of element e of a lane's slice: of quantized keys neighbours, which mostly lie in one group, of
// others octets that lie beside those of neighbouring lanes.
uint feature(uint e) {
    uint lane = gl_SubgroupInvocationID % CLUSTER;
    return QUANTIZED ? lane * LANE_WIDTH + e : e / 8u * CLUSTER * 8u + lane * 8u + e % 8u;
}

// Sum over a cluster. By shuffles: they take a fraction of the time of a clustered operation on NVIDIA.
float cluster_sum(float x) {
    [[unroll]] for (uint apart = 1u; apart < CLUSTER; apart *= 2u) x += subgroupShuffleXor(x, apart);
    return x;
}

// Takes key j, which is in hand, if it is real.
void weigh(uint kv_head, uint j, bool real) {
    [[unroll]] for (uint h = 0u; h < HEADS; ++h) {
        float s = 0.0;
        [[unroll]] for (uint i = 0u; i < QUADS; ++i) s = dot_add(own_q[h * QUADS + i], key[i], s);
        s = cluster_sum(s);
        s = real ? masked(kv_head, h, j, s) : LOWEST;
        float top = max(best[h], s), fix = exp(best[h] - top), weight = real ? exp(s - top) : 0.0;
        best[h] = top;
        total_weight[h] = fma(total_weight[h], fix, weight);
        [[unroll]] for (uint i = 0u; i < QUADS; ++i)
            sums[h * QUADS + i] = fma(value[i], vec4(weight), sums[h * QUADS + i] * fix);
    }
}

// Which of the keys from j0 on a lane's cluster takes.
uint key_of(uint j0) { return j0 + gl_SubgroupID * (SUBGROUP / CLUSTER) + gl_SubgroupInvocationID / CLUSTER; }

// The same, or the last key there is; there is at least a row for one.
uint asked_key(uint j0, uint last) { return min(key_of(j0), max(last, 1u) - 1u); }

// Asks for key and value of this cluster in the round that starts with key j0.
void ask_keys(uint kv_head, uint j0, uint last) {
    int64_t j = int64_t(asked_key(j0, last));
    load_lane(at(DTYPE, keys, int64_t(kv_head) * int64_t(key_head) + j * int64_t(key_row)),
              at(DTYPE, values, int64_t(kv_head) * int64_t(value_head) + j * int64_t(value_row)));
}

// The keys first..last, the first round of which may be asked for already.
void take_keys(uint kv_head, uint first, uint last, bool asked) {
    // All lanes of a subgroup take part in the sums, so all go round equally often.
    for (uint j0 = first; j0 < last; j0 += CLUSTERS) {
        if (!asked || j0 != first) ask_keys(kv_head, j0, last);
        weigh(kv_head, key_of(j0), key_of(j0) < last);
    }
}

// Takes the new key, which is the one in row j.
void take_newest(uint kv_head, uint j) {
    [[unroll]] for (uint i = 0u; i < QUADS; ++i)
        [[unroll]] for (uint e = 0u; e < 4u; ++e) {
            key[i][e] = newest[feature(i * 4u + e)];
            value[i][e] = newest[WIDTH + feature(i * 4u + e)];
        }
    weigh(kv_head, j, key_of(0u) == 0u);
}

// Joins the clusters of every subgroup, for the first of them to leave in shared memory. That each of two
// clusters goes on with half of the features takes a third of the shuffles and more time (attention of 8B on
// an H200 7.4 µs instead of 6.2).
void join_clusters() {
    [[unroll]] for (uint h = 0u; h < HEADS; ++h) {
        // The lanes of a cluster have the same.
        float top = best[h];
        [[unroll]] for (uint apart = CLUSTER; apart < SUBGROUP; apart *= 2u)
            top = max(top, subgroupShuffleXor(top, apart));
        float fix = exp(best[h] - top), sum = total_weight[h] * fix;
        [[unroll]] for (uint apart = CLUSTER; apart < SUBGROUP; apart *= 2u)
            sum += subgroupShuffleXor(sum, apart);
        [[unroll]] for (uint i = 0u; i < QUADS; ++i) {
            vec4 y = sums[h * QUADS + i] * fix;
            [[unroll]] for (uint apart = CLUSTER; apart < SUBGROUP; apart *= 2u)
                y += subgroupShuffleXor(y, apart);
            if (gl_SubgroupInvocationID < CLUSTER)
                gathered[(h * SUBGROUPS + gl_SubgroupID) * (WIDTH / 4u) + feature(i * 4u) / 4u] = y;
        }
        if (gl_SubgroupInvocationID == 0u) states[h * SUBGROUPS + gl_SubgroupID] = vec2(top, sum);
    }
}

// A feature of a head, joined over the subgroups, with the maximum and the sum of weights.
float joined(uint h, uint i, out float top, out float sum) {
    top = LOWEST;
    sum = 0.0;
    for (uint s = 0u; s < SUBGROUPS; ++s) top = max(top, states[h * SUBGROUPS + s].x);
    float y = 0.0;
    for (uint s = 0u; s < SUBGROUPS; ++s) {
        float weight = exp(states[h * SUBGROUPS + s].x - top);
        sum = fma(states[h * SUBGROUPS + s].y, weight, sum);
        y = fma(gathered[(h * SUBGROUPS + s) * (WIDTH / 4u) + i / 4u][i % 4u], weight, y);
    }
    return y;
}

// Begins with no keys and the queries in shared memory.
void take_queries() {
    [[unroll]] for (uint h = 0u; h < HEADS; ++h) {
        best[h] = LOWEST;
        total_weight[h] = 0.0;
        [[unroll]] for (uint i = 0u; i < QUADS; ++i) {
            sums[h * QUADS + i] = vec4(0.0);
            [[unroll]] for (uint e = 0u; e < 4u; ++e)
                own_q[h * QUADS + i][e] = queries[h * WIDTH + feature(i * 4u + e)];
        }
    }
}
