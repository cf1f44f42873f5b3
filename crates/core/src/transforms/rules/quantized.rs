//! Quantization, and products with what is quantized. A quantized matrix is linear in its scales and biases;
//! its words are no numbers.

use smallvec::smallvec;

use super::{
    Applied, Mapped, Outputs, Rules,
    gathered::{by_right, mapped_picks, numbers, spread},
    mapping::{self, all_to_front, to_front},
    no_tangents, one, sum, tangent_or_zeros,
};
use crate::{
    Array, Dtype, Error, Result,
    graph::Inputs,
    ops,
    primitives::{Affine, Packing, QuantizedOp},
    shape::num_elements,
};

impl Rules for QuantizedOp {
    fn vjp(&self, node: &Applied<'_>, cotangents: &[Array], wanted: &[usize]) -> Result<Inputs> {
        let cotangent = &cotangents[0];
        match *self {
            Self::Quantize(affine) => {
                Ok(smallvec![Edges::new(affine, node)?.spread(&cotangents[1], &cotangents[2])?])
            }
            Self::Dequantize(affine) => {
                let words = &node.inputs[0];
                let derivative = |&i: &usize| match i {
                    0 => ops::zeros_like(words),
                    _ => by_parameter(affine, words, cotangent, &node.inputs[i], i == 1),
                };
                wanted.iter().map(derivative).collect()
            }
            Self::DequantizeFloats { .. } => {
                wanted.iter().map(|&i| ops::zeros_like(&node.inputs[i])).collect()
            }
            Self::QuantizedMatmul { packing, transpose } => {
                let turned = Self::QuantizedMatmul { packing, transpose: !transpose };
                let by_x = || ops::node(turned, with_first(node.inputs, cotangent));
                let matrix = || by_matrix(node.inputs, cotangent, transpose);
                product_vjp("QuantizedMatmul::vjp", packing, node, wanted, by_x, matrix)
            }
            Self::GatherQmm { packing, transpose, left_sorted, right_sorted } => {
                let [x, words, .., left, right] = node.inputs else {
                    unreachable!("a gathered product has five inputs at least")
                };
                let by_x = || {
                    let (transpose, left_sorted) = (!transpose, true);
                    let turned = Self::GatherQmm { packing, transpose, left_sorted, right_sorted };
                    let mut inputs = with_first(node.inputs, cotangent);
                    inputs[1 + packing.parts()] = numbers(left.shape())?;
                    spread(&ops::node(turned, inputs)?, left, x.shape())
                };
                let matrix = || {
                    let (sorted, batch) =
                        ((left_sorted, right_sorted), &words.shape()[..words.ndim() - 2]);
                    turned_if(transpose, &by_right(x, cotangent, [left, right], sorted, batch)?)
                };
                product_vjp("GatherQMM::vjp", packing, node, wanted, by_x, matrix)
            }
        }
    }

    fn jvp(&self, node: &Applied<'_>, tangents: &[Option<Array>]) -> Result<Outputs> {
        let tangent = |i| tangent_or_zeros(node, tangents, i);
        match *self {
            Self::Quantize(affine) => {
                let (scales, biases) = Edges::new(affine, node)?.gather(&tangent(0)?)?;
                Ok(smallvec![ops::zeros_like(&node.outputs[0])?, scales, biases])
            }
            Self::Dequantize(_) => {
                if tangents[1].as_ref().or(tangents[2].as_ref()).is_none() {
                    return no_tangents(node);
                }
                one(ops::node(*self, [node.inputs[0].clone(), tangent(1)?, tangent(2)?])?)
            }
            Self::DequantizeFloats { .. } => no_tangents(node),
            Self::QuantizedMatmul { packing, .. } | Self::GatherQmm { packing, .. } => {
                let of_matrix = match packing {
                    Packing::Affine(_) => tangents[2].as_ref().or(tangents[3].as_ref()),
                    Packing::Floats(_) => None,
                };
                if tangents[0].as_ref().or(of_matrix).is_none() {
                    return no_tangents(node);
                }
                let by_x = |t: &Array| ops::node(*self, with_first(node.inputs, t));
                let by_matrix = |_| {
                    let mut inputs = Inputs::from(node.inputs);
                    (inputs[2], inputs[3]) = (tangent(2)?, tangent(3)?);
                    ops::node(*self, inputs)
                };
                sum([
                    tangents[0].as_ref().map(by_x).transpose(),
                    of_matrix.map(by_matrix).transpose(),
                ])
            }
        }
    }

