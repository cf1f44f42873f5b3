// Windows of a convolution over three spatial axes (missing ones have size 1). Needs common.glsl.
// The struct is what kernels::convolution::Geometry packs; channels of the input are neighbours.
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Geometry {
    int64_t batch_stride;
    int64_t strides[3]; // between neighbours of the input along the spatial axes
    uint input_[3];
    uint kernel[3];
    uint output_[3];
    uint stride[3];
    uint padding[3];
    uint kernel_dilation[3];
    uint input_dilation[3];
    uint channels, outputs, groups; // channels and outputs of a group
    uint flip;
};

// Where a window begins: the index of its first element, before the padding is taken off, and the batch's
// offset.
struct Window {
    uvec3 first;
    int64_t offset;
};

Window window_at(Geometry g, uint row) {
    uint windows = g.output_[0] * g.output_[1] * g.output_[2];
    uint batch = row / windows, window = row - batch * windows;
    uint plane = window / g.output_[2];
    Window w;
    w.first = uvec3(plane / g.output_[1] * g.stride[0], plane % g.output_[1] * g.stride[1],
        window % g.output_[2] * g.stride[2]);
    w.offset = int64_t(batch) * g.batch_stride;
    return w;
}

// The element of an axis `spread` elements into the padded input, or -1 for a zero.
int element_of(Geometry g, uint axis, uint spread) {
    if (spread < g.padding[axis]) return -1;
    uint i = spread - g.padding[axis], d = g.input_dilation[axis];
    if (d > 1u) {
        if (i % d != 0u) return -1;
        i /= d;
    }
    return i < g.input_[axis] ? int(i) : -1;
}

// Offset of the first channel of tap `tap` of a window; false where there are only zeros.
bool tap_offset(Geometry g, Window w, uint tap, out int64_t offset) {
    if (g.flip != 0u) tap = g.kernel[0] * g.kernel[1] * g.kernel[2] - 1u - tap;
    uint plane = tap / g.kernel[2];
    uvec3 t = uvec3(plane / g.kernel[1], plane % g.kernel[1], tap % g.kernel[2]);
    int x = element_of(g, 0u, w.first.x + t.x * g.kernel_dilation[0]);
    int y = element_of(g, 1u, w.first.y + t.y * g.kernel_dilation[1]);
    int z = element_of(g, 2u, w.first.z + t.z * g.kernel_dilation[2]);
    offset = w.offset + int64_t(x) * g.strides[0] + int64_t(y) * g.strides[1] + int64_t(z) * g.strides[2];
    return (x | y | z) >= 0;
}
