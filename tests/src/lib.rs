//! What the tests that cross crates share: both devices, arrays in every layout, and float64
//! oracles.
//!
//! Every test runs on the CPU and on Vulkan. A machine without a Vulkan device fails the suite
//! instead of passing half of it: `cargo xtask test` installs Mesa's lavapipe.

mod child;

pub use child::in_child;

use std::sync::Once;

use mlx::{Array, Complex, Device, Dtype, bf16, dispatch_dtype, dtype::Bool8, f16, ops};

/// Installs both backends, once.
///
/// # Panics
/// When there is no usable Vulkan device.
pub fn init() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        mlx::init();
        mlx::backend::gpu().expect("tests need a Vulkan device: run them with `cargo xtask test`");
    });
}

/// Both devices.
pub const DEVICES: [Device; 2] = [Device::CPU, Device::GPU];

/// Runs `test` on both devices.
pub fn on_each_device(mut test: impl FnMut(Device)) {
    init();
    for device in DEVICES {
        mlx::with_device(device, || test(device)).expect("both devices are usable");
    }
}

/// The dtypes that a device computes in: Vulkan refuses float64, as MLX's GPUs do.
pub fn dtypes_of(device: Device) -> impl Iterator<Item = Dtype> {
    Dtype::ALL.into_iter().filter(move |&d| device == Device::CPU || d != Dtype::Float64)
}

/// An element type's way to and from float64, for oracles.
pub trait Real: mlx::Element {
    /// The nearest value of this type.
    fn of(value: f64) -> Self;
    /// The value as float64.
    fn real(self) -> f64;
}

macro_rules! reals {
    ($($t:ty: $v:ident, $of:expr, $real:expr;)*) => {$(
        impl Real for $t {
            fn of($v: f64) -> Self { $of }
            fn real(self) -> f64 { let $v = self; $real }
        }
    )*};
}

reals! {
    Bool8: v, Bool8::from(v != 0.0), v.0 as f64;
    u8: v, v as i64 as u8, v as f64;
    u16: v, v as i64 as u16, v as f64;
    u32: v, v as i64 as u32, v as f64;
    u64: v, v as i64 as u64, v as f64;
    i8: v, v as i8, v as f64;
    i16: v, v as i16, v as f64;
    i32: v, v as i32, v as f64;
    i64: v, v as i64, v as f64;
    f16: v, f16::from_f64(v), v.to_f64();
    bf16: v, bf16::from_f64(v), v.to_f64();
    f32: v, v as f32, v as f64;
    f64: v, v, v;
    Complex: v, Complex::new(v as f32, 0.0), v.re as f64;
}

/// An array of any dtype from float64 values.
///
/// # Panics
/// When the values do not fill the shape.
pub fn array(values: &[f64], shape: &[usize], dtype: Dtype) -> Array {
    dispatch_dtype!(dtype, T => {
        let data: Vec<T> = values.iter().map(|&v| <T as Real>::of(v)).collect();
        Array::from_slice(&data, shape).expect("values fill the shape")
    })
}

/// The real parts of an array's elements, in row-major order.
///
/// # Panics
/// When evaluation fails.
pub fn values(a: &Array) -> Vec<f64> {
    dispatch_dtype!(a.dtype(), T => {
        let data = a.to_vec::<T>().expect("evaluation succeeds");
        data.into_iter().map(Real::real).collect()
    })
}

/// How an array lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Dense, row-major.
    Contiguous,
    /// A transposed view.
    Transposed,
    /// One axis has stride zero.
    Broadcast,
    /// Starts in the middle of a larger array, with gaps.
    Sliced,
    /// Runs backwards.
    Reversed,
    /// No elements.
    Empty,
    /// No axes.
    Scalar,
}

impl Layout {
    /// All layouts.
    pub const ALL: [Layout; 7] = [
        Layout::Contiguous,
        Layout::Transposed,
        Layout::Broadcast,
        Layout::Sliced,
        Layout::Reversed,
        Layout::Empty,
        Layout::Scalar,
    ];

    /// The shape of this layout's arrays, before any operation.
    pub fn shape(self) -> &'static [usize] {
        match self {
            Layout::Empty => &[3, 0, 5],
            Layout::Scalar => &[],
            _ => &[3, 4, 5],
        }
    }

    /// An array of this layout, whose elements are `value(i)` converted to `dtype` for some
    /// order of `i`.
    ///
    /// # Panics
    /// When an operation fails.
    pub fn array(self, dtype: Dtype, value: impl Fn(usize) -> f64) -> Array {
        let make = |shape: &[usize]| {
            let n: usize = shape.iter().product();
            array(&(0..n).map(&value).collect::<Vec<_>>(), shape, dtype)
        };
        let view = match self {
            Layout::Contiguous | Layout::Empty | Layout::Scalar => Ok(make(self.shape())),
            Layout::Transposed => ops::transpose(&make(&[5, 3, 4]), &[1, 2, 0]),
            Layout::Broadcast => ops::broadcast_to(&make(&[3, 1, 5]), &[3, 4, 5]),
            Layout::Sliced => ops::slice(&make(&[4, 6, 11]), &[1, 1, 1], &[4, 5, 11], &[1, 1, 2]),
            Layout::Reversed => {
                ops::slice(&make(&[3, 4, 5]), &[-1, 0, -1], &[-9, 4, -9], &[-1, 1, -1])
            }
        };
        view.expect("views of valid shapes")
    }
}

/// A float64 in units in the last place of `dtype` around `want`.
pub fn ulps(got: f64, want: f64, dtype: Dtype) -> f64 {
    if got == want || (got.is_nan() && want.is_nan()) {
        return 0.0;
    }
    let (digits, least): (i32, i32) = match dtype {
        Dtype::Float16 => (10, -24),
        Dtype::Bfloat16 => (7, -133),
        Dtype::Float64 => (52, -1074),
        _ => (23, -149),
    };
    let exponent = want.abs().max(f64::MIN_POSITIVE).log2().floor() as i32;
    (got - want).abs() / 2f64.powi((exponent - digits).max(least))
}

/// Checks elements against an oracle's, within `tolerance` units in the last place.
///
/// # Panics
/// When an element is farther off.
pub fn assert_ulps(context: &str, got: &Array, want: &[f64], tolerance: f64) {
    let (dtype, got) = (got.dtype(), values(got));
    assert_eq!(got.len(), want.len(), "{context}: number of elements");
    for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
        let error = ulps(g, w, dtype);
        assert!(error <= tolerance, "{context}: element {i} is {g:e}, not {w:e}: {error} ulp");
    }
}

/// Checks that `|got - want| <= absolute + relative * |want|`.
///
/// # Panics
/// When an element is farther off.
pub fn assert_close(context: &str, got: &Array, want: &[f64], relative: f64, absolute: f64) {
    let got = values(got);
    assert_eq!(got.len(), want.len(), "{context}: number of elements");
    for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
        let close =
            g == w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= absolute + relative * w.abs();
        assert!(close, "{context}: element {i} is {g:e}, not {w:e}");
    }
}

/// Relative precision of a dtype: half a unit in the last place of one.
pub fn epsilon(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::Float16 => 2f64.powi(-11),
        Dtype::Bfloat16 => 2f64.powi(-8),
        Dtype::Float64 => 2f64.powi(-53),
        _ => 2f64.powi(-24),
    }
}
