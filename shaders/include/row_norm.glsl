// RMS norm of rows that a workgroup shares. Needs common.glsl, floats.glsl, subgroup arithmetic, and before
// it: SUBGROUPS of a workgroup;
//   NORM_ROWS: rows whose norms no barrier parts.

shared float row_squares[NORM_ROWS * SUBGROUPS];

// What RMS norm multiplies row `row` with; a thread has `squares` of it. Several subgroups meet at a barrier.
float row_norm_factor(uint row, float squares, uint width, float eps) {
    squares = subgroupAdd(squares);
    if (SUBGROUPS > 1u) {
        if (gl_SubgroupInvocationID == 0u) row_squares[row * SUBGROUPS + gl_SubgroupID] = squares;
        barrier();
        squares = 0.0;
        [[unroll]] for (uint s = 0u; s < SUBGROUPS; ++s) squares += row_squares[row * SUBGROUPS + s];
    }
    return norm_factor(squares, width, eps);
}
