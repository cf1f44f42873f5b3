//! Cumulative reductions.

use crate::{
    Array, Dtype, Result,
    ops::{self, astype, normalize_axis},
    primitives::{Scan, ScanOp},
};

/// A scan along an axis, or of all elements in row-major order.
fn scan(
    op: &'static str,
    a: &Array,
    axis: Option<isize>,
    primitive: impl FnOnce(usize) -> Scan,
) -> Result<Array> {
    let Some(axis) = axis else {
        return scan(op, &ops::reshape(a, &[-1])?, Some(0), primitive);
    };
    let axis = normalize_axis(op, axis, a.ndim())?;
    ops::node(primitive(axis), [a.clone()])
}

macro_rules! scans {
    ($($(#[$doc:meta])* $name:ident($($dtype:ident)?) => $op:ident, $input:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// `reverse` starts at the end; without `inclusive` each element leaves itself out. Without
        /// an axis the array is flattened.
        ///
        /// # Errors
        /// When the axis is out of bounds.
        pub fn $name(
            a: &Array,
            axis: Option<isize>,
            reverse: bool,
            inclusive: bool,
            $($dtype: Option<Dtype>,)?
        ) -> Result<Array> {
            let input: fn(Dtype) -> Dtype = $input;
            $(let a = &astype(a, $dtype.unwrap_or(a.dtype()))?;)?
            let a = astype(a, input(a.dtype()))?;
            let op = ScanOp::$op;
            let primitive = |axis| Scan { op, axis, reverse, inclusive };
            scan(stringify!($name), &a, axis, primitive)
        }
    )*};
}

scans! {
    /// Running sum, of elements converted to `dtype` if there is one. Bools count as int32.
    cumsum(dtype) => Sum, |d| if d == Dtype::Bool { Dtype::Int32 } else { d };
    /// Running product, of elements converted to `dtype` if there is one.
    cumprod(dtype) => Prod, |d| d;
    /// Running maximum.
    cummax() => Max, |d| d;
    /// Running minimum.
    cummin() => Min, |d| d;
    /// Running log of the sum of exponentials, of floating dtype.
    logcumsumexp() => LogAddExp, Dtype::at_least_float;
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
