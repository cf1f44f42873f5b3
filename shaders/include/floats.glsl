// Runs of neighbouring floats of a dtype, for kernels that stream matrices. Needs common.glsl.
//
// `dtype` is a specialization constant and `vector` says, at compile time, that the address is aligned
// to the whole run; without it elements are read one by one.

// Two 16-bit floats of a word.
vec2 half_pair(uint dtype, uint w) {
    if (dtype == FLOAT16) return unpackHalf2x16(w);
    return vec2(uintBitsToFloat(w << 16), uintBitsToFloat(w & 0xffff0000u));
}

// Two floats as 16-bit floats of a word, rounded to nearest even.
uint pack_halves(uint dtype, vec2 x) {
    if (dtype == FLOAT16) return f32_to_f16(x.x) | f32_to_f16(x.y) << 16;
    return f32_to_bf16(x.x) | f32_to_bf16(x.y) << 16;
}

// The same by fewer instructions; of bfloat16, what does not fit is cut off.
uint cut_halves(uint dtype, vec2 x) {
    if (dtype == FLOAT16) return packHalf2x16(x);
    uvec2 bits = floatBitsToUint(x);
    return bits.x >> 16 | (bits.y & 0xffff0000u);
}

// The bits of a float in memory, and what they stand for: who asks early does not wait for a conversion.
uint fetch_bits(uint dtype, uint64_t address) {
    return dtype == FLOAT32 ? U32(address).v[0] : uint(U16(address).v[0]);
}
float of_bits(uint dtype, uint bits) {
    return dtype == FLOAT32 ? uintBitsToFloat(bits) : half_pair(dtype, bits).x;
}

float fetch(uint dtype, uint64_t address) {
    if (dtype == FLOAT32) return F32(address).v[0];
    return half_pair(dtype, uint(U16(address).v[0])).x;
}

// Bytes of a float of at most 32 bits, as a shift.
uint float_shift(uint dtype) { return dtype == FLOAT32 ? 2u : 1u; }

// The address of element i.
uint64_t at(uint dtype, uint64_t base, int64_t i) { return base + uint64_t(i << float_shift(dtype)); }

vec4 fetch4(uint dtype, bool vector, uint64_t address) {
    if (!vector) {
        uint s = float_shift(dtype);
        return vec4(fetch(dtype, address), fetch(dtype, address + (1ul << s)),
            fetch(dtype, address + (2ul << s)), fetch(dtype, address + (3ul << s)));
    }
    if (dtype == FLOAT32) return F4(address).v[0];
    uvec2 p = V2(address).v[0];
    return vec4(half_pair(dtype, p.x), half_pair(dtype, p.y));
}

// Four elements of which only the first `count` exist; the others are zero.
vec4 fetch4_tail(uint dtype, bool vector, uint64_t address, int count) {
    if (count >= 4) return fetch4(dtype, vector, address);
    vec4 r = vec4(0.0);
    uint s = float_shift(dtype);
    if (count > 0) r.x = fetch(dtype, address);
    if (count > 1) r.y = fetch(dtype, address + (1ul << s));
    if (count > 2) r.z = fetch(dtype, address + (2ul << s));
    return r;
}

// An octet: one 16-byte load of halves, two of float32.
void fetch8(uint dtype, bool vector, uint64_t address, out vec4 a, out vec4 b) {
    if (vector && dtype != FLOAT32) {
        uvec4 p = V4(address).v[0];
        a = vec4(half_pair(dtype, p.x), half_pair(dtype, p.y));
        b = vec4(half_pair(dtype, p.z), half_pair(dtype, p.w));
    } else {
        a = fetch4(dtype, vector, address);
        b = fetch4(dtype, vector, address + (4ul << float_shift(dtype)));
    }
}

// a . b + c as four fused multiplications.
float dot_add(vec4 a, vec4 b, float c) {
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, c))));
}

float quad_sum(vec4 y) { return (y.x + y.y) + (y.z + y.w); }

// What a norm multiplies a row of `width` elements with, by the sum of their squares.
float norm_factor(float squares, uint width, float eps) { return 1.0 / sqrt(squares / float(width) + eps); }