    fn vmap(&self, inputs: &[Array], axes: &[Option<usize>]) -> Result<Mapped> {
        match *self {
            Self::Quantize(_) | Self::Dequantize(_) | Self::DequantizeFloats { .. } => {
                let outputs = crate::graph::apply((*self).into(), all_to_front(inputs, axes)?)?;
                Mapped::all(outputs.into_iter().collect(), 0)
            }
            Self::QuantizedMatmul { packing, .. } => self.mapped_product(packing, inputs, axes),
            Self::GatherQmm { packing, transpose, left_sorted, right_sorted } => {
                let size = mapping::size(inputs, axes);
                let x = to_front(&inputs[0], axes[0])?;
                let (matrices, of_matrices) = matrices_to_front(packing, inputs, axes)?;
                let pick = |i: usize| (&inputs[packing.parts() + i], axes[packing.parts() + i]);
                let left = mapped_picks(pick(1), (&x, axes[0]), size)?;
                let right = mapped_picks(pick(2), (&matrices[0], of_matrices), size)?;
                // The matrices of each index of the mapped axis are behind those of the one before it.
                let left_sorted = left_sorted && axes[0].is_some();
                let right_sorted = right_sorted && of_matrices.is_some();
                let gather = Self::GatherQmm { packing, transpose, left_sorted, right_sorted };
                let inputs = std::iter::once(x).chain(matrices).chain([left, right]);
                Mapped::one(ops::node(gather, inputs)?, 0)
            }
        }
    }
}

impl QuantizedOp {
    /// A product with one more axis.
    fn mapped_product(
        &self,
        packing: Packing,
        inputs: &[Array],
        axes: &[Option<usize>],
    ) -> Result<Mapped> {
        let size = mapping::size(inputs, axes);
        let (matrices, mapped) = matrices_to_front(packing, inputs, axes)?;
        let x = to_front(&inputs[0], axes[0])?;
        let product =
            |x: Array, matrices: Inputs| ops::node(*self, std::iter::once(x).chain(matrices));
        // One matrix serves all of `x`.
        if mapped.is_none() && matrices[0].ndim() == 2 {
            return Mapped::one(product(x, matrices)?, 0);
        }
        let x = match axes[0] {
            Some(_) => x,
            None => mapping::repeated(&x, 0, size)?,
        };
        let matrices = match mapped {
            Some(_) => matrices,
            None => {
                matrices.iter().map(|a| mapping::repeated(a, 0, size)).collect::<Result<_>>()?
            }
        };
        if matrices[0].ndim() == x.ndim() {
            return Mapped::one(product(x, matrices)?, 0);
        }
        // Each matrix serves all batches of its `x`, as rows.
        let [size, batch @ .., rows, inner] = x.shape() else {
            unreachable!("it has an axis more than a matrix")
        };
        let rows = num_elements(batch) * rows;
        let long = ops::reshape(&x, &[*size as isize, rows as isize, *inner as isize])?;
        let long = product(long, matrices)?;
        let mut shape: Vec<isize> = x.shape().iter().map(|&d| d as isize).collect();
        shape[x.ndim() - 1] = long.dim(-1) as isize;
        Mapped::one(ops::reshape(&long, &shape)?, 0)
    }
}

/// The parts of matrices, the inputs behind the first one, with their mapped axes at the front; and which
/// axis that is, if any of them has one: then all have.
fn matrices_to_front(
    packing: Packing,
    inputs: &[Array],
    axes: &[Option<usize>],
) -> Result<(Inputs, Option<usize>)> {
    let parts = 1..1 + packing.parts();
    let (matrices, axes) = (&inputs[parts.clone()], &axes[parts]);
    if axes.iter().all(Option::is_none) {
        return Ok((matrices.into(), None));
    }
    Ok((all_to_front(matrices, axes)?, Some(0)))
}

/// All inputs, with another first one.
fn with_first(inputs: &[Array], first: &Array) -> Inputs {
    std::iter::once(first).chain(&inputs[1..]).cloned().collect()
}

/// The derivatives of a product: by `x`, which is input 0, and through the one by its matrix by scales and
/// biases. There is none by the words, nor by the scales of small floats.
fn product_vjp(
    op: &'static str,
    packing: Packing,
    node: &Applied<'_>,
    wanted: &[usize],
    by_x: impl Fn() -> Result<Array>,
    by_matrix: impl Fn() -> Result<Array>,
) -> Result<Inputs> {
    let has_parameters = wanted.iter().any(|i| matches!(i, 2 | 3)) && packing.affine().is_some();
    let matrix = has_parameters.then(by_matrix).transpose()?;
    let derivative = |&i: &usize| match (i, packing, &matrix) {
        (0, ..) => by_x(),
        (1, ..) => Err(Error::invalid(op, "no gradient wrt the quantized weights.")),
        (2, Packing::Floats(mode), _) => {
            let message = format!("no gradient wrt scales with {} quantization.", mode.name());
            Err(Error::invalid(op, message))
        }
        (2 | 3, Packing::Affine(affine), Some(matrix)) => {
            by_parameter(affine, &node.inputs[1], matrix, &node.inputs[i], i == 2)
        }
        _ => ops::zeros_like(&node.inputs[i]),
    };
    wanted.iter().map(derivative).collect()
}

