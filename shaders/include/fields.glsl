// Fields as halves where they lie in a word, two at a time: 1024 + q of float16, 128 + q of bfloat16, whose
// mantissa holds no field of 8 bits. What is too much is taken from sums of products. FLOATS: fields are e2m1
// numbers (mxfp4). Needs fragments.glsl.
#if HALF == 1
const uint OFFSET_BITS = 0x43004300u;
const float OFFSET = 128.0;
#else
const uint OFFSET_BITS = 0x64006400u;
const float OFFSET = 1024.0;
#endif

shared uint staged_offset;
uint offset_; // a register that no compiler knows: `(v & mask) | offset_` is one instruction then

// Those of 4 bits that end a word's halves.
half2 fields(uint v) { return halves((v & 0x000f000fu) | offset_); }

#ifdef FLOATS
#include "scaled_rows.glsl"
#endif

// Fields e and e + 4 of a word, as a fragment has them.
half2 pair_of_word(uint word, uint e) {
#ifdef FLOATS
    uint number = e < 2u ? word << (6u - 4u * e) : word >> (4u * e - 6u);
    return halves(((word << (12u - 4u * e)) & 0x80008000u) | (number & 0x01c001c0u));
#else
    return fields(word >> (4u * e));
#endif
}

// An octet of halves as it lies in memory, in the order in which a word's bytes are pairs: 0, 2, 1, 3, and
// the same with the other four.
uvec4 paired_by_bytes(uvec4 p) {
    return uvec4((p.x & 0xffffu) | (p.y << 16), (p.x >> 16) | (p.y & 0xffff0000u),
        (p.z & 0xffffu) | (p.w << 16), (p.z >> 16) | (p.w & 0xffff0000u));
}

// In the order in which a word's fields are pairs: 0, 4, 1, 5 and so on.
uvec4 paired(uvec4 p) {
    return uvec4((p.x & 0xffffu) | (p.z << 16), (p.x >> 16) | (p.z & 0xffff0000u),
        (p.y & 0xffffu) | (p.w << 16), (p.y >> 16) | (p.w & 0xffff0000u));
}
