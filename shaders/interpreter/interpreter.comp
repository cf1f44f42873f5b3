#version 460
// A run of steps in one dispatch: products of one row with matrices, also those of experts that a router
// picks, attentions, convolutions and delta rules of one token, each with what comes before and after it,
// from a table. All workgroups take part in every step and stay until the last one. Nothing parts the steps
// but the data: what a step makes for a later one is stored as words of a value's 16 bits and the run's tag,
// and who needs it reads until all words carry that tag. Meanwhile the weights of its own work are
// prefetched. That takes workgroups that run at the same time, which Vulkan does not promise: waiting is
// bounded, and who has waited too long leaves a word for the others, who stop as well, and for a dispatch of
// one workgroup behind this one, which then does everything again under another tag. One workgroup never
// waits for others. A run may begin before the dispatch before it has ended, which leaves results with the
// run's tag (LED).
// FLOATS: the matrices are of small floats, HALF_ROWS: and rows are half rows; else affine or dense.
// Constants: 1 dtype, 2 bits (16: not quantized), 3 group size, 4 subgroup size, 5 features of a head,
// 6 query heads per key/value head, 7 flags, 8 chunks of twice the length; of caches 9 bits (16: not
// quantized), 10 group size; 11 features of a head that are rotated; of delta rules 12 key features and 13
// values of a head.
#ifdef HALF_ROWS
#define FLOATS
#define DOTS 0
#endif
#include "common.glsl"
#include "floats.glsl"
#include "bias.glsl"
#include "math.glsl"
#include "rotation.glsl"
#include "gate.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#if DOTS == 1 || defined(HALF_ROWS)
#extension GL_EXT_spirv_intrinsics : require
#endif

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 10;
layout(constant_id = 2) const uint BITS = 4;
layout(constant_id = 3) const uint GROUP = 64;
layout(constant_id = 4) const uint SUBGROUP = 32;
layout(constant_id = 5) const uint WIDTH = 128;
layout(constant_id = 6) const uint SHARING = 2;
layout(constant_id = 7) const uint FLAGS = 0;
layout(constant_id = 8) const bool WIDE = false;
layout(constant_id = 9) const uint CACHE_BITS = 16;
layout(constant_id = 10) const uint CACHE_GROUP = 64;
layout(constant_id = 11) const uint ROTATED = 128;
layout(constant_id = 12) const uint DELTA_KEYS = 0;
layout(constant_id = 13) const uint DELTA_VALUES = 0;
// Flags: three of attentions, and whether there are biases of products, mixtures of experts, products whose x
// is summed, experts that all tokens have, experts that are picked by scores (scores.glsl), and delta rules.
// [host]
const uint NORM_FLAG = 1, TRADITIONAL_FLAG = 2, DIVISORS_FLAG = 4, BIASES_FLAG = 8, MIXTURES_FLAG = 16,
           SUMS_FLAG = 32, SHARED_FLAG = 64, SCORES_FLAG = 128, DELTAS_FLAG = 256;
const bool NORM = (FLAGS & NORM_FLAG) != 0u, TRADITIONAL = (FLAGS & TRADITIONAL_FLAG) != 0u;
const bool DIVISORS = (FLAGS & DIVISORS_FLAG) != 0u, BIASES = (FLAGS & BIASES_FLAG) != 0u;
const bool MIXTURES = (FLAGS & MIXTURES_FLAG) != 0u, SUMS = (FLAGS & SUMS_FLAG) != 0u;
const bool SHARED = (FLAGS & SHARED_FLAG) != 0u, SCORED = (FLAGS & SCORES_FLAG) != 0u;
const bool DELTAS = (FLAGS & DELTAS_FLAG) != 0u;

layout(push_constant, scalar) uniform Push {
    uint64_t table, control; // the rows; words that the workgroups share (see their numbers below)
    uint64_t verdict;        // a word that the host reads: not zero after a run that had to be repeated
    uint steps, tag;
    uint mode;               // what to do, below
    uint patience;           // how often a word is read before its maker is given up
    uint one;                // the bits of 1.0
};
// Modes. [host]
const uint RUN = 0, REPEAT = 1, TRIAL = 2;
const uint FAILED = 0, ARRIVED = 1; // words of control

