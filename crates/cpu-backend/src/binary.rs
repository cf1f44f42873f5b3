//! Elementwise functions of two arrays.

use mlx_vulkan_core::{
    Array, Complex, Dtype, Error, Result, backend::Output, bf16, dtype::Bool8, f16,
    primitives::BinaryOp,
};
use num_complex::Complex64;

use crate::{
    complex,
    elementwise::{self, Kernel2, Loop, loop2, loop2_half, test2_half, zip2},
    encoder::Encoder,
    math::log_add_exp,
    number::{Integer, Number},
};

/// Encodes `out = op(a, b)`.
pub(crate) fn encode(
    enc: &mut Encoder<'_>,
    op: BinaryOp,
    [a, b]: &[Array; 2],
    out: &mut Output,
) -> Result<()> {
    let kernel = kernel(op, a.dtype()).ok_or_else(|| refuse(op, a))?;
    elementwise::encode(enc, [a, b], out, kernel)
}

/// The loop of `op` on operands of a dtype. Half precision is computed in float32 and rounded once.
pub(crate) fn kernel(op: BinaryOp, dtype: Dtype) -> Option<Loop> {
    if op.is_predicate() { Some(test(op, dtype)) } else { compute(op, dtype) }
}

/// The functions whose result has the operands' dtype. Where two's complement makes no
/// difference, signed integers run as unsigned ones.
fn compute(op: BinaryOp, dtype: Dtype) -> Option<Loop> {
    Some(match dtype {
        Dtype::Bool => loop2(boolean(op)?),
        Dtype::Uint8 => loop2(integer::<u8>(op)?),
        Dtype::Uint16 => loop2(integer::<u16>(op)?),
        Dtype::Uint32 => loop2(integer::<u32>(op)?),
        Dtype::Uint64 => loop2(integer::<u64>(op)?),
        Dtype::Int8 => loop2(integer::<i8>(op)?),
        Dtype::Int16 => loop2(integer::<i16>(op)?),
        Dtype::Int32 => loop2(integer::<i32>(op)?),
        Dtype::Int64 => loop2(integer::<i64>(op)?),
        Dtype::Float16 => loop2_half::<f16>(float32(op)?),
        Dtype::Bfloat16 => loop2_half::<bf16>(float32(op)?),
        Dtype::Float32 => loop2(float32(op)?),
        Dtype::Float64 => loop2(float64(op)?),
        Dtype::Complex64 => loop2(complex(op)?),
    })
}

/// The functions whose result is bool.
fn test(op: BinaryOp, dtype: Dtype) -> Loop {
    match dtype {
        Dtype::Bool => loop2(predicate::<Bool8>(op)),
        Dtype::Uint8 => loop2(predicate::<u8>(op)),
        Dtype::Uint16 => loop2(predicate::<u16>(op)),
        Dtype::Uint32 => loop2(predicate::<u32>(op)),
        Dtype::Uint64 => loop2(predicate::<u64>(op)),
        Dtype::Int8 => loop2(predicate::<i8>(op)),
        Dtype::Int16 => loop2(predicate::<i16>(op)),
        Dtype::Int32 => loop2(predicate::<i32>(op)),
        Dtype::Int64 => loop2(predicate::<i64>(op)),
        Dtype::Float16 => test2_half::<f16>(predicate::<f32>(op)),
        Dtype::Bfloat16 => test2_half::<bf16>(predicate::<f32>(op)),
        Dtype::Float32 => loop2(predicate::<f32>(op)),
        Dtype::Float64 => loop2(predicate::<f64>(op)),
        Dtype::Complex64 => loop2(predicate::<Complex>(op)),
    }
}

fn refuse(op: BinaryOp, a: &Array) -> Error {
    Error::Unsupported {
        op: op.name(),
        backend: "cpu",
        dtype: a.dtype(),
        shape: a.shape().into(),
        reason: "the function is not defined for this dtype",
    }
}

/// Comparisons and logic.
fn predicate<T: Number>(op: BinaryOp) -> Kernel2<T, Bool8> {
    use BinaryOp::*;
    match op {
        Equal => |a, b, out| zip2(a, b, out, |a, b| (a == b).into()),
        Greater => |a, b, out| zip2(a, b, out, |a, b| b.less(a).into()),
        GreaterEqual => |a, b, out| zip2(a, b, out, |a, b| b.less_equal(a).into()),
        Less => |a, b, out| zip2(a, b, out, |a: T, b| a.less(b).into()),
        LessEqual => |a, b, out| zip2(a, b, out, |a: T, b| a.less_equal(b).into()),
        LogicalAnd => |a, b, out| zip2(a, b, out, |a: T, b: T| (a.is_true() & b.is_true()).into()),
        LogicalOr => |a, b, out| zip2(a, b, out, |a: T, b: T| (a.is_true() | b.is_true()).into()),
        NanEqual => |a, b, out| {
            zip2(a, b, out, |a: T, b: T| (a == b || (a.not_a_number() && b.not_a_number())).into());
        },
        NotEqual => |a, b, out| zip2(a, b, out, |a, b| (a != b).into()),
        _ => unreachable!("not a predicate"),
    }
}

