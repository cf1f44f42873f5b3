#version 460
// Heads of many tokens on their way from the projections to an attention: RMS norm, rotary embedding, and
// storing where the attention reads them, such as the rows of a cache. A subgroup takes a head of a token; a
// lane holds words of two neighbours from both halves of the head, so that features that are rotated together
// are in one lane, however they are paired.
//
// Constants: 1 dtype, 2 flags (bit 0: norms, 1: pairs are neighbours, 2: frequencies are divisors),
// 3 features of a head (a multiple of 4), 4 subgroup size, 5 the bits of eps.
#include "common.glsl"
#include "floats.glsl"
#include "math.glsl"
#include "rotation.glsl"
#extension GL_KHR_shader_subgroup_arithmetic : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const uint FLAGS = 0;
layout(constant_id = 3) const uint WIDTH = 128;
layout(constant_id = 4) const uint SUBGROUP = 32;
layout(constant_id = 5) const uint EPS = 0;
// Flags. [host]
const uint NORM_FLAG = 1, TRADITIONAL_FLAG = 2, DIVISORS_FLAG = 4;
const bool NORM = (FLAGS & NORM_FLAG) != 0u, TRADITIONAL = (FLAGS & TRADITIONAL_FLAG) != 0u;
const bool DIVISORS = (FLAGS & DIVISORS_FLAG) != 0u;

// Queries, keys or values: dense (batches, tokens, heads, WIDTH) that go to rows so many elements apart.
struct Section {
    uint64_t from, weight, to;
    uint64_t to_batch, to_head, to_token;
    uint heads, turned; // turned: normalized, if there are norms, and rotated
};
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Sections { Section all[3]; };

layout(push_constant, scalar) uniform Push {
    Sections sections;
    uint64_t offset, frequencies; // the first token's position, an int32; frequencies as in rotation.glsl
    uint count, heads, tokens, batches; // of sections, of their heads together
    float scale;
};

// Words of a half, of which a lane has EACH.
const uint WORDS = WIDTH / 4u, EACH = (WORDS + SUBGROUP - 1u) / SUBGROUP;

// Behind the last word, that one again.
uint word(uint i) { return min(gl_SubgroupInvocationID + i * SUBGROUP, WORDS - 1u); }
bool is_there(uint i) { return WORDS % SUBGROUP == 0u || gl_SubgroupInvocationID + i * SUBGROUP < WORDS; }

vec2 load_pair(uint64_t row, uint word) {
    if (DTYPE == FLOAT32) return AT_F2(row, word);
    return half_pair(DTYPE, AT_U32(row, word));
}

void store_pair(uint64_t row, uint word, vec2 x) {
    if (DTYPE == FLOAT32) AT_F2(row, word) = x;
    else AT_U32(row, word) = pack_halves(DTYPE, x);
}

// Sines and cosines of a lane's pairs: of (first, second) neighbours, or of the first
// and of the second of both halves.
vec4 turns[EACH];

vec2 angle(vec2 position, uint pair) {
    return DTYPE == FLOAT32 ? rotation(position, pair, frequencies, 1l, DIVISORS)
                            : rotation_fast(position, pair, frequencies, DIVISORS);
}

void find_turns(uint token) {
    vec2 position = m_two_prod(float(int(uint(I32(offset).v[0]) + token)), scale);
    [[unroll]] for (uint i = 0u; i < EACH; ++i) {
        uint w = word(i);
        turns[i] = vec4(angle(position, TRADITIONAL ? w : 2u * w),
            angle(position, TRADITIONAL ? w + WORDS : 2u * w + 1u));
    }
}

vec2 turn(vec2 pair, vec2 r) { return vec2(pair.x * r.y - pair.y * r.x, pair.x * r.x + pair.y * r.y); }

// Both halves' words, rotated.
vec4 rotated(vec4 x, vec4 r) {
    if (TRADITIONAL) return vec4(turn(x.xy, r.xy), turn(x.zw, r.zw));
    vec2 a = turn(x.xz, r.xy), b = turn(x.yw, r.zw);
    return vec4(a.x, b.x, a.y, b.y);
}

void do_head(Section s, uint batch, uint token, uint head) {
    uint64_t row = (uint64_t(batch) * uint64_t(tokens) + uint64_t(token)) * uint64_t(s.heads)
        + uint64_t(head);
    uint64_t from = at(DTYPE, s.from, int64_t(row * uint64_t(WIDTH)));
    uint64_t to = at(DTYPE, s.to,
        int64_t(uint64_t(batch) * s.to_batch + uint64_t(head) * s.to_head + uint64_t(token) * s.to_token));
    vec4 x[EACH], weights[EACH];
    [[unroll]] for (uint i = 0u; i < EACH; ++i) {
        x[i] = vec4(load_pair(from, word(i)), load_pair(from, word(i) + WORDS));
        if (NORM && s.turned != 0u)
            weights[i] = vec4(load_pair(s.weight, word(i)), load_pair(s.weight, word(i) + WORDS));
    }
    if (s.turned != 0u) {
        float squares = 0.0;
        if (NORM) [[unroll]] for (uint i = 0u; i < EACH; ++i) squares += is_there(i) ? dot(x[i], x[i]) : 0.0;
        float factor = NORM ? norm_factor(subgroupAdd(squares), WIDTH, uintBitsToFloat(EPS)) : 1.0;
        [[unroll]] for (uint i = 0u; i < EACH; ++i)
            x[i] = rotated(NORM ? x[i] * factor * weights[i] : x[i], turns[i]);
    }
    [[unroll]] for (uint i = 0u; i < EACH; ++i) {
        if (!is_there(i)) continue;
        store_pair(to, word(i), x[i].xy);
        store_pair(to, word(i) + WORDS, x[i].zw);
    }
}

void main() {
    uint teams = gl_NumWorkGroups.y * gl_NumSubgroups,
         first = gl_WorkGroupID.y * gl_NumSubgroups + gl_SubgroupID;
    for (uint t = gl_WorkGroupID.x; t < batches * tokens; t += gl_NumWorkGroups.x) {
        find_turns(t % tokens);
        for (uint h = first; h < heads; h += teams) {
            uint head = h, s = 0u;
            while (s + 1u < count && head >= sections.all[s].heads) head -= sections.all[s++].heads;
            do_head(sections.all[s], t / tokens, t % tokens, head);
        }
    }
}
