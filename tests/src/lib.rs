//! What the tests that cross crates share: both devices, arrays in every layout, and float64
//! oracles.
//!
//! Every test runs on the CPU and on Vulkan. A machine without a Vulkan device fails the suite
//! instead of passing half of it: `cargo xtask test` installs Mesa's lavapipe.

mod child;
mod exact;
mod example;
mod host;
mod late;
mod tolerance;

pub use child::{exit_in_child, in_child};

use std::sync::Once;

use mlx::{Array, Complex, Device, Dtype, bf16, dispatch_dtype, dtype::Bool8, f16, ops};

pub use exact::*;
pub use example::example_inputs;
pub use host::*;
pub use late::late;
pub use tolerance::*;

/// The programs of the page for users of Rust.
#[cfg(doctest)]
#[doc = include_str!("../../docs/rust.md")]
struct RustPage;

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

/// Runs `test` on both devices; with `MLX_TEST_DEVICE=gpu` on Vulkan alone, for runs of the suite that differ
/// from others in what they set for Vulkan, and with `cpu` on the CPU alone, for those that leave Vulkan to
/// others.
pub fn on_each_device(mut test: impl FnMut(Device)) {
    init();
    let devices = match std::env::var("MLX_TEST_DEVICE").as_deref() {
        Ok("gpu") => &DEVICES[1..],
        Ok("cpu") => &DEVICES[..1],
        _ => &DEVICES[..],
    };
    for &device in devices {
        mlx::with_device(device, || test(device)).expect("both devices are usable");
    }
    expect_valid();
}

/// Expects the validation layers and the guards around allocations, where they are on, to have found nothing
/// so far.
///
/// # Panics
/// When they reported an error.
pub fn expect_valid() {
    let errors = mlx::vulkan::internals::validation_errors();
    assert_eq!(errors, 0, "errors that the validation layers reported");
    assert_eq!(
        mlx::vulkan::stats::snapshot().guards_broken,
        0,
        "allocations written past their ends"
    );
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
    /// The value with these bits, as many of them as fit; a bool takes the lowest.
    fn of_bits(bits: u64) -> Self;
}

macro_rules! reals {
    ($($t:ty: $v:ident, $of:expr, $real:expr, $bits:expr;)*) => {$(
        impl Real for $t {
            fn of($v: f64) -> Self { $of }
            fn real(self) -> f64 { let $v = self; $real }
            fn of_bits($v: u64) -> Self { $bits }
        }
    )*};
}

reals! {
    Bool8: v, Bool8::from(v != 0.0), v.0 as f64, Bool8(v as u8 & 1);
    u8: v, v as i64 as u8, v as f64, v as u8;
    u16: v, v as i64 as u16, v as f64, v as u16;
    u32: v, v as i64 as u32, v as f64, v as u32;
    u64: v, v as i64 as u64, v as f64, v;
    i8: v, v as i8, v as f64, v as i8;
    i16: v, v as i16, v as f64, v as i16;
    i32: v, v as i32, v as f64, v as i32;
    i64: v, v as i64, v as f64, v as i64;
    f16: v, f16::from_f32(to_odd(v)), v.to_f64(), f16::from_bits(v as u16);
    bf16: v, bf16::from_f32(to_odd(v)), v.to_f64(), bf16::from_bits(v as u16);
    f32: v, v as f32, v as f64, f32::from_bits(v as u32);
    f64: v, v, v, f64::from_bits(v);
    Complex: v, Complex::new(v as f32, 0.0), v.re as f64,
        Complex::new(f32::from_bits(v as u32), f32::from_bits((v >> 32) as u32));
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

/// A float64 as float32, rounded to odd: rounding that to half the digits is rounding once. The
/// `from_f64` of halves does not look at all bits.
fn to_odd(v: f64) -> f32 {
    let near = v as f32;
    if f64::from(near) == v || !near.is_finite() {
        return near;
    }
    let too_far = f64::from(near).abs() > v.abs();
    f32::from_bits((near.to_bits() - u32::from(too_far)) | 1)
}

/// A float64 as an element of `dtype` holds it.
pub fn rounded(value: f64, dtype: Dtype) -> f64 {
    dispatch_dtype!(dtype, T => <T as Real>::of(value).real())
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

    /// The layouts that arrays of any shape with axes and elements can have.
    pub const VIEWS: [Layout; 5] = [
        Layout::Contiguous,
        Layout::Transposed,
        Layout::Broadcast,
        Layout::Sliced,
        Layout::Reversed,
    ];

    /// An array of this layout, whose elements are `value(i)` converted to `dtype` for some
    /// order of `i`.
    ///
    /// # Panics
    /// When an operation fails.
    pub fn array(self, dtype: Dtype, value: impl Fn(usize) -> f64) -> Array {
        self.view(self.shape(), |shape| filled(shape, dtype, value))
    }

    /// An array of `shape` in this layout: a view of what `make` makes, in the shape that it
    /// needs.
    ///
    /// # Panics
    /// When an operation fails.
    pub fn view(self, shape: &[usize], make: impl FnOnce(&[usize]) -> Array) -> Array {
        let last = shape.len().wrapping_sub(1);
        let view = match self {
            Layout::Contiguous | Layout::Empty | Layout::Scalar => Ok(make(shape)),
            Layout::Transposed => {
                let mut stored = shape.to_vec();
                stored.rotate_right(1);
                let axes: Vec<isize> = (1..=last as isize).chain([0]).collect();
                ops::transpose(&make(&stored), &axes)
            }
            Layout::Broadcast => {
                let mut stored = shape.to_vec();
                stored[last / 2] = 1;
                ops::broadcast_to(&make(&stored), shape)
            }
            Layout::Sliced => {
                let mut stored: Vec<usize> = shape.iter().map(|d| d + 2).collect();
                stored[last] = 2 * shape[last] + 1;
                let mut stop: Vec<isize> = shape.iter().map(|&d| d as isize + 1).collect();
                stop[last] = stored[last] as isize;
                let mut steps = vec![1; shape.len()];
                steps[last] = 2;
                ops::slice(&make(&stored), &vec![1; shape.len()], &stop, &steps)
            }
            Layout::Reversed => {
                let end = |d: usize| -(d as isize) - 1;
                let (mut start, mut steps) = (vec![0; shape.len()], vec![1; shape.len()]);
                let mut stop: Vec<isize> = shape.iter().map(|&d| d as isize).collect();
                for axis in [0, last] {
                    (start[axis], stop[axis], steps[axis]) = (-1, end(shape[axis]), -1);
                }
                ops::slice(&make(shape), &start, &stop, &steps)
            }
        };
        view.expect("views of valid shapes")
    }
}
