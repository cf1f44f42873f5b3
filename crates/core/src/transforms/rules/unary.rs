//! Elementwise functions of one array.

use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, LN_10};

use super::{
    Applied, Mapped, Outputs, Rules,
    elementwise::{self, Factor},
    mapping, one, only,
};
use crate::{Array, Dtype, Result, graph::Inputs, ops::*, primitives::UnaryOp};

impl Rules for UnaryOp {
    fn vjp(&self, node: &Applied<'_>, cotangents: &[Array], wanted: &[usize]) -> Result<Inputs> {
        let (x, cotangent) = (&node.inputs[0], &cotangents[0]);
        let derivative = match (self, x.dtype()) {
            (UnaryOp::Conjugate, _) => conjugate(cotangent)?,
            (UnaryOp::Real, _) => astype(cotangent, x.dtype())?,
            (UnaryOp::Imag, _) => multiply(&imaginary_unit()?, &astype(cotangent, x.dtype())?)?,
            (UnaryOp::Abs, Dtype::Complex64) => multiply(cotangent, &sign(x)?)?,
            (UnaryOp::Sign, Dtype::Complex64) => turned(x, &node.outputs[0], cotangent)?,
            _ => {
                let factor = |_| factor(*self, x, &node.outputs[0]);
                return elementwise::vjp(node, cotangent, wanted, factor);
            }
        };
        Ok(wanted.iter().map(|_| derivative.clone()).collect())
    }

    fn jvp(&self, node: &Applied<'_>, tangents: &[Option<Array>]) -> Result<Outputs> {
        let (x, tangent) = (&node.inputs[0], only(tangents));
        match (self, x.dtype()) {
            (UnaryOp::Conjugate, _) => one(conjugate(tangent)?),
            (UnaryOp::Real, _) => one(real(tangent)?),
            (UnaryOp::Imag, _) => one(imag(tangent)?),
            // d|z| = Re(conj(z) t) / |z|.
            (UnaryOp::Abs, Dtype::Complex64) => {
                one(real(&multiply(tangent, &conjugate(&sign(x)?)?)?)?)
            }
            (UnaryOp::Sign, Dtype::Complex64) => one(turned(x, &node.outputs[0], tangent)?),
            _ => elementwise::jvp(node, tangents, |_| factor(*self, x, &node.outputs[0])),
        }
    }

    fn vmap(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        let (input, axis) = mapping::only(inputs, axes);
        Mapped::one(node(*self, [input.clone()])?, axis)
    }
}

fn imaginary_unit() -> Result<Array> {
    Array::scalar(crate::Complex::new(0.0f32, 1.0))
}

/// The derivative of `y = z / |z|` along `t`, which is also the one along a cotangent: what of `t` is across
/// `z`, over `|z|`.
fn turned(z: &Array, y: &Array, t: &Array) -> Result<Array> {
    let along = real(&multiply(&conjugate(y)?, t)?)?;
    divide(&subtract(t, &multiply(y, &along)?)?, &abs(z)?)
}

/// The derivative of `y = op(x)`.
fn factor(op: UnaryOp, x: &Array, y: &Array) -> Result<Factor> {
    use Factor::{Minus, Over, Times, Twice, Zero};
    let one_minus_square = || subtract(1.0, &square(x)?);
    Ok(match op {
        UnaryOp::Abs => Times(sign(x)?),
        UnaryOp::Arccos => Times(negative(&rsqrt(&one_minus_square()?)?)?),
        UnaryOp::Arccosh => Times(rsqrt(&subtract(&square(x)?, 1.0)?)?),
        UnaryOp::Arcsin => Times(rsqrt(&one_minus_square()?)?),
        UnaryOp::Arcsinh => Times(rsqrt(&add(&square(x)?, 1.0)?)?),
        UnaryOp::Arctan => Over(add(&square(x)?, 1.0)?),
        UnaryOp::Arctanh => Over(one_minus_square()?),
        UnaryOp::Cos => Times(negative(&sin(x)?)?),
        UnaryOp::Cosh => Times(sinh(x)?),
        UnaryOp::Erf => Times(multiply(FRAC_2_SQRT_PI, &exp(&negative(&square(x)?)?)?)?),
        UnaryOp::Erfinv => Times(multiply(1.0 / FRAC_2_SQRT_PI, &exp(&square(y)?)?)?),
        UnaryOp::Exp => Times(y.clone()),
        UnaryOp::Expm1 => Times(add(y, 1.0)?),
        UnaryOp::Log => Over(x.clone()),
        UnaryOp::Log10 => Over(multiply(x, LN_10)?),
        UnaryOp::Log1p => Over(add(x, 1.0)?),
        UnaryOp::Log2 => Over(multiply(x, LN_2)?),
        UnaryOp::Negative => Minus,
        UnaryOp::Rsqrt => Times(multiply(-0.5, &divide(y, x)?)?),
        UnaryOp::Sigmoid => Times(multiply(y, &subtract(1.0, y)?)?),
        UnaryOp::Sin => Times(cos(x)?),
        UnaryOp::Sinh => Times(cosh(x)?),
        UnaryOp::Sqrt => Over(multiply(y, 2.0)?),
        UnaryOp::Square => Twice(x.clone()),
        UnaryOp::Tan => Over(square(&cos(x)?)?),
        UnaryOp::Tanh => Times(subtract(1.0, &square(y)?)?),
        UnaryOp::BitwiseInvert
        | UnaryOp::Ceil
        | UnaryOp::Floor
        | UnaryOp::LogicalNot
        | UnaryOp::Round
        | UnaryOp::Sign => Zero,
        UnaryOp::Conjugate | UnaryOp::Imag | UnaryOp::Real => {
            unreachable!("they have rules of their own")
        }
    })
}
