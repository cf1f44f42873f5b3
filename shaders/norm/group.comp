#version 460
// Group norm of images (batch, positions, channels), whose groups are neighbouring channels, with what
// follows: a weight and a bias of each channel, and silu. One dispatch sums up what workgroups have of each
// group, the next one normalizes. Constants: 1 dtype, 2 flags.
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const uint FLAGS = 0;
// Flags: the second dispatch, and what it does besides. [host]
const uint APPLY_FLAG = 1, AFFINE_FLAG = 2, SILU_FLAG = 4;
const bool APPLY = (FLAGS & APPLY_FLAG) != 0u, AFFINE = (FLAGS & AFFINE_FLAG) != 0u,
           SILU = (FLAGS & SILU_FLAG) != 0u;
// Groups that there may be. [host]
const uint MOST_GROUPS = 128;

// Sums of the groups of a batch are `splits` parts; a workgroup has `chunk` positions of one of the `chunks`
// of a batch.
layout(push_constant, scalar) uniform Push {
    uint64_t x, weight, bias, result, parts;
    uint positions, channels, groups, splits, chunk, chunks;
    float eps;
};

const uint THREADS = gl_WorkGroupSize.x;
// Sums and squares of threads, and of groups; or what elements of a group lose, and are multiplied with.
shared vec4 of_threads[APPLY ? 1 : 2 * THREADS];
shared vec2 of_groups[MOST_GROUPS];
// Sums of a group over some of the parts.
shared vec2 of_shares[APPLY ? (THREADS > MOST_GROUPS ? THREADS : MOST_GROUPS) : 1];

uint batch, first, last; // the workgroup's, and its positions
uint each() { return channels / groups; }

// The channels of an image are quads. Threads have one each, for several positions, or take turns.
uint quads() { return channels / 4u; }
uint width() { return min(quads(), THREADS); }
uint rows() { return THREADS / width(); }

// The quad of an image at a position.
uint64_t at(uint position, uint quad) {
    return (uint64_t(batch) * uint64_t(positions) + uint64_t(position)) * uint64_t(quads()) + uint64_t(quad);
}

// The first element of a group: others are summed up as distances from it, which are small beside elements
// that are far from zero.
float pivot(uint group) {
    int64_t image = int64_t(uint64_t(batch) * uint64_t(positions) * uint64_t(channels));
    return load_float(DTYPE, x, image + int64_t(group * each()));
}

// What the four channels of a quad have of their groups.
vec4 of_quad(uint quad, uint part) {
    vec4 v;
    [[unroll]] for (uint e = 0u; e < 4u; ++e) v[e] = of_groups[(quad * 4u + e) / each()][part];
    return v;
}

// Adds what the threads have of the columns from quad `from` on to their groups: first those of a channel, in
// the place of the first of them.
void add_up(uint from) {
    uint end = min(from + width(), quads()) * 4u;
    for (uint c = gl_LocalInvocationID.x; c < width() * 4u; c += THREADS) {
        vec2 total = vec2(0.0);
        for (uint r = 0u; r < rows(); ++r) {
            uint thread = r * width() + c / 4u;
            total += vec2(of_threads[thread][c % 4u], of_threads[THREADS + thread][c % 4u]);
        }
        of_threads[c / 4u][c % 4u] = total.x;
        of_threads[THREADS + c / 4u][c % 4u] = total.y;
    }
    barrier();
    for (uint g = gl_LocalInvocationID.x; g < groups; g += THREADS) {
        vec2 total = of_groups[g];
        for (uint c = max(g * each(), from * 4u); c < min((g + 1u) * each(), end); ++c) {
            uint i = c - from * 4u;
            total += vec2(of_threads[i / 4u][i % 4u], of_threads[THREADS + i / 4u][i % 4u]);
        }
        of_groups[g] = total;
    }
}

void sum() {
    uint thread = gl_LocalInvocationID.x, row = thread / width();
    for (uint g = thread; g < groups; g += THREADS) of_groups[g] = vec2(0.0);
    for (uint from = 0u; from < quads(); from += width()) {
        uint quad = from + thread % width();
        vec4 sums = vec4(0.0), squares = vec4(0.0);
        if (row < rows() && quad < quads()) {
            vec4 less;
            [[unroll]] for (uint e = 0u; e < 4u; ++e) less[e] = pivot((quad * 4u + e) / each());
            for (uint p = first + row; p < last; p += rows()) {
                vec4 v = load_float4(DTYPE, x, at(p, quad)) - less;
                sums += v;
                squares += v * v;
            }
        }
        of_threads[thread] = sums;
        of_threads[THREADS + thread] = squares;
        barrier();
        add_up(from);
        barrier();
    }
    for (uint g = thread; g < groups; g += THREADS)
        F2(parts).v[gl_WorkGroupID.x * groups + g] = of_groups[g];
}

void apply() {
    uint thread = gl_LocalInvocationID.x, row = thread / width();
    uint share = max(THREADS / groups, 1u);
    for (uint i = thread; i < groups * share; i += THREADS) {
        vec2 total = vec2(0.0);
        for (uint s = i / groups; s < splits; s += share)
            total += F2(parts).v[(batch * splits + s) * groups + i % groups];
        of_shares[i] = total;
    }
    barrier();
    for (uint g = thread; g < groups; g += THREADS) {
        vec2 total = vec2(0.0);
        for (uint i = 0u; i < share; ++i) total += of_shares[i * groups + g];
        total /= float(positions) * float(each());
        float variance = max(total.y - total.x * total.x, 0.0);
        of_groups[g] = vec2(pivot(g) + total.x, 1.0 / sqrt(variance + eps));
    }
    barrier();
    for (uint quad = thread % width(); row < rows() && quad < quads(); quad += width()) {
        vec4 mean = of_quad(quad, 0u), factor = of_quad(quad, 1u), shift = vec4(0.0);
        if (AFFINE) {
            factor *= load_float4(DTYPE, weight, uint64_t(quad));
            shift = load_float4(DTYPE, bias, uint64_t(quad));
        }
        for (uint p = first + row; p < last; p += rows()) {
            vec4 y = (load_float4(DTYPE, x, at(p, quad)) - mean) * factor + shift;
            if (SILU) y /= 1.0 + exp(-y);
            store_float4(DTYPE, result, at(p, quad), y);
        }
    }
}

void main() {
    batch = gl_WorkGroupID.x / chunks;
    first = min(gl_WorkGroupID.x % chunks * chunk, positions);
    last = min(first + chunk, positions);
    if (APPLY) apply();
    else sum();
}
