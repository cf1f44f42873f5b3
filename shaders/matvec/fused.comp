#version 460
// A few rows times the transposes of one to three matrices that share their input, quantized or not, with
// what comes before and after: out[i][o] = f(sum over j of g(x[i])[j] * w[o][j]). FLOATS: the matrices are of
// small floats; else affine or dense.
//   before: nothing, or RMS norm; before that the rows may be normalized and added to residuals (SUMMED);
//   after:  biases added, and then a residual, or gate(first matrix's result) * (second's).
// A workgroup keeps the rows in shared memory. A team (a subgroup, or several that share the inner axis)
// makes OUTPUTS results of every row at once; a lane takes CHUNK elements at a time and asks for the next
// ones before it multiplies. All sums are float32.
// Constants: 1 dtype, 2 bits (16 or 32: not quantized), 3 group size, 4 subgroup size, 5 rows, 6 outputs,
// 7 norm, 8 after, 9 inner size, 10 the bits of eps, 11 subgroups of a team, 12 summed.
#include "common.glsl"
#include "floats.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const uint BITS = 4;
layout(constant_id = 3) const uint GROUP = 64;
layout(constant_id = 4) const uint SUBGROUP = 32;
layout(constant_id = 5) const uint ROWS = 1;
layout(constant_id = 6) const uint OUTPUTS = 4;
layout(constant_id = 7) const bool NORM = false;
layout(constant_id = 8) const uint AFTER = 0;
layout(constant_id = 9) const uint INNER = 1024;
layout(constant_id = 10) const uint EPS = 0;
layout(constant_id = 11) const uint SPLITS = 1;
layout(constant_id = 12) const bool SUMMED = false;
const bool WIDE = false; // 437 to 410 tokens/s where it is true (8B of 4 bits by dispatches on an H200)

#include "quant.glsl"
#define VARIANT 1
#include "team.glsl"
#extension GL_KHR_shader_subgroup_shuffle : require
#if DOTS == 1
#extension GL_EXT_spirv_intrinsics : require
#endif

#include "matvec.glsl"

// Matrices and results that a team works on at once.
const uint SETS = GATED ? 2u : 1u, RESULTS = SETS * OUTPUTS;
// Subgroups and teams of a workgroup, lanes of a team.
const uint SUBGROUPS = gl_WorkGroupSize.x / SUBGROUP, TEAMS = SUBGROUPS / SPLITS, LANES = SPLITS * SUBGROUP;
// Octets are exchanged within runs of at most eight.
const uint OCTETS = INNER / 8u, PITCH = (OCTETS + 7u) / 8u * 8u;
#define CHUNKS (INNER / CHUNK)
const uint SLOTS = 2; // the second is prefetched
#define MOST_OCTETS (ROWS * PITCH)
#define MOST_CHUNKS (ROWS * CHUNKS)
#include "matvec_lanes.glsl"
#define NORM_ROWS (SUMMED ? 2u * ROWS : ROWS)
#include "row_norm.glsl"

shared float split_sums[SPLITS > 1u ? SUBGROUPS * RESULTS * ROWS : 1u]; // of a team's results

uint team_lane() { return gl_SubgroupID % SPLITS * SUBGROUP + gl_SubgroupInvocationID; }

void load_row(uint64_t base, uint octet, out vec4 low, out vec4 high) {
    fetch8(DTYPE, true, base + (uint64_t(octet * 8u) << float_shift(DTYPE)), low, high);
}

uint64_t row_at(uint64_t base, uint row) { return base + (uint64_t(row * INNER) << float_shift(DTYPE)); }

RowSum row_sum; // if SUMMED

vec4 as_stored4(vec4 v) {
    return vec4(as_stored(DTYPE, v.x), as_stored(DTYPE, v.y), as_stored(DTYPE, v.z), as_stored(DTYPE, v.w));
}

// An octet of a row, or of the sum with its residual, for which the row is multiplied with `factor`.
void load_x(uint row, uint octet, float factor, out vec4 low, out vec4 high) {
    load_row(row_at(x, row), octet, low, high);
    if (!SUMMED) return;
    vec4 w_low, w_high, r_low, r_high;
    load_row(row_sum.weight, octet, w_low, w_high);
    load_row(row_at(row_sum.residual, row), octet, r_low, r_high);
    low = as_stored4(r_low + as_stored4(low * (factor * w_low)));
    high = as_stored4(r_high + as_stored4(high * (factor * w_high)));
}

// What RMS norm multiplies a row with, for the sum, or, if `again`, behind it.
float factor_of(uint row, uint thread, bool again, float sum_factor) {
    float squares = 0.0;
    for (uint octet = thread; octet < OCTETS; octet += gl_WorkGroupSize.x) {
        vec4 low, high;
        if (again) load_x(row, octet, sum_factor, low, high);
        else load_row(row_at(x, row), octet, low, high);
        squares = dot_add(high, high, dot_add(low, low, squares));
    }
    float eps = again ? uintBitsToFloat(EPS) : row_sum.eps;
    return row_norm_factor(SUMMED && again ? ROWS + row : row, squares, INNER, eps);
}

