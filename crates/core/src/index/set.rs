//! Writing: `a[…] = v`, and `a.at[…]`.

use crate::{
    Array, Dtype, Result, Shape,
    index::{
        Index,
        get::{squeeze_axes, transpose_to},
        layout::{Dim, Layout, Neighbours, Part},
    },
    ops::{self, Operand, broadcast_to, expand_dims},
    primitives::ScatterOp,
};

impl Array {
    /// `a[index] = value`: makes this the array with the elements at the index replaced. The value
    /// broadcasts to them and takes the array's dtype; of several values for one element, one is
    /// left. A single mask (a bool array with the first axes of this one) takes the values one
    /// after the other, as [`ops::masked_scatter`] does. Other clones of the array stay as they
    /// are.
    ///
    /// # Errors
    /// As [`Array::get_item`], or when the value does not broadcast.
    pub fn set_item(&mut self, index: &[Index], value: impl Operand) -> Result<()> {
        let value = value.to_array(Some(self.dtype()))?;
        *self = match index {
            [Index::Array(mask)] if mask.dtype() == Dtype::Bool => {
                ops::masked_scatter(self, mask, &value)?
            }
            _ => update(self, index, &value, ScatterOp::Assign)?,
        };
        Ok(())
    }

    /// A value in this array's shape, as if it were assigned to all elements at once: leading axes of size 1
    /// that this array has not are taken off, and it broadcasts. It keeps its dtype, unless it is weak.
    ///
    /// # Errors
    /// When the value does not broadcast.
    pub fn broadcast_value(&self, value: impl Operand) -> Result<Array> {
        let value = value.to_array(Some(self.dtype()))?;
        broadcast_to(&without_leading_ones(&value, self.ndim())?, self.shape())
    }

    /// `a.at[index]`: functions that join values with the elements at an index, each as often as
    /// the index names it.
    pub fn at<'a>(&'a self, index: &'a [Index]) -> ArrayAt<'a> {
        ArrayAt { array: self, index }
    }
}

/// Elements of an array at an index: see [`Array::at`].
pub struct ArrayAt<'a> {
    array: &'a Array,
    index: &'a [Index],
}

macro_rules! updates {
    ($($(#[$doc:meta])* $name:ident($value:ident) => $op:ident, $update:expr;)*) => {
        impl ArrayAt<'_> {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// As [`Array::set_item`], except that there are no masks.
            pub fn $name(&self, value: impl Operand) -> Result<Array> {
                let $value = value.to_array(Some(self.array.dtype()))?;
                update(self.array, self.index, &$update, ScatterOp::$op)
            }
        )*}
    };
}

updates! {
    /// The array with values added.
    add(value) => Sum, value;
    /// The array with values taken off.
    subtract(value) => Sum, ops::negative(&value)?;
    /// The array multiplied by values.
    multiply(value) => Prod, value;
    /// The array multiplied by the reciprocals of values, which are 0 for integers above 1.
    divide(value) => Prod, ops::reciprocal(&value)?;
    /// The array with the larger of its elements and the values.
    maximum(value) => Max, value;
    /// The array with the smaller of its elements and the values.
    minimum(value) => Min, value;
}

fn update(a: &Array, index: &[Index], value: &Array, op: ScatterOp) -> Result<Array> {
    let layout = Layout::new(a, index, Neighbours::Arrays)?;
    let shape = layout.shape();
    let value = broadcast_to(&without_leading_ones(value, shape.len())?, &shape)?;
    let value = squeeze_axes(&value, &layout.new_axes())?;
    match layout.has_arrays() {
        true => scattered(a, &layout, &value, op),
        false => sliced(a, &layout, &value, op),
    }
}

/// Takes leading axes of size 1 off as long as there are more than `ndim` axes.
fn without_leading_ones(value: &Array, ndim: usize) -> Result<Array> {
    let extra = value.ndim().saturating_sub(ndim);
    let ones = value.shape().iter().take(extra).take_while(|&&d| d == 1).count();
    squeeze_axes(value, &(0..ones as isize).collect::<Vec<_>>())
}

