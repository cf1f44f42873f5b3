//! Operations that become one kernel: the same numbers as one by one, and proof that they were
//! fused. A process of its own, because the counters belong to the process; the tests take turns.

mod attention;
mod biases;
mod compiled;
mod decoder;
mod group_norm;
mod int8_rows;
mod interpreter;
mod lacking;
mod latent;
mod lookup;
mod mixture;
mod products;
mod programs;
mod prompt;
mod quantized_attention;
mod random;
mod reductions;
mod small_floats;
mod tokens;
mod written;

use std::sync::{Mutex, MutexGuard, PoisonError};

use mlx::{Array, Device, Dtype, Result, ops, ops::FpMode, vulkan::stats};
use mlx_tests::{filled, values};

static TURN: Mutex<()> = Mutex::new(());

/// Waits until no other test counts. Chains are off: their kernels are there when a builder has made them.
fn turn() -> MutexGuard<'static, ()> {
    mlx_tests::init();
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    mlx::vulkan::internals::enable_chains(false);
    turn
}

/// Random numbers in -1..1, the same for the same seed.
fn noise(seed: u64, shape: &[usize], dtype: Dtype) -> Array {
    filled(shape, dtype, mlx_tests::noise(seed, -1.0, 1.0))
}

/// What a graph evaluates to on a device, all results in one evaluation, and how many operations
/// were fused the second time: the first time the device fetches what only the host has, in between.
fn run(device: Device, graph: &dyn Fn() -> Result<Vec<Array>>) -> (Vec<Vec<f64>>, u64) {
    let evaluate = || -> Result<Vec<Array>> {
        let results = graph()?;
        mlx::eval(&results.iter().collect::<Vec<_>>())?;
        Ok(results)
    };
    mlx::with_device(device, || {
        evaluate().unwrap();
        let before = stats::snapshot();
        let results = evaluate().unwrap();
        let fused = stats::snapshot().since(&before).fused;
        (results.iter().map(values).collect(), fused)
    })
    .unwrap()
}

/// Whether fusing is on in this process: the gates are tested by running the tests again without.
fn fusing() -> bool {
    mlx::vulkan::Config::get().enable_fusion
}

/// Runs `graph` on both devices: `fused` operations become part of others on Vulkan, and the
/// results agree to within `tolerance` of the largest one (intermediate results are rounded one by
/// one, and not at all inside of a kernel).
fn agrees(what: &str, fused: u64, dtype: Dtype, graph: &dyn Fn() -> Result<Vec<Array>>) {
    let (want, _) = run(Device::CPU, graph);
    let (got, count) = run(Device::GPU, graph);
    assert_eq!(count, if fusing() { fused } else { 0 }, "{what}: fused operations");
    for (i, (want, got)) in want.iter().zip(&got).enumerate() {
        assert_close(&format!("{what}: result {i}"), dtype, want, got);
    }
}

/// What rounding to a dtype between operations takes, relative to the largest result.
fn epsilon(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::Float32 => 1e-5,
        Dtype::Float16 => 4e-3,
        _ => 3e-2,
    }
}

/// The same numbers to within `epsilon` of the largest one.
fn assert_close(what: &str, dtype: Dtype, want: &[f64], got: &[f64]) {
    let most = largest(want);
    for (k, (w, g)) in want.iter().zip(got).enumerate() {
        assert!((w - g).abs() <= epsilon(dtype) * most, "{what}[{k}]: {w} and {g} of {most}");
    }
}

/// The largest magnitude, or what counts as one where all are small.
fn largest(numbers: &[f64]) -> f64 {
    numbers.iter().fold(1e-3, |most: f64, x| most.max(x.abs()))
}

/// A quantized matrix (outputs, inner).
struct Quantized {
    parts: [Array; 3],
    group: usize,
    bits: usize,
}

impl Quantized {
    fn new(
        seed: u64,
        outputs: usize,
        inner: usize,
        group: usize,
        bits: usize,
        dtype: Dtype,
    ) -> Self {
        let dense = ops::multiply(noise(seed, &[outputs, inner], dtype), 0.1f32).unwrap();
        let parts = mlx::with_device(Device::CPU, || ops::quantize(&dense, group, bits)).unwrap();
        let (words, scales, biases) = parts.unwrap();
        mlx::eval(&[&words, &scales, &biases]).unwrap();
        Quantized { parts: [words, scales, biases], group, bits }
    }

