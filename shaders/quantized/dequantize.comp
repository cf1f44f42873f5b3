#version 460
// scale q + bias, or scale q of small floats, AT_ONCE octets a thread. With GATHER: of the rows at indices,
// an octet a thread.
// Constants: 1 dtype, 2 bits, 3 group size, 4 dtype of the indices, 5 format (packed.glsl).
#include "common.glsl"
#include "floats.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const uint BITS = 4;
layout(constant_id = 3) const uint GROUP = 64;
layout(constant_id = 5) const uint FORMAT = 0;
#include "quant.glsl"
#include "packed.glsl"

#ifdef GATHER
layout(push_constant, scalar) uniform GatherPush {
    uint64_t words, scales, biases, result, count; // count of octets
    uint64_t indices;
    int64_t size; // rows that there are
    uint row;     // octets of one
};
#else
layout(push_constant, scalar) uniform Push {
    uint64_t words, scales, biases, result, count; // count of octets
};
#endif

#ifdef GATHER
layout(constant_id = 4) const uint INDEX = 3;
#include "pick.glsl"
#endif

const uint AT_ONCE = 2;

// The product is rounded before the sum, as on the CPU.
vec4 affine(vec4 q, float scale, float bias) {
    precise vec4 p = scale * q;
    precise vec4 s = p + bias;
    return s;
}

// What pack_halves makes of bfloat16 of less than 2^100, by floats, which are the faster ones.
uvec2 small_bits(vec4 x) { return uvec2(bfloat16_pair(x.xy), bfloat16_pair(x.zw)); }

void store(uint64_t to, vec4 low, vec4 high, bool small) {
    if (DTYPE == FLOAT32) {
        AT_F4(to, 0) = low;
        AT_F4(to, 1) = high;
    } else if (DTYPE == BFLOAT16 && small) {
        AT_V4(to, 0) = uvec4(small_bits(low), small_bits(high));
    } else { // one store of 16 bytes: two of eight leave gaps that neighbours fill later
        AT_V4(to, 0) = uvec4(pack_halves(DTYPE, low.xy), pack_halves(DTYPE, low.zw),
            pack_halves(DTYPE, high.xy), pack_halves(DTYPE, high.zw));
    }
}

// Whether what comes of a scale and a bias is small. An e4m3 number may be NaN, which would spread to its
// neighbour.
bool is_small(vec2 pair) {
    const float MOST = FORMAT == AFFINE ? float(FIELD) : 448.0;
    return FORMAT != MXFP8 && fma(abs(pair.x), MOST, abs(pair.y)) < 1e30;
}

// Scale and bias of a group; a bias that leaves what it is added to where there is none.
vec2 pair_of(int64_t group) {
    if (FORMAT != AFFINE) return vec2(float_scale(scales, group), -0.0);
    return vec2(load_float(DTYPE, scales, group), load_float(DTYPE, biases, group));
}

#ifdef GATHER
// Octets begin at the word and byte that they begin at in one long row: 32 elements take BITS words.
uvec2 packed_at(uint64_t octet) { return packed8(words + octet / 4ul * (BITS * 4u), uint(octet % 4ul) * 8u); }

vec2 affine_at(uint64_t octet) { return pair_of(int64_t(octet / uint64_t(GROUP / 8u))); }

void main() {
    const uint SHIFT = float_shift(DTYPE) + 3u;
    GRID_LOOP(i, count) {
        uint r = uint(i) / row, within = uint(i) - r * row;
        uint64_t octet = uint64_t(nearest_index(load_index(indices, int64_t(r)), size)) * row + within;
        uvec2 packed = packed_at(octet);
        vec2 pair = affine_at(octet);
        vec4 low, high;
        elements8(packed, low, high);
        store(result + (i << SHIFT), affine(low, pair.x, pair.y), affine(high, pair.x, pair.y),
            is_small(pair));
    }
}
#else
void main() {
    // 32 elements take BITS words wherever they are, so all rows are one long row; a block
    // begins with a word and a group.
    const uint BLOCK = AT_ONCE * gl_WorkGroupSize.x, SHIFT = float_shift(DTYPE) + 3u;
    for (uint64_t first = uint64_t(gl_WorkGroupID.x) * BLOCK; first < count;
        first += uint64_t(gl_NumWorkGroups.x) * BLOCK) {
        uint64_t words_at = words + first * uint64_t(BITS), group_at = first / uint64_t(GROUP / 8u),
                 to = result + (first << SHIFT);
        uint left = uint(min(count - first, uint64_t(BLOCK)));
        uvec2 packed[AT_ONCE];
        vec2 pair[AT_ONCE];
        [[unroll]] for (uint j = 0u; j < AT_ONCE; ++j) {
            uint i = min(gl_LocalInvocationID.x + j * gl_WorkGroupSize.x, left - 1u);
            packed[j] = packed8(words_at + i / 4u * (BITS * 4u), i % 4u * 8u);
            int64_t group = int64_t(group_at) + int64_t(i / (GROUP / 8u));
            pair[j] = pair_of(group);
        }
        [[unroll]] for (uint j = 0u; j < AT_ONCE; ++j) {
            uint i = gl_LocalInvocationID.x + j * gl_WorkGroupSize.x;
            vec4 low, high;
            elements8(packed[j], low, high);
            low = affine(low, pair[j].x, pair[j].y);
            high = affine(high, pair[j].x, pair[j].y);
            // In the branch it costs a tenth (8B, H200: 24.5 to 27.2 µs a matrix).
            bool small = is_small(pair[j]);
            if (i < left) store(to + (uint64_t(i) << SHIFT), low, high, small);
        }
    }
}
#endif