/// Without arrays of indices: a slice is updated.
fn sliced(a: &Array, layout: &Layout, value: &Array, op: ScatterOp) -> Result<Array> {
    let single = layout.parts.iter().enumerate().filter(|(_, p)| matches!(p, Part::Int(_)));
    let value = expand_dims(value, &single.map(|(x, _)| x as isize).collect::<Vec<_>>())?;
    ops::update_slice(op, a, &value, layout.bounds(a))
}

/// With arrays of indices. Slices with a step are arrays of indices too, with an axis of their own
/// behind those of the arrays; other slices are slices of the scatter.
fn scattered(a: &Array, layout: &Layout, value: &Array, op: ScatterOp) -> Result<Array> {
    let stepped = |axis: usize| matches!(layout.parts[axis], Part::Slice { step, .. } if step != 1);
    let steps: Vec<usize> = (0..a.ndim()).filter(|&x| stepped(x)).collect();
    let joint = layout.arrays.len();
    let value = transpose_to(value, order(layout, &steps))?;
    let single = (0..a.ndim()).filter(|&x| stepped(x) || !is_slice(&layout.parts[x]));
    let single = single.map(|x| (joint + steps.len() + x) as isize).collect::<Vec<_>>();
    let value = expand_dims(&value, &single)?;
    let mut arrays = Vec::new();
    let mut axes = Vec::new();
    for (axis, part) in layout.parts.iter().enumerate() {
        let picks = match part {
            Part::Slice { start: 0, step: 1, .. } => continue,
            Part::Slice { start, step: 1, .. } => scalar(*start as usize)?,
            Part::Slice { start, step, count } => {
                let nth = steps.iter().position(|&x| x == axis).unwrap_or(0);
                range(*start, *step, *count, joint + nth, joint + steps.len())?
            }
            Part::Int(i) => scalar(*i)?,
            Part::Array(x) => expand_behind(&broadcast_to(x, &layout.arrays)?, steps.len())?,
        };
        arrays.push(picks);
        axes.push(axis as isize);
    }
    ops::scatter_by(op, a, &arrays.iter().collect::<Vec<_>>(), &value, &axes)
}

fn is_slice(part: &Part) -> bool {
    matches!(part, Part::Slice { .. })
}

/// The permutation that puts the arrays' axes first, those of stepped slices behind them, and then
/// the other ones.
fn order(layout: &Layout, steps: &[usize]) -> Vec<isize> {
    let joint = layout.arrays.len() as isize;
    let (mut at, mut arrays) = (0, 0);
    let mut kept = Vec::new();
    for dim in layout.dims.iter().filter(|d| **d != Dim::New) {
        match dim {
            Dim::Arrays => arrays = at,
            Dim::Axis(axis) => kept.push((*axis, at)),
            Dim::New => {}
        }
        at += if *dim == Dim::Arrays { joint } else { 1 };
    }
    let stepped = kept.iter().filter(|(axis, _)| steps.contains(axis)).map(|(_, at)| *at);
    let others = kept.iter().filter(|(axis, _)| !steps.contains(axis)).map(|(_, at)| *at);
    (arrays..arrays + joint).chain(stepped).chain(others).collect()
}

/// An index as an array: unsigned, so that it promotes to the dtype of any others.
fn scalar(i: usize) -> Result<Array> {
    match u32::try_from(i) {
        Ok(i) => Array::scalar(i),
        Err(_) => Array::scalar(i as i64),
    }
}

/// The indices of a slice along `axis` of `ndim`.
fn range(start: isize, step: isize, count: usize, axis: usize, ndim: usize) -> Result<Array> {
    let stop = start + step * count as isize;
    let list = ops::arange(start as f64, stop as f64, step as f64, Dtype::Uint32)?;
    let mut shape = vec![1; ndim];
    shape[axis] = count as isize;
    ops::reshape(&list, &shape)
}

fn expand_behind(a: &Array, count: usize) -> Result<Array> {
    let shape: Shape = a.shape().iter().copied().chain(std::iter::repeat_n(1, count)).collect();
    ops::reshape(a, &shape.iter().map(|&d| d as isize).collect::<Vec<_>>())
}