    fn forward(&self, x: &Array) -> Result<Array> {
        let [words, scales, biases] = &self.parts;
        ops::quantized_matmul(x, words, scales, biases, true, self.group, self.bits)
    }
}

/// A matrix (outputs, inner), quantized or not.
enum Linear {
    Dense(Array),
    Quantized(Quantized),
    Floats { words: Array, scales: Array, mode: FpMode },
}

impl Linear {
    /// Of a format in bits and group size, or dense.
    fn new(
        seed: u64,
        outputs: usize,
        inner: usize,
        format: Option<(usize, usize)>,
        dtype: Dtype,
    ) -> Self {
        match format {
            Some((bits, group)) => {
                Linear::Quantized(Quantized::new(seed, outputs, inner, group, bits, dtype))
            }
            None => {
                Linear::Dense(ops::multiply(noise(seed, &[outputs, inner], dtype), 0.1f32).unwrap())
            }
        }
    }

    /// Of small floats.
    fn floats(seed: u64, outputs: usize, inner: usize, mode: FpMode, dtype: Dtype) -> Self {
        let dense = ops::multiply(noise(seed, &[outputs, inner], dtype), 0.1f32).unwrap();
        let parts = mlx::with_device(Device::CPU, || ops::fp_quantize(&dense, mode, None)).unwrap();
        let (words, scales) = parts.unwrap();
        mlx::eval(&[&words, &scales]).unwrap();
        Linear::Floats { words, scales, mode }
    }

    fn forward(&self, x: &Array) -> Result<Array> {
        match self {
            Linear::Dense(matrix) => ops::matmul(x, &ops::transpose(matrix, &[1, 0])?),
            Linear::Quantized(matrix) => matrix.forward(x),
            Linear::Floats { words, scales, mode } => {
                ops::fp_quantized_matmul(x, words, scales, true, *mode)
            }
        }
    }
}

#[test]
fn with_every_gate_off_the_results_are_the_same() {
    let gates = [
        "FUSION",
        "MATVEC",
        "SDPA_DECODE",
        "QMM_NATIVE",
        "RMSNORM_NATIVE",
        "SDPA_NATIVE",
        "COOPMAT",
    ]
    .map(|gate| format!("MLX_VK_ENABLE_{gate}"));
    let variables = gates.each_ref().map(|gate| (gate.as_str(), "0"));
    mlx_tests::in_child("with_every_gate_off_the_results_are_the_same", &variables, || {
        products::all();
        small_floats::all();
        biases::all();
        attention::all();
        quantized_attention::all();
        prompt::all();
        lookup::all();
    });
}

/// Where elements of fragments lie otherwise than expected, and where nothing may use them.
#[test]
fn mat_vecs_do_without_fragments() {
    let test = "mat_vecs_do_without_fragments";
    let mat_vecs = || {
        products::mat_vecs();
        biases::mat_vecs();
        if products::has_fragments(Dtype::Bfloat16) {
            mixture::picks_of_an_expert_are_multiplied_together();
            mixture::picks_with_biases_are_multiplied_together();
        }
    };
    for gate in ["KNOWN_FRAGMENTS", "COOPMAT"] {
        let gate = format!("MLX_VK_ENABLE_{gate}");
        if mlx_tests::in_child(test, &[(&gate, "0")], mat_vecs).is_none() {
            return;
        }
    }
}

#[test]
fn subgroups_share_the_rows_of_mat_vecs() {
    let test = "subgroups_share_the_rows_of_mat_vecs";
    mlx_tests::in_child(test, &[("MLX_VK_MATVEC_SPLIT_K", "4")], || {
        products::gates();
        products::residuals();
        products::dense();
        small_floats::gates();
        small_floats::residuals();
        small_floats::biases();
        biases::residuals();
        biases::gates();
    });
}

/// As devices with many compute units do it.
#[test]
fn workgroups_share_the_keys() {
    mlx_tests::in_child("workgroups_share_the_keys", &[("MLX_VK_SDPA_SPLIT_K", "3")], || {
        attention::a_token_over_caches_of_every_length();
        quantized_attention::a_token_over_caches_of_every_length();
    });
}
