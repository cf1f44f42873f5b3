//! Norms and the cross product.

use super::singular_values;
use crate::{
    Array, Dtype, Error, Result, Shape,
    ops::{self, astype, broadcast_shape, broadcast_to, normalize_axis},
};

/// Order of a norm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Order {
    /// The `p`-norm of a vector; of a matrix 1 and -1 (column sums), 2 and -2 (singular values),
    /// and ±∞ (row sums).
    P(f64),
    /// Frobenius norm of a matrix.
    Fro,
    /// Nuclear norm of a matrix: the sum of its singular values.
    Nuc,
}

impl From<f64> for Order {
    fn from(p: f64) -> Self {
        Order::P(p)
    }
}

impl std::str::FromStr for Order {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "fro" | "f" => Ok(Order::Fro),
            "nuc" => Ok(Order::Nuc),
            _ => {
                let message = format!("Invalid ord value '{name}' for matrix norm.");
                Err(Error::invalid("linalg::norm", message))
            }
        }
    }
}

/// Norm of vectors (one axis) or matrices (two axes); of all elements if neither an order nor axes
/// are given.
///
/// # Errors
/// When there are too many axes, an axis is out of bounds, the order is none of a matrix, or
/// singular values are asked for on a GPU stream.
pub fn norm(
    a: &Array,
    ord: Option<Order>,
    axis: Option<&[isize]>,
    keepdims: bool,
) -> Result<Array> {
    let all: Vec<isize> = (0..a.ndim() as isize).collect();
    let Some(ord) = ord else {
        return match axis {
            Some(axes) if axes.len() > 2 => too_many_axes(),
            Some(axes) => euclidean(a, axes, keepdims),
            None => euclidean(a, &all, keepdims),
        };
    };
    let axes = axis.unwrap_or(&all);
    match (ord, axes) {
        (Order::P(p), [_]) => vector_norm(a, p, axes, keepdims),
        (Order::P(p), &[row, column]) => matrix_norm(a, p, [row, column], keepdims),
        (Order::P(_), _) => too_many_axes(),
        (Order::Fro, [_, _]) => euclidean(a, axes, keepdims),
        (Order::Nuc, &[row, column]) => singular_norm(a, [row, column], keepdims, ops::sum),
        (Order::Fro | Order::Nuc, _) => {
            let name = if ord == Order::Fro { "fro" } else { "nuc" };
            let message = format!(
                "Norm '{name}' only supported for matrices, but received {} axis/axes.",
                axes.len()
            );
            Err(Error::invalid("linalg::norm", message))
        }
    }
}

fn too_many_axes<T>() -> Result<T> {
    Err(Error::invalid("linalg::norm", "Received too many axes for norm."))
}

/// Root of the sum of squared moduli.
fn euclidean(a: &Array, axes: &[isize], keepdims: bool) -> Result<Array> {
    let real = if a.dtype() == Dtype::Complex64 { ops::abs(a)? } else { a.clone() };
    let squares = ops::square(&real)?;
    match axes.is_empty() {
        true => ops::sqrt(&squares),
        false => ops::sqrt(&ops::sum(&squares, axes, keepdims)?),
    }
}

fn vector_norm(a: &Array, p: f64, axes: &[isize], keepdims: bool) -> Result<Array> {
    let dtype = a.dtype().at_least_float();
    let modulus = ops::abs(a)?;
    let result = match p {
        0.0 => ops::sum(&ops::not_equal(a, &Array::scalar_of(0.0, a.dtype())?)?, axes, keepdims),
        1.0 => ops::sum(&modulus, axes, keepdims),
        2.0 => return euclidean(a, axes, keepdims),
        f64::INFINITY => ops::max(&modulus, axes, keepdims),
        f64::NEG_INFINITY => ops::min(&modulus, axes, keepdims),
        _ => {
            let modulus = astype(&modulus, modulus.dtype().at_least_float())?;
            let sum = ops::sum(&ops::power(&modulus, p)?, axes, keepdims)?;
            ops::power(&sum, 1.0 / p)
        }
    };
    astype(&result?, dtype)
}