/// Bools: sums are or, products and, differences exclusive or.
fn boolean(op: BinaryOp) -> Option<Kernel2<Bool8>> {
    use BinaryOp::*;
    Some(match op {
        Add | BitwiseOr | Maximum => |a, b, out| zip2(a, b, out, |a, b| Bool8(a.0 | b.0)),
        Multiply | BitwiseAnd | Minimum => |a, b, out| zip2(a, b, out, |a, b| Bool8(a.0 & b.0)),
        Subtract | BitwiseXor => |a, b, out| zip2(a, b, out, |a, b| Bool8(a.0 ^ b.0)),
        // x^0 is true.
        Power => |a, b, out| zip2(a, b, out, |a, b| Bool8(a.0 | (b.0 ^ 1))),
        // Division by false gives false, as integer division by zero gives 0.
        Divide | FloorDivide => |a, b, out| zip2(a, b, out, |a, b| Bool8(a.0 & b.0)),
        Remainder => |_, _, out| out.fill(Bool8(0)),
        _ => return None,
    })
}

fn integer<T: Integer>(op: BinaryOp) -> Option<Kernel2<T>> {
    use BinaryOp::*;
    Some(match op {
        Add => |a, b, out| zip2(a, b, out, Integer::wrapping_add),
        BitwiseAnd => |a, b, out| zip2(a, b, out, |a, b| a & b),
        BitwiseOr => |a, b, out| zip2(a, b, out, |a, b| a | b),
        BitwiseXor => |a, b, out| zip2(a, b, out, |a, b| a ^ b),
        Divide => |a, b, out| zip2(a, b, out, Integer::quotient),
        FloorDivide => |a, b, out| zip2(a, b, out, Integer::floor_quotient),
        LeftShift => |a, b, out| zip2(a, b, out, Integer::shift_left),
        Maximum => |a, b, out| zip2(a, b, out, Number::maximum),
        Minimum => |a, b, out| zip2(a, b, out, Number::minimum),
        Multiply => |a, b, out| zip2(a, b, out, Integer::wrapping_mul),
        Power => |a, b, out| zip2(a, b, out, Integer::power),
        Remainder => |a, b, out| zip2(a, b, out, Integer::modulo),
        RightShift => |a, b, out| zip2(a, b, out, Integer::shift_right),
        Subtract => |a, b, out| zip2(a, b, out, Integer::wrapping_sub),
        _ => return None,
    })
}

/// The functions of a floating point type; a new one has to be named among them.
macro_rules! float {
    ($name:ident, $t:ty, $log_add_exp:expr) => {
        fn $name(op: BinaryOp) -> Option<Kernel2<$t>> {
            use BinaryOp::*;
            Some(match op {
                Add => |a, b, out| zip2(a, b, out, |a, b| a + b),
                Arctan2 => |a, b, out| zip2(a, b, out, <$t>::atan2),
                Divide => |a, b, out| zip2(a, b, out, |a, b| a / b),
                FloorDivide => |a, b, out| zip2(a, b, out, |a, b| (a / b).floor()),
                LogAddExp => |a, b, out| zip2(a, b, out, $log_add_exp),
                Maximum => |a, b, out| zip2(a, b, out, Number::maximum),
                Minimum => |a, b, out| zip2(a, b, out, Number::minimum),
                Multiply => |a, b, out| zip2(a, b, out, |a, b| a * b),
                Power => |a, b, out| zip2(a, b, out, <$t>::powf),
                Remainder => |a, b, out| {
                    zip2(a, b, out, |a, b| {
                        let r = a % b;
                        if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
                    });
                },
                Subtract => |a, b, out| zip2(a, b, out, |a, b| a - b),
                BitwiseAnd | BitwiseOr | BitwiseXor | LeftShift | RightShift => return None,
                Equal | Greater | GreaterEqual | Less | LessEqual | LogicalAnd | LogicalOr
                | NanEqual | NotEqual => return None,
            })
        }
    };
}

float!(float32, f32, |a: f32, b: f32| log_add_exp(a as f64, b as f64) as f32);
float!(float64, f64, log_add_exp);

/// Functions of complex numbers, computed in twice the precision, so that products and quotients
/// neither overflow nor cancel on the way.
macro_rules! complexes {
    ($($op:pat => $f:expr;)*) => {
        |op| Some(match op {
            $($op => |a, b, out| zip2(a, b, out, |a, b| {
                let f: fn(Complex64, Complex64) -> Complex64 = $f;
                complex::narrow(f(complex::widen(a), complex::widen(b)))
            }),)*
            BinaryOp::Maximum => |a, b, out| zip2(a, b, out, Number::maximum),
            BinaryOp::Minimum => |a, b, out| zip2(a, b, out, Number::minimum),
            _ => return None,
        })
    };
}

fn complex(op: BinaryOp) -> Option<Kernel2<Complex>> {
    use BinaryOp::*;
    let kernel: fn(BinaryOp) -> Option<Kernel2<Complex>> = complexes! {
        Add => |a, b| a + b;
        Divide => complex::divide;
        LogAddExp => complex::log_add_exp;
        Multiply => |a, b| a * b;
        Power => complex::power;
        Remainder => complex::remainder;
        Subtract => |a, b| a - b;
    };
    kernel(op)
}
