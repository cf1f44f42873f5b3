//! Primitives that only look at their input's memory in another way. No backend runs them.

use smallvec::SmallVec;

use crate::{
    Array, Dtype, Error, Result, Strides,
    array::Data,
    backend::Output,
    primitives::{CopyOp, Primitive, ShapeOp},
    shape::{self, Layout},
};

/// Fills the outputs of a primitive that needs no new memory for them; whether it is one.
///
/// # Errors
/// When the primitive is always a view, but not of inputs with this layout; for kernels of users.
pub(crate) fn fill(
    primitive: &Primitive,
    inputs: &[Array],
    outputs: &mut [Output],
) -> Result<bool> {
    if let Primitive::Pass(op) = primitive {
        let passed = &inputs[op.passed(inputs.len())];
        for (output, input) in outputs.iter_mut().zip(passed) {
            output.data = Some(input.evaluated().clone());
        }
        return Ok(true);
    }
    if let (Primitive::Load(load), [output]) = (primitive, &mut *outputs) {
        let layout = Layout::row_major(&output.shape);
        output.data = Some(Data { buffer: load.part().buffer(output.dtype)?, layout });
        return Ok(true);
    }
    let [output] = outputs else { return Ok(false) };
    let Some(data) = view(primitive, inputs, output)? else { return Ok(false) };
    output.data = Some(data);
    Ok(true)
}

/// The data of a primitive's output if it is a view of its first input, else `None`.
fn view(primitive: &Primitive, inputs: &[Array], out: &Output) -> Result<Option<Data>> {
    let layout = match (primitive, inputs) {
        (Primitive::Copy(op), [input]) => copied(*op, input, &input.evaluated().layout, out),
        (Primitive::Shape(ShapeOp::NumberOfElements { axes, inverted, dtype }), [input]) => {
            let number = number_of_elements(input, axes, *inverted, *dtype)?;
            return Ok(Some(number.evaluated().clone()));
        }
        (Primitive::Shape(op @ ShapeOp::Broadcast(_)), [input, ..])
        | (Primitive::Shape(op), [input]) => reshaped(op, input, &input.evaluated().layout, out)?,
        _ => None,
    };
    Ok(layout.map(|layout| Data { buffer: inputs[0].evaluated().buffer.clone(), layout }))
}

/// The input itself, where it has the right dtype and order.
fn copied(op: CopyOp, input: &Array, from: &Layout, out: &Output) -> Option<Layout> {
    match op {
        CopyOp::AsType { dtype } => (input.dtype() == dtype).then(|| from.clone()),
        CopyOp::View { .. } => reinterpret(input, from, out),
        CopyOp::Contiguous { allow_col_major } => {
            let flags = from.flags;
            let dense = flags.row_contiguous || (allow_col_major && flags.col_contiguous);
            dense.then(|| from.clone())
        }
        CopyOp::Full => None,
    }
}

fn reshaped(op: &ShapeOp, input: &Array, from: &Layout, out: &Output) -> Result<Option<Layout>> {
    Ok(Some(match op {
        ShapeOp::Reshape(_) => return Ok(reshape(input, from, out)),
        ShapeOp::Transpose { axes } => {
            let strides = axes.iter().map(|&a| from.strides[a]).collect();
            same_elements(out, strides, from)
        }
        ShapeOp::Broadcast(_) => broadcast(input.shape(), from, out),
        ShapeOp::ExpandDims { axes } => expand_dims(axes, from, out),
        ShapeOp::Squeeze { axes } => {
            let kept = (0..input.ndim()).filter(|a| !axes.contains(a));
            let strides = kept.map(|a| from.strides[a]).collect();
            same_elements(out, strides, from)
        }
        ShapeOp::AsStrided { strides, offset, .. } => {
            as_strided(input, from, strides, *offset, out)?
        }
        ShapeOp::Slice { start, strides, .. } => slice(input, from, start, strides, out),
        ShapeOp::NumberOfElements { .. }
        | ShapeOp::SliceUpdate { .. }
        | ShapeOp::Pad { .. }
        | ShapeOp::Concatenate { .. } => return Ok(None),
    }))
}

/// How many elements axes have in all, or one over it, which is known without looking at any.
pub(crate) fn number_of_elements(
    a: &Array,
    axes: &[usize],
    inverted: bool,
    dtype: Dtype,
) -> Result<Array> {
    let count = axes.iter().map(|&axis| a.shape()[axis]).product::<usize>() as f64;
    Array::scalar_of(if inverted { 1.0 / count } else { count }, dtype)
}

/// Other strides over the very same elements.
fn same_elements(out: &Output, strides: Strides, from: &Layout) -> Layout {
    Layout::view(&out.shape, strides, from.offset, from.data_size, from.flags.contiguous)
}

/// Strides of the new shape if no element has to move.
fn reshape(input: &Array, from: &Layout, out: &Output) -> Option<Layout> {
    if from.flags.row_contiguous {
        return Some(Layout { offset: from.offset, ..Layout::row_major(&out.shape) });
    }
    let (merged, [strides]) = shape::collapse_contiguous(input.shape(), [&from.strides]);
    let strides = split_axes(&merged, &strides, &out.shape)?;
    Some(Layout::view(&out.shape, strides, from.offset, from.data_size, from.flags.contiguous))
}

