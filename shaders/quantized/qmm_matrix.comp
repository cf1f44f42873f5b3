#version 460
// Many rows times a quantized matrix on cooperative matrices, with weights dequantized into shared memory and
// rounded to the dtype as MLX's dequantize does; constants: gemm.glsl, gemm_matrix.glsl, and 13 bits,
// 14 group size, 15 format (packed.glsl). FLOATS: weights are small floats, of which bfloat16 holds each
// exactly; else affine. HALF: 0 float16, 1 bfloat16. With B_ALONG_K the matrix is (n, k) and used transposed.
// B_VECTOR: the words are 16-byte aligned.
#include "common.glsl"
#include "floats.glsl"
layout(local_size_x_id = 0) in;
#include "gemm.glsl"
#include "gemm_matrix.glsl"
layout(constant_id = 13) const uint BITS = 4;
layout(constant_id = 14) const uint GROUP = 64;
layout(constant_id = 15) const uint FORMAT = 0;
#include "quant.glsl"
#include "packed.glsl"

// Runs of 32 neighbours along the packed axis, which are BITS whole words and of one
// group; kept packed until stored.
#ifdef FLOATS
const uint SCALE_BYTES = 1u;
#else
const uint SCALE_BYTES = 2u;
#endif
const uint RUNS = BN * BK / 32u, B_EACH = (RUNS + THREADS - 1u) / THREADS, RUN_BYTES = BITS * 4u;
uint next_words[2u * B_EACH * BITS];
uint next_affine[2u * B_EACH];
uint offset_words[B_EACH], offset_affine[B_EACH];
struct Bases { uint64_t words, scales, biases; } base_own, base_second;

uint b_row(uint i) { return gl_LocalInvocationID.x / (B_WIDTH / 4u) + i * (THREADS / (B_WIDTH / 4u)); }
uint b_column() { return gl_LocalInvocationID.x % (B_WIDTH / 4u) * 32u; }
bool b_idle(uint i) { return RUNS % THREADS != 0u && gl_LocalInvocationID.x + i * THREADS >= RUNS; }

Bases bases_of(Sibling s, uint64_t row, uint width) {
    uint64_t affine = row * (uint64_t(width / GROUP) * SCALE_BYTES);
    return Bases(same(s.b + row * (uint64_t(width / 32u) * RUN_BYTES)), same(s.scales + affine),
        same(s.biases + affine));
}

void b_begin(Batch at_, uint column0) {
    uint width = B_ALONG_K ? k : n;
    base_own = bases_of(own, at_.b + (B_ALONG_K ? uint64_t(column0) : 0ul), width);
    if (SIBLINGS) base_second = bases_of(second, uint64_t(b_first(true, column0)), width);
    [[unroll]] for (uint i = 0u; i < B_EACH; ++i) {
        uint down = B_ALONG_K ? b_source(b_row(i), column0) : b_row(i);
        // k and n are multiples of 32 here.
        uint along = B_ALONG_K ? b_column() : min(column0 + b_column(), n - 32u);
        offset_words[i] = down * (width / 32u * RUN_BYTES) + along / 32u * RUN_BYTES;
        offset_affine[i] = (down * (width / GROUP) + along / GROUP) * SCALE_BYTES;
    }
}

void b_fetch(uint set, uint k0, uint k1, bool tail) {
    // A slice begins at a group, or lies in one.
    uint64_t words = (B_ALONG_K ? uint64_t(k0 / 32u) : uint64_t(k0) * uint64_t(n / 32u)) * RUN_BYTES;
    uint64_t groups = (B_ALONG_K ? uint64_t(k0 / GROUP) : uint64_t(k0) * uint64_t(n / GROUP)) * SCALE_BYTES;
    [[unroll]] for (uint i = 0u; i < B_EACH; ++i) {
        if (b_idle(i)) continue;
        Bases base = base_own;
        if (b_second(b_row(i))) base = base_second;
        uint64_t run = base.words + words + uint64_t(offset_words[i]);
        uint64_t group = uint64_t(offset_affine[i]) + groups;
        if (tail) { // back to the last run or row
            uint beyond = max(k0 + (B_ALONG_K ? b_column() + 32u : b_row(i) + 1u), k1) - k1;
            run -= (B_ALONG_K ? uint64_t(beyond / 32u) : uint64_t(beyond) * uint64_t(n / 32u)) * RUN_BYTES;
            if (beyond != 0u) group = 0ul;
        }
        if (B_VECTOR && BITS % 4u == 0u) {
            [[unroll]] for (uint w = 0u; w < BITS; w += 4u) {
                uvec4 four = V4(run + w * 4u).v[0];
                [[unroll]] for (uint e = 0u; e < 4u; ++e)
                    next_words[(set * B_EACH + i) * BITS + w + e] = four[e];
            }
        } else {
            [[unroll]] for (uint w = 0u; w < BITS; ++w)
                next_words[(set * B_EACH + i) * BITS + w] = U32(run + w * 4u).v[0];
        }
#ifdef FLOATS // both halves' scales
        next_affine[set * B_EACH + i] = uint(U8(base.scales + group).v[0])
            | uint(U8(base.scales + group + (GROUP == 16u ? 1ul : 0ul)).v[0]) << 16;
#else
        next_affine[set * B_EACH + i] = uint(U16(base.scales + group).v[0])
            | uint(U16(base.biases + group).v[0]) << 16;
#endif
    }
}

