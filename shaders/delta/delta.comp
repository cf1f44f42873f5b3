#version 460
// The gated delta rule: for each value head a state (VALUES, KEYS) over time, s = gamma s;
// s += beta (v - s k) k^T; y = s q. A team of TEAM threads has a row of the state in registers.
// Constants: 1 dtype of q, k, v and y; 2 and 3 those of gamma and beta; 4 value heads, 5 of each key head;
// 6 values, 7 key features; 8 threads of a team; 9 flags; 10 values of a workgroup; 11 subgroup size; of a
// token with its gates 12 and 13 what queries and keys are multiplied with behind their norms, as bits.
// VARIANT 1: teams of several threads, by shuffles; 0: a thread is a team.
// OP 0: any number of tokens; 1: one token, whose queries and keys are normalized here, gamma and beta
// computed, and the outputs normalized and gated.
#include "common.glsl"
#include "floats.glsl"
#if VARIANT == 1
#extension GL_KHR_shader_subgroup_shuffle : require
#endif

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const uint GAMMA_DTYPE = 11;
layout(constant_id = 3) const uint BETA_DTYPE = 11;
layout(constant_id = 4) const uint HEADS = 1;
layout(constant_id = 5) const uint GROUP = 1;
layout(constant_id = 6) const uint VALUES = 1;
layout(constant_id = 7) const uint KEYS = 1;
layout(constant_id = 8) const uint TEAM = 1;
layout(constant_id = 9) const uint FLAGS = 0;
layout(constant_id = 10) const uint PART = 1;
// Flags: rows of keys, queries and states are aligned quads; there is a decay for each key feature. [host]
const uint VECTOR_FLAG = 1, FEATURES_FLAG = 2;
const bool VECTOR = (FLAGS & VECTOR_FLAG) != 0u;
const bool FEATURES = (FLAGS & FEATURES_FLAG) != 0u;
// Quads of a row that a thread has.
const uint QUADS = (KEYS + 4u * TEAM - 1u) / (4u * TEAM);

#if OP == 1
layout(constant_id = 11) const uint SUBGROUP = 32;
layout(constant_id = 12) const uint QUERY_SCALE = 0;
layout(constant_id = 13) const uint KEY_SCALE = 0;
#include "team.glsl"
#include "math.glsl"
#include "bias.glsl"
shared float outputs[VALUES];
shared float gates[2]; // decay and rate

// gamma = exp(decay softplus(a + shift)), beta = sigmoid(b); eps is that of queries and keys.
layout(push_constant, scalar) uniform GatedPush {
    uint64_t q, k, v, a, b, state, y, next;
    uint64_t decay, shift, z, weight, result;
    uint heads;                                  // of all batches
    uint query_stride, key_stride, value_stride; // elements from a token to the next one
    float eps, end_eps;
};
#else
layout(push_constant, scalar) uniform Push {
    uint64_t q, k, v, gamma, beta, state, y, next;
    uint heads, time;
    uint query_stride, key_stride, value_stride;
};
#endif

// Quad `i` of a row; elements past its end are zero.
vec4 quad(uint dtype, uint64_t row, uint i) {
    int count = int(KEYS) - int(4u * i);
    uint64_t from = row + (uint64_t(4u * i) << float_shift(dtype));
    if (VECTOR) return count > 0 ? fetch4(dtype, true, from) : vec4(0.0);
    return fetch4_tail(dtype, false, from, count);
}

void store_state(uint64_t row, uint i, vec4 x) {
    if (VECTOR) {
        if (4u * i < KEYS) AT_F4(row, i) = x;
        return;
    }
    [[unroll]] for (uint e = 0u; e < 4u; ++e) if (4u * i + e < KEYS) AT_F32(row, 4u * i + e) = x[e];
}

float team_total(float x) {
#if VARIANT == 1
    [[unroll]] for (uint s = 1u; s < TEAM; s *= 2u) x += subgroupShuffleXor(x, s);
#endif
    return x;
}

