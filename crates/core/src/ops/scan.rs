//! Cumulative reductions.

use crate::{
    Array, Dtype, Result,
    ops::{self, astype, normalize_axis},
    primitives::{Primitive, ScanOp},
};

macro_rules! scans {
    ($($(#[$doc:meta])* $name:ident => $op:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// `reverse` starts at the end; without `inclusive` each element leaves itself out.
        ///
        /// # Errors
        /// When the axis is out of bounds.
        pub fn $name(a: &Array, axis: isize, reverse: bool, inclusive: bool) -> Result<Array> {
            let axis = normalize_axis(stringify!($name), axis, a.ndim())?;
            let (op, dtype) = computed(ScanOp::$op, a.dtype());
            let primitive = Primitive::Scan { op, axis, reverse, inclusive };
            ops::node(a.shape(), dtype, primitive, [astype(a, dtype)?])
        }
    )*};
}

/// What is computed, and in which dtype: sums of bools count, their product is the least of them,
/// and logarithms need a floating dtype.
fn computed(op: ScanOp, dtype: Dtype) -> (ScanOp, Dtype) {
    match (op, dtype) {
        (ScanOp::Sum, Dtype::Bool) => (op, Dtype::Int32),
        (ScanOp::Prod, Dtype::Bool) => (ScanOp::Min, dtype),
        (ScanOp::LogAddExp, dtype) => (op, dtype.at_least_float()),
        _ => (op, dtype),
    }
}

scans! {
    /// Running sum along an axis.
    cumsum => Sum;
    /// Running product along an axis.
    cumprod => Prod;
    /// Running maximum along an axis.
    cummax => Max;
    /// Running minimum along an axis.
    cummin => Min;
    /// Running log of the sum of exponentials along an axis.
    logcumsumexp => LogAddExp;
}

/// Differences of neighbours along an axis, `n` times over.
///
/// # Errors
/// When the axis is out of bounds.
pub fn diff(a: &Array, n: usize, axis: isize) -> Result<Array> {
    let along = normalize_axis("diff", axis, a.ndim())? as isize;
    (0..n).try_fold(a.clone(), |a, _| {
        let size = a.dim(along) as isize;
        let upper = ops::slice_axis(&a, along, 1, size.max(1))?;
        ops::subtract(&upper, &ops::slice_axis(&a, along, 0, (size - 1).max(0))?)
    })
}
