#version 460
// Nothing runs this: it is compiled for the host to have the structs of run_rows.glsl.
#include "common.glsl"
#include "run_rows.glsl"

layout(local_size_x_id = 0) in;
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer ProductRows { ProductRow v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer AttentionRows { AttentionRow v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer RouterRows { RouterRow v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer PickedRows { PickedRow v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer ConvolutionRows { ConvolutionRow v[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer DeltaRows { DeltaRow v[]; };
layout(push_constant, scalar) uniform Push {
    uint64_t table;
};

void main() {
    ProductRows(table).v[0].kind = AttentionRows(table).v[1].kind;
    RouterRows(table).v[2].kind = PickedRows(table).v[3].kind;
    ConvolutionRows(table).v[4].kind = DeltaRows(table).v[5].kind;
}
