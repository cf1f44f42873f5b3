// Sums of products of a few rows of x with rows of a quantized matrix; a team of threads makes OUTPUTS
// outputs of ROWS rows at once. A lane takes 32 elements (BITS words) at a time: the sum of q x, and the sum
// of x, are scaled once per 32. (8 at a time, coalesced, was 30 % slower on an H200.) Of small floats it
// takes a group at a time. Constants: 1 dtype, 2 bits, 3 group size, 4 subgroup size, 5 rows, 6 outputs,
// 7 flags (bit 0: x is aligned to 16 bytes, bit 1: the words are), 8 format (packed.glsl). VARIANT: see
// team.glsl.
#include "common.glsl"
#include "floats.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const uint BITS = 4;
layout(constant_id = 3) const uint GROUP = 64;
layout(constant_id = 4) const uint SUBGROUP = 32;
layout(constant_id = 5) const uint ROWS = 1;
layout(constant_id = 6) const uint OUTPUTS = 1;
layout(constant_id = 7) const uint ALIGNED = 0;
layout(constant_id = 8) const uint FORMAT = 0;

#include "quant.glsl"
#include "packed.glsl"
#include "team.glsl"

// A matrix: the addresses of its parts, and elements of a row.
struct Matrix { uint64_t words, scales, biases; uint inner; };

uint packed_words[OUTPUTS * BITS];

void load_words(uint64_t address, uint to) {
    if ((ALIGNED & 2u) != 0u && BITS % 4u == 0u) {
        [[unroll]] for (uint i = 0u; i < BITS; i += 4u) {
            uvec4 p = V4(address).v[i / 4u];
            packed_words[to + i] = p.x;
            packed_words[to + i + 1u] = p.y;
            packed_words[to + i + 2u] = p.z;
            packed_words[to + i + 3u] = p.w;
        }
    } else if ((ALIGNED & 2u) != 0u && BITS % 2u == 0u) {
        [[unroll]] for (uint i = 0u; i < BITS; i += 2u) {
            uvec2 p = V2(address).v[i / 2u];
            packed_words[to + i] = p.x;
            packed_words[to + i + 1u] = p.y;
        }
    } else {
        [[unroll]] for (uint i = 0u; i < BITS; ++i) packed_words[to + i] = U32(address).v[i];
    }
}

// Element e of 32 of output r.
float element(uint r, uint e) {
    uint bit = e * BITS, word = r * BITS + bit / 32u, shift = bit & 31u;
    uint v = packed_words[word] >> shift;
    if (shift + BITS > 32u) v |= packed_words[word + 1u] << (32u - shift);
    return exact_float(v & FIELD);
}

vec4 elements(uint r, uint e) {
    return vec4(element(r, e), element(r, e + 1u), element(r, e + 2u), element(r, e + 3u));
}

// Of one matrix after another, where a kernel has several.
#ifndef MATRICES
#define MATRICES 1u
#endif
float total[MATRICES * OUTPUTS * ROWS];

// Products of the octet of 4-bit fields of a word with x. Four fields each are taken where they
// stand in the mantissa, times powers of 16 that are divided out at the end of a chunk, so that
// one shift serves eight fields.
void add_word4(uint w, vec4 low, vec4 high, inout vec4 wide) {
    uint v = w >> 16;
    wide.x = fma(exact_float(w & 0xfu), low.x, wide.x);
    wide.y = fma(exact_float(w & 0xf0u), low.y, wide.y);
    wide.z = fma(exact_float(w & 0xf00u), low.z, wide.z);
    wide.w = fma(exact_float(w & 0xf000u), low.w, wide.w);
    wide.x = fma(exact_float(v & 0xfu), high.x, wide.x);
    wide.y = fma(exact_float(v & 0xf0u), high.y, wide.y);
    wide.z = fma(exact_float(v & 0xf00u), high.z, wide.z);
    wide.w = fma(exact_float(v & 0xf000u), high.w, wide.w);
}

// Adds the products of 32 elements.
void add_chunk(Matrix w, uint chunk, uint64_t x_row, uint last_row, uint64_t first, uint tail, float weight,
    uint to) {
    uint64_t row_words = uint64_t(w.inner / 32u) * (BITS * 4u);
    uint groups = w.inner / GROUP, group = chunk * 32u / GROUP;
    float scale[OUTPUTS], bias[OUTPUTS];
    [[unroll]] for (uint r = 0u; r < OUTPUTS; ++r) {
        uint64_t row = first + uint64_t(min(r, tail));
        load_words(w.words + row * row_words + uint64_t(chunk) * (BITS * 4u), r * BITS);
        int64_t at_group = int64_t(row * uint64_t(groups) + uint64_t(group));
        scale[r] = weight * fetch(DTYPE, at(DTYPE, w.scales, at_group));
        bias[r] = weight * fetch(DTYPE, at(DTYPE, w.biases, at_group));
    }
    float part[OUTPUTS * ROWS], sums[ROWS];
    vec4 wide[OUTPUTS * ROWS]; // 4 bits: sums by the field's offset
    [[unroll]] for (uint i = 0u; i < OUTPUTS * ROWS; ++i) { part[i] = 0.0; wide[i] = vec4(0.0); }
    [[unroll]] for (uint i = 0u; i < ROWS; ++i) sums[i] = 0.0;
    uint64_t x_bytes = uint64_t(w.inner) << float_shift(DTYPE);
    uint64_t x_chunk = x_row + (uint64_t(chunk * 32u) << float_shift(DTYPE));
    [[unroll]] for (uint e = 0u; e < 32u; e += 8u) {
        vec4 low[ROWS], high[ROWS];
        [[unroll]] for (uint i = 0u; i < ROWS; ++i) {
            fetch8(DTYPE, (ALIGNED & 1u) != 0u,
                x_chunk + uint64_t(min(i, last_row)) * x_bytes + (uint64_t(e) << float_shift(DTYPE)), low[i],
                high[i]);
            vec4 both = low[i] + high[i];
            sums[i] += (both.x + both.y) + (both.z + both.w);
        }
        [[unroll]] for (uint r = 0u; r < OUTPUTS; ++r) {
            if (BITS == 4u && ROWS <= 2u) {
                [[unroll]] for (uint i = 0u; i < ROWS; ++i)
                    add_word4(packed_words[r * 4u + e / 8u], low[i], high[i], wide[r * ROWS + i]);
                continue;
            }
            vec4 q = elements(r, e), p = elements(r, e + 4u);
            [[unroll]] for (uint i = 0u; i < ROWS; ++i)
                part[r * ROWS + i] = dot_add(p, high[i], dot_add(q, low[i], part[r * ROWS + i]));
        }
    }
    [[unroll]] for (uint r = 0u; r < OUTPUTS; ++r)
        [[unroll]] for (uint i = 0u; i < ROWS; ++i) {
            vec4 f = wide[r * ROWS + i];
            if (BITS == 4u && ROWS <= 2u)
                part[r * ROWS + i] = fma(f.w, 1.0 / 4096.0, fma(f.z, 1.0 / 256.0, fma(f.y, 0.0625, f.x)));
            total[to + r * ROWS + i] = fma(
                scale[r], part[r * ROWS + i], fma(bias[r], sums[i], total[to + r * ROWS + i]));
        }
}

