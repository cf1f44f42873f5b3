//! MLX's text form of arrays: `array([1, 2, 3], dtype=int32)`.

use std::{
    fmt,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use crate::{Array, Complex, Result, bf16, dispatch_dtype, dtype::Bool8, f16};

/// Elements printed at either end of an axis that is longer than twice as many.
const EDGE: usize = 3;

/// How numbers are printed, in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PrintOptions {
    /// Digits behind the point of floating point numbers. Without it there are six significant digits.
    pub precision: Option<usize>,
}

/// The precision; the largest number is none.
static PRECISION: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Numbers of all threads are printed so from now on.
pub fn set_options(options: PrintOptions) {
    // More digits than any number has.
    let most = 1100;
    PRECISION.store(options.precision.map_or(usize::MAX, |digits| digits.min(most)), Relaxed);
}

/// How numbers are printed now.
pub fn options() -> PrintOptions {
    let precision = PRECISION.load(Relaxed);
    PrintOptions { precision: (precision != usize::MAX).then_some(precision) }
}

/// One element in MLX's text form.
trait Print {
    fn print(&self, out: &mut String);
}

macro_rules! print_with {
    ($($t:ty: $v:ident => $e:expr;)*) => {$(
        impl Print for $t {
            fn print(&self, out: &mut String) {
                let $v = self;
                out.push_str($e.as_ref());
            }
        }
    )*};
}

print_with! {
    Bool8: v => if v.0 != 0 { "True" } else { "False" };
    u8: v => v.to_string();
    u16: v => v.to_string();
    u32: v => v.to_string();
    u64: v => v.to_string();
    i8: v => v.to_string();
    i16: v => v.to_string();
    i32: v => v.to_string();
    i64: v => v.to_string();
    f16: v => number(v.to_f64());
    bf16: v => number(v.to_f64());
    f32: v => number(*v as f64);
    f64: v => number(*v);
    Complex: v => {
        // C++ leaves a sign to the number where the part is below zero, which neither -0 nor -nan is.
        let sign = if v.im < 0.0 { "" } else { "+" };
        format!("{}{sign}{}j", number(v.re as f64), number(v.im as f64))
    };
}

/// A number as the options say.
fn number(value: f64) -> String {
    match options().precision {
        Some(digits) if value.is_finite() => format!("{value:.digits$}"),
        _ => shortest(value),
    }
}

/// C's `%g`: six significant digits, no trailing zeros, an exponent for very large or small values.
fn shortest(value: f64) -> String {
    if value.is_nan() {
        return if value.is_sign_negative() { "-nan" } else { "nan" }.into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.into();
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.into();
    }
    let scientific = format!("{value:.5e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("scientific notation");
    let exponent: i32 = exponent.parse().expect("an exponent");
    if (-4..6).contains(&exponent) {
        return trim_zeros(&format!("{value:.*}", (5 - exponent) as usize)).into();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim_zeros(mantissa), exponent.abs())
}

fn trim_zeros(digits: &str) -> &str {
    match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => digits,
    }
}

fn print_axis<T: Print>(data: &[T], shape: &[usize], axis: usize, out: &mut String) {
    let (n, last) = (shape[axis], axis + 1 == shape.len());
    let step: usize = shape[axis + 1..].iter().product();
    out.push('[');
    let mut i = 0;
    while i < n {
        if i > 0 {
            out.push_str(if last { ", " } else { ",\n" });
            out.extend(std::iter::repeat_n(' ', if last { 0 } else { 7 + axis }));
        }
        if i == EDGE && n > 2 * EDGE {
            out.push_str("...");
            i = n - EDGE;
            continue;
        }
        match last {
            true => data[i].print(out),
            false => print_axis(&data[i * step..(i + 1) * step], shape, axis + 1, out),
        }
        i += 1;
    }
    out.push(']');
}

/// The text of an array, evaluating it.
///
/// # Errors
/// When evaluation fails.
pub fn to_string(a: &Array) -> Result<String> {
    let mut out = String::from("array(");
    dispatch_dtype!(a.dtype(), T => {
        let data = a.to_vec::<T>()?;
        match a.ndim() {
            0 => data[0].print(&mut out),
            _ => print_axis(&data, a.shape(), 0, &mut out),
        }
    });
    out.push_str(&format!(", dtype={})", a.dtype()));
    Ok(out)
}

impl fmt::Display for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match to_string(self) {
            Ok(text) => f.write_str(&text),
            Err(error) => write!(f, "array(<{error}>, dtype={})", self.dtype()),
        }
    }
}

impl fmt::Debug for Array {
    /// Does not evaluate: shape and dtype only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Array({:?}, {})", self.shape(), self.dtype())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_as_c_does() {
        let cases = [
            (1.0, "1"),
            (0.1, "0.1"),
            (1234567.0, "1.23457e+06"),
            (0.00001, "1e-05"),
            (-2.5, "-2.5"),
            (100000.0, "100000"),
            (f64::NAN.copysign(1.0), "nan"),
            (f64::NAN.copysign(-1.0), "-nan"),
        ];
        for (value, want) in cases {
            assert_eq!(shortest(value), want);
        }
    }

    #[test]
    fn arrays_print_as_mlx_does() {
        let a = Array::from_slice(&[1i32, 2, 3, 4], &[2, 2]).unwrap();
        assert_eq!(a.to_string(), "array([[1, 2],\n       [3, 4]], dtype=int32)");
        let long: Vec<f32> = (0..10).map(|i| i as f32).collect();
        let b = Array::from_slice(&long, &[10]).unwrap();
        assert_eq!(b.to_string(), "array([0, 1, 2, ..., 7, 8, 9], dtype=float32)");
        let c = Array::from_slice(&[Bool8(1)], &[]).unwrap();
        assert_eq!(c.to_string(), "array(True, dtype=bool)");
        let nan = f32::NAN.copysign(-1.0);
        let parts = [Complex::new(1.0, -2.0), Complex::new(nan, -0.0), Complex::new(0.0, nan)];
        let d = Array::from_slice(&parts, &[3]).unwrap();
        assert_eq!(d.to_string(), "array([1-2j, -nan+-0j, 0+-nanj], dtype=complex64)");
    }
}
