#version 460
// Joins element i of the updates to its location, atomically; what lies outside is left out.
// Constants: 1 dtype, 2 dtype of the indices, 3 how many arrays of them there are, 4 operation.
// VARIANT: 0 by 32-bit atomics (also sums of 64 bits), 1 by additions of floats, 2 by 64-bit atomics.
#include "common.glsl"

#if VARIANT == 1
#extension GL_EXT_shader_atomic_float : require
#elif VARIANT == 2
#extension GL_EXT_shader_atomic_int64 : require
#endif

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const uint INDEX = 7;
layout(constant_id = 3) const uint COUNT = 1;
layout(constant_id = 4) const uint OP = 1;

// Operands of the walk: the updates, the destination.
layout(push_constant, scalar) uniform Push {
    uint64_t source, destination, count, walk, table;
    uint ndim;
};

#include "pick.glsl"
#include "locations.glsl"

// The discriminants of ScatterOp [host]. Sums and products of bools arrive as MAX and MIN.
const uint SUM = 1, PROD = 2, MAX = 3, MIN = 4;

bool is_nan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }

#if VARIANT == 1
void join(uint64_t at, uint64_t from) {
    if (DTYPE == FLOAT32) {
        atomicAdd(F32(at).v[0], F32(from).v[0]);
    } else {
        atomicAdd(F32(at).v[0], F32(from).v[0]);
        atomicAdd(F32(at).v[1], F32(from).v[1]);
    }
}

#elif VARIANT == 0
float join_floats(float a, float b) {
    if (OP == SUM) return a + b;
    if (OP == PROD) return a * b;
    if (is_nan(a) || is_nan(b)) return is_nan(a) ? a : b;
    return OP == MAX ? (a < b ? b : a) : (b < a ? b : a);
}

// Two elements as bits; those above the dtype's are cut off.
uint join_bits(uint a, uint b) {
    if (DTYPE == FLOAT32 || DTYPE == COMPLEX64)
        return floatBitsToUint(join_floats(uintBitsToFloat(a), uintBitsToFloat(b)));
    if (DTYPE == FLOAT16) return f32_to_f16(join_floats(f16_to_f32(a), f16_to_f32(b)));
    if (DTYPE == BFLOAT16) return f32_to_bf16(join_floats(bf16_to_f32(a), bf16_to_f32(b)));
    if (OP == SUM) return a + b;
    if (OP == PROD) return a * b;
    bool less = a < b;
    if (DTYPE == INT8) less = bitfieldExtract(int(a), 0, 8) < bitfieldExtract(int(b), 0, 8);
    if (DTYPE == INT16) less = bitfieldExtract(int(a), 0, 16) < bitfieldExtract(int(b), 0, 16);
    if (DTYPE == INT32) less = int(a) < int(b);
    return less == (OP == MAX) ? b : a;
}

// Exchanges the bits of an element within its word until nobody else has written meanwhile.
void exchange(uint64_t at, uint bits, uint size) {
    uint64_t word = at & ~3ul;
    uint shift = uint(at & 3ul) * 8u;
    uint mask = size == 4u ? 0xffffffffu : ((1u << (8u * size)) - 1u) << shift;
    uint seen = U32(word).v[0];
    for (;;) {
        uint next = (seen & ~mask) | ((join_bits((seen & mask) >> shift, bits) << shift) & mask);
        // Extremes only grow: what an old value covers, a newer one does.
        if (OP >= MAX && next == seen) return;
        uint found = atomicCompSwap(U32(word).v[0], seen, next);
        if (found == seen) return;
        seen = found;
    }
}

void join(uint64_t at, uint64_t from) {
    if (DTYPE == UINT32 || DTYPE == INT32) {
        uint x = U32(from).v[0];
        if (OP == SUM) atomicAdd(U32(at).v[0], x);
        else if (OP == PROD) exchange(at, x, 4u);
        else if (DTYPE == UINT32 && OP == MAX) atomicMax(U32(at).v[0], x);
        else if (DTYPE == UINT32) atomicMin(U32(at).v[0], x);
        else if (OP == MAX) atomicMax(I32(at).v[0], int(x));
        else atomicMin(I32(at).v[0], int(x));
    } else if (DTYPE == FLOAT32) {
        exchange(at, U32(from).v[0], 4u);
    } else if (DTYPE == COMPLEX64) {
        exchange(at, U32(from).v[0], 4u);
        exchange(at + 4ul, U32(from).v[1], 4u);
    } else if (DTYPE == INT64 || DTYPE == UINT64) {
        // Whoever makes the lower half overflow carries; the order does not matter to the sum.
        uvec2 x = V2(from).v[0];
        uint low = atomicAdd(U32(at).v[0], x.x);
        uint high = x.y + (low + x.x < low ? 1u : 0u);
        if (high != 0u) atomicAdd(U32(at).v[1], high);
    } else if (dtype_size(DTYPE) == 2ul) {
        exchange(at, uint(U16(from).v[0]), 2u);
    } else {
        exchange(at, uint(U8(from).v[0]), 1u);
    }
}

#else
bool less(vec2 a, vec2 b) { return a.x < b.x || (a.x == b.x && a.y < b.y); }

vec2 join_complex(vec2 a, vec2 b) {
    if (OP == PROD) return vec2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
    if (is_nan(a.x) || is_nan(a.y)) return a;
    if (is_nan(b.x) || is_nan(b.y)) return b;
    return OP == MAX ? (less(a, b) ? b : a) : (less(b, a) ? b : a);
}

uint64_t join_bits(uint64_t a, uint64_t b) {
    if (DTYPE != COMPLEX64) return a * b;
    vec2 z = join_complex(uintBitsToFloat(unpackUint2x32(a)), uintBitsToFloat(unpackUint2x32(b)));
    return packUint2x32(floatBitsToUint(z));
}

void join(uint64_t at, uint64_t from) {
    uint64_t x = U64(from).v[0];
    if (DTYPE == UINT64 && OP == MAX) atomicMax(U64(at).v[0], x);
    else if (DTYPE == UINT64 && OP == MIN) atomicMin(U64(at).v[0], x);
    else if (DTYPE == INT64 && OP == MAX) atomicMax(I64(at).v[0], int64_t(x));
    else if (DTYPE == INT64 && OP == MIN) atomicMin(I64(at).v[0], int64_t(x));
    else {
        uint64_t seen = U64(at).v[0];
        for (;;) {
            uint64_t found = atomicCompSwap(U64(at).v[0], seen, join_bits(seen, x));
            if (found == seen) return;
            seen = found;
        }
    }
}
#endif

void main() {
    uint64_t size = dtype_size(DTYPE);
    GRID_LOOP(i, count) {
        int64_t to;
        if (location(1u, i, to))
            join(destination + uint64_t(to) * size, source + uint64_t(walked(0u, i)) * size);
    }
}
