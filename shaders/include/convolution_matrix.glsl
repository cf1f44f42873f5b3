// What the kernels of convolutions on cooperative matrices share. Needs gemm_matrix.glsl.

// i / d for i below 2^31, with the numbers that kernels::convolution::matrix::Quotient has of d.
uint quotient(uint i, uint of[2]) {
    uint high, low;
    umulExtended(i << 1, of[0], high, low);
    return high >> of[1];
}

// The octet at `address` if it is there, else zeros: those that the arguments begin with.
uvec4 octet_or_zeros(bool there, uint64_t address) { return V4(there ? address : walk).v[0]; }

Batch batch_at(uint batch) { return Batch(a, 0ul, 0ul, result, m, n); }