fn turned_if(turned: bool, a: &Array) -> Result<Array> {
    if turned { ops::swapaxes(a, -1, -2) } else { Ok(a.clone()) }
}

/// The derivative of a product by its matrix, as it is quantized.
fn by_matrix(inputs: &[Array], cotangent: &Array, transpose: bool) -> Result<Array> {
    let long = |a: &Array| match inputs[1].ndim() {
        2 => {
            let rows = num_elements(&a.shape()[..a.ndim() - 1]);
            ops::reshape(a, &[rows as isize, a.dim(-1) as isize])
        }
        _ => Ok(a.clone()),
    };
    let (x, cotangent) = (long(&inputs[0])?, long(cotangent)?);
    turned_if(transpose, &ops::matmul(&ops::swapaxes(&x, -1, -2)?, &cotangent)?)
}

/// The last axis as groups.
fn grouped(affine: Affine, a: &Array) -> Result<Array> {
    let groups = a.dim(-1) / affine.group_size;
    ops::unflatten(a, -1, &[groups as isize, affine.group_size as isize])
}

/// The derivative by scales, or else by biases, when that by the matrix is `cotangent`.
fn by_parameter(
    affine: Affine,
    words: &Array,
    cotangent: &Array,
    parameter: &Array,
    is_scales: bool,
) -> Result<Array> {
    let cotangent = match is_scales {
        true => {
            let (ones, zeros) = (ops::ones_like(parameter)?, ops::zeros_like(parameter)?);
            let quanta = ops::node(QuantizedOp::Dequantize(affine), [words.clone(), ones, zeros])?;
            ops::multiply(cotangent, &quanta)?
        }
        false => cotangent.clone(),
    };
    ops::sum(&grouped(affine, &cotangent)?, &[-1], false)
}

/// What scales and biases of a quantization depend on: the bias of a group is its element that is the
/// farthest from zero, and the scale is that element over a whole number.
struct Edges {
    affine: Affine,
    /// 1 over the number of elements that are the bias of their group, and 0 for all others; in groups.
    shares: Array,
    /// The derivatives of the scales by these elements.
    by_scale: Array,
}

impl Edges {
    fn new(affine: Affine, node: &Applied<'_>) -> Result<Self> {
        let [_, scales, biases] = node.outputs else {
            unreachable!("quantization has three outputs")
        };
        // Quantization computes in float32.
        let single = |a: &Array| ops::astype(a, Dtype::Float32);
        let (w, bias) = (grouped(affine, &node.inputs[0])?, ops::expand_dims(biases, &[-1])?);
        let is_edge = ops::equal(&single(&w)?, &single(&bias)?)?;
        // Without a bias all elements are as good as zero.
        let has_bias = ops::not_equal(biases, 0.0)?;
        let is_edge = ops::logical_and(&is_edge, &ops::expand_dims(&has_bias, &[-1])?)?;
        let edges = ops::astype(&is_edge, w.dtype())?;
        let count = ops::maximum(&ops::sum(&edges, &[-1], true)?, 1.0)?;
        let whole = ops::round(&ops::divide(biases, scales)?, 0)?;
        let by_scale = ops::where_(&has_bias, &ops::reciprocal(&whole)?, 0.0)?;
        Ok(Edges {
            affine,
            shares: ops::stop_gradient(&ops::divide(&edges, &count)?)?,
            by_scale: ops::stop_gradient(&by_scale)?,
        })
    }

    /// The derivative along cotangents of scales and biases.
    fn spread(&self, scales: &Array, biases: &Array) -> Result<Array> {
        let cotangent = ops::add(&ops::multiply(scales, &self.by_scale)?, biases)?;
        let spread = ops::multiply(&ops::expand_dims(&cotangent, &[-1])?, &self.shares)?;
        ops::flatten(&spread, -2, -1)
    }

    /// The derivatives of scales and biases along a tangent.
    fn gather(&self, tangent: &Array) -> Result<(Array, Array)> {
        let weighted = ops::multiply(&grouped(self.affine, tangent)?, &self.shares)?;
        let biases = ops::sum(&weighted, &[-1], false)?;
        Ok((ops::multiply(&biases, &self.by_scale)?, biases))
    }
}
