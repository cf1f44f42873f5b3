//! Unique elements.

use crate::{
    Array, Dtype, Error, Result,
    ops::{self, astype, broadcast_to, reshape, scatter},
};

/// What [`unique`] found. Each part is computed only if it is evaluated.
#[derive(Clone)]
pub struct Unique {
    /// The unique elements in ascending order, then the fill value; of dtype `a`'s.
    pub values: Array,
    /// Where each of them first occurs in the flattened array (uint32); behind them, where the
    /// first one does.
    pub index: Array,
    /// The index in `values` of each element (uint32), in the shape of the array.
    pub inverse: Array,
    /// How often each of them occurs (int32); 0 behind them.
    pub counts: Array,
}

/// The unique elements of the flattened array, as `size` values: only the smallest ones if there are
/// more, and then `fill_value` (the first one if there is none) if there are fewer. If there are
/// more, the dropped elements count as the last one in `inverse`. Each NaN is unique.
///
/// # Errors
/// When the fill value is not a single element, or there are no elements and no fill value for a
/// result that is not empty.
pub fn unique(a: &Array, size: usize, fill_value: Option<&Array>) -> Result<Unique> {
    if let Some(fill) = fill_value.filter(|f| f.size() != 1) {
        let message =
            format!("Fill value must have one element, but got shape {:?}.", fill.shape());
        return Err(Error::invalid("unique", message));
    }
    let fill = fill_value.map(|f| astype(&reshape(f, &[])?, a.dtype())).transpose()?;
    if a.size() == 0 || size == 0 {
        return of_nothing(a, size, fill);
    }
    let n = a.size();
    let counted = if n > i32::MAX as usize { Dtype::Int64 } else { Dtype::Int32 };
    let flat = ops::flatten(a, 0, -1)?;
    let order = ops::argsort(&flat, 0)?;
    let sorted = ops::take(&flat, &order, 0)?;
    let starts = starts(&sorted)?;
    let rank =
        ops::subtract(&ops::cumsum(&astype(&starts, counted)?, Some(0), false, true, None)?, 1)?;
    // Ranks behind the result are left out by the scatter.
    let slots = ops::where_(&starts, &rank, &Array::scalar_of(size as f64, counted)?)?;
    let put = |to: &Array, from: &Array| scatter(to, &[&slots], &reshape(from, &[-1, 1])?, &[0]);
    let first = |list: &Array| {
        let one = reshape(&ops::slice_axis(list, 0, 0, 1)?, &[])?;
        broadcast_to(&one, &[size])
    };
    let base = match &fill {
        Some(fill) => broadcast_to(fill, &[size])?,
        None => first(&sorted)?,
    };
    let ones = ops::ones(&[n, 1], Dtype::Int32)?;
    let last = Array::scalar_of(size.max(1) as f64 - 1.0, counted)?;
    let clamped = astype(&ops::minimum(&rank, &last)?, Dtype::Uint32)?;
    let inverse =
        scatter(&ops::zeros(&[n], Dtype::Uint32)?, &[&order], &reshape(&clamped, &[-1, 1])?, &[0])?;
    Ok(Unique {
        values: put(&base, &sorted)?,
        index: put(&first(&order)?, &order)?,
        inverse: reshape(&inverse, &a.shape().iter().map(|&d| d as isize).collect::<Vec<_>>())?,
        counts: ops::scatter_add(&ops::zeros(&[size], Dtype::Int32)?, &[&rank], &ones, &[0])?,
    })
}

/// Whether each element of a sorted list is the first of its kind.
fn starts(sorted: &Array) -> Result<Array> {
    let n = sorted.size() as isize;
    let (before, after) =
        (ops::slice_axis(sorted, 0, 0, n - 1)?, ops::slice_axis(sorted, 0, 1, n)?);
    let first = ops::ones(&[1], Dtype::Bool)?;
    ops::concatenate(&[&first, &ops::not_equal(&after, &before)?], 0)
}

fn of_nothing(a: &Array, size: usize, fill: Option<Array>) -> Result<Unique> {
    let fill = match fill {
        Some(fill) => fill,
        None if size == 0 => Array::scalar_of(0.0, a.dtype())?,
        None => {
            let message = "A fill value is required for an empty input with a non-zero size.";
            return Err(Error::invalid("unique", message));
        }
    };
    Ok(Unique {
        values: ops::full(&[size], &fill, a.dtype())?,
        index: ops::zeros(&[size], Dtype::Uint32)?,
        inverse: ops::zeros(a.shape(), Dtype::Uint32)?,
        counts: ops::zeros(&[size], Dtype::Int32)?,
    })
}
