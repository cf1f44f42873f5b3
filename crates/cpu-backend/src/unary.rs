//! Elementwise functions of one array.

use mlx_vulkan_core::{
    Array, Complex, Dtype, Error, Result, backend::Output, bf16, dtype::Bool8, f16,
    primitives::UnaryOp,
};
use num_complex::Complex64;

use crate::{
    complex,
    elementwise::{self, Kernel1, Loop, loop1, loop1_half, wide1, zip1},
    encoder::Encoder,
    math::*,
    number::Integer,
};

/// Encodes `out = op(a)`.
pub(crate) fn encode(
    enc: &mut Encoder<'_>,
    op: UnaryOp,
    [a]: &[Array; 1],
    out: &mut Output,
) -> Result<()> {
    let kernel = kernel(op, a.dtype(), out.dtype).ok_or_else(|| refuse(op, a))?;
    elementwise::encode(enc, [a], out, kernel)
}

/// The loop of `op` from a dtype to a dtype. Half precision is computed in float32 and rounded once.
pub(crate) fn kernel(op: UnaryOp, from: Dtype, to: Dtype) -> Option<Loop> {
    Some(match from {
        Dtype::Bool => loop1(boolean(op)?),
        Dtype::Uint8 => integer::<u8>(op)?,
        Dtype::Uint16 => integer::<u16>(op)?,
        Dtype::Uint32 => integer::<u32>(op)?,
        Dtype::Uint64 => integer::<u64>(op)?,
        Dtype::Int8 => integer::<i8>(op)?,
        Dtype::Int16 => integer::<i16>(op)?,
        Dtype::Int32 => integer::<i32>(op)?,
        Dtype::Int64 => integer::<i64>(op)?,
        Dtype::Float16 => loop1_half::<f16>(float32(op)?),
        Dtype::Bfloat16 => loop1_half::<bf16>(float32(op)?),
        Dtype::Float32 => loop1(float32(op)?),
        Dtype::Float64 => loop1(float64(op)?),
        Dtype::Complex64 if to == Dtype::Float32 => loop1(complex_part(op)?),
        Dtype::Complex64 => loop1(complex(op)?),
    })
}

fn refuse(op: UnaryOp, a: &Array) -> Error {
    Error::Unsupported {
        op: op.name(),
        backend: "cpu",
        dtype: a.dtype(),
        shape: a.shape().into(),
        reason: "the function is not defined for this dtype",
    }
}

fn boolean(op: UnaryOp) -> Option<Kernel1<Bool8>> {
    use UnaryOp::*;
    Some(match op {
        BitwiseInvert | LogicalNot => |a, out| zip1(a, out, |x| Bool8::from(x.0 == 0)),
        Imag => |_, out| out.fill(Bool8(0)),
        Abs | Ceil | Conjugate | Floor | Real | Round | Sign | Square => {
            |a, out| out.copy_from_slice(a)
        }
        _ => return None,
    })
}

fn integer<T: Integer>(op: UnaryOp) -> Option<Loop> {
    use UnaryOp::*;
    let kernel: Kernel1<T> = match op {
        Abs => |a, out| zip1(a, out, Integer::magnitude),
        BitwiseInvert => |a, out| zip1(a, out, |x| !x),
        Ceil | Conjugate | Floor | Real | Round => |a, out| out.copy_from_slice(a),
        Imag => |_, out| out.fill(T::zero()),
        LogicalNot => {
            return Some(loop1::<T, Bool8>(|a, out| zip1(a, out, |x| x.is_zero().into())));
        }
        Negative => |a, out| zip1(a, out, |x| Integer::wrapping_sub(T::zero(), x)),
        Sign => |a, out| zip1(a, out, Integer::sign),
        Square => |a, out| zip1(a, out, |x| Integer::wrapping_mul(x, x)),
        _ => return None,
    };
    Some(loop1(kernel))
}

/// The functions of a floating point type; a new one has to be named among them.
macro_rules! floats {
    ($($op:pat => $f:expr;)*) => {
        |op| Some(match op {
            $($op => |a, out| wide1(a, out, $f),)*
            BitwiseInvert => return None,
        })
    };
}