// Stores an octet of a sum; workgroups take turns.
void keep_row_sum(uint row, uint octet, vec4 low, vec4 high) {
    if (row_sum.result == 0ul || octet % gl_NumWorkGroups.x != gl_WorkGroupID.x) return;
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        float y = i < 4u ? low[i] : high[i - 4u];
        store_float(DTYPE, row_sum.result, int64_t(row * INNER + octet * 8u + i), y);
    }
}

// Exchanges the bytes of both quads of an octet with neighbours', so that quarters of elements stand beside
// each other as slices have their fields.
void slice_octets(uint octet, inout uvec2 d, inout uvec2 e) {
    uint lane = 1u;
    uvec2 other = e, other_e = d;
    bool second = false, second_e = true;
    if (FIELDS == 8u) { // else both are quarters
        other = subgroupShuffleXor(d, lane);
        other_e = subgroupShuffleXor(e, lane);
        second = second_e = (octet & lane) != 0u;
        lane = 2u;
    }
    d = joined_bytes(d, other, second);
    e = joined_bytes(e, other_e, second_e);
    second = (octet & lane) != 0u;
    d = as_sliced(joined_halves(d, subgroupShuffleXor(d, lane), second));
    e = as_sliced(joined_halves(e, subgroupShuffleXor(e, lane), second));
}

// Stores an octet of a row in int8, and of its chunk, of which neighbours have a part each, the unit and
// the sum.
void keep_int8(uint row, uint octet, bool real, vec4 low, vec4 high) {
    float most = largest(max(abs(low), abs(high))), sum = quad_sum(low + high);
    join_chunk(CHUNK / 8u, most, sum);
    // Fields of 4 bits become bytes of the even and of the odd elements.
    vec4 first = BITS == 4u ? vec4(low.xz, high.xz) : low, second = BITS == 4u ? vec4(low.yw, high.yw) : high;
    float per = per_unit(most);
    uvec2 d = split_quad(first, per), e = split_quad(second, per);
    if (SLICED) slice_octets(octet, d, e);
    if (!real) return;
    staged[offset_of(row, octet)] = uvec4(d, e);
    keep_unit(row, octet, CHUNK / 8u, most, sum);
}

// Brings the rows to shared memory, normalized, with the sums of every chunk.
void stage() {
    uint thread = gl_SubgroupID * SUBGROUP + gl_SubgroupInvocationID;
    if (thread == 0u) staged_one = IN_PLACE ? one : one + 0x0b800000u; // 1.0 or 2^23
    if (SUMMED) row_sum = Targets(matrices[0].result).sum;
    [[dont_unroll]] for (uint row = 0u; row < ROWS; ++row) {
        float sum_factor = SUMMED ? factor_of(row, thread, false, 0.0) : 1.0;
        float factor = NORM ? factor_of(row, thread, true, sum_factor) : 1.0;
        // All lanes go round equally often: they exchange sums.
        for (uint first = 0u; first < OCTETS; first += gl_WorkGroupSize.x) {
            uint octet = first + thread;
            vec4 low = vec4(0.0), high = vec4(0.0);
            if (octet < OCTETS) {
                load_x(row, octet, sum_factor, low, high);
                if (SUMMED) keep_row_sum(row, octet, low, high);
                if (NORM) {
                    vec4 w_low, w_high;
                    load_row(weight, octet, w_low, w_high);
                    low *= factor * w_low;
                    high *= factor * w_high;
                }
                if (!INT8_ROWS) keep(row, octet, low, high);
            }
            if (INT8_ROWS) keep_int8(row, octet, octet < OCTETS, low, high);
            else keep_sums(row, octet, 4u, octet < OCTETS, (low.xy + low.zw) + (high.xy + high.zw));
        }
    }
    barrier();
    one_ = staged_one;
}

// Asks for everything of the weights that a chunk needs.
void load_weights(uint set, uint first, uint chunk) {
    [[unroll]] for (uint s = 0u; s < SETS; ++s) {
        uint64_t words = matrices[set + s].words + uint64_t(first * CHUNKS + chunk) * (WORDS * 4u);
#ifdef FLOATS
        uint64_t scales = matrices[set + s].scales + uint64_t(first * (INNER / GROUP) + chunk * GROUPS);
#else
        uint64_t group = uint64_t(first * (INNER / GROUP) + chunk * CHUNK / GROUP) << float_shift(DTYPE);
        uint64_t scales = matrices[set + s].scales + group, biases = matrices[set + s].biases + group;
#endif
        [[unroll]] for (uint r = 0u; r < OUTPUTS; ++r) {
            uint o = s * OUTPUTS + r;
            load_words(words + uint64_t(r * CHUNKS * WORDS * 4u), (RESULTS + o) * WORDS);
#ifdef FLOATS
            affine_of[RESULTS + o] = scale_codes(scales + uint64_t(r * (INNER / GROUP)));
#else
            if (DENSE) continue;
            uint64_t stride = uint64_t((r * (INNER / GROUP)) << float_shift(DTYPE));
            affine_of[RESULTS + o] =
                uvec2(fetch_bits(DTYPE, scales + stride), fetch_bits(DTYPE, biases + stride));
#endif
        }
    }
}

