#version 460
// What the picked experts say of each token, float32 rows of `outputs`, weighed by their shares and summed, a
// quad of outputs a thread. Constants: 1 dtype.
#include "common.glsl"
#include "floats.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint DTYPE = 11;

layout(push_constant, scalar) uniform Push {
    uint64_t said, result;
    uint64_t shares; // of each pick, of share_dtype
    uint64_t other;  // what is added, of the result's shape, or 0
    uint tokens, per_token, outputs, share_dtype;
};

void main() {
    uint quads = outputs / 4u, all = tokens * quads;
    for (uint i = gl_GlobalInvocationID.x; i < all; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        uint token = i / quads;
        vec4 sum = vec4(0.0);
        for (uint pick = token * per_token; pick < (token + 1u) * per_token; ++pick) {
            float share = fetch(share_dtype, at(share_dtype, shares, int64_t(pick)));
            sum += share * F4(said).v[pick * quads + i % quads];
        }
        if (other != 0ul) sum += fetch4(DTYPE, true, at(DTYPE, other, int64_t(i) * 4l));
        store_float4(DTYPE, result, uint64_t(i), sum);
    }
}
