//! The Hadamard transform: it is linear.

use smallvec::smallvec;

use super::{Applied, Mapped, Outputs, Rules, mapping, one, only};
use crate::{Array, Result, graph::Inputs, ops, primitives::Hadamard};

impl Rules for Hadamard {
    fn vjp(&self, _node: &Applied<'_>, cotangents: &[Array], _wanted: &[usize]) -> Result<Inputs> {
        Ok(smallvec![self.transposed(&cotangents[0])?])
    }

    fn jvp(&self, _node: &Applied<'_>, tangents: &[Option<Array>]) -> Result<Outputs> {
        let tangent = only(tangents);
        one(ops::node(*self, [tangent.clone()])?)
    }

    fn vmap(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        let (input, axis) = mapping::only(inputs, axes);
        let (input, axis) = mapping::before_last(input, axis)?;
        Mapped::one(ops::node(*self, [input])?, axis)
    }
}

impl Hadamard {
    /// The product with the transposed matrix. Sylvester's matrices are symmetric, those of order 20 and 28
    /// are not.
    fn transposed(self, a: &Array) -> Result<Array> {
        let (m, signs) = (self.m, self.signs());
        let is_negative = |row: usize, column: usize| signs[row] >> column & 1 == 1;
        let is_symmetric =
            (0..m).all(|row| (0..row).all(|x| is_negative(row, x) == is_negative(x, row)));
        if is_symmetric {
            return ops::node(self, [a.clone()]);
        }
        let element = |i: usize| if is_negative(i % m, i / m) { -1.0f32 } else { 1.0 };
        let elements: Vec<f32> = (0..m * m).map(element).collect();
        let matrix = ops::astype(&Array::from_slice(&elements, &[m, m])?, a.dtype())?;
        let parts = ops::unflatten(a, -1, &[m as isize, self.power as isize])?;
        let scale = Some(self.scale.0);
        let sylvester = ops::hadamard_transform(&parts, scale)?;
        ops::flatten(&ops::matmul(&matrix, &sylvester)?, -2, -1)
    }
}
