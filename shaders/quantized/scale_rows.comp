#version 460
// Octets of bfloat16 multiplied with what products with mxfp4 want (scaled_rows.glsl), for kernels that read
// each many times. x and the result are aligned to 16 bytes.
#include "common.glsl"
#include "floats.glsl"

layout(local_size_x_id = 0) in;
const uint DTYPE = BFLOAT16;
#include "scaled_rows.glsl"

layout(push_constant, scalar) uniform Push {
    uint64_t x, result;
    uint octets;
};

void main() {
    for (uint i = gl_GlobalInvocationID.x; i < octets; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x)
        V4(result).v[i] = scaled_x(V4(x).v[i]);
}