type Reduction = fn(&Array, &[isize], bool) -> Result<Array>;

fn matrix_norm(a: &Array, p: f64, [row, column]: [isize; 2], keepdims: bool) -> Result<Array> {
    let sums = |along: isize, across: isize, extreme: Reduction| {
        let sum = ops::sum(&ops::abs(a)?, &[along], true)?;
        let result = astype(&extreme(&sum, &[across], true)?, a.dtype().at_least_float())?;
        if keepdims { Ok(result) } else { ops::squeeze(&result, &[row, column]) }
    };
    match p {
        1.0 => sums(row, column, ops::max),
        -1.0 => sums(row, column, ops::min),
        f64::INFINITY => sums(column, row, ops::max),
        f64::NEG_INFINITY => sums(column, row, ops::min),
        2.0 | -2.0 => {
            let extreme = if p > 0.0 { ops::max } else { ops::min };
            astype(&singular_norm(a, [row, column], keepdims, extreme)?, a.dtype())
        }
        _ => {
            let message = format!("Invalid ord {p} for matrix norm.");
            Err(Error::invalid("linalg::norm", message))
        }
    }
}

/// A reduction of the singular values of the matrices that two axes make up.
fn singular_norm(
    a: &Array,
    axes: [isize; 2],
    keepdims: bool,
    reduction: Reduction,
) -> Result<Array> {
    let [row, column] = axes.map(|axis| normalize_axis("linalg::norm", axis, a.ndim()));
    let (row, column) = (row?, column?);
    if row == column {
        return Err(Error::invalid("linalg::norm", "The axes of a matrix must differ."));
    }
    let others = (0..a.ndim()).filter(|&x| x != row && x != column);
    let order: Vec<isize> = others.chain([row, column]).map(|x| x as isize).collect();
    let values = singular_values(&ops::transpose(a, &order)?)?;
    let result = astype(&reduction(&values, &[-1], false)?, values.dtype())?;
    let kept = [row.min(column) as isize, row.max(column) as isize];
    if keepdims { ops::expand_dims(&result, &kept) } else { Ok(result) }
}

/// Cross product of vectors with 2 or 3 elements along an axis; a missing third one is zero.
///
/// # Errors
/// When the axis is out of bounds or of another size, or the other axes do not broadcast.
pub fn cross(a: &Array, b: &Array, axis: isize) -> Result<Array> {
    let op = "linalg::cross";
    let mut shapes = [Shape::from(a.shape()), Shape::from(b.shape())];
    for shape in &mut shapes {
        let own = normalize_axis(op, axis, shape.len())?;
        if !matches!(shape[own], 2 | 3) {
            return Err(Error::invalid(op, "The specified axis must have size 2 or 3."));
        }
        shape[own] = 3;
    }
    let joint = broadcast_shape(op, &shapes[0], &shapes[1])?;
    let along = normalize_axis(op, axis, joint.len())?;
    let dtype = a.dtype().promote(b.dtype());
    let parts = |x: &Array| -> Result<[Array; 3]> {
        let size = x.dim(axis);
        let mut shape = joint.clone();
        shape[along] = size;
        let mut parts =
            ops::split(&broadcast_to(&astype(x, dtype)?, &shape)?, size, along as isize)?;
        if size == 2 {
            parts.push(ops::zeros_like(&parts[0])?);
        }
        Ok(parts.try_into().expect("three parts"))
    };
    let (x, y) = (parts(a)?, parts(b)?);
    let part = |i: usize| -> Result<Array> {
        let (j, k) = ((i + 1) % 3, (i + 2) % 3);
        ops::subtract(&ops::multiply(&x[j], &y[k])?, &ops::multiply(&x[k], &y[j])?)
    };
    ops::concatenate(&[&part(0)?, &part(1)?, &part(2)?], along as isize)
}

/// Machine epsilon of a dtype of decompositions.
pub(super) fn epsilon(dtype: Dtype) -> f64 {
    if dtype == Dtype::Float64 { f64::EPSILON } else { f32::EPSILON.into() }
}
