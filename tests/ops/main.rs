//! Every operation, dtype and layout against a float64 oracle, on both devices.

mod binary;
mod unary;