// Sums of the team's results; the first chunk's weights are prefetched.
void sum_up(uint set, uint first) {
    [[unroll]] for (uint i = 0u; i < RESULTS * ROWS; ++i) total[i] = 0.0;
    for (uint chunk = team_lane(); chunk < CHUNKS; chunk += LANES) {
        [[unroll]] for (uint i = 0u; i < RESULTS * WORDS; ++i) words_of[i] = words_of[RESULTS * WORDS + i];
        [[unroll]] for (uint i = 0u; i < RESULTS; ++i) affine_of[i] = affine_of[RESULTS + i];
        if (chunk + LANES < CHUNKS) load_weights(set, first, chunk + LANES);
        add_chunk(0u, chunk);
    }
}

// Adds up what the lanes of a team have; its first subgroup has the sums then. With several, all of the
// workgroup's come here together.
void join() {
    [[unroll]] for (uint i = 0u; i < RESULTS * ROWS; ++i) total[i] = team_sum(total[i]);
    if (SPLITS == 1u) return;
    [[unroll]] for (uint i = 0u; i < RESULTS * ROWS; ++i)
        if (gl_SubgroupInvocationID == i % SUBGROUP)
            split_sums[gl_SubgroupID * RESULTS * ROWS + i] = total[i];
    barrier();
    if (gl_SubgroupID % SPLITS == 0u) {
        [[unroll]] for (uint i = 0u; i < RESULTS * ROWS; ++i) [[unroll]]
            for (uint s = 1u; s < SPLITS; ++s)
                total[i] += split_sums[(gl_SubgroupID + s) * RESULTS * ROWS + i];
    }
    barrier();
}

// Of the matrices of a team, where their results go, and the bits of the biases of those that a lane stores.
const uint STORED = (OUTPUTS * ROWS + SUBGROUP - 1u) / SUBGROUP;
Target targets[SETS];
uint bias[SETS * STORED];

void ask_for_targets(uint block) {
    uint set = set_of(min(block, ends[2] - 1u));
    [[unroll]] for (uint s = 0u; s < SETS; ++s) targets[s] = target_of(set + s);
}

void ask_for_biases(uint block) {
    block = min(block, ends[2] - 1u);
    uint first = (block - start_of(set_of(block))) * OUTPUTS;
    [[unroll]] for (uint i = 0u; i < STORED; ++i) {
        uint stored = min(i * SUBGROUP + gl_SubgroupInvocationID, OUTPUTS * ROWS - 1u);
        [[unroll]] for (uint s = 0u; s < SETS; ++s)
            bias[s * STORED + i] = ask_bias(DTYPE, targets[s], first + stored / ROWS);
    }
}

// Stores results first.. of the set of matrices that starts with `set`, of `outputs` each.
void finish(uint set, uint first, uint outputs) {
    [[unroll]] for (uint i = 0u; i < ROWS; ++i) {
        [[unroll]] for (uint r = 0u; r < OUTPUTS; ++r) {
            uint stored = r * ROWS + i;
            float y = total[stored], gated = 0.0;
            if (GATED) gated = total[OUTPUTS * ROWS + stored];
            if (BIASED) y = biased(DTYPE, targets[0], y, bias[stored / SUBGROUP]);
            if (BIASED && GATED)
                gated = biased(DTYPE, targets[SETS - 1u], gated, bias[STORED + stored / SUBGROUP]);
            if (GATED) y = gate(y, GELU) * gated;
            if (gl_SubgroupInvocationID != stored % SUBGROUP) continue;
            int64_t to = int64_t(uint64_t(i) * uint64_t(outputs) + uint64_t(first + r));
            if (RESIDUAL) y += fetch(DTYPE, at(DTYPE, matrices[1].words, to));
            store_float(DTYPE, BIASED ? targets[0].result : matrices[set].result, to, y);
        }
    }
}

void ask_for(uint block) {
    if (block >= ends[2] || team_lane() >= CHUNKS) return;
    uint set = set_of(block);
    load_weights(set, (block - start_of(set)) * OUTPUTS, team_lane());
}

void main() {
    uint base = gl_WorkGroupID.x * TEAMS, team = gl_SubgroupID / SPLITS, stride = gl_NumWorkGroups.x * TEAMS;
    ask_for(base + team);
    if (BIASED) ask_for_targets(base + team);
    stage();
    for (; base < ends[2]; base += stride) {
        uint block = base + team, set = set_of(block), start = start_of(set);
        if (BIASED) ask_for_biases(block);
        if (block < ends[2]) sum_up(set, (block - start) * OUTPUTS);
        ask_for(block + stride);
        join();
        if (block < ends[2] && gl_SubgroupID % SPLITS == 0u)
            finish(set, (block - start) * OUTPUTS, (ends[set] - start) * OUTPUTS);
        if (BIASED) ask_for_targets(block + stride);
    }
}
