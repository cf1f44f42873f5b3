//! Cotangents of slices of one value: together they are its derivative, without a zero-filled copy for each.

use crate::{
    Array, Result, Stream,
    graph::Node,
    ops,
    primitives::{Primitive, ShapeOp},
    stream::with_stream,
};

/// The cotangent of a slice of some neighbouring indices of one axis.
pub(super) struct Piece {
    axis: usize,
    start: usize,
    cotangent: Array,
    /// That of the slice.
    stream: Stream,
}

impl Piece {
    /// The piece, if the node is such a slice.
    pub(super) fn new(node: &Node, cotangent: &Array) -> Option<Piece> {
        let Primitive::Shape(ShapeOp::Slice { start, strides, sizes }) = &node.primitive else {
            return None;
        };
        let shape = node.inputs[0].shape();
        if strides.iter().any(|&step| step != 1) || sizes.contains(&0) {
            return None;
        }
        let mut axes = (0..shape.len()).filter(|&axis| sizes[axis] != shape[axis]);
        let (Some(axis), None) = (axes.next(), axes.next()) else { return None };
        Some(Piece {
            axis,
            start: start[axis] as usize,
            cotangent: cotangent.clone(),
            stream: node.stream,
        })
    }

    fn end(&self) -> usize {
        self.start + self.cotangent.shape()[self.axis]
    }

    /// The derivative by an array like `whole` through this piece alone.
    fn alone(&self, whole: &Array) -> Result<Array> {
        let mut start: Vec<isize> = vec![0; whole.ndim()];
        let mut stop: Vec<isize> = whole.shape().iter().map(|&n| n as isize).collect();
        (start[self.axis], stop[self.axis]) = (self.start as isize, self.end() as isize);
        let zeros = ops::zeros_like(whole)?;
        ops::slice_update(&zeros, &self.cotangent, &start, &stop, &vec![1; whole.ndim()])
    }
}

/// The sum of `sum` and the derivatives by an array like `whole` through all `pieces`.
pub(super) fn gathered(
    whole: &Array,
    sum: Option<Array>,
    mut pieces: Vec<Piece>,
) -> Result<Option<Array>> {
    let mut total = sum;
    while let Some(first) = pieces.first() {
        let (axis, stream) = (first.axis, first.stream);
        let along = pieces.extract_if(.., |piece| piece.axis == axis).collect();
        total = with_stream(stream, || {
            let joined = joined(whole, along)?.into_iter().map(Ok);
            joined.chain(total.take().map(Ok)).reduce(|a, b| ops::add(&b?, &a?)).transpose()
        })?;
    }
    Ok(total)
}

/// The derivatives through pieces along one axis: those that do not overlap are one array.
fn joined(whole: &Array, mut pieces: Vec<Piece>) -> Result<Vec<Array>> {
    pieces.sort_by_key(|piece| (piece.start, piece.end()));
    let mut distinct: Vec<Piece> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        match distinct.last_mut() {
            Some(last) if (last.start, last.end()) == (piece.start, piece.end()) => {
                last.cotangent = ops::add(&last.cotangent, &piece.cotangent)?;
            }
            _ => distinct.push(piece),
        }
    }
    let overlap = distinct.windows(2).any(|pair| pair[1].start < pair[0].end());
    match overlap || distinct.len() == 1 {
        true => distinct.iter().map(|piece| piece.alone(whole)).collect(),
        false => Ok(vec![concatenated(whole, &distinct)?]),
    }
}

/// Pieces in order, with zeros where there are none.
fn concatenated(whole: &Array, pieces: &[Piece]) -> Result<Array> {
    let axis = pieces[0].axis;
    let zeros = |size: usize| {
        let mut shape = whole.shape().to_vec();
        shape[axis] = size;
        ops::zeros(&shape, whole.dtype())
    };
    let mut parts = Vec::with_capacity(pieces.len());
    let mut end = 0;
    for piece in pieces {
        if piece.start > end {
            parts.push(zeros(piece.start - end)?);
        }
        parts.push(piece.cotangent.clone());
        end = piece.end();
    }
    if end < whole.shape()[axis] {
        parts.push(zeros(whole.shape()[axis] - end)?);
    }
    ops::concatenate(&parts.iter().collect::<Vec<_>>(), axis as isize)
}
