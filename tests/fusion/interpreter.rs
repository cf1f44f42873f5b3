//! Decoder layers whose kernels become steps of one dispatch: the same numbers as on
//! the CPU, and proof that they did.

use mlx::{Array, Device, Dtype, Result, fast, fast::Mask, ops, vulkan::stats};
use mlx_tests::values;

use super::{Linear, Quantized, noise, turn};

/// A decoder of a few layers.
#[derive(Clone, Copy, Debug)]
struct Decoder {
    hidden: usize,
    /// Query heads, key/value heads and their width.
    heads: [usize; 3],
    inner: usize,
    layers: usize,
    /// Whether queries and keys are normalized.
    norm: bool,
    /// Bits and group size; none for matrices that are not quantized.
    format: Option<(usize, usize)>,
    dtype: Dtype,
    /// Rows of the caches that are filled.
    past: usize,
}

const DECODER: Decoder = Decoder {
    hidden: 128,
    heads: [4, 2, 64],
    inner: 192,
    layers: 2,
    norm: true,
    format: Some((4, 64)),
    dtype: Dtype::Bfloat16,
    past: 9,
};

/// Kernels of a layer: q, k and v; attention; output; gate and up; down.
const STEPS: u64 = 5;

struct Layer {
    matrices: [Linear; 7],
    norms: [Array; 4],
    caches: [Array; 2],
}

impl Decoder {
    fn layer(&self, seed: u64) -> Layer {
        let Decoder { hidden, heads: [heads, kv_heads, width], inner, dtype, .. } = *self;
        let (all, kv) = (heads * width, kv_heads * width);
        let shapes = [
            (all, hidden),
            (kv, hidden),
            (kv, hidden),
            (hidden, all),
            (inner, hidden),
            (inner, hidden),
            (hidden, inner),
        ];
        let mut seeds = (100 * seed..).step_by(1);
        let mut next = || seeds.next().unwrap();
        let matrices =
            shapes.map(|(outputs, inner)| Linear::new(next(), outputs, inner, self.format, dtype));
        let norms = [hidden, hidden, width, width].map(|n| noise(next(), &[n], dtype));
        let cached = [1, kv_heads, self.past + 3, width];
        let caches = [next(), next()].map(|seed| noise(seed, &cached, dtype));
        Layer { matrices, norms, caches }
    }

    fn head(
        &self,
        flat: &Array,
        heads: usize,
        norm: Option<&Array>,
        offset: &Array,
    ) -> Result<Array> {
        let x = ops::reshape(flat, &[1, heads as isize, 1, self.heads[2] as isize])?;
        let x = match norm {
            Some(weight) => fast::rms_norm(&x, Some(weight), 1e-6)?,
            None => x,
        };
        fast::rope(&x, self.heads[2], false, Some(1e4), 1.0, offset, None)
    }

    /// A layer after the row `x`, with its new caches, which are written in place.
    fn forward(&self, x: &Array, layer: &Layer, caches: [Array; 2]) -> Result<[Array; 3]> {
        let [heads, kv_heads, width] = self.heads;
        let [q, k, v, out, gate, up, down] = &layer.matrices;
        let [before, between, q_norm, k_norm] = &layer.norms;
        let normal = fast::rms_norm(x, Some(before), 1e-6)?;
        let norm = |weight| self.norm.then_some(weight);
        let offset = Array::scalar(self.past as i32)?;
        let query = self.head(&q.forward(&normal)?, heads, norm(q_norm), &offset)?;
        let key = self.head(&k.forward(&normal)?, kv_heads, norm(k_norm), &offset)?;
        let value = ops::reshape(&v.forward(&normal)?, &[1, kv_heads as isize, 1, width as isize])?;
        let write = |cache: &Array, row: &Array| {
            let stop = [1, kv_heads as isize, self.past as isize + 1, width as isize];
            ops::slice_update(cache, row, &[0, 0, self.past as isize, 0], &stop, &[1; 4])
        };
        let (keys, values) = (write(&caches[0], &key)?, write(&caches[1], &value)?);
        drop(caches);
        let seen = |cache: &Array| ops::slice_axis(cache, 2, 0, self.past as isize + 1);
        let scale = 1.0 / (width as f32).sqrt();
        let attended = fast::scaled_dot_product_attention(
            &query,
            &seen(&keys)?,
            &seen(&values)?,
            scale,
            Mask::None,
        )?;
        let attended = ops::reshape(&attended, &[1, (heads * width) as isize])?;
        let x = ops::add(x, out.forward(&attended)?)?;
        let normal = fast::rms_norm(&x, Some(between), 1e-6)?;
        let gate = gate.forward(&normal)?;
        let gate = ops::multiply(&gate, ops::sigmoid(&gate)?)?;
        let gated = ops::multiply(&gate, up.forward(&normal)?)?;
        Ok([ops::add(&x, down.forward(&gated)?)?, keys, values])
    }