float total(vec4 x) { return (x.x + x.y) + (x.z + x.w); }

// What a thread has of a row of the state, and of a step's query and key.
vec4 row[QUADS], query[QUADS], key[QUADS];

uint quad_of(uint i) { return i * TEAM + gl_LocalInvocationID.x % TEAM; }

void load_row(uint64_t from) {
    [[unroll]] for (uint i = 0u; i < QUADS; ++i) row[i] = quad(FLOAT32, from, quad_of(i));
}

void store_row(uint64_t to) {
    [[unroll]] for (uint i = 0u; i < QUADS; ++i) store_state(to, quad_of(i), row[i]);
}

// Query and key of a token.
void load_step(uint64_t token, uint head) {
    uint64_t skip = uint64_t(head / GROUP) * KEYS;
    uint64_t query_row = at(DTYPE, q, int64_t(token * query_stride + skip));
    uint64_t key_row = at(DTYPE, k, int64_t(token * key_stride + skip));
    [[unroll]] for (uint i = 0u; i < QUADS; ++i) {
        query[i] = quad(DTYPE, query_row, quad_of(i));
        key[i] = quad(DTYPE, key_row, quad_of(i));
    }
}

// The step's output of the row, which decayed before.
float step_row(float v, float rate) {
    vec4 held = vec4(0.0), read = vec4(0.0);
    [[unroll]] for (uint i = 0u; i < QUADS; ++i) held += row[i] * key[i];
    float change = (v - team_total(total(held))) * rate;
    [[unroll]] for (uint i = 0u; i < QUADS; ++i) {
        row[i] += change * key[i];
        read += row[i] * query[i];
    }
    return team_total(total(read));
}

float value_of(uint64_t token, uint head, uint value) {
    return fetch(DTYPE, at(DTYPE, v, int64_t(token * value_stride + uint64_t(head) * VALUES + value)));
}

#if OP == 1
vec4 stored(vec4 x) {
    [[unroll]] for (uint e = 0u; e < 4u; ++e) x[e] = as_stored(DTYPE, x[e]);
    return x;
}

// RMS norm of a row that a team has, and its product with a number, each rounded as if it were stored.
#define NORMALIZE(row, scale) { \
    float squares = 0.0; \
    [[unroll]] for (uint i = 0u; i < QUADS; ++i) squares += dot(row[i], row[i]); \
    float factor = norm_factor(team_total(squares), KEYS, eps); \
    [[unroll]] for (uint i = 0u; i < QUADS; ++i) row[i] = stored(stored(row[i] * factor) * (scale)); \
}

// Norm and gate of a head's outputs.
void finish(uint64_t first) {
    uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x;
    barrier();
    float squares = 0.0;
    for (uint i = lane; i < VALUES; i += lanes) squares += outputs[i] * outputs[i];
    float factor = norm_factor(group_sum(squares), VALUES, end_eps);
    for (uint i = lane; i < VALUES; i += lanes) {
        float gate = load_float(DTYPE, z, int64_t(first + i));
        float x = as_stored(DTYPE, outputs[i] * factor * load_float(DTYPE, weight, int64_t(i)));
        store_float(DTYPE, result, int64_t(first + i), gate * m_sigmoid(gate) * x);
    }
    barrier();
}

// Rows of a team, and whether they are few enough to be asked for at once.
const uint TEAMS = gl_WorkGroupSize.x / TEAM, ROUNDS = (VALUES + TEAMS - 1u) / TEAMS;
const bool AHEAD = ROUNDS * QUADS <= 8u;
vec4 asked[AHEAD ? ROUNDS * QUADS : 1u];

uint64_t memory_of(uint64_t gate, uint value) { return (gate * VALUES + value) * (4ul * KEYS); }

