#version 460
// Float32 matrices as bfloat16 ones of three times the inner size. With a = high + low, each rounded to
// bfloat16, (high | high | low) times (high | low | high) lacks only the product of the lows: an error of
// 2^-16 of what is added up, where TF32 has 2^-11. What is not finite stands in the first part alone, so that
// zeros beside it make no NaN.
//
// The source is `batches` matrices of `rows` rows of `width` neighbours, `leading` apart. Rows of the result
// are octets; what lies beyond the source is zero. Along k the parts stand beside each other, else one below
// the other. Constants: 1 flags.
#include "common.glsl"
#include "floats.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint FLAGS = 0;
// Flags. [host]
const uint ALONG_K_FLAG = 1, VECTOR_FLAG = 2, RIGHT_FLAG = 4;
const bool ALONG_K = (FLAGS & ALONG_K_FLAG) != 0u; // rows are dense along k
const bool VECTOR = (FLAGS & VECTOR_FLAG) != 0u;   // whole octets are aligned to 16 bytes
const bool RIGHT = (FLAGS & RIGHT_FLAG) != 0u;     // the operand on the right

layout(push_constant, scalar) uniform Push {
    uint64_t source, destination;
    uint64_t walk; // batch axes
    int64_t leading;
    uint rows, width;
    uint all_rows, octets; // of one part of a matrix
    uint count;            // octets of one part, in all matrices
    uint ndim;
};

// High and low part of four floats, and the high one again where it is finite, as pairs of bits.
void divide(vec4 x, out uvec2 high, out uvec2 finite, out uvec2 low) {
    uvec4 h, f, l;
    [[unroll]] for (uint e = 0u; e < 4u; ++e) {
        uint bits = floatBitsToUint(x[e]);
        h[e] = f32_to_bf16(x[e]);
        // The largest floats would round to infinity.
        if ((h[e] & 0x7fffu) == 0x7f80u) h[e] = bits >> 16;
        bool is_finite = (bits & 0x7f800000u) != 0x7f800000u;
        f[e] = is_finite ? h[e] : 0u;
        l[e] = is_finite ? f32_to_bf16(x[e] - bf16_to_f32(h[e])) : 0u;
    }
    high = uvec2(h.x | h.y << 16, h.z | h.w << 16);
    finite = uvec2(f.x | f.y << 16, f.z | f.w << 16);
    low = uvec2(l.x | l.y << 16, l.z | l.w << 16);
}

void main() {
    uint64_t pitch = uint64_t(octets) * (ALONG_K ? 3ul : 1ul);
    uint64_t part = ALONG_K ? uint64_t(octets) : uint64_t(all_rows) * uint64_t(octets);
    GRID_LOOP(i_, uint64_t(count)) {
        uint i = uint(i_), line = i / octets, column = (i - line * octets) * 8u;
        uint batch = line / all_rows, row = line - batch * all_rows;
        vec4 a = vec4(0.0), b = vec4(0.0);
        if (row < rows) {
            int64_t offset = int64_t(row) * leading + int64_t(column);
            if (ndim != 0u) offset += strided_offset(walk, ndim, 0u, uint64_t(batch));
            uint64_t from = at(FLOAT32, source, offset);
            int here = int(width) - int(column);
            a = fetch4_tail(FLOAT32, VECTOR, from, here);
            b = fetch4_tail(FLOAT32, VECTOR, from + 16ul, here - 4);
        }
        uvec2 high_a, finite_a, low_a, high_b, finite_b, low_b;
        divide(a, high_a, finite_a, low_a);
        divide(b, high_b, finite_b, low_b);
        uvec4 high = uvec4(high_a, high_b), finite = uvec4(finite_a, finite_b), low = uvec4(low_a, low_b);
        uint64_t matrix = uint64_t(batch) * 3ul * uint64_t(all_rows) * uint64_t(octets);
        uint64_t to = matrix + uint64_t(row) * pitch + uint64_t(column / 8u);
        AT_V4(destination, to) = high;
        AT_V4(destination, to + part) = RIGHT ? low : finite;
        AT_V4(destination, to + 2ul * part) = RIGHT ? finite : low;
    }
}
