#version 460
// Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), laid out
// as MLX does: the W words of the output in two halves, hash(i, i + half) giving words i and i + half. With
// an odd W the first half has one word more, and the last hash has 0 as its second counter.
#include "common.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Push {
    uint64_t key, destination, bytes;
    int64_t key_stride; // elements between the key's two words
};

const uint ROTATIONS[8] = uint[](13u, 15u, 26u, 6u, 17u, 29u, 16u, 24u);

uvec2 threefry(uvec2 k, uvec2 x) {
    uint ks[3] = uint[](k.x, k.y, k.x ^ k.y ^ 0x1BD11BDAu);
    x += k;
    [[unroll]] for (uint round = 0u; round < 5u; ++round) {
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uint r = ROTATIONS[(round & 1u) * 4u + i];
            x.x += x.y;
            x.y = ((x.y << r) | (x.y >> (32u - r))) ^ x.x;
        }
        x += uvec2(ks[(round + 1u) % 3u], ks[(round + 2u) % 3u] + round + 1u);
    }
    return x;
}

// Writes word `i`, of which only the first bytes may belong to the output.
void store_word(uint64_t i, uint word) {
    uint64_t left = bytes - i * 4ul;
    if (left >= 4ul) { AT_U32(destination, i) = word; return; }
    for (uint b = 0u; b < uint(left); ++b)
        AT_U8(destination, i * 4ul + uint64_t(b)) = uint8_t((word >> (8u * b)) & 0xffu);
}

void main() {
    uint64_t words = (bytes + 3ul) / 4ul, half_words = (words + 1ul) / 2ul;
    uvec2 k = uvec2(AT_U32(key, 0ul), AT_U32(key, uint64_t(key_stride)));
    GRID_LOOP(i, half_words) {
        bool last = i + half_words >= words;
        uvec2 x = threefry(k, uvec2(uint(i), last ? 0u : uint(i + half_words)));
        store_word(i, x.x);
        if (!last) store_word(i + half_words, x.y);
    }
}
