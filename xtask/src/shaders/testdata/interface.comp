#version 460
// What reflect.rs is tested on: `glslc -fshader-stage=compute --target-env=vulkan1.2 --target-spv=spv1.5`.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types : require

layout(local_size_x_id = 0) in;
layout(constant_id = 5) const float SCALE = 0.5;
layout(constant_id = 1) const uint DTYPE = 11;
layout(constant_id = 2) const bool VECTOR = true;
layout(constant_id = 4) const int SHIFT = -3;

struct Pair { uint64_t words; int64_t step_; };
struct Entry { uint first; float second, third; };
layout(buffer_reference, scalar) buffer Words { uint v[]; };
layout(buffer_reference, scalar) buffer Entries { Entry v[]; };
layout(buffer_reference, scalar) buffer Header { uint count; int sign; };

layout(push_constant, scalar) uniform Push {
    uint64_t x;
    Pair pairs[2];
    uint ends[3];
    float eps;
    vec2 turn;
};

void main() {
    Header header = Header(x);
    float y = eps * SCALE + turn.x + Entries(pairs[1].words).v[header.count].second;
    Words(pairs[0].words).v[ends[0]] = VECTOR ? floatBitsToUint(y) << SHIFT : DTYPE;
}