    fn graph(&self) -> impl Fn() -> Result<Vec<Array>> {
        let (this, x) = (*self, noise(7, &[1, self.hidden], self.dtype));
        let layers: Vec<_> = (0..self.layers as u64).map(|seed| self.layer(seed + 1)).collect();
        move || {
            let mut x = ops::multiply(&x, 1.5f32)?;
            mlx::eval(&[&x])?;
            let mut results = Vec::new();
            for layer in &layers {
                // Owned by nobody else, and there before the layers are evaluated.
                let [keys, values] = &layer.caches;
                let caches = [ops::multiply(keys, 1.0f32)?, ops::multiply(values, 1.0f32)?];
                mlx::eval(&[&caches[0], &caches[1]])?;
                let [next, keys, values] = this.forward(&x, layer, caches)?;
                results.extend([keys, values]);
                x = next;
            }
            results.push(x);
            Ok(results)
        }
    }

    /// Evaluates the graph on both devices; `steps` of its kernels are done in runs the second time on the
    /// GPU.
    fn check(&self, steps: u64) {
        let graph = self.graph();
        agrees(&format!("{self:?}"), self.dtype, steps, &graph);
    }
}

/// What a graph evaluates to on a device, and how many kernels became steps.
fn run(device: Device, graph: &dyn Fn() -> Result<Vec<Array>>) -> (Vec<Vec<f64>>, u64) {
    let evaluate = || {
        let results = graph().unwrap();
        mlx::eval(&results.iter().collect::<Vec<_>>()).unwrap();
        results
    };
    mlx::with_device(device, || {
        // The first time the device fetches what only the host has.
        evaluate();
        let before = stats::snapshot();
        let results = evaluate();
        let steps = stats::snapshot().since(&before).interpreted;
        (results.iter().map(values).collect(), steps)
    })
    .unwrap()
}

fn agrees(what: &str, dtype: Dtype, steps: u64, graph: &dyn Fn() -> Result<Vec<Array>>) {
    let (want, _) = run(Device::CPU, graph);
    let (got, count) = run(Device::GPU, graph);
    assert_eq!(count, steps, "{what}: steps");
    let epsilon = if dtype == Dtype::Float16 { 4e-3 } else { 3e-2 };
    for (i, (want, got)) in want.iter().zip(&got).enumerate() {
        let most = want.iter().fold(1e-3, |m: f64, x| m.max(x.abs()));
        for (k, (w, g)) in want.iter().zip(got).enumerate() {
            let close = (w - g).abs() <= epsilon * most;
            assert!(close, "{what}: result {i}[{k}]: {w} and {g} of {most}");
        }
    }
}

pub(super) const ON: (&str, &str) = ("MLX_VK_ENABLE_INTERPRETER", "1");

/// Layers of a width, with matrices of a format in bits and group size.
pub(super) fn decoder(hidden: usize, format: (usize, usize), dtype: Dtype) {
    let decoder = Decoder { hidden, inner: 256, format: Some(format), dtype, ..DECODER };
    decoder.check(STEPS * DECODER.layers as u64);
}

#[test]
fn layers_become_runs() {
    mlx_tests::in_child("interpreter::layers_become_runs", &[ON], || {
        let _turn = turn();
        let all = STEPS * DECODER.layers as u64;
        let (half, brain) = (Dtype::Float16, Dtype::Bfloat16);
        let formats = [
            (half, Some((4, 64))),
            (half, None),
            (brain, Some((4, 64))),
            (brain, Some((8, 128))),
            (brain, Some((3, 32))),
        ];
        for (dtype, format) in formats {
            let hidden = if format == Some((8, 128)) { 256 } else { 128 };
            Decoder { hidden, inner: 2 * hidden, format, dtype, ..DECODER }.check(all);
        }
        // A llama; heads of other widths; rows that are no multiple of what a workgroup brings at a time.
        Decoder { norm: false, heads: [6, 2, 64], hidden: 576, inner: 1536, ..DECODER }.check(all);
        Decoder { heads: [2, 1, 128], ..DECODER }.check(all);
        Decoder { heads: [2, 2, 256], ..DECODER }.check(all);
        Decoder { heads: [4, 2, 192], ..DECODER }.check(all);
        for past in [0, 1, 63, 64, 65, 300] {
            Decoder { past, layers: 1, ..DECODER }.check(STEPS);
        }
        // Not of 16 bits, and too long a row: dispatches.
        Decoder { dtype: Dtype::Float32, ..DECODER }.check(0);
        Decoder { layers: 1, inner: 12_352, ..DECODER }.check(4);
    });
}

