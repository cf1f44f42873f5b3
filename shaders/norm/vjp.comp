#version 460
// Derivatives of norms of dense rows along a cotangent; float32 inside. With s what a row is multiplied by, u
// the row that comes out without its weight, and v = weight * cotangent, that by the row is
// s (v - mean(v) - u mean(u v)), where norms are RMS without mean(v). For the parameters a workgroup sums
// cotangent * u and the cotangent over its rows; another kernel sums what the workgroups give.
// Constants: 1 dtype, 2 flags, 3 quads of a row that a lane keeps, 4 subgroup size. VARIANT: team.glsl.
#include "common.glsl"
#include "floats.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const uint FLAGS = 0;
layout(constant_id = 3) const uint KEPT = 1;
layout(constant_id = 4) const uint SUBGROUP = 32;
// Flags: rows and parameters are aligned quads; the mean is taken off; sums for parameters are asked for; a
// row is a team's, not the workgroup's; rows are longer than what lanes keep, and read again; the weight is a
// scalar. [host]
const uint VECTOR_FLAG = 1, CENTRED_FLAG = 2, PARAMETERS_FLAG = 4, NARROW_FLAG = 8, LONG_FLAG = 16,
           SCALAR_WEIGHT_FLAG = 32;
const bool VECTOR = (FLAGS & VECTOR_FLAG) != 0u;
const bool CENTRED = (FLAGS & CENTRED_FLAG) != 0u;
const bool PARAMETERS = (FLAGS & PARAMETERS_FLAG) != 0u;
const bool NARROW = (FLAGS & NARROW_FLAG) != 0u;
const bool LONG = (FLAGS & LONG_FLAG) != 0u;
const bool SCALAR_WEIGHT = (FLAGS & SCALAR_WEIGHT_FLAG) != 0u;

// Two sums at a time.
#define TEAM_VALUE vec2
#include "team.glsl"

layout(push_constant, scalar) uniform Push {
    // `sums`: a float32 row of each workgroup for the weight, then one for the bias if the mean is taken off.
    uint64_t x, weight, cotangent, result, sums, rows;
    uint width;
    float eps;
};

#include "norm_quads.glsl"

struct Row {
    uint64_t x, cotangent;
};

// Of this lane, by steps along the row.
vec4 kept_x[KEPT], kept_cotangent[KEPT], kept_weight[KEPT], of_weight[KEPT], of_bias[KEPT];
shared vec4 joined[gl_WorkGroupSize.x];

uint lane() { return NARROW ? TEAM_LANE : gl_LocalInvocationID.x; }
uint lanes() { return NARROW ? TEAM_SIZE : gl_WorkGroupSize.x; }
uint quads() { return (width + 3u) / 4u; }
uint steps() { return LONG ? (quads() + lanes() - 1u) / lanes() : KEPT; }

// This lane's steps along a row, and their quads.
#define STEPS(k, quad) \
    [[unroll]] for (uint k = 0u, quad = lane(); k < steps(); ++k, quad += lanes()) if (quad < quads())

vec2 row_sum(vec2 x) { return NARROW ? team_sum(x) : group_sum(x); }

// A lane's quad of a step, or the last one behind it: loads in a branch would wait for one another.
uint kept_quad(uint k) { return min(lane() + k * lanes(), quads() - 1u); }

void keep(Row row) {
    if (LONG) return;
    [[unroll]] for (uint k = 0u; k < KEPT; ++k) {
        kept_x[k] = load(DTYPE, row.x, kept_quad(k));
        kept_cotangent[k] = load(DTYPE, row.cotangent, kept_quad(k));
    }
}

void keep_weight() {
    if (LONG) return;
    [[unroll]] for (uint k = 0u; k < KEPT; ++k)
        kept_weight[k] = parameter(weight, SCALAR_WEIGHT, kept_quad(k));
}

vec4 x_of(Row row, uint k, uint quad) {
    if (LONG) return load(DTYPE, row.x, quad);
    return kept_x[k];
}

vec4 cotangent_of(Row row, uint k, uint quad) {
    if (LONG) return load(DTYPE, row.cotangent, quad);
    return kept_cotangent[k];
}

