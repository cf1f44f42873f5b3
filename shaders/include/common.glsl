// What every kernel shares: memory by address, element types, strided walks, the grid loop.
//
// A kernel begins with:
//     #version 460
//     #include "common.glsl"
//     layout(local_size_x_id = 0) in;                  // constant 0 is always the workgroup size
//     layout(push_constant) uniform Push { ... };      // addresses are uint64_t
// and walks its elements with GRID_LOOP, so that any number of workgroups covers any number of elements.

#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : enable
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_control_flow_attributes : enable

// ---- dtypes: the discriminants of mlx_vulkan_core::Dtype [host] ----
const uint BOOL = 0, UINT8 = 1, UINT16 = 2, UINT32 = 3, UINT64 = 4, INT8 = 5, INT16 = 6, INT32 = 7,
           INT64 = 8, FLOAT16 = 9, BFLOAT16 = 10, FLOAT32 = 11, FLOAT64 = 12, COMPLEX64 = 13;

// ---- memory by address ----
// `U32(address).v[i]` is the i-th word from there, for 32-bit i; AT_U32(address, i) takes 64-bit indices.
layout(buffer_reference, scalar, buffer_reference_align = 1) buffer U8 { uint8_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer U16 { uint16_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer U32 { uint v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer I32 { int v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer F32 { float v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer U64 { uint64_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer I64 { int64_t v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer V2 { uvec2 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer V4 { uvec4 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer F2 { vec2 v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer F4 { vec4 v[]; };

// What other workgroups of the same dispatch wrote.
layout(buffer_reference, scalar, buffer_reference_align = 16) coherent buffer F4C { vec4 v[]; };

#define AT(type, bytes, base, i) type((base) + uint64_t(i) * bytes).v[0]
#define AT_U8(base, i) AT(U8, 1ul, base, i)
#define AT_U16(base, i) AT(U16, 2ul, base, i)
#define AT_U32(base, i) AT(U32, 4ul, base, i)
#define AT_I32(base, i) AT(I32, 4ul, base, i)
#define AT_F32(base, i) AT(F32, 4ul, base, i)
#define AT_U64(base, i) AT(U64, 8ul, base, i)
#define AT_I64(base, i) AT(I64, 8ul, base, i)
#define AT_V2(base, i) AT(V2, 8ul, base, i)
#define AT_V4(base, i) AT(V4, 16ul, base, i)
#define AT_F2(base, i) AT(F2, 8ul, base, i)
#define AT_F4(base, i) AT(F4, 16ul, base, i)

// The specialization constant that is the device's, and the same in all kernels. [host]
const uint DEVICE_CONSTANT = 63;
// Whether its packHalf2x16 rounds to nearest even and keeps denormals.
layout(constant_id = DEVICE_CONSTANT) const bool PACKS_NEAREST = false;

// ---- float16 and bfloat16 as bits; exact, rounding to nearest even, on every driver that we know ----
float f16_to_f32(uint h) { return unpackHalf2x16(h).x; }

// The rest of a function that gives the bits of float x.
#define F16_BITS(x)                                                                                         \
    uint bits = floatBitsToUint(x), sign = (bits >> 16) & 0x8000u, a = bits & 0x7fffffffu;                  \
    if (a > 0x7f800000u) return sign | 0x7e00u | ((a >> 13) & 0x3ffu);                                      \
    if (a >= 0x47800000u) return sign | 0x7c00u; /* at least 65536 */                                       \
    /* subnormal */                                                                                         \
    if (a < 0x38800000u) return sign | uint(roundEven(uintBitsToFloat(a) * 16777216.0));                    \
    return sign | ((a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13 /* may carry into infinity */);

uint f32_to_f16(float x) { F16_BITS(x) }

// The same of what goes to memory, one and two in a word, by the device's instruction if that rounds so. Not
// for what is unpacked again: compilers (of NVIDIA, driver 580.159, and of Mesa) take the float for it. By a
// call more, NVIDIA's does not inline what convolutions store, which makes them seven times slower.
uint stored_f16(float x) {
    if (PACKS_NEAREST) return packHalf2x16(vec2(x, 0.0));
    F16_BITS(x)
}
uint stored_f16_pair(vec2 x) {
    if (PACKS_NEAREST) return packHalf2x16(x);
    return stored_f16(x.x) | stored_f16(x.y) << 16;
}

float bf16_to_f32(uint h) { return uintBitsToFloat(h << 16); }

uint f32_to_bf16(float x) {
    uint bits = floatBitsToUint(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (bits >> 16) | 0x40u;
    return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

// ---- elements by dtype; `dtype` is a specialization constant, so only one branch is left ----
uint64_t dtype_size(uint dtype) {
    if (dtype == BOOL || dtype == UINT8 || dtype == INT8) return 1ul;
    if (dtype == UINT16 || dtype == INT16 || dtype == FLOAT16 || dtype == BFLOAT16) return 2ul;
    if (dtype == UINT32 || dtype == INT32 || dtype == FLOAT32) return 4ul;
    return 8ul;
}

// Floating dtypes of at most 32 bits.
float load_float(uint dtype, uint64_t base, int64_t i) {
    if (dtype == FLOAT32) return AT_F32(base, i);
    uint h = uint(AT_U16(base, i));
    return dtype == FLOAT16 ? f16_to_f32(h) : bf16_to_f32(h);
}

void store_float(uint dtype, uint64_t base, int64_t i, float x) {
    if (dtype == FLOAT32) AT_F32(base, i) = x;
    else AT_U16(base, i) = uint16_t(dtype == FLOAT16 ? stored_f16(x) : f32_to_bf16(x));
}

// bool and unsigned dtypes of at most 32 bits.
uint load_uint(uint dtype, uint64_t base, int64_t i) {
    if (dtype == UINT32) return AT_U32(base, i);
    if (dtype == UINT16) return uint(AT_U16(base, i));
    return uint(AT_U8(base, i));
}

void store_uint(uint dtype, uint64_t base, int64_t i, uint x) {
    if (dtype == UINT32) AT_U32(base, i) = x;
    else if (dtype == UINT16) AT_U16(base, i) = uint16_t(x & 0xffffu);
    else if (dtype == UINT8) AT_U8(base, i) = uint8_t(x & 0xffu);
    else AT_U8(base, i) = uint8_t(x != 0u ? 1u : 0u);
}

// Signed dtypes of at most 32 bits.
int load_int(uint dtype, uint64_t base, int64_t i) {
    if (dtype == INT32) return AT_I32(base, i);
    if (dtype == INT16) return bitfieldExtract(int(uint(AT_U16(base, i))), 0, 16);
    return bitfieldExtract(int(uint(AT_U8(base, i))), 0, 8);
}

void store_int(uint dtype, uint64_t base, int64_t i, int x) {
    if (dtype == INT32) AT_I32(base, i) = x;
    else if (dtype == INT16) AT_U16(base, i) = uint16_t(uint(x) & 0xffffu);
    else AT_U8(base, i) = uint8_t(uint(x) & 0xffu);
}

// ---- four neighbouring elements from element 4 * i on; `base` aligned to four elements ----
vec4 load_float4(uint dtype, uint64_t base, uint64_t i) {
    if (dtype == FLOAT32) return AT_F4(base, i);
    uvec2 p = AT_V2(base, i);
    if (dtype == FLOAT16) return vec4(unpackHalf2x16(p.x), unpackHalf2x16(p.y));
    uvec4 h = uvec4(p.x & 0xffffu, p.x >> 16, p.y & 0xffffu, p.y >> 16);
    return uintBitsToFloat(h << 16);
}

// Nor with another return in here.
void store_float4(uint dtype, uint64_t base, uint64_t i, vec4 x) {
    if (dtype == FLOAT32) { AT_F4(base, i) = x; return; }
    uvec4 h = dtype == FLOAT16
        ? uvec4(stored_f16(x.x), stored_f16(x.y), stored_f16(x.z), stored_f16(x.w))
        : uvec4(f32_to_bf16(x.x), f32_to_bf16(x.y), f32_to_bf16(x.z), f32_to_bf16(x.w));
    AT_V2(base, i) = uvec2(h.x | (h.y << 16), h.z | (h.w << 16));
}

uvec4 load_uint4(uint dtype, uint64_t base, uint64_t i) {
    if (dtype == UINT32) return AT_V4(base, i);
    if (dtype == UINT16) {
        uvec2 p = AT_V2(base, i);
        return uvec4(p.x & 0xffffu, p.x >> 16, p.y & 0xffffu, p.y >> 16);
    }
    uint p = AT_U32(base, i);
    return uvec4(p & 0xffu, (p >> 8) & 0xffu, (p >> 16) & 0xffu, p >> 24);
}

void store_uint4(uint dtype, uint64_t base, uint64_t i, uvec4 x) {
    if (dtype == UINT32) { AT_V4(base, i) = x; return; }
    if (dtype == UINT16) {
        x &= 0xffffu;
        AT_V2(base, i) = uvec2(x.x | (x.y << 16), x.z | (x.w << 16));
        return;
    }
    x = dtype == BOOL ? uvec4(notEqual(x, uvec4(0u))) : x & 0xffu;
    AT_U32(base, i) = x.x | (x.y << 8) | (x.z << 16) | (x.w << 24);
}

ivec4 load_int4(uint dtype, uint64_t base, uint64_t i) {
    if (dtype == INT32) return ivec4(AT_V4(base, i));
    uvec4 x = load_uint4(dtype == INT16 ? UINT16 : UINT8, base, i);
    int bits = dtype == INT16 ? 16 : 8;
    return bitfieldExtract(ivec4(x), 0, bits);
}

void store_int4(uint dtype, uint64_t base, uint64_t i, ivec4 x) {
    store_uint4(dtype == INT32 ? UINT32 : dtype == INT16 ? UINT16 : UINT8, base, i, uvec4(x));
}

// ---- strided walks ----
// `walk` is the address of what kernels::strided::pack packs, rows of ndim int64: the sizes, then the strides
// of each operand in elements. Which rows these are: [host]
const uint WALK_SIZES = 0, WALK_STRIDES = 1;

// The offset of row-major index `i` in operand `k`, in elements, may be negative.
int64_t strided_offset(uint64_t walk, uint ndim, uint k, uint64_t i) {
    int64_t offset = 0l;
    uint sizes = ndim * WALK_SIZES, strides = ndim * (WALK_STRIDES + k);
    if (i <= 0xfffffffful) {
        uint left = uint(i);
        for (uint axis = ndim; axis-- > 0u;) {
            uint size = uint(I64(walk).v[sizes + axis]);
            uint quotient = left / size;
            offset += int64_t(left - quotient * size) * I64(walk).v[strides + axis];
            left = quotient;
        }
    } else {
        uint64_t left = i;
        for (uint axis = ndim; axis-- > 0u;) {
            uint64_t size = uint64_t(I64(walk).v[sizes + axis]);
            uint64_t quotient = left / size;
            offset += int64_t(left - quotient * size) * I64(walk).v[strides + axis];
            left = quotient;
        }
    }
    return offset;
}

// ---- the grid loop: `i` runs over this thread's part of 0..n ----
#define GRID_THREADS (uint64_t(gl_NumWorkGroups.x) * uint64_t(gl_WorkGroupSize.x))
#define GRID_LOOP(i, n) \
    for (uint64_t i = uint64_t(gl_GlobalInvocationID.x); i < (n); i += GRID_THREADS)