// Words of a group of small floats.
const uint FLOAT_WORDS = GROUP * BITS / 32u;

void load_floats(uint64_t address, uint to) {
    if ((ALIGNED & 2u) == 0u) {
        [[unroll]] for (uint i = 0u; i < FLOAT_WORDS; ++i) packed_words[to + i] = U32(address).v[i];
    } else if (FLOAT_WORDS % 4u == 0u) {
        [[unroll]] for (uint i = 0u; i < FLOAT_WORDS; i += 4u) {
            uvec4 p = V4(address).v[i / 4u];
            [[unroll]] for (uint e = 0u; e < 4u; ++e) packed_words[to + i + e] = p[e];
        }
    } else {
        uvec2 p = V2(address).v[0];
        packed_words[to] = p.x;
        packed_words[to + 1u] = p.y;
    }
}

// The octet of elements e.. of a group of output r, in units.
void floats(uint r, uint e, out vec4 low, out vec4 high, inout uint not_numbers) {
    uint word = r * BITS + e * BITS / 32u;
    uvec2 p = uvec2(packed_words[word], BITS == 8u ? packed_words[word + 1u] : 0u);
    units8(p, low, high);
    not_numbers |= not_numbers_of(p);
}

// Adds the products of a group of small floats.
void add_group(Matrix w, uint group, uint64_t x_row, uint last_row, uint64_t first, uint tail, float weight,
    uint to) {
    uint code[OUTPUTS], not_numbers[OUTPUTS];
    float part[OUTPUTS * ROWS];
    [[unroll]] for (uint r = 0u; r < OUTPUTS; ++r) {
        uint64_t row = first + uint64_t(min(r, tail));
        load_floats(w.words + row * row_bytes(w.inner) + uint64_t(group) * (FLOAT_WORDS * 4u), r * BITS);
        code[r] = uint(AT_U8(w.scales, int64_t(row * uint64_t(w.inner / GROUP) + uint64_t(group))));
        not_numbers[r] = 0u;
    }
    [[unroll]] for (uint i = 0u; i < OUTPUTS * ROWS; ++i) part[i] = 0.0;
    uint64_t x_bytes = uint64_t(w.inner) << float_shift(DTYPE);
    uint64_t x_group = x_row + (uint64_t(group * GROUP) << float_shift(DTYPE));
    [[unroll]] for (uint e = 0u; e < GROUP; e += 8u) {
        vec4 low[ROWS], high[ROWS];
        [[unroll]] for (uint i = 0u; i < ROWS; ++i)
            fetch8(DTYPE, (ALIGNED & 1u) != 0u,
                x_group + uint64_t(min(i, last_row)) * x_bytes + (uint64_t(e) << float_shift(DTYPE)), low[i],
                high[i]);
        [[unroll]] for (uint r = 0u; r < OUTPUTS; ++r) {
            vec4 q, p;
            floats(r, e, q, p, not_numbers[r]);
            [[unroll]] for (uint i = 0u; i < ROWS; ++i)
                part[r * ROWS + i] = dot_add(p, high[i], dot_add(q, low[i], part[r * ROWS + i]));
        }
    }
    [[unroll]] for (uint r = 0u; r < OUTPUTS; ++r) {
        float scale = weight * scale_of_sum(code[r], not_numbers[r]);
        [[unroll]] for (uint i = 0u; i < ROWS; ++i)
            total[to + r * ROWS + i] =
                fma(scale, part[r * ROWS + i] * ELEMENT_UNIT, total[to + r * ROWS + i]);
    }
}

// The parts of a row that lanes take, and the products of one of them, times `weight`, which are added to the
// totals from `to` on. x has rows `x_row` to `last_row` further, the matrix `first` to `tail` further.
uint row_parts(uint inner_) { return inner_ / (FORMAT == AFFINE ? 32u : GROUP); }

void add_part(Matrix w, uint part, uint64_t x_row, uint last_row, uint64_t first, uint tail, float weight,
    uint to) {
    if (FORMAT == AFFINE) add_chunk(w, part, x_row, last_row, first, tail, weight, to);
    else add_group(w, part, x_row, last_row, first, tail, weight, to);
}

