// Quads of dense rows and of parameters, for norms. Needs common.glsl, floats.glsl, a push constant `width`,
// and the constants DTYPE and
//   VECTOR: rows and parameters are aligned quads.

vec4 load(uint dtype, uint64_t row, uint quad) {
    uint64_t from = row + (uint64_t(quad * 4u) << float_shift(dtype));
    return VECTOR ? fetch4(dtype, true, from) : fetch4_tail(dtype, false, from, int(width) - int(quad * 4u));
}

// Of a weight or bias, which may be a scalar.
vec4 parameter(uint64_t base, bool scalar, uint quad) {
    return scalar ? vec4(fetch(DTYPE, base)) : load(DTYPE, base, quad);
}

void store(uint dtype, uint64_t row, uint quad, vec4 y) {
    if (VECTOR) { store_float4(dtype, row, uint64_t(quad), y); return; }
    [[unroll]] for (uint e = 0u; e < 4u; ++e)
        if (quad * 4u + e < width) store_float(dtype, row, int64_t(quad * 4u + e), y[e]);
}

// The part of a quad that lies in the row: sums of deviations must not count the rest.
vec4 inside(uint quad, vec4 y) {
    if (VECTOR) return y;
    [[unroll]] for (uint e = 0u; e < 4u; ++e) if (quad * 4u + e >= width) y[e] = 0.0;
    return y;
}