#ifdef FLOATS
// Octet `v` of a run. Small floats have less than eight significant bits, scaled, too.
uvec4 octet_of(uint slot, uint v) {
    uint word = slot * BITS + v * BITS / 4u;
    vec4 low, high;
    elements8(uvec2(next_words[word], BITS == 8u ? next_words[word + 1u] : 0u), low, high);
    float scale = scale_of(next_affine[slot] >> (v / 2u * 16u) & 0xffu);
    uvec4 a = floatBitsToUint(low * scale), b = floatBitsToUint(high * scale);
    return uvec4(a.xz, b.xz) >> 16 | uvec4(a.yw, b.yw) & 0xffff0000u;
}
#else
// Two halves of a word, rounded to nearest even.
uint half_bits(vec2 x) {
#if HALF == 1
    return bfloat16_pair(x);
#else
    return packHalf2x16(x);
#endif
}

// Field `e` of a run plus 2^BITS, as a float: the field becomes the head of the mantissa.
const uint TOP = 23u - BITS;
float field(uint slot, uint e) {
    uint bit = e * BITS, word = slot * BITS + bit / 32u, shift = bit & 31u, v;
    if (shift + BITS > 32u) v = (next_words[word] >> shift | next_words[word + 1u] << (32u - shift)) << TOP;
    else v = shift > TOP ? next_words[word] >> (shift - TOP) : next_words[word] << (TOP - shift);
    return uintBitsToFloat(v & (FIELD << TOP) | (127u + BITS) << 23);
}
#endif

void b_mask(uint set, uint k0, uint k1) {
    [[unroll]] for (uint i = 0u; i < B_EACH; ++i)
        if (k0 + (B_ALONG_K ? b_column() : b_row(i)) >= k1) next_affine[set * B_EACH + i] = 0u;
}

void b_store(uint set) {
    uint to = A_SIZE + b_row(0u) * B_PITCH + b_column() / 8u;
    [[unroll]] for (uint i = 0u; i < B_EACH; ++i) {
        if (b_idle(i)) continue;
#ifndef FLOATS
        vec2 affine = half_pair(DTYPE, next_affine[set * B_EACH + i]);
        // The float32 sum is exact but for the 2^-20th part of a step, far below the rounding to a half.
        vec2 scale = vec2(affine.x), bias = vec2(fma(-float(1u << BITS), affine.x, affine.y));
#endif
        [[unroll]] for (uint v = 0u; v < 4u; ++v) {
#ifdef FLOATS
            uvec4 octet = octet_of(set * B_EACH + i, v);
#else
            uvec4 octet;
            [[unroll]] for (uint e = 0u; e < 4u; ++e)
                octet[e] = half_bits(fma(vec2(field(set * B_EACH + i, v * 8u + e * 2u),
                                             field(set * B_EACH + i, v * 8u + e * 2u + 1u)),
                    scale, bias));
#endif
            slices[to + i * (THREADS / (B_WIDTH / 4u) * B_PITCH) + v] = octet;
        }
    }
}

void b_move() {
    [[unroll]] for (uint i = 0u; i < B_EACH; ++i) {
        next_affine[B_EACH + i] = next_affine[i];
        [[unroll]] for (uint w = 0u; w < BITS; ++w)
            next_words[(B_EACH + i) * BITS + w] = next_words[i * BITS + w];
    }
}
