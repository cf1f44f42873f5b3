//! Primitives whose rules are not written yet: each line goes with its rules.

pub const UNFINISHED: &[&str] = &[
    "Cholesky",
    "Convolution",
    "Eig",
    "Eigh",
    "FFT",
    "Hadamard",
    "Inverse",
    "LUF",
    "QRF",
    "RoPE",
    "SVD",
    "ScaledDotProductAttention",
];
