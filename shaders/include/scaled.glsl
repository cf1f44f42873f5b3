// Float32 as float16 with a scale, for products on cooperative matrices. float16 has the eleven bits of TF32,
// but five of its eight bits of exponent: elements that are added up are multiplied by the power of two that
// brings the largest of them to between 2^14 and 2^15. What is less than 2^-29 of that loses bits, which a
// sum with the largest would not show either. What is not finite stays so. Needs floats.glsl.

// The bits of magnitudes, which sort as integers; zero for what is not finite.
uvec4 magnitudes(vec4 x) {
    uvec4 bits = floatBitsToUint(x) & 0x7fffffffu;
    return mix(bits, uvec4(0u), greaterThanEqual(bits, uvec4(0x7f800000u)));
}

uint largest(uvec4 x) { return max(max(x.x, x.y), max(x.z, x.w)); }

// The exponent of the scale, by the bits of the largest magnitude. It and its inverse are normal numbers.
int scale_exponent(uint peak) { return peak == 0u ? 0 : min(14 + 127 - int(peak >> 23), 126); }

float power_of_two(int exponent) { return uintBitsToFloat(uint(exponent + 127) << 23); }

// An octet that was scaled.
uvec4 pack_octet(vec4 a, vec4 b) {
    return uvec4(pack_halves(FLOAT16, a.xy), pack_halves(FLOAT16, a.zw), pack_halves(FLOAT16, b.xy),
        pack_halves(FLOAT16, b.zw));
}

// An octet of a row of `width` float32 elements, from `column` on; zeros behind its end.
void fetch_octet(bool vector, uint64_t row, uint column, uint width, out vec4 a, out vec4 b) {
    uint64_t from = row + uint64_t(column) * 4ul;
    int here = int(width) - int(column);
    a = fetch4_tail(FLOAT32, vector, from, here);
    b = fetch4_tail(FLOAT32, vector, from + 16ul, here - 4);
}

shared uint peak_of_group;

// The largest of what the workgroup's threads have.
uint group_peak(uint own) {
    barrier();
    if (gl_LocalInvocationID.x == 0u) peak_of_group = 0u;
    barrier();
    atomicMax(peak_of_group, own);
    barrier();
    return peak_of_group;
}