/// Splits the merged axes, each walked with one stride, into the axes of `shape`.
fn split_axes(merged: &[usize], merged_strides: &[isize], shape: &[usize]) -> Option<Strides> {
    if shape.contains(&0) {
        return None;
    }
    let mut strides: Strides = SmallVec::from_elem(0, shape.len());
    let mut axis = merged.len();
    let mut left = 1;
    let mut stride = 0;
    for i in (0..shape.len()).rev() {
        if shape[i] == 1 {
            continue;
        }
        if left == 1 {
            axis = axis.checked_sub(1)?;
            (left, stride) = (merged[axis], merged_strides[axis]);
        }
        if !left.is_multiple_of(shape[i]) {
            return None;
        }
        strides[i] = stride;
        stride *= shape[i] as isize;
        left /= shape[i];
    }
    (left == 1).then_some(strides)
}

fn broadcast(shape: &[usize], from: &Layout, out: &Output) -> Layout {
    let new = out.shape.len() - shape.len();
    let mut strides: Strides = SmallVec::from_elem(0, out.shape.len());
    for axis in 0..shape.len() {
        if shape[axis] == out.shape[axis + new] {
            strides[axis + new] = from.strides[axis];
        }
    }
    // Repeated elements are not a dense walk over the data.
    let same = shape::num_elements(shape) == out.size();
    Layout::view(&out.shape, strides, from.offset, from.data_size, same && from.flags.contiguous)
}

fn expand_dims(axes: &[usize], from: &Layout, out: &Output) -> Layout {
    let mut old = from.strides.iter();
    let strides = (0..out.shape.len())
        .map(|i| if axes.contains(&i) { 1 } else { *old.next().expect("ranks were checked") })
        .collect();
    same_elements(out, strides, from)
}

/// A view of a dense input; others are made dense by the operation before.
fn as_strided(
    input: &Array,
    from: &Layout,
    strides: &Strides,
    first: usize,
    out: &Output,
) -> Result<Layout> {
    if !from.flags.row_contiguous {
        return Err(Error::invalid("AsStrided", "Must be used with row contiguous arrays only."));
    }
    let size = input.dtype().size();
    let offset = from.offset + first * size;
    let dense = shape::is_row_contiguous(&out.shape, strides);
    Ok(Layout::view(&out.shape, strides.clone(), offset, data_span(&out.shape, strides), dense))
}

/// Elements between the first and the last one that a strided view touches.
fn data_span(shape: &[usize], strides: &[isize]) -> usize {
    if shape.contains(&0) {
        return 0;
    }
    1 + shape.iter().zip(strides).map(|(&d, &s)| (d - 1) * s.unsigned_abs()).sum::<usize>()
}

fn slice(input: &Array, from: &Layout, start: &[isize], steps: &[isize], out: &Output) -> Layout {
    let first: isize = start.iter().zip(&from.strides).map(|(&i, &s)| i * s).sum();
    let offset = from.offset as isize + first * input.dtype().size() as isize;
    let mut strides = Strides::from_slice(&from.strides);
    strides.iter_mut().zip(steps).for_each(|(stride, step)| *stride *= step);
    let span = data_span(&out.shape, &strides);
    let dense = shape::is_row_contiguous(&out.shape, &strides)
        || shape::is_col_contiguous(&out.shape, &strides);
    // An empty slice may start past the end; nothing is read there.
    let offset = if out.size() == 0 { from.offset } else { offset as usize };
    Layout::view(&out.shape, strides, offset, span, dense)
}

/// The same bytes as another dtype: needs a dense last axis when the sizes differ.
fn reinterpret(input: &Array, from: &Layout, out: &Output) -> Option<Layout> {
    let (old, new) = (input.dtype().size(), out.dtype.size());
    if old == new {
        return Some(from.clone());
    }
    let aligned = from.offset.is_multiple_of(new);
    (from.flags.row_contiguous && aligned)
        .then(|| Layout { offset: from.offset, ..Layout::row_major(&out.shape) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::shape::tests::{cases, offsets, walks};

    /// All divisions of a number of elements into axes, some of size 1.
    fn divided(size: usize, cuts: &[usize]) -> Vec<usize> {
        let (mut shape, mut left) = (Vec::new(), size);
        for &cut in cuts {
            let divisors: Vec<usize> = (1..=left).filter(|d| left.is_multiple_of(*d)).collect();
            let divisor = divisors.get(cut % divisors.len().max(1)).copied().unwrap_or(1);
            shape.push(divisor);
            left /= divisor;
        }
        shape.push(left);
        shape
    }

    proptest! {
        #![proptest_config(cases())]

        /// Strides that are found walk the same elements; for a dense array some are always found.
        #[test]
        fn reshaped_axes_walk_the_same_elements(
            (shape, [a, _]) in walks(),
            cuts in prop::collection::vec(0usize..60, 0..4),
        ) {
            let size = shape::num_elements(&shape);
            prop_assume!(size > 0);
            let new = divided(size, &cuts);
            let (merged, [strides]) = shape::collapse_contiguous(&shape, [&a]);
            match split_axes(&merged, &strides, &new) {
                Some(found) => prop_assert_eq!(offsets(&new, &found), offsets(&shape, &a)),
                None => prop_assert!(!shape::is_row_contiguous(&shape, &a)),
            }
        }

        /// A view touches nothing outside of its span.
        #[test]
        fn spans_hold_every_element((shape, [a, _]) in walks()) {
            let all = offsets(&shape, &a);
            let low = all.iter().min().copied().unwrap_or(0);
            let span = all.iter().max().map_or(0, |high| high - low + 1);
            prop_assert_eq!(data_span(&shape, &a), span as usize);
        }
    }
}
