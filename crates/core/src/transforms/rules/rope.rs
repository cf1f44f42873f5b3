//! Rotary position embedding: linear in what it rotates.

use super::{Applied, Mapped, Outputs, Rules, composed, mapping, one, sum};
use crate::{
    Array, Dtype, Result,
    graph::Inputs,
    ops,
    primitives::{Exact, Rope},
};

impl Rules for Rope {
    fn vjp(&self, node: &Applied<'_>, cotangents: &[Array], wanted: &[usize]) -> Result<Inputs> {
        let derivative = |&i: &usize| match i {
            // The transpose of a rotation is that by the opposite angle.
            0 => {
                let back = Rope { scale: Exact(-self.scale.0), ..*self };
                let mut inputs: Inputs = node.inputs.into();
                inputs[0] = cotangents[0].clone();
                ops::node(back, inputs)
            }
            // Offsets are whole numbers.
            1 => ops::zeros_like(&node.inputs[1]),
            _ => {
                let by_freqs =
                    composed::vjp(node, cotangents, &[2], |inputs| one(self.composed(inputs)?));
                Ok(by_freqs?.remove(0))
            }
        };
        wanted.iter().map(derivative).collect()
    }

    fn jvp(&self, node: &Applied<'_>, tangents: &[Option<Array>]) -> Result<Outputs> {
        let along = |(i, tangent): (usize, &Option<Array>)| {
            let Some(tangent) = tangent else { return Ok(None) };
            match i {
                0 => {
                    let mut inputs: Inputs = node.inputs.into();
                    inputs[0] = tangent.clone();
                    ops::node(*self, inputs).map(Some)
                }
                1 => ops::zeros_like(&node.outputs[0]).map(Some),
                _ => {
                    let along = [None, None, Some(tangent.clone())];
                    let along_freqs =
                        composed::jvp(node, &along, |inputs| one(self.composed(inputs)?));
                    Ok(Some(along_freqs?.remove(0)))
                }
            }
        };
        sum(tangents.iter().enumerate().map(along))
    }

    fn vmap(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        if axes.get(2).is_some_and(Option::is_some) {
            return composed::vmap(inputs, axes, |inputs| one(self.composed(inputs)?));
        }
        let (x, offset) = (&inputs[0], &inputs[1]);
        let with = |x: Array, offset: Array| {
            let freqs = inputs.get(2).cloned();
            ops::node(*self, [x, offset].into_iter().chain(freqs))
        };
        match (axes[0], axes[1]) {
            // One offset of all batches, or one of each, holds for what stands behind them.
            (Some(axis), None) => {
                let inner = x.ndim() - 2;
                let (x, axis) = match axis {
                    _ if (1..inner).contains(&axis) => (x.clone(), axis),
                    _ => (ops::moveaxis(x, axis as isize, 1)?, 1),
                };
                Mapped::one(with(x, offset.clone())?, axis)
            }
            _ => {
                let count = mapping::size(inputs, axes) as isize;
                let aligned = mapping::all_to_front(&inputs[..2], &axes[..2])?;
                let batch = aligned[0].dim(1);
                let offset = match aligned[1].ndim() {
                    1 => ops::expand_dims(&aligned[1], &[1])?,
                    _ => aligned[1].clone(),
                };
                let each = ops::broadcast_to(&offset, &[count as usize, batch])?;
                let output = with(ops::flatten(&aligned[0], 0, 1)?, ops::flatten(&each, 0, 1)?)?;
                Mapped::one(ops::unflatten(&output, 0, &[count, batch as isize])?, 0)
            }
        }
    }
}

impl Rope {
    /// The rotation, whose frequencies are the third input, as a composition.
    pub(crate) fn composed(&self, inputs: &[Array]) -> Result<Array> {
        let [x, offset, freqs] = inputs else { unreachable!("there are frequencies") };
        let wide = if x.dtype() == Dtype::Float64 { x.dtype() } else { Dtype::Float32 };
        // Positions stand on the last but one axis, batches on the first one.
        let mut shape = vec![1; x.ndim()];
        shape[0] = offset.size() as isize;
        let rows = ops::arange(0.0, x.dim(-2) as f64, 1.0, Dtype::Int32)?;
        let positions = ops::add(&ops::reshape(offset, &shape)?, &ops::expand_dims(&rows, &[-1])?)?;
        let scaled = ops::multiply(&ops::astype(&positions, wide)?, f64::from(self.scale.0))?;
        let angle = ops::divide(&scaled, freqs)?;
        let (cos, sin) = (ops::cos(&angle)?, ops::sin(&angle)?);
        let dims = self.dims as isize;
        let rotated = ops::astype(&ops::slice_axis(x, -1, 0, dims)?, wide)?;
        let (sizes, axis) =
            if self.traditional { ([dims / 2, 2], -1) } else { ([2, dims / 2], -2) };
        let pairs = ops::unflatten(&rotated, -1, &sizes)?;
        let part = |i| ops::squeeze(&ops::slice_axis(&pairs, axis, i, i + 1)?, &[axis]);
        let (a, b) = (part(0)?, part(1)?);
        let first = ops::subtract(&ops::multiply(&a, &cos)?, &ops::multiply(&b, &sin)?)?;
        let second = ops::add(&ops::multiply(&a, &sin)?, &ops::multiply(&b, &cos)?)?;
        let turned = ops::flatten(&ops::stack(&[&first, &second], axis)?, -2, -1)?;
        let rest = ops::slice_axis(x, -1, dims, x.dim(-1) as isize)?;
        ops::concatenate(&[&ops::astype(&turned, x.dtype())?, &rest], -1)
    }
}