vec4 weighted(Row row, uint k, uint quad) {
    return cotangent_of(row, k, quad) * (LONG ? parameter(weight, SCALAR_WEIGHT, quad) : kept_weight[k]);
}

// A row of sums of this workgroup.
uint64_t sums_at(uint which) {
    return sums + ((uint64_t(which * gl_NumWorkGroups.x + gl_WorkGroupID.x) * uint64_t(width)) << 2);
}

// Adds to the workgroup's sums. Those of long rows are in memory, where a lane alone has its quads.
void add_to_sums(uint k, uint quad, bool first, vec4 for_weight, vec4 for_bias) {
    if (!LONG) {
        of_weight[k] += for_weight;
        if (CENTRED) of_bias[k] += for_bias;
        return;
    }
    if (!first) {
        for_weight += load(FLOAT32, sums_at(0u), quad);
        if (CENTRED) for_bias += load(FLOAT32, sums_at(1u), quad);
    }
    store(FLOAT32, sums_at(0u), quad, for_weight);
    if (CENTRED) store(FLOAT32, sums_at(1u), quad, for_bias);
}

void differentiate(Row row, uint64_t to, bool first) {
    keep(row);
    vec2 means = vec2(0.0);
    if (CENTRED) {
        STEPS(k, quad) means += vec2(quad_sum(x_of(row, k, quad)), quad_sum(weighted(row, k, quad)));
        means = row_sum(means) / float(width);
    }
    // Along what is centred itself, an error of the mean that is taken off counts for nothing.
    vec2 both = vec2(0.0);
    STEPS(k, quad) {
        vec4 y = inside(quad, x_of(row, k, quad) - means.x);
        both = vec2(dot_add(y, y, both.x), dot_add(y, weighted(row, k, quad) - means.y, both.y));
    }
    both = row_sum(both);
    float scale = norm_factor(both.x, width, eps), radial = both.y * scale / float(width);
    STEPS(k, quad) {
        vec4 unit = (x_of(row, k, quad) - means.x) * scale;
        vec4 along = cotangent_of(row, k, quad);
        vec4 y = (weighted(row, k, quad) - means.y - unit * radial) * scale;
        if (PARAMETERS) add_to_sums(k, quad, first, along * unit, along);
        store(DTYPE, to, quad, y);
    }
}

// The sum over the workgroup's teams, for the lanes of the first one.
vec4 over_teams(vec4 x) {
    if (gl_WorkGroupSize.x <= TEAM_SIZE) return x;
    joined[TEAM_ID % (gl_WorkGroupSize.x / TEAM_SIZE) * TEAM_SIZE + TEAM_LANE] = x;
    barrier();
    vec4 sum = vec4(0.0);
    for (uint i = TEAM_LANE; i < gl_WorkGroupSize.x; i += TEAM_SIZE) sum += joined[i];
    barrier();
    return sum;
}

void keep_sums() {
    bool writes = !NARROW || TEAM_ID % (gl_WorkGroupSize.x / TEAM_SIZE) == 0u;
    [[unroll]] for (uint k = 0u; k < KEPT; ++k) {
        vec4 for_weight = NARROW ? over_teams(of_weight[k]) : of_weight[k];
        vec4 for_bias = NARROW && CENTRED ? over_teams(of_bias[k]) : of_bias[k];
        uint quad = k * lanes() + lane();
        if (!writes || quad >= quads()) continue;
        store(FLOAT32, sums_at(0u), quad, for_weight);
        if (CENTRED) store(FLOAT32, sums_at(1u), quad, for_bias);
    }
}

void main() {
    uint64_t bytes = uint64_t(width) << float_shift(DTYPE);
    uint64_t first = uint64_t(NARROW ? TEAM_ID : gl_WorkGroupID.x);
    uint64_t stride = uint64_t(NARROW ? TEAM_COUNT : gl_NumWorkGroups.x);
    keep_weight();
    [[unroll]] for (uint k = 0u; k < KEPT; ++k) of_weight[k] = of_bias[k] = vec4(0.0);
    for (uint64_t row = first; row < rows; row += stride) {
        uint64_t at = row * bytes;
        differentiate(Row(x + at, cotangent + at), result + at, row == first);
    }
    if (PARAMETERS && !LONG) keep_sums();
}
