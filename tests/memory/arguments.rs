//! What the host hands to kernels beside arrays: it stays as it is until the kernel has run, and where there
//! is no memory for it, that is said.

use mlx::{
    Array, Device, Dtype, Result, Shape, Stream,
    fast::{Launch, MetalKernel},
    ops,
};
use mlx_tests::{array, in_child, init, late, values};

/// Inputs of a kernel, each of which travels as arguments.
const INPUTS: usize = 200;
/// Calls of it whose arguments fill more than two chunks; with one more, they begin elsewhere in a chunk each
/// time.
const FILLERS: usize = 44;
/// Times after which a call was at the end of a chunk.
const ROUNDS: usize = 24;

/// A kernel that adds up many small arrays and a last one.
struct Sums(MetalKernel);

impl Sums {
    fn new() -> Self {
        let names: Vec<String> = (0..INPUTS).map(|i| format!("x{i}")).collect();
        let terms: Vec<String> = names.iter().map(|name| format!("{name}[i]")).collect();
        let source = format!(
            "uint i = thread_position_in_grid.x; out[i] = last[0] + {};",
            terms.join(" + ")
        );
        let inputs = names.into_iter().chain(["last".to_owned()]).collect();
        Sums(MetalKernel::new("sums", inputs, vec!["out".to_owned()], source).unwrap())
    }

    fn of(&self, value: f64, last: &Array) -> Result<Array> {
        let term = || array(&[value; 16], &[16], Dtype::Float32);
        let inputs: Vec<Array> = (0..INPUTS).map(|_| term()).chain([last.clone()]).collect();
        let launch = Launch {
            output_shapes: vec![Shape::from_slice(&[16])],
            output_dtypes: vec![Dtype::Float32],
            grid: [16, 1, 1],
            threadgroup: [16, 1, 1],
            template: Vec::new(),
            init_value: None,
            verbose: false,
            device: None,
        };
        Ok(self.0.call(&inputs, &launch)?.remove(0))
    }
}

/// A kernel waits for what the CPU computes last; what was brought for it before is not overwritten, though
/// the batch in which that was done has run.
fn wait_for_the_cpu() -> Result<()> {
    init();
    let [gpu, cpu] = [Device::GPU, Device::CPU].map(|device| mlx::new_stream(device).unwrap());
    let (sums, there) = (Sums::new(), array(&[1.0], &[1], Dtype::Float32));
    for round in 0..ROUNDS {
        let (held, open) = late();
        let last = mlx::with_stream(cpu, || ops::sum(&held, &[], true))?;
        let of = |value, last: &Array| mlx::with_stream(gpu, || sums.of(value, last));
        let before = of(2.0, &there)?;
        mlx::async_eval(&[&before])?;
        let waiting = of(1.0, &last)?;
        mlx::async_eval(&[&waiting])?;
        assert_eq!(values(&before), [f64::from(2 * INPUTS as u32 + 1); 16]);
        let fillers = (0..FILLERS).map(|_| of(3.0, &there)).collect::<Result<Vec<_>>>()?;
        mlx::async_eval(&fillers.iter().collect::<Vec<_>>())?;
        drop(open);
        assert_eq!(values(&waiting), [f64::from(INPUTS as u32); 16], "round {round}");
    }
    Ok(())
}

#[test]
fn arguments_stay_until_their_kernel_has_run() {
    let test = "arguments::arguments_stay_until_their_kernel_has_run";
    in_child(test, &[], || wait_for_the_cpu().unwrap());
}

/// Arrays that leave less than so many kilobytes of what the driver gives.
fn all_but(kilobytes: usize) -> Result<Vec<Array>> {
    let mut held = Vec::new();
    let mut size = 32 << 10;
    while size >= kilobytes {
        let a = ops::add(ops::full(&[size << 8], 1.0f32, Dtype::Float32)?, 1.0f32)?;
        match a.eval() {
            Ok(()) => held.push(a),
            Err(mlx::Error::OutOfMemory { .. }) => size /= 2,
            Err(error) => return Err(error),
        }
    }
    Ok(held)
}

fn negative(on: Stream) -> Result<Vec<f32>> {
    let a = array(&[1.0, 2.0], &[2], Dtype::Float32);
    mlx::with_stream(on, || ops::negative(&a)?.to_vec::<f32>())
}

/// A stream without memory for its first arguments says so, and goes on when there is some.
fn run_out_of_memory() -> Result<()> {
    init();
    mlx::with_device(Device::GPU, || {
        let stream = mlx::new_stream(Device::GPU)?;
        let held = all_but(128)?;
        let error = negative(stream).unwrap_err();
        assert!(matches!(error, mlx::Error::OutOfMemory { .. }), "{error}");
        drop(held);
        assert_eq!(negative(stream)?, [-1.0, -2.0]);
        Ok(())
    })?
}

#[test]
fn no_memory_for_arguments_is_an_error_that_says_so() {
    let test = "arguments::no_memory_for_arguments_is_an_error_that_says_so";
    in_child(test, &[("MLX_VK_DEBUG_MEMORY_LIMIT_MB", "256")], || run_out_of_memory().unwrap());
}
