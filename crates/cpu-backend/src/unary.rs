//! Elementwise functions of one array.

use mlx_core::{
    Array, Complex, Dtype, Element, Result, backend::Output, bf16, dtype::Bool8, f16,
    primitives::UnaryOp,
};

use crate::{elementwise::map1, encoder::Encoder};

/// Encodes `out = op(a)`.
pub(crate) fn encode(
    enc: &mut Encoder<'_>,
    op: UnaryOp,
    [a]: &[Array; 1],
    out: &mut Output,
) -> Result<()> {
    match a.dtype() {
        Dtype::Bool => map1(enc, a, out, |x: Bool8| Bool8::from(x.0 == 0)),
        Dtype::Uint8 => integer::<u8>(enc, op, a, out),
        Dtype::Uint16 => integer::<u16>(enc, op, a, out),
        Dtype::Uint32 => integer::<u32>(enc, op, a, out),
        Dtype::Uint64 => integer::<u64>(enc, op, a, out),
        Dtype::Int8 => integer::<i8>(enc, op, a, out),
        Dtype::Int16 => integer::<i16>(enc, op, a, out),
        Dtype::Int32 => integer::<i32>(enc, op, a, out),
        Dtype::Int64 => integer::<i64>(enc, op, a, out),
        Dtype::Float16 => float::<f16>(enc, op, a, out),
        Dtype::Bfloat16 => float::<bf16>(enc, op, a, out),
        Dtype::Float32 => float::<f32>(enc, op, a, out),
        Dtype::Float64 => float::<f64>(enc, op, a, out),
        Dtype::Complex64 => complex(enc, op, a, out),
    }
}