/// float32: within 2 ULP.
fn float32(op: UnaryOp) -> Option<Kernel1<f32>> {
    use UnaryOp::*;
    let kernel: fn(UnaryOp) -> Option<Kernel1<f32>> = floats! {
        Abs => f32::abs;
        Arccos => arccos_f32;
        Arccosh => arccosh_f32;
        Arcsin => arcsin_f32;
        Arcsinh => arcsinh_f32;
        Arctan => arctan_f32;
        Arctanh => arctanh_f32;
        Ceil => f32::ceil;
        Conjugate | Real => |x: f32| x;
        Cos => f32::cos;
        Cosh => cosh_f32;
        Erf => erf_f32;
        Erfinv => erfinv_f32;
        Exp => exp_f32;
        Expm1 => expm1_f32;
        Floor => f32::floor;
        Imag => |_: f32| 0.0;
        Log => f32::ln;
        Log10 => log10_f32;
        Log1p => log1p_f32;
        Log2 => log2_f32;
        LogicalNot => |x: f32| (x == 0.0) as u8 as f32;
        Negative => |x: f32| -x;
        Round => f32::round_ties_even;
        Rsqrt => |x: f32| 1.0 / x.sqrt();
        Sigmoid => sigmoid_f32;
        Sign => |x: f32| (x > 0.0) as i8 as f32 - (x < 0.0) as i8 as f32;
        Sin => f32::sin;
        Sinh => sinh_f32;
        Sqrt => f32::sqrt;
        Square => |x: f32| x * x;
        Tan => tan_f32;
        Tanh => tanh_f32;
    };
    kernel(op)
}

fn float64(op: UnaryOp) -> Option<Kernel1<f64>> {
    use UnaryOp::*;
    let kernel: fn(UnaryOp) -> Option<Kernel1<f64>> = floats! {
        Abs => f64::abs;
        Arccos => f64::acos;
        Arccosh => libm::acosh;
        Arcsin => f64::asin;
        Arcsinh => libm::asinh;
        Arctan => f64::atan;
        Arctanh => libm::atanh;
        Ceil => f64::ceil;
        Conjugate | Real => |x: f64| x;
        Cos => f64::cos;
        Cosh => f64::cosh;
        Erf => libm::erf;
        Erfinv => erfinv_f64;
        Exp => f64::exp;
        Expm1 => f64::exp_m1;
        Floor => f64::floor;
        Imag => |_: f64| 0.0;
        Log => f64::ln;
        Log10 => f64::log10;
        Log1p => f64::ln_1p;
        Log2 => f64::log2;
        LogicalNot => |x: f64| (x == 0.0) as u8 as f64;
        Negative => |x: f64| -x;
        Round => f64::round_ties_even;
        Rsqrt => |x: f64| 1.0 / x.sqrt();
        Sigmoid => sigmoid_f64;
        Sign => |x: f64| (x > 0.0) as i8 as f64 - (x < 0.0) as i8 as f64;
        Sin => f64::sin;
        Sinh => f64::sinh;
        Sqrt => f64::sqrt;
        Square => |x: f64| x * x;
        Tan => f64::tan;
        Tanh => f64::tanh;
    };
    kernel(op)
}

/// Functions of complex numbers into float32.
fn complex_part(op: UnaryOp) -> Option<Kernel1<Complex, f32>> {
    Some(match op {
        UnaryOp::Abs => |a, out| zip1(a, out, |z: Complex| z.re.hypot(z.im)),
        UnaryOp::Imag => |a, out| zip1(a, out, |z: Complex| z.im),
        UnaryOp::Real => |a, out| zip1(a, out, |z: Complex| z.re),
        _ => return None,
    })
}

/// Functions of complex numbers, computed in twice the precision.
macro_rules! complexes {
    ($($op:pat => $f:expr;)*) => {
        |op| Some(match op {
            $($op => |a, out| zip1(a, out, |z| {
                let f: fn(Complex64) -> Complex64 = $f;
                complex::narrow(f(complex::widen(z)))
            }),)*
            _ => return None,
        })
    };
}

fn complex(op: UnaryOp) -> Option<Kernel1<Complex>> {
    use UnaryOp::*;
    let kernel: fn(UnaryOp) -> Option<Kernel1<Complex>> = complexes! {
        Arccos => complex::arccos;
        Arccosh => complex::arccosh;
        Arcsin => complex::arcsin;
        Arcsinh => complex::arcsinh;
        Arctan => complex::arctan;
        Arctanh => complex::arctanh;
        Conjugate => |z| z.conj();
        Cos => complex::cos;
        Cosh => complex::cosh;
        Exp => complex::exp;
        Expm1 => complex::expm1;
        Log => |z| z.ln();
        Log10 => |z| z.log10();
        Log1p => complex::log1p;
        Log2 => |z| z.log2();
        Negative => |z| -z;
        Round => |z| Complex64::new(z.re.round_ties_even(), z.im.round_ties_even());
        Rsqrt => complex::rsqrt;
        Sigmoid => complex::sigmoid;
        Sign => complex::sign;
        Sin => complex::sin;
        Sinh => complex::sinh;
        Sqrt => complex::sqrt;
        Square => |z| z * z;
        Tan => complex::tan;
        Tanh => complex::tanh;
    };
    kernel(op)
}
