//! Runs for which there is no memory now: steps are dispatches then, or wait in the encoder until there is.

use mlx::{Array, Device, Dtype, Error, Result, Stream, ops, vulkan::stats};
use mlx_tests::{array, in_child, values};

use super::{Quantized, interpreter::ON, noise, turn};

/// What the driver gives.
const LIMIT: (&str, &str) = ("MLX_VK_DEBUG_MEMORY_LIMIT_MB", "256");
/// Guarded memory is kept until it is looked at.
const PLAIN: (&str, &str) = ("MLX_VK_DEBUG_GUARD", "0");
/// Kilobytes that runs of a stream take for their results: an array of as many is kept for them.
const ROOM: usize = (16 << 10) + 1;

/// An evaluated array of so many kilobytes.
fn kilobytes(n: usize) -> Result<Array> {
    let a = ops::add(ops::full(&[n << 8], 1.0f32, Dtype::Float32)?, 1.0f32)?;
    a.eval()?;
    Ok(a)
}

/// Arrays that leave less than so many kilobytes of what the driver gives.
fn all_but(least: usize) -> Vec<Array> {
    let (mut held, mut size) = (Vec::new(), 32 << 10);
    while size >= least {
        match kilobytes(size) {
            Ok(a) => held.push(a),
            Err(Error::OutOfMemory { .. }) => size /= 2,
            Err(error) => panic!("{error}"),
        }
    }
    held
}

/// Products of one row one after another, with arguments of nobody.
struct Products {
    x: Array,
    matrices: Vec<Quantized>,
}

impl Products {
    fn new() -> Self {
        let dtype = Dtype::Bfloat16;
        let matrices = (0..6).map(|i| Quantized::new(i, 256, 256, 64, 4, dtype)).collect();
        Products { x: noise(9, &[1, 256], dtype), matrices }
    }

    fn forward(&self) -> Result<Array> {
        self.matrices.iter().try_fold(self.x.clone(), |x, matrix| matrix.forward(&x))
    }

    /// On a stream, and how many steps were done in runs.
    fn on(&self, stream: Stream) -> Result<(Vec<f64>, u64)> {
        let before = stats::snapshot();
        let result = mlx::with_stream(stream, || self.forward())?;
        result.eval()?;
        Ok((values(&result), stats::snapshot().since(&before).interpreted))
    }

    /// What they give; everything that they read is on the device then.
    fn expected(&self) -> Vec<f64> {
        self.on(mlx::new_stream(Device::GPU).unwrap()).unwrap().0
    }
}

/// Without room for results that are passed on there are dispatches, and later runs again.
#[test]
fn runs_come_back() {
    in_child("lacking::runs_come_back", &[ON, LIMIT, PLAIN], || {
        let _turn = turn();
        let products = Products::new();
        let want = products.expected();
        mlx::with_device(Device::GPU, || {
            let stream = mlx::new_stream(Device::GPU).unwrap();
            // The stream has its arguments.
            let one = array(&[1.0], &[1], Dtype::Float32);
            let negative = mlx::with_stream(stream, || ops::negative(&one)).unwrap();
            assert_eq!(values(&negative), [-1.0]);
            let held = all_but(4 << 10);
            assert_eq!(products.on(stream).unwrap(), (want.clone(), 0));
            drop(held);
            let interpreted = (0..200).map(|_| products.on(stream).unwrap());
            let mut interpreted = interpreted.inspect(|(got, _)| assert_eq!(*got, want));
            assert!(interpreted.any(|(_, steps)| steps == 6), "no more runs");
        })
        .unwrap();
    });
}

/// Steps for whose table there is no memory when they are handed over are done when there is.
#[test]
fn steps_wait_for_memory() {
    in_child("lacking::steps_wait_for_memory", &[ON, LIMIT, PLAIN], || {
        let _turn = turn();
        let products = Products::new();
        let want = products.expected();
        mlx::with_device(Device::GPU, || {
            let stream = mlx::new_stream(Device::GPU).unwrap();
            let room = kilobytes(ROOM).unwrap();
            let mut held = all_but(128);
            let result = mlx::with_stream(stream, || products.forward()).unwrap();
            drop(room);
            let error = result.eval().unwrap_err();
            assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
            held.clear();
            assert_eq!(values(&result), want);
            // In runs, or by dispatches for a while where there was no room for runs either.
            assert_eq!(products.on(stream).unwrap().0, want);
        })
        .unwrap();
    });
}
