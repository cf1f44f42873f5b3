//! Memory of files that results take over.

use std::path::PathBuf;

use mlx::{Array, Device, Dtype, io::npy, ops};
use mlx_tests::{filled, noise, on_each_device, values};

/// A file of numbers, which lies in `folder`, and what they are.
fn saved(folder: &tempfile::TempDir) -> (PathBuf, Vec<f64>) {
    let numbers = filled(&[5000], Dtype::Float32, noise(1, -1.0, 1.0));
    let path = folder.path().join("numbers.npy");
    npy::save(&path, &numbers).unwrap();
    (path, values(&numbers))
}

fn times(a: &Array, factor: f32) -> Array {
    ops::multiply(a, factor).unwrap()
}

/// Where an evaluated array lies.
fn buffer_of(a: &Array) -> usize {
    a.eval().unwrap();
    a.data().expect("evaluated").buffer.id()
}

#[test]
fn the_only_user_takes_loaded_memory_over() {
    let folder = tempfile::tempdir().unwrap();
    let (path, numbers) = saved(&folder);
    let doubled: Vec<f64> = numbers.iter().map(|x| 2.0 * x).collect();
    on_each_device(|device| {
        let a = npy::load(&path).unwrap();
        let before = buffer_of(&a);
        let b = times(&a, 2.0);
        drop(a);
        assert_eq!(buffer_of(&b), before, "{device}");
        assert_eq!(values(&b), doubled, "{device}");
        assert_eq!(values(&npy::load(&path).unwrap()), numbers, "the file on {device}");
    });
}

/// Also where it has been on the device before.
#[test]
fn loaded_memory_that_somebody_holds_is_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let (path, numbers) = saved(&folder);
    on_each_device(|device| {
        let a = npy::load(&path).unwrap();
        for factor in [2.0, 3.0] {
            let b = times(&a, factor);
            assert_ne!(buffer_of(&b), buffer_of(&a), "{device}");
        }
        assert_eq!(values(&a), numbers, "{device}");
        let (before, c) = (buffer_of(&a), times(&a, 1.0));
        drop(a);
        assert_eq!((buffer_of(&c), values(&c)), (before, numbers.clone()), "{device}");
    });
}

/// A result of the CPU in a file's memory is the GPU's to take over, whether it is there yet or not.
#[test]
fn results_in_loaded_memory_go_on_to_another_device() {
    mlx_tests::init();
    let folder = tempfile::tempdir().unwrap();
    let (path, numbers) = saved(&folder);
    let on = |device, a: Array, factor| {
        let result = mlx::with_device(device, || times(&a, factor)).unwrap();
        drop(a);
        result
    };
    for waits in [true, false] {
        let mut a = npy::load(&path).unwrap();
        for _ in 0..10 {
            for (device, factor) in [(Device::CPU, 2.0), (Device::GPU, 0.5)] {
                a = on(device, a, factor);
                if waits { a.eval() } else { mlx::async_eval(&[&a]) }.unwrap();
            }
        }
        assert_eq!(values(&a), numbers, "waits: {waits}");
    }
}