/// Workgroups that are taken to run at the same time and do not: the run is done again by one of them, and
/// what comes later by dispatches.
#[test]
fn workgroups_that_wait_in_vain() {
    let many = ("MLX_VK_DEBUG_RESIDENT_GROUPS", "4096");
    mlx_tests::in_child("interpreter::workgroups_that_wait_in_vain", &[ON, many], || {
        let _turn = turn();
        // Each of 1,024 workgroups has queries, keys or values to make.
        let decoder = Decoder { heads: [32, 16, 64], ..DECODER };
        let graph = decoder.graph();
        let (want, _) = run(Device::CPU, &graph);
        // The first time the device may fetch, between the steps, what only the host has.
        for _ in 0..2 {
            let results = mlx::with_device(Device::GPU, || {
                let results = graph().unwrap();
                mlx::eval(&results.iter().collect::<Vec<_>>()).unwrap();
                results.iter().map(values).collect::<Vec<_>>()
            });
            for (want, got) in want.iter().zip(&results.unwrap()) {
                let most = want.iter().fold(1e-3, |m: f64, x| m.max(x.abs()));
                assert!(want.iter().zip(got).all(|(w, g)| (w - g).abs() <= 3e-2 * most));
            }
        }
        assert!(stats::snapshot().interpreted > 0);
        decoder.check(0);
        assert_eq!(stats::snapshot().repeated, 1);
    });
}

/// Several workgroups share the keys of a head, and a single one does the work of all.
#[test]
fn shares_of_keys() {
    let (one, shares) = (("MLX_VK_DEBUG_RESIDENT_GROUPS", "1"), ("MLX_VK_SDPA_SPLIT_K", "3"));
    mlx_tests::in_child("interpreter::shares_of_keys", &[ON, one, shares], || {
        let _turn = turn();
        for past in [0, 1, 2, 90] {
            Decoder { past, layers: 1, ..DECODER }.check(STEPS);
        }
    });
}

/// What a step needs in another form than the one before it leaves it in begins a new run.
#[test]
fn steps_that_need_each_other() {
    let few = ("MLX_VK_INTERPRETER_MIN_STEPS", "1");
    mlx_tests::in_child("interpreter::steps_that_need_each_other", &[ON, few], || {
        let _turn = turn();
        let dtype = Dtype::Bfloat16;
        let x = noise(1, &[1, 128], dtype);
        let matrices = [2, 3, 4].map(|seed| Quantized::new(seed, 128, 128, 64, 4, dtype));
        let eights = Quantized::new(5, 64, 128, 64, 8, dtype);
        let [a, b, c] = &matrices;
        let chain = || -> Result<Vec<Array>> {
            let x = ops::multiply(&x, 1.5f32)?;
            let first = a.forward(&x)?;
            // A row of other bits; the result as a norm's weight; the result as a matrix; a part of a result.
            let other = eights.forward(&first)?;
            let weight = ops::reshape(&first, &[128])?;
            let normal = b.forward(&fast::rms_norm(&x, Some(&weight), 1e-6)?)?;
            let column = ops::transpose(&ops::reshape(&c.forward(&normal)?, &[2, 64])?, &[1, 0])?;
            let product = ops::matmul(&other, &column)?;
            Ok(vec![first, other, normal, product])
        };
        let (want, _) = run(Device::CPU, &chain);
        let (got, steps) = run(Device::GPU, &chain);
        assert!(steps >= 4, "{steps} steps");
        for (i, (want, got)) in want.iter().zip(&got).enumerate() {
            let most = want.iter().fold(1e-3, |m: f64, x| m.max(x.abs()));
            let far = want.iter().zip(got).position(|(w, g)| (w - g).abs() > 3e-2 * most);
            assert_eq!(far, None, "result {i}: {want:?} and {got:?}");
        }
    });
}

/// Runs of two streams take turns; who finds the other's in flight does with dispatches.
#[test]
fn runs_of_two_streams() {
    mlx_tests::in_child("interpreter::runs_of_two_streams", &[ON], || {
        let _turn = turn();
        let graph = DECODER.graph();
        let (want, _) = run(Device::CPU, &graph);
        let streams = [0; 2].map(|_| mlx::new_stream(Device::GPU).unwrap());
        let before = stats::snapshot().interpreted;
        for _ in 0..5 {
            let both = streams.map(|stream| {
                mlx::with_stream(stream, || {
                    let results = graph().unwrap();
                    mlx::async_eval(&results.iter().collect::<Vec<_>>()).unwrap();
                    results
                })
            });
            for (want, got) in both.iter().flat_map(|results| want.iter().zip(results)) {
                let (got, most) = (values(got), want.iter().fold(1e-3, |m: f64, x| m.max(x.abs())));
                assert!(want.iter().zip(&got).all(|(w, g)| (w - g).abs() <= 3e-2 * most));
            }
        }
        assert!(stats::snapshot().interpreted > before);
    });
}