void ask_rows(uint64_t gate, uint value) {
    [[unroll]] for (uint r = 0u; r < ROUNDS; ++r, value += TEAMS) {
        if (value >= VALUES) return;
        load_row(state + memory_of(gate, value));
        [[unroll]] for (uint i = 0u; i < QUADS; ++i) asked[r * QUADS + i] = row[i];
    }
}

// The step of a row that is here.
void take_row(uint64_t batch, uint head, uint value) {
    uint64_t gate = batch * HEADS + head;
    [[unroll]] for (uint i = 0u; i < QUADS; ++i) row[i] *= gates[0];
    float result_ = as_stored(DTYPE, step_row(value_of(batch, head, value), gates[1]));
    store_row(next + memory_of(gate, value));
    if (gl_LocalInvocationID.x % TEAM != 0u) return;
    outputs[value] = result_;
    store_float(DTYPE, y, int64_t(gate * VALUES + value), result_);
}

void run(uint64_t batch, uint head, uint, uint thread) {
    uint64_t gate = batch * HEADS + head;
    uint value = thread / TEAM;
    // States are on their way while gates and norms are computed.
    if (AHEAD) ask_rows(gate, value);
    load_step(batch, head);
    if (thread == 0u) {
        float x = load_float(DTYPE, a, int64_t(gate)) + load_float(DTYPE, shift, int64_t(head));
        float softplus = as_stored(DTYPE, m_logaddexp(as_stored(DTYPE, x), 0.0));
        gates[0] = m_exp(AT_F32(decay, head) * softplus);
        gates[1] = as_stored(DTYPE, m_sigmoid(load_float(DTYPE, b, int64_t(gate))));
    }
    NORMALIZE(query, uintBitsToFloat(QUERY_SCALE))
    NORMALIZE(key, uintBitsToFloat(KEY_SCALE))
    barrier();
    if (AHEAD) {
        [[unroll]] for (uint r = 0u; r < ROUNDS; ++r, value += TEAMS) {
            [[unroll]] for (uint i = 0u; i < QUADS; ++i) row[i] = asked[r * QUADS + i];
            if (value < VALUES) take_row(batch, head, value);
        }
    } else {
        for (; value < VALUES; value += TEAMS) {
            load_row(state + memory_of(gate, value));
            take_row(batch, head, value);
        }
    }
    finish(gate * VALUES);
}
#else
void run(uint64_t batch, uint head, uint part, uint thread) {
    uint value = part * PART + thread / TEAM;
    if (thread / TEAM >= PART || value >= VALUES) return;
    uint64_t memory = ((batch * HEADS + head) * VALUES + value) * (4ul * KEYS);
    load_row(state + memory);
    for (uint t = 0u; t < time; ++t) {
        uint64_t token = batch * time + t, gate = token * HEADS + head;
        load_step(token, head);
        if (FEATURES) {
            uint64_t decays = at(GAMMA_DTYPE, gamma, int64_t(gate * KEYS));
            [[unroll]] for (uint i = 0u; i < QUADS; ++i) row[i] *= quad(GAMMA_DTYPE, decays, quad_of(i));
        } else {
            float decay = load_float(GAMMA_DTYPE, gamma, int64_t(gate));
            [[unroll]] for (uint i = 0u; i < QUADS; ++i) row[i] *= decay;
        }
        float rate = load_float(BETA_DTYPE, beta, int64_t(gate));
        float result = step_row(value_of(token, head, value), rate);
        if (thread % TEAM == 0u) store_float(DTYPE, y, int64_t(gate * VALUES + value), result);
    }
    store_row(next + memory);
}
#endif

void main() {
    uint parts = (VALUES + PART - 1u) / PART;
    uint64_t all = uint64_t(heads) * parts;
    for (uint64_t w = uint64_t(gl_WorkGroupID.x); w < all; w += uint64_t(gl_NumWorkGroups.x)) {
        uint64_t head = w / parts;
        run(head / HEADS, uint(head % HEADS), uint(w % parts), gl_LocalInvocationID.x);
    }
}
