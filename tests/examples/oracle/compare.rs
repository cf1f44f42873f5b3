//! Comparing a result with upstream's.

use mlx::{Array, Complex, Dtype, Result};
use mlx_tests::{rounded, unit, values};

use crate::calls::Output;

/// What is wrong with a result, if anything is.
pub(crate) fn difference(got: &Array, want: &Output<'_>, ulps: f64) -> Result<Option<String>> {
    if got.dtype().name() != want.dtype {
        return Ok(Some(format!("dtype {}, upstream {}", got.dtype(), want.dtype)));
    }
    if got.shape() != want.shape {
        return Ok(Some(format!("shape {:?}, upstream {:?}", got.shape(), want.shape)));
    }
    got.eval()?;
    if !got.dtype().is_inexact() {
        return whole_numbers(got, want.values);
    }
    let errors = want.error.map(values);
    let (got_parts, wants) = (parts(got)?, parts(want.values)?);
    let owns = want.own.map(parts).transpose()?;
    let dtype = if got.dtype() == Dtype::Complex64 { Dtype::Float32 } else { got.dtype() };
    let near = |i: usize, want: &[f64]| {
        let part = i * errors.as_ref().map_or(0, Vec::len) / got_parts.len();
        let error = errors.as_ref().map_or(0.0, |e| e[part]);
        // Complex numbers are near if the distance is small beside their modulus.
        let scale = if want.len() == 2 * got.size() { modulus(want, i) } else { want[i] };
        is_near(got_parts[i], want[i], error + ulps * unit(scale, dtype), dtype)
    };
    let right = |i: usize| near(i, &wants) || owns.as_ref().is_some_and(|own| near(i, own));
    let wrong: Vec<usize> = (0..got_parts.len()).filter(|&i| !right(i)).collect();
    Ok(wrong.first().map(|&i| {
        let (got, want) = (got_parts[i], rounded(wants[i], dtype));
        let count = wrong.len();
        format!("element {i} is {got:e}, upstream {want:e} ({count} of {} differ)", got_parts.len())
    }))
}

fn is_near(got: f64, want: f64, error: f64, dtype: Dtype) -> bool {
    let want_rounded = rounded(want, dtype);
    got == want_rounded
        || (got.is_nan() && want.is_nan())
        || (got.is_finite() && (got - want).abs() <= error)
        // Where the error reaches beyond the largest number.
        || (!got.is_finite() && rounded(want + error.copysign(got), dtype) == got && want.is_finite())
}

fn modulus(parts: &[f64], i: usize) -> f64 {
    let (re, im) = (parts[i & !1], parts[i | 1]);
    if re.is_finite() && im.is_finite() { re.hypot(im) } else { parts[i] }
}

/// The elements as float64; complex ones as real and imaginary part.
fn parts(a: &Array) -> Result<Vec<f64>> {
    match a.dtype() {
        Dtype::Complex64 => {
            let numbers = a.to_vec::<Complex>()?;
            Ok(numbers.iter().flat_map(|z| [z.re as f64, z.im as f64]).collect())
        }
        _ => Ok(values(a)),
    }
}

/// Integers and bools are equal or not.
fn whole_numbers(got: &Array, want: &Array) -> Result<Option<String>> {
    let (mine, theirs) = (got.to_bytes()?, want.to_bytes()?);
    if mine == theirs {
        return Ok(None);
    }
    let size = got.dtype().size();
    let wrong = mine.chunks(size).zip(theirs.chunks(size)).enumerate();
    let wrong: Vec<usize> = wrong.filter(|(_, (a, b))| a != b).map(|(i, _)| i).collect();
    let i = wrong[0];
    let (a, b) = (values(got)[i], values(want)[i]);
    Ok(Some(format!("element {i} is {a}, upstream {b} ({} of {} differ)", wrong.len(), got.size())))
}
