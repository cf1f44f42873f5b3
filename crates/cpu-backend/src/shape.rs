//! Joining arrays, and replacing a part of one.

use mlx_vulkan_core::{
    Array, Element, Result, Strides,
    backend::Output,
    primitives::{Indices, ShapeOp},
    shape::num_elements,
};

use crate::{
    copy,
    elementwise::{dispatch_size, for_chunks, for_rows},
    encoder::{Encoder, In, Out, args},
    strided::{Source, Walk, write_run},
};

/// Hands a primitive of this family to its function.
pub(crate) fn encode(
    enc: &mut Encoder<'_>,
    op: &ShapeOp,
    inputs: &[Array],
    output: &mut Output,
) -> Result<()> {
    match op {
        ShapeOp::Reshape(_) => copy::contiguous(enc, args(inputs), output),
        ShapeOp::SliceUpdate { start, strides } => {
            slice_update(enc, start, strides, args(inputs), output)
        }
        ShapeOp::Pad { low, .. } => pad(enc, low, args(inputs), output),
        ShapeOp::Concatenate { axis } => concatenate(enc, *axis, inputs, output),
        ShapeOp::Transpose { .. }
        | ShapeOp::Broadcast(_)
        | ShapeOp::ExpandDims { .. }
        | ShapeOp::Squeeze { .. }
        | ShapeOp::AsStrided { .. }
        | ShapeOp::NumberOfElements { .. }
        | ShapeOp::Slice { .. } => unreachable!("core makes views"),
    }
}

/// Encodes a copy of the first input with a slice replaced by the second: in place where the
/// first input's memory can be taken over.
fn slice_update(
    enc: &mut Encoder<'_>,
    start: &Indices,
    steps: &Indices,
    [a, update]: &[Array; 2],
    output: &mut Output,
) -> Result<()> {
    let out = match enc.donate(output, a) {
        Some(out) => out,
        None => enc.allocate(output)?,
    };
    let axes = || out.layout.strides.iter();
    let first: isize = axes().zip(start).map(|(&stride, &i)| stride * i).sum();
    let strides: Strides = axes().zip(steps).map(|(&stride, &step)| stride * step).collect();
    let (a, update) = (In::from(a), In::from(update));
    dispatch_size!(out.dtype, T => enc.push(move || {
        if !out.aliases(&a) {
            let elements = a.read::<T>();
            let source = Source::row_major(&elements, &a);
            for_chunks(&mut out.write::<T>(), |first, chunk| source.read(first, chunk));
        }
        replace::<T>(&update, &out, first as usize, &strides);
    }))
}

/// Encodes the first input with the second one's value around it.
fn pad(
    enc: &mut Encoder<'_>,
    low: &[usize],
    [a, value]: &[Array; 2],
    output: &mut Output,
) -> Result<()> {
    let out = enc.allocate(output)?;
    let strides = out.layout.strides.clone();
    let first: isize = strides.iter().zip(low).map(|(&stride, &i)| stride * i as isize).sum();
    let (a, value) = (In::from(a), In::from(value));
    dispatch_size!(out.dtype, T => enc.push(move || {
        let value = value.read::<T>();
        let value = value.buffer()[value.first()];
        for_chunks(&mut out.write::<T>(), |_, chunk| chunk.fill(value));
        replace::<T>(&a, &out, first as usize, &strides);
    }))
}

/// Writes `update` into the elements of `out` that `first` and `strides` say.
fn replace<T: Element>(update: &In, out: &Out, first: usize, strides: &[isize]) {
    let elements = update.read::<T>();
    let source = Source::row_major(&elements, update);
    let mut target = out.write::<T>();
    let mut buffer = vec![T::zeroed(); update.shape.last().copied().unwrap_or(1)];
    let walk = Walk::new(&update.shape, strides);
    walk.runs(0, update.size(), |range, offset, stride| {
        let mut at = range.start;
        let mut first = first.wrapping_add_signed(offset);
        // Merged runs may be longer than a row.
        while at < range.end {
            let len = buffer.len().min(range.end - at);
            write_run(&mut target, first, stride, source.block(at, len, &mut buffer));
            at += len;
            first = first.wrapping_add_signed(len as isize * stride);
        }
    });
}

/// Encodes the inputs one after the other along `axis`.
fn concatenate(
    enc: &mut Encoder<'_>,
    axis: usize,
    inputs: &[Array],
    output: &mut Output,
) -> Result<()> {
    let out = enc.allocate(output)?;
    let inputs: Vec<In> = inputs.iter().map(In::from).collect();
    dispatch_size!(out.dtype, T => enc.push(move || join::<T>(axis, &inputs, &out)))
}

/// Every row of the output, from `axis` on, is made of a row of each input.
fn join<T: Element>(axis: usize, inputs: &[In], out: &Out) {
    let elements: Vec<_> = inputs.iter().map(|a| a.read::<T>()).collect();
    let sources = elements.iter().zip(inputs).map(|(e, a)| Source::row_major(e, a));
    let lengths = inputs.iter().map(|a| num_elements(&a.shape[axis..]));
    let parts: Vec<(Source<'_, T>, usize)> = sources.zip(lengths).collect();
    let row: usize = parts.iter().map(|(_, len)| len).sum();
    for_rows(&mut out.write::<T>(), row, out.size(), |index, mut rest| {
        for (source, len) in &parts {
            let (part, behind) = rest.split_at_mut(*len);
            for_chunks(part, |first, chunk| source.read(index * len + first, chunk));
            rest = behind;
        }
    });
}