// ---- a row of the table ----
#include "run_rows.glsl"
shared uvec4 rows[2u * ROW_QUADS]; // this step's and the next one's
uint row;                          // where this step's begins, in quads
uint kind;
uvec4 quad(uint i) { return rows[row + i]; }
// Whether the row is of a mixture, and one of these kinds.
bool is_mixed(uint kinds) { return MIXTURES && (kind & kinds) != 0u; }
uint64_t first_address(uvec4 q) { return packUint2x32(q.xy); }
uint64_t second_address(uvec4 q) { return packUint2x32(q.zw); }

// ---- words with tags ----
layout(buffer_reference, scalar, buffer_reference_align = 16) coherent volatile buffer Tagged4 { uvec4 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) coherent volatile buffer Tagged2 { uvec2 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent volatile buffer Tagged { uint v[]; };

bool lost; // somebody was given up
shared uint stopped;

uint tagged(uint bits) { return (tag << 16) | bits; }
bool stale(uint w) { return (w >> 16) != tag; }
bool stale(uvec2 w) { return stale(w.x) || stale(w.y); }
bool stale(uvec4 w, uint tag_) { return any(notEqual(w >> 16, uvec4(tag_))); }
uint pair_of(uvec2 w) { return (w.x & 0xffffu) | (w.y << 16); }

// Whether to stop waiting, after `spins` times.
bool gives_up(inout uint spins) {
    ++spins;
    if (spins > patience) Tagged(control).v[FAILED] = 1u;
    if (spins % 64u == 0u && Tagged(control).v[FAILED] != 0u || spins > patience) lost = true;
    return lost;
}

uint thread() { return gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID; }
uint bits_of(float x) { return DTYPE == BFLOAT16 ? f32_to_bf16(x) : f32_to_f16(x); }

// ---- products ----
// A team's results: neighbours of one matrix, or two of the gate and two of the other.
const uint ROWS = 1, RESULTS = 4, HALF = RESULTS / 2u;
const uint SUBGROUPS = gl_WorkGroupSize.x / SUBGROUP;
const uint QUADS_ = 6; // quads of the row that a thread brings, at most
// What is not quantized waits for memory, what is for instructions and registers.
const uint SLOTS = BITS >= 16u ? 2u : 1u;
const uint PITCH = 0u, CHUNKS = 0u;
const uint MOST_OCTETS = QUADS_ / 2u * gl_WorkGroupSize.x, MOST_CHUNKS = MOST_OCTETS / 4u;
#include "quant.glsl"
#include "matvec_lanes.glsl"
#define NORM_ROWS (SUMS ? 2u : 1u)
#include "row_norm.glsl"

shared float split_sums[2u * RESULTS * SUBGROUPS]; // of a team's results, for every other block

// Elements and chunks of a row; blocks of results; subgroups of a team.
uint inner, chunks, blocks, splits_log;
uint row_words, row_affine; // bytes of a matrix's row
uint rounds;                            // chunks of a row for a lane

uint team_lane() { return (gl_SubgroupID & ((1u << splits_log) - 1u)) * SUBGROUP + gl_SubgroupInvocationID; }
uint team_lanes() { return SUBGROUP << splits_log; }
// Teams of all workgroups, those of one far apart: what is left over is spread.
uint first_block() { return (gl_SubgroupID >> splits_log) * gl_NumWorkGroups.x + gl_WorkGroupID.x; }
uint block_stride() { return (SUBGROUPS >> splits_log) * gl_NumWorkGroups.x; }

// The number of a block's matrix, and its quads.
uint number_of(uint block) {
    uvec2 ends = quad(ENDS_AND_STRIDES).xy;
    return (block >= ends.x ? 1u : 0u) + (block >= ends.y ? 1u : 0u);
}
uint matrix_of(uint block) { return MATRIX + 2u * number_of(block); }

void pick_matrix(inout uint block, inout uint chunk, inout uint m, out uint64_t words, out uint64_t affine);

// ---- what is asked for next ----
// The compiler waits at the end of a branch for what was asked for in it, so everything that decides is asked
// for without one: where there is nothing, that is something else.

uint asked_chunk;
uint64_t asked_words, asked_scales, asked_biases; // of a block's first row
uint asked_second; // the quad that says where its second half is

// Goes to a chunk of a block; behind the last one, to that.
void point(uint block, uint chunk_) {
    asked_chunk = chunk_;
    uint real = min(block, blocks - 1u), chunk = min(asked_chunk, chunks - 1u), m = matrix_of(real);
    uvec2 strides = quad(ENDS_AND_STRIDES).zw;
    uint64_t expert_words = 0ul, expert_affine = 0ul;
    asked_second = SECOND;
    if (is_mixed(PICKED | WEIGHED)) pick_matrix(real, chunk, m, expert_words, expert_affine);
    uvec4 at_ = quad(m);
    asked_words = first_address(at_) + expert_words + uint64_t(real * strides.x + chunk * (WORDS * 4u));
    if (DENSE) return;
    uint64_t affine = expert_affine + uint64_t(real * strides.y + chunk * CHUNK / GROUP * SCALE_BYTES);
    asked_scales = second_address(at_) + affine;
    asked_biases = first_address(quad(m + 1u)) + affine;
}

// Begins with this lane's first chunk of a block.
void aim(uint block) { point(block, team_lane()); }

// Asks for a chunk of all rows of the block: the lane's next one, or the one after it, for which that is
// asked for where there is none.
void ask(uint slot) {
    uvec4 second = quad(SHARED ? asked_second : SECOND);
    uint lanes = slot == 1u && asked_chunk + team_lanes() < chunks ? team_lanes() : 0u;
    uint64_t words = asked_words + uint64_t(lanes * (WORDS * 4u));
    uint64_t second_biases = first_address(quad(SHARED ? asked_second + 1u : COUNTS));
    [[unroll]] for (uint r = 0u; r < RESULTS; ++r) {
        bool upper = r >= HALF;
        load_words(words + uint64_t(r % HALF * row_words) + (upper ? first_address(second) : 0ul),
            (slot * RESULTS + r) * WORDS);
        if (DENSE) continue;
        uint64_t affine = uint64_t(r % HALF * row_affine),
                 scale = asked_scales + affine + (upper ? second_address(second) : 0ul);
#ifdef FLOATS
        affine_of[r] = scale_codes(scale);
#else
        uint64_t bias = asked_biases + affine + (upper ? second_biases : 0ul);
        affine_of[r] = uvec2(fetch_bits(DTYPE, scale), fetch_bits(DTYPE, bias));
#endif
    }
}

// Goes on to the lane's next chunks of the block, if there are any.
void advance(uint block) {
    // The next ones may be another expert's.
    if (is_mixed(WEIGHED)) { point(block, asked_chunk + SLOTS * team_lanes()); return; }
    asked_chunk += SLOTS * team_lanes();
    uint lanes = asked_chunk < chunks ? SLOTS * team_lanes() : 0u;
    asked_words += uint64_t(lanes * (WORDS * 4u));
    asked_scales += uint64_t(lanes * CHUNK / GROUP * SCALE_BYTES);
    asked_biases += uint64_t(lanes * CHUNK / GROUP * SCALE_BYTES);
}

// Whether a subgroup has none of the threads' i-th quads of the row.
bool is_without(uint i) { return gl_SubgroupID * SUBGROUP + i * gl_WorkGroupSize.x >= inner / 4u; }

// Where quad i of the row begins; without tags, the octet that it is half of.
uint64_t quad_at(uint64_t x, uint i) {
    i = min(i, inner / 4u - 1u);
    return x + uint64_t((kind & FLAGGED) != 0u ? i << 4 : (i & ~1u) << 3);
}

// Asks for this thread's quads of the row.
void ask_row(uint64_t x, out uvec4 w[QUADS_]) {
    w[0] = Tagged4(quad_at(x, thread())).v[0];
    // What is not set in every case is set first: it would be kept from step to step, which takes registers.
    [[unroll]] for (uint i = 1u; i < QUADS_; ++i) w[i] = uvec4(0u);
    [[unroll]] for (uint i = 1u; i < QUADS_; ++i) {
        if (i * gl_WorkGroupSize.x >= inner / 4u) break;
        w[i] = Tagged4(quad_at(x, thread() + i * gl_WorkGroupSize.x)).v[0];
    }
}

// The pairs of values in them, waited for.
void take_row(uint64_t x, uvec4 w[QUADS_], out uvec2 own[QUADS_]) {
    [[unroll]] for (uint i = 0u; i < QUADS_; ++i) own[i] = (thread() & 1u) != 0u ? w[i].zw : w[i].xy;
    if ((kind & FLAGGED) == 0u) return;
    // What a dispatch has left keeps the run's tag while the run is repeated with the next one.
    uint spins = 0u, tag_ = (kind & LED) != 0u ? tag & ~1u : tag;
    [[unroll]] for (uint i = 0u; i < QUADS_; ++i) {
        if (is_without(i)) break; // who brings nothing waits at the barrier
        while (stale(w[i], tag_) && !gives_up(spins))
            w[i] = Tagged4(quad_at(x, thread() + i * gl_WorkGroupSize.x)).v[0];
        own[i] = uvec2(pair_of(w[i].xy), pair_of(w[i].zw));
    }
}

// Asks for the norm's weights for this thread's quads, if there is a norm.
void ask_weights(uint64_t weight, out uvec2 weights[QUADS_]) {
    bool norm = (kind & NORMALIZED) != 0u;
    weights[0] = V2(norm ? weight : table).v[norm ? min(thread(), inner / 4u - 1u) : 0u];
    [[unroll]] for (uint i = 1u; i < QUADS_; ++i) weights[i] = uvec2(0u);
    if (norm) [[unroll]] for (uint i = 1u; i < QUADS_; ++i) {
        if (i * gl_WorkGroupSize.x >= inner / 4u) break;
        weights[i] = V2(weight).v[min(thread() + i * gl_WorkGroupSize.x, inner / 4u - 1u)];
    }
}

// Asks for what is added to result i; with a tag or without one.
uint ask_residual(uint64_t from, uint i) {
    bool real = (kind & RESIDUAL) != 0u && i < RESULTS * blocks, flagged = (kind & FLAGGED_RESIDUAL) != 0u;
    uint64_t at_ = real ? from + uint64_t(i << (flagged ? 2u : 1u)) : table;
    return flagged ? Tagged(at_).v[0] : uint(U16(at_).v[0]);
}

// Which of a team's results a lane gets in the end: a quarter of the lanes has the same.
uint result_of_lane() { return gl_SubgroupInvocationID / (SUBGROUP / RESULTS); }

// The number of the matrix of which this lane has a result of the block, and the result's among its own.
uint added_of(uint block, out uint i) {
    bool gated = (kind & GATED) != 0u;
    uint result = result_of_lane();
    i = gated ? HALF * block + result % HALF : RESULTS * block + result;
    return gated ? result / HALF : number_of(block);
}

// Asks for the bias of this lane's result of a block; of another one behind the last.
uint ask_bias(uint block) {
    uint i, m = added_of(min(block, blocks - 1u), i);
    uvec4 pair = quad(ADDED + m / 2u);
    uint64_t from = m % 2u == 0u ? first_address(pair) : second_address(pair);
    bool real = (kind & (BIASED << m)) != 0u;
    return uint(U16(real ? from + uint64_t(i << 1) : table).v[0]);
}

// This lane's result of a block with its bias, if there is one.
float biased(uint block, float y, uint bias) {
    uint i, m = added_of(block, i);
    float sum = with_bias(DTYPE, y, bias, (kind & (AT_ONCE << m)) != 0u);
    return (kind & (BIASED << m)) != 0u ? sum : y;
}

// ---- the row ----

vec4 unpack(uvec2 p) { return vec4(half_pair(DTYPE, p.x), half_pair(DTYPE, p.y)); }

// Four finite floats, rounded.
uvec2 pack(vec4 x) {
    if (DTYPE == BFLOAT16) return uvec2(bfloat16_pair(x.xy), bfloat16_pair(x.zw));
    return uvec2(pack_halves(DTYPE, x.xy), pack_halves(DTYPE, x.zw));
}

#include "run_mixture.glsl"

// Stores quad i of the row, and its part of the sums of its chunk.
void keep_quad(uint i, uvec2 bits) {
    bool real = i < inner / 4u;
    if (real) {
        uint to = offset_of(0u, i / 2u);
        if (i % 2u == 0u) staged[to].xy = bits;
        else staged[to].zw = bits;
    }
    vec4 x = unpack(bits);
    keep_sums(0u, i, 8u, real, x.xy + x.zw);
}

// Exchanges the bytes of a quad with neighbours', so that quarters of elements stand beside each other as
// slices have their fields.
uvec2 sliced_quads(uint i, uvec2 d) {
    const uint LANE = FIELDS / 4u; // quads of a quarter
    d = joined_bytes(d, subgroupShuffleXor(d, LANE), (i & LANE) != 0u);
    return as_sliced(joined_halves(d, subgroupShuffleXor(d, 2u * LANE), (i & 2u * LANE) != 0u));
}

// Stores quad i in int8, and of its chunk the unit and the sum.
void keep_int8(uint i, vec4 x) {
    bool real = i < inner / 4u, odd = (i & 1u) != 0u;
    float most = real ? largest(abs(x)) : 0.0, sum = quad_sum(x);
    join_chunk(CHUNK / 4u, most, sum);
    float per = per_unit(most);
    uint first, second;
    if (BITS == 4u) {
        // Who has the first half of an octet makes bytes of the even elements, the neighbour of the odd ones.
        uint evens = units(x.xz, per), odds = units(x.yw, per),
             other = subgroupShuffleXor(odd ? evens : odds, 1u);
        uint early = odd ? other : evens, late = odd ? odds : other;
        first = (early & 0xffffu) | (late << 16);
        second = (early >> 16) | (late & 0xffff0000u);
    } else {
        first = units(x.xz, per);
        second = units(x.yw, per);
    }
    uvec2 d = split_units(first, second);
    if (SLICED) d = sliced_quads(i, d);
    if (!real) return;
    uint to = offset_of(0u, i / 2u);
    if (odd) staged[to].zw = d;
    else staged[to].xy = d;
    keep_unit(0u, i, CHUNK / 4u, most, sum);
}

#ifdef HALF_ROWS
// Stores quad i as halves, and of its chunk the unit.
void keep_halves(uint i, vec4 x) {
    bool real = i < inner / 4u, odd = (i & 1u) != 0u;
    float most = real ? largest(abs(x)) : 0.0;
    [[unroll]] for (uint s = 1u; s < CHUNK / 4u; s *= 2u) most = max(most, subgroupShuffleXor(most, s));
    float unit = half_unit(most);
    x *= per_half_unit(unit);
    uvec2 d;
    if (BITS == 4u) {
        // Who has the first half of an octet pairs its first two elements, the neighbour the others.
        uint own = packHalf2x16(odd ? x.zw : x.xy),
             other = subgroupShuffleXor(packHalf2x16(odd ? x.xy : x.zw), 1u);
        uint early = odd ? other : own, late = odd ? own : other;
        d = uvec2((early & 0xffffu) | (late << 16), (early >> 16) | (late & 0xffff0000u));
    } else {
        d = uvec2(packHalf2x16(x.xz), packHalf2x16(x.yw));
    }
    if (!real) return;
    uint to = offset_of(0u, i / 2u);
    if (odd) staged[to].zw = d;
    else staged[to].xy = d;
    if (i % (CHUNK / 4u) == 0u) staged_sums[i / (CHUNK / 4u)] = vec2(unit * ELEMENT_UNIT, 0.0);
}
#endif

// What the norm multiplies the row with, or the one that makes it (1).
float factor_of(uint number, uvec2 own[QUADS_], float eps) {
    float squares = 0.0;
    [[unroll]] for (uint i = 0u; i < QUADS_; ++i) {
        if (i * gl_WorkGroupSize.x >= inner / 4u) break;
        vec4 x = unpack(own[i]);
        if (thread() + i * gl_WorkGroupSize.x < inner / 4u) squares = dot_add(x, x, squares);
    }
    return row_norm_factor(number, squares, inner, eps);
}

// Makes a residual and the normalized row their sum, which workgroups store by turns.
void sum_row(inout uvec2 own[QUADS_]) {
    uint64_t weight = second_address(quad(SUM_WEIGHT)), residual = first_address(quad(SUM_RESIDUAL)),
             marked = second_address(quad(SUM_RESIDUAL)), result = first_address(quad(SUM_RESULT));
    bool flagged = (kind & FLAGGED_ADDEND) != 0u;
    float factor = factor_of(1u, own, uintBitsToFloat(quad(SUM_RESULT).z));
    uint spins = 0u;
    [[unroll]] for (uint i = 0u; i < QUADS_; ++i) {
        if (is_without(i)) break;
        uint q = thread() + i * gl_WorkGroupSize.x, real = min(q, inner / 4u - 1u);
        uvec2 addend = V2(flagged ? table : residual).v[flagged ? 0u : real];
        if (flagged) {
            uvec4 w = Tagged4(residual).v[real];
            while (stale(w, tag) && !gives_up(spins)) w = Tagged4(residual).v[real];
            addend = uvec2(pair_of(w.xy), pair_of(w.zw));
        }
        vec4 x = unpack(pack(unpack(own[i]) * (factor * unpack(V2(weight).v[real])))) + unpack(addend);
        own[i] = uvec2(pack_halves(DTYPE, x.xy), pack_halves(DTYPE, x.zw)); // also what is not finite
        if (q != real || q % gl_NumWorkGroups.x != gl_WorkGroupID.x) continue;
        uvec4 words = uvec4(own[i].x & 0xffffu, own[i].x >> 16, own[i].y & 0xffffu, own[i].y >> 16);
        if (marked != 0ul) Tagged4(marked).v[q] = (tag << 16) | words;
        if (result != 0ul) V2(result).v[q] = own[i];
    }
}

// Brings the row to shared memory, normalized, with the sums of every chunk; and the next step's row of the
// table.
void stage(uvec4 next_row, float eps, uvec4 asked[QUADS_], uvec2 weights[QUADS_]) {
    bool norm = (kind & NORMALIZED) != 0u, weighed = is_mixed(WEIGHED);
    uvec2 own[QUADS_];
    take_row(first_address(quad(SOURCE)), asked, own);
    float factor = 1.0;
    if (SUMS && (kind & SUMMED) != 0u) sum_row(own);
    if (norm) factor = factor_of(0u, own, eps);
    if (!norm || SUBGROUPS == 1u) barrier(); // all have finished the step before; for the norm, they have met
    if (thread() < ROW_QUADS) rows[(row ^ ROW_QUADS) + thread()] = next_row;
    [[unroll]] for (uint i = 0u; i < QUADS_; ++i) {
        if (is_without(i)) break;
        vec4 x = unpack(own[i]);
        if (norm) x *= factor * unpack(weights[i]);
        if (weighed) x *= share_of(thread() + i * gl_WorkGroupSize.x);
        if (INT8_ROWS) { keep_int8(thread() + i * gl_WorkGroupSize.x, x); continue; }
#ifdef HALF_ROWS
        keep_halves(thread() + i * gl_WorkGroupSize.x, x);
#else
        if (norm || weighed) own[i] = pack(x);
        keep_quad(thread() + i * gl_WorkGroupSize.x, own[i]);
#endif
    }
    if (is_mixed(PICKED)) take_logits();
    if (lost) stopped = 1u;
    barrier();
}

// ---- the results ----

// The sum over a team of this lane's result, in its first subgroup.
float team_result(uint parity) {
    bool upper = gl_SubgroupInvocationID >= SUBGROUP / 2u,
         odd = (gl_SubgroupInvocationID & (SUBGROUP / 4u)) != 0u;
    // Each half of the lanes goes on with half of the results, then each quarter with one.
    float even = (upper ? total[2] : total[0])
        + subgroupShuffleXor(upper ? total[0] : total[2], SUBGROUP / 2u);
    float sum = (upper ? total[3] : total[1])
        + subgroupShuffleXor(upper ? total[1] : total[3], SUBGROUP / 2u);
    sum = (odd ? sum : even) + subgroupShuffleXor(odd ? even : sum, SUBGROUP / 4u);
    [[unroll]] for (uint s = SUBGROUP / 8u; s > 0u; s /= 2u) sum += subgroupShuffleXor(sum, s);
    if (splits_log == 0u) return sum;
    uint at_ = parity * RESULTS * SUBGROUPS + result_of_lane();
    if (gl_SubgroupInvocationID % (SUBGROUP / RESULTS) == 0u) split_sums[at_ + RESULTS * gl_SubgroupID] = sum;
    barrier();
    sum = 0.0;
    for (uint s = 0u; s < (1u << splits_log); ++s)
        sum += split_sums[at_ + RESULTS * ((gl_SubgroupID + s) & (SUBGROUPS - 1u))];
    return sum;
}

float residual(uint64_t from, uint i, uint early) {
    uint spins = 0u;
    if ((kind & FLAGGED_RESIDUAL) != 0u)
        while (stale(early) && !gives_up(spins)) early = Tagged(from).v[i];
    return half_pair(DTYPE, early & 0xffffu).x;
}

// Stores a block's results, of which this lane has one, for who waits for them and in their array.
void finish(uvec4 target, uint block, float y, uint early, uint bias) {
    bool gated = (kind & GATED) != 0u;
    uint result = result_of_lane();
    if (BIASES) y = biased(block, y, bias);
    if (gated) y = gate(y, (kind & GELU) != 0u) * subgroupShuffleXor(y, SUBGROUP / 2u);
    if (gl_SubgroupInvocationID % (SUBGROUP / RESULTS) != 0u || gated && result >= HALF) return;
    uint i = (gated ? HALF : RESULTS) * block + result;
    if ((kind & RESIDUAL) != 0u) y += residual(first_address(target), i, early);
    uint bits = bits_of(y);
    if (second_address(target) != 0ul) Tagged(second_address(target)).v[i] = tagged(bits);
    // What picked experts say is in no array.
    if (!is_mixed(PICKED)) U16(second_address(quad(matrix_of(block) + 1u))).v[i] = uint16_t(bits);
}

// Adds up a block's chunks, of which the first is asked for; then the next block's
// first one is, if there are more.
void add_block(uint block, bool more) {
    for (uint left = rounds; left > 0u; --left) {
        if (block < blocks && asked_chunk < chunks) add_chunk(0u, asked_chunk);
        if (left > 1u) advance(block);
        else if (more) aim(block + block_stride());
        else break;
        ask(0u);
    }
}

// The same with two chunks prefetched.
void add_block_by_pairs(uint block, bool more) {
    for (uint left = (rounds + 1u) / 2u; left > 0u; --left) {
        uint chunk = asked_chunk;
        if (block < blocks && chunk < chunks) add_chunk(0u, chunk);
        if (left > 1u) advance(block);
        else aim(block + block_stride());
        if (left > 1u || more) ask(0u);
        if (rounds == 1u) continue;
        chunk += team_lanes();
        if (block < blocks && chunk < chunks) add_chunk(SLOTS - 1u, chunk);
        if (left > 1u || more) ask(1u);
    }
}

void product(uvec4 next_row) {
    uvec4 head = quad(HEAD), source = quad(SOURCE), target = quad(TARGET);
    inner = head.y;
    blocks = head.w;
    chunks = quad(COUNTS).z;
    rounds = quad(COUNTS).w;
    splits_log = kind >> SPLITS_SHIFT;
    uvec2 strides = quad(ENDS_AND_STRIDES).zw / ((kind & GATED) != 0u ? HALF : RESULTS);
    row_words = strides.x;
    row_affine = strides.y;
    uint block = first_block(), parity = 0u;
    bool picks = is_mixed(PICKED);
    uvec4 asked[QUADS_];
    uvec2 weights[QUADS_];
    // Before there are picks all ask for the same, because a branch would wait for what is asked for in it.
    aim(picks ? 0u : block);
    ask(0u);
    if (SLOTS == 2u) {
        [[unroll]] for (uint i = 0u; i < RESULTS * WORDS; ++i)
            words_of[(SLOTS - 1u) * RESULTS * WORDS + i] = 0u;
        if (rounds > 1u) ask(1u);
    }
    uint early = ask_residual(first_address(target), RESULTS * block + result_of_lane()), bias = 0u;
    if (BIASES) bias = ask_bias(block);
    ask_weights(second_address(source), weights);
    ask_row(first_address(source), asked);
    stage(next_row, uintBitsToFloat(head.z), asked, weights);
    if (stopped != 0u) return;
    if (picks) {
        pick_experts();
        aim(block);
        ask(0u);
    }
    bool first = (gl_SubgroupID & ((1u << splits_log) - 1u)) == 0u;
    // All teams go round equally often: those of several subgroups meet.
    for (uint base = 0u; base < blocks; base += block_stride()) {
        [[unroll]] for (uint r = 0u; r < RESULTS; ++r) total[r] = 0.0;
        if (SLOTS == 1u) add_block(block, base + block_stride() < blocks);
        else add_block_by_pairs(block, base + block_stride() < blocks);
        float y = team_result(parity);
        if (first && block < blocks) finish(target, block, y, early, bias);
        block += block_stride();
        if (base + block_stride() < blocks) {
            early = ask_residual(first_address(target), RESULTS * block + result_of_lane());
            if (BIASES) bias = ask_bias(block);
        }
        parity ^= 1u;
    }
}

#include "run_attention.glsl"
#include "run_delta.glsl"

// Whether so many workgroups run at the same time.
void trial() {
    if (thread() != 0u) return;
    atomicAdd(U32(control).v[ARRIVED], 1u);
    uint spins = 0u;
    while (Tagged(control).v[ARRIVED] < gl_NumWorkGroups.x && spins < patience) ++spins;
    if (spins == patience) Tagged(verdict).v[0] = 1u;
}

uvec4 table_quad(uint step_) {
    return thread() < ROW_QUADS && step_ < steps ? V4(table).v[step_ * ROW_QUADS + thread()] : uvec4(0u);
}

void main() {
    if (mode == TRIAL) { trial(); return; }
    lost = false;
    if (thread() < ROW_QUADS) rows[thread()] = table_quad(0u);
    if (thread() == 0u) {
        bool failed = Tagged(control).v[FAILED] != 0u;
        stopped = failed == (mode == REPEAT) ? 0u : 1u;
        staged_one = IN_PLACE ? one : one + 0x0b800000u; // 1.0 or 2^23
    }
    uvec4 next_row = table_quad(1u);
    barrier();
    one_ = staged_one;
    bool repeats = mode == REPEAT && stopped == 0u;
    for (uint s = 0u; s < steps && stopped == 0u; ++s) {
        // What one workgroup makes is there before it asks for it.
        if (gl_NumWorkGroups.x == 1u) barrier();
        row = (s & 1u) * ROW_QUADS;
        kind = quad(HEAD).x;
        uvec4 after_next = table_quad(s + 2u);
        if ((kind & ATTENTION) != 0u) attention(next_row);
        else if (is_mixed(ROUTER)) route(next_row);
        else if (DELTAS && (kind & CONVOLUTION) != 0u) convolve(next_row);
        else if (DELTAS && (kind & DELTA) != 0u) step_delta(next_row);
        else product(next_row);
        next_row = after_next;
    }
    if (repeats && thread() == 0u) {
        Tagged(verdict).v[0] = 1u;
        Tagged(control).v[FAILED] = 0u;
    }
}
