//! More than 2^32 elements and bytes: counts, offsets and indices beyond 32 bits.

use mlx::{
    Array, Device, Dtype, Error, Result,
    backend::{self, InfoValue},
    ops,
};
use mlx_tests::{array, on_each_device, values};

const BEYOND: usize = 100;
const COUNT: usize = (1 << 32) + BEYOND;

/// A number that is seen so many times takes no memory; its sum wraps around once.
#[test]
fn more_than_two_to_the_32_elements() {
    on_each_device(|device| {
        let one = array(&[1.0], &[1], Dtype::Int32);
        let many = ops::broadcast_to(&one, &[COUNT]).unwrap();
        let sum = ops::sum(&many, &[], false).unwrap();
        assert_eq!(values(&sum), [BEYOND as f64], "{device}");
    });
}

/// Indices are uint32; the last one of the longest axis is the largest of these.
#[test]
fn axes_without_indices_are_refused() {
    on_each_device(|device| {
        let of =
            |size| ops::broadcast_to(&array(&[1.0], &[1, 1], Dtype::Int32), &[1, size]).unwrap();
        let (longest, longer) = (of(1 << 32), of(COUNT));
        type Case = (&'static str, fn(&Array) -> Result<Array>);
        let functions: [Case; 4] = [
            ("argmax", |a| ops::argmax(a, Some(-1), false)),
            ("argmin", |a| ops::argmin(a, None, false)),
            ("argsort", |a| ops::argsort(a, 1)),
            ("argpartition", |a| ops::argpartition(a, 3, 1)),
        ];
        for (name, function) in functions {
            assert!(function(&longest).is_ok(), "{name} on {device}");
            let error = function(&longer).unwrap_err().to_string();
            let words = format!("{COUNT} elements, more than the uint32 output can index.");
            assert!(
                error.starts_with(&format!("[{name}] Axis")) && error.ends_with(&words),
                "{error}"
            );
        }
    });
}

/// Whether a device can have one buffer of so many bytes: some end at 2^32.
fn holds(device: Device, bytes: usize) -> bool {
    let info = backend::backend_for(device).unwrap().device_info(device.index).unwrap();
    match info.get("max_buffer_length") {
        Some(InfoValue::Number(most)) => *most >= bytes as u64,
        _ => true,
    }
}

/// The last elements, from `back` before the end on.
fn tail(a: &Array, back: usize) -> Result<Array> {
    ops::slice_axis(a, 0, (COUNT - back) as isize, COUNT as isize)
}

/// One array of bytes with three sevens near its end.
fn sevens(at: isize) -> Result<Array> {
    let ones = ops::full(&[COUNT], 1.0f32, Dtype::Uint8)?;
    let sevens = ops::full(&[3], 7.0f32, Dtype::Uint8)?;
    let a = ops::slice_update(&ones, &sevens, &[at], &[at + 3], &[1])?;
    // In place: nobody else has the ones.
    drop(ones);
    a.eval()?;
    Ok(a)
}

fn far_bytes(device: Device) -> Result<()> {
    let at = (COUNT - 5) as isize;
    let a = sevens(at)?;
    assert_eq!(values(&tail(&a, 6)?), [1.0, 7.0, 7.0, 7.0, 1.0, 1.0], "{device}: an update");
    assert_eq!(values(&ops::max(&a, &[], false)?), [7.0], "{device}: the largest of all");
    let places = array(&[at as f64, 0.0, (COUNT - 1) as f64], &[3], Dtype::Int64);
    assert_eq!(values(&ops::take(&a, &places, 0)?), [7.0, 1.0, 1.0], "{device}: a gather");
    let backwards = ops::slice(&a, &[-1], &[-(COUNT as isize) - 1], &[-(1 << 20)])?;
    assert_eq!(backwards.size(), COUNT.div_ceil(1 << 20));
    let steps = ops::sum(&ops::astype(&backwards, Dtype::Float32)?, &[], false)?;
    assert_eq!(values(&steps), [backwards.size() as f64], "{device}: strides");
    Ok(())
}

/// A device whose buffers end before says so.
#[test]
fn more_than_two_to_the_32_bytes() {
    on_each_device(|device| match (holds(device, COUNT), far_bytes(device)) {
        (true, result) => result.unwrap(),
        // Guards around every allocation are part of it.
        (false, Err(Error::OutOfMemory { requested, .. })) => assert!(requested >= COUNT),
        (false, other) => panic!("{device}: {other:?} in a buffer that is too large"),
    });
}
