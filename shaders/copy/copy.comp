#version 460
// Conversion between dtypes. CLASS is the register type of the source: 0 float, 1 int, 2 uint, 3 int64,
// 4 uint64, 5 complex. Constants: 1 source dtype, 2 destination dtype, 3 mode.
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint FROM = 11;
layout(constant_id = 2) const uint TO = 11;
layout(constant_id = 3) const uint MODE = 0;

// Modes: dense by elements, dense by four elements, strided. [host]
const uint DENSE = 0, DENSE4 = 1, STRIDED = 2;

layout(push_constant, scalar) uniform Push {
    uint64_t source, destination, count, walk;
    uint ndim;
};

#include "class.glsl"
#include "functions/convert.glsl"

T load(int64_t i) { return LOAD(FROM, source, i); }

void store(int64_t i, T x) {
    if (TO == FLOAT32 || TO == FLOAT16 || TO == BFLOAT16) store_float(TO, destination, i, as_float(x));
    else if (TO == BOOL) AT_U8(destination, i) = uint8_t(truth(x) ? 1u : 0u);
    else if (TO == UINT8 || TO == UINT16 || TO == UINT32) store_uint(TO, destination, i, AS_UINT(x));
    else if (TO == INT8 || TO == INT16 || TO == INT32) store_int(TO, destination, i, AS_INT(x));
    else if (TO == INT64) AT_I64(destination, i) = int64_t(REAL_PART(x));
    else if (TO == UINT64) AT_U64(destination, i) = AS_ULONG(x);
#if CLASS == 5
    else AT_F2(destination, i) = x;
#else
    else AT_F2(destination, i) = vec2(as_float(x), 0.0);
#endif
}

#if CLASS <= 2
void store4(uint64_t i, T4 x) {
    if (TO == FLOAT32 || TO == FLOAT16 || TO == BFLOAT16) store_float4(TO, destination, i, vec4(x));
    else if (TO == BOOL)
        store_uint4(UINT8, destination, i, uvec4(truth(x.x), truth(x.y), truth(x.z), truth(x.w)));
    else [[unroll]] for (int k = 0; k < 4; ++k) store(int64_t(4ul * i) + k, x[k]);
}
#endif

void main() {
    if (MODE == DENSE4) {
#if CLASS <= 2
        uint64_t quads = count / 4ul;
        GRID_LOOP(i, quads) store4(i, LOAD4(FROM, source, i));
        if (gl_GlobalInvocationID.x < uint(count - quads * 4ul)) {
            int64_t i = int64_t(quads * 4ul + uint64_t(gl_GlobalInvocationID.x));
            store(i, load(i));
        }
#endif
    } else if (MODE == DENSE) {
        GRID_LOOP(i, count) store(int64_t(i), load(int64_t(i)));
    } else {
        GRID_LOOP(i, count) {
            T x = load(strided_offset(walk, ndim, 0u, i));
            store(strided_offset(walk, ndim, 1u, i), x);
        }
    }
}
