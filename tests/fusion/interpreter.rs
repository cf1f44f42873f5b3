//! Decoder layers whose kernels become steps of one dispatch: the same numbers as on
//! the CPU, and proof that they did.

use mlx::{
    Array, Device, Dtype, Result, fast, ops,
    ops::FpMode,
    vulkan::stats::{self, Snapshot},
};
use mlx_tests::values;

use super::{
    Quantized, biases,
    decoder::{DECODER, Decoder, geglu},
    mixture::{Block, Scores},
    noise,
    tokens::LinearLayer,
    turn,
};

/// Kernels of a layer: q, k and v; attention; output; gate and up; down.
const STEPS: u64 = 5;

impl Decoder {
    /// Evaluates the graph on both devices; `steps` of its kernels are done in runs the second time on the
    /// GPU.
    fn check(&self, steps: u64) {
        let what = format!("{self:?}");
        let [want, got] = on_both(&what, steps, &self.graph()).map(|found| self.compared(found));
        assert_close(&what, self.dtype, &want, &got);
    }
}

/// What a graph evaluates to on a device, and how many kernels became steps.
fn run(device: Device, graph: &dyn Fn() -> Result<Vec<Array>>) -> (Vec<Vec<f64>>, u64) {
    let (results, counted) = counted(device, graph);
    (results, counted.interpreted)
}

/// What a graph evaluates to on a device, and what that took.
pub(super) fn counted(
    device: Device,
    graph: &dyn Fn() -> Result<Vec<Array>>,
) -> (Vec<Vec<f64>>, Snapshot) {
    mlx::with_device(device, || {
        // The first time the device fetches what only the host has.
        evaluated(graph);
        let before = stats::snapshot();
        let results = evaluated(graph);
        let counted = stats::snapshot().since(&before);
        (results.iter().map(values).collect(), counted)
    })
    .unwrap()
}

/// Results of a graph, all in one evaluation.
fn evaluated(graph: &dyn Fn() -> Result<Vec<Array>>) -> Vec<Array> {
    let results = graph().unwrap();
    mlx::eval(&results.iter().collect::<Vec<_>>()).unwrap();
    results
}

/// What a graph evaluates to on the CPU and on the GPU, which does `steps` of its kernels in runs.
fn on_both(what: &str, steps: u64, graph: &dyn Fn() -> Result<Vec<Array>>) -> [Vec<Vec<f64>>; 2] {
    let (want, _) = run(Device::CPU, graph);
    let (got, count) = run(Device::GPU, graph);
    assert_eq!(count, steps, "{what}: steps");
    [want, got]
}

fn agrees(what: &str, dtype: Dtype, steps: u64, graph: &dyn Fn() -> Result<Vec<Array>>) {
    let [want, got] = on_both(what, steps, graph);
    assert_close(what, dtype, &want, &got);
}

/// The same results, to within what rounding to the dtype takes of the largest number.
fn assert_close(what: &str, dtype: Dtype, want: &[Vec<f64>], got: &[Vec<f64>]) {
    let epsilon = if dtype == Dtype::Float16 { 4e-3 } else { 3e-2 };
    for (i, (want, got)) in want.iter().zip(got).enumerate() {
        let most = want.iter().fold(1e-3, |m: f64, x| m.max(x.abs()));
        for (k, (w, g)) in want.iter().zip(got).enumerate() {
            let close = (w - g).abs() <= epsilon * most;
            assert!(close, "{what}: result {i}[{k}]: {w} and {g} of {most}");
        }
    }
}

pub(super) const ON: (&str, &str) = ("MLX_VK_ENABLE_INTERPRETER", "1");

/// More workgroups than run at the same time.
const MANY: (&str, &str) = ("MLX_VK_DEBUG_RESIDENT_GROUPS", "4096");

/// Each of 1,024 workgroups has queries, keys or values to make.
const BUSY: Decoder = Decoder { heads: [32, 16, 64], ..DECODER };

/// Layers of a width, with matrices of a format in bits and group size, of which the first have biases.
pub(super) fn decoder(hidden: usize, format: (usize, usize), dtype: Dtype, biases: usize) {
    let decoder = Decoder { hidden, inner: 256, format: Some(format), dtype, biases, ..DECODER };
    decoder.check(STEPS * DECODER.layers as u64);
}

/// Layers with matrices of small floats, of which the first have biases.
pub(super) fn decoder_of_floats(mode: FpMode, dtype: Dtype, biases: usize) {
    let decoder = Decoder { floats: Some(mode), dtype, biases, ..DECODER };
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
        // A batch of one, as servers have it.
        for (past, padding) in [(9, 0), (65, 7), (300, 120)] {
            Decoder { past, padding: Some(padding), ..DECODER }.check(all);
        }
        // A Gemma, and an OLMo: what attention and the middle say is normalized, and a sum only then.
        for (dtype, format) in formats {
            let hidden = if format == Some((8, 128)) { 256 } else { 128 };
            let sums = Decoder { hidden, inner: 256, format, dtype, behind: true, ..DECODER };
            Decoder { swiglu: geglu, layers: 3, ..sums }.check(STEPS * 3);
            Decoder { before: false, ..sums }.check(all);
        }
        Decoder { behind: true, hidden: 1152, inner: 2304, ..DECODER }.check(all);
        // A GLM, whose queries, keys and values have biases.
        Decoder { behind: true, biases: 3, rotated: Some(32), norm: false, ..DECODER }.check(all);
        // Heads of which the first features are rotated.
        for (rotated, heads) in [(32, [4, 2, 64]), (96, [4, 2, 128]), (64, [2, 1, 256])] {
            Decoder { rotated: Some(rotated), heads, ..DECODER }.check(all);
        }
        // A Qwen3.5, whose query heads have their gates beside them; what is done with these ends runs, and
        // two or three steps are none.
        for past in [9, 300] {
            let heads = [4, 1, 256];
            Decoder { gated: true, rotated: Some(64), heads, past, ..DECODER }.check(4);
        }
        // Not of 16 bits, and too long a row: dispatches.
        Decoder { dtype: Dtype::Float32, ..DECODER }.check(0);
        Decoder { layers: 1, inner: 12_352, ..DECODER }.check(4);
    });
}

/// Attention over quantized caches is a step, too: short and long ones, of every length of heads and group.
#[test]
fn layers_with_quantized_caches_become_runs() {
    mlx_tests::in_child("interpreter::layers_with_quantized_caches_become_runs", &[ON], || {
        let _turn = turn();
        let all = STEPS * DECODER.layers as u64;
        let (half, brain) = (Dtype::Float16, Dtype::Bfloat16);
        for (dtype, cache) in [(half, (8, 64)), (brain, (8, 32)), (brain, (4, 64)), (half, (3, 32))]
        {
            for past in [0, 9, 300] {
                Decoder { dtype, past, cache: Some(cache), ..DECODER }.check(all);
            }
        }
        let cached = Decoder { cache: Some((8, 64)), ..DECODER };
        for heads in [[6, 2, 64], [2, 2, 128], [4, 2, 192], [2, 1, 256]] {
            Decoder { heads, norm: false, ..cached }.check(all);
        }
        // Matrices of another format than the caches, or of none.
        Decoder { format: None, ..cached }.check(all);
        Decoder { floats: Some(FpMode::Mxfp4), ..cached }.check(all);
        Decoder { cache: Some((8, 128)), heads: [4, 2, 128], ..DECODER }.check(all);
    });
}

/// Who waits for many layers, or comes back for them, has the device begin while they are encoded. Who
/// encodes the next ones meanwhile does not, as each submission costs: the device has the last ones to do.
#[test]
fn runs_that_somebody_waits_for_begin_early() {
    // Guards are transfers, which end a batch of that many layers. A run of one workgroup is one dispatch;
    // others have a second one behind them.
    let plain = ("MLX_VK_DEBUG_GUARD", "0");
    let one = ("MLX_VK_DEBUG_RESIDENT_GROUPS", "1");
    let test = "interpreter::runs_that_somebody_waits_for_begin_early";
    mlx_tests::in_child(test, &[ON, plain, one], || {
        let _turn = turn();
        for (layers, norm) in [(16, true), (17, true), (18, true), (19, false), (20, false)] {
            let decoder = Decoder { layers, norm, ..DECODER };
            let graph = decoder.graph();
            let counted = |evaluate: fn(&[&Array]) -> Result<()>| {
                let results = graph().unwrap();
                // What is under way would take no offer.
                mlx::synchronize(mlx::current_stream().unwrap()).unwrap();
                let before = stats::snapshot();
                evaluate(&results.iter().collect::<Vec<_>>()).unwrap();
                // Who waits for one of them before has what is encoded handed over.
                mlx::settle().unwrap();
                results.iter().for_each(|result| mlx::eval(&[result]).unwrap());
                let counted = stats::snapshot().since(&before);
                assert_eq!(counted.interpreted, STEPS * layers as u64, "{decoder:?}");
                (counted.submits, counted.dispatches)
            };
            let counted = |evaluate| mlx::with_device(Device::GPU, || counted(evaluate)).unwrap();
            // The first time the device fetches what only the host has.
            run(Device::GPU, &graph);
            let (submits, dispatches) = counted(mlx::async_eval);
            for evaluate in [|arrays: &[&Array]| mlx::eval(arrays), mlx::async_eval_detached] {
                assert_eq!(counted(evaluate), (submits + 1, dispatches + 1), "{decoder:?}");
            }
        }
    });
}

/// Layers of Qwen 2, and with biases of output and of all products: no step more than without.
#[test]
fn layers_with_biases_become_runs() {
    mlx_tests::in_child("interpreter::layers_with_biases_become_runs", &[ON], || {
        let _turn = turn();
        let plain = Decoder { norm: false, ..DECODER };
        let dispatches = |d: Decoder| counted(Device::GPU, &d.graph()).1.dispatches;
        let all = STEPS * DECODER.layers as u64;
        for biases in [3, 4, 7] {
            Decoder { biases, ..plain }.check(all);
            assert_eq!(dispatches(Decoder { biases, ..plain }), dispatches(plain));
        }
        for (format, dtype) in [
            (Some((8, 64)), Dtype::Float16),
            (Some((3, 32)), Dtype::Bfloat16),
            (None, Dtype::Float16),
        ] {
            Decoder { biases: 3, format, dtype, ..plain }.check(all);
        }
    });
}

/// Three steps, with and without biases, whose sums with biases, and then with a residual, have the bits of
/// operations one by one.
#[test]
fn biases_are_added_as_by_operations_of_their_own() {
    let few = ("MLX_VK_INTERPRETER_MIN_STEPS", "1");
    let test = "interpreter::biases_are_added_as_by_operations_of_their_own";
    mlx_tests::in_child(test, &[ON, few], || {
        let _turn = turn();
        for dtype in [Dtype::Bfloat16, Dtype::Float16] {
            for format in [Some((4, 64)), Some((8, 32)), None] {
                let steps = biases::Steps::new(format, dtype);
                let (together, alone) = (|| steps.together(), || steps.alone());
                let (got, count) = run(Device::GPU, &together);
                let (want, _) = run(Device::GPU, &alone);
                assert_eq!((got, count), (want, 3), "{format:?} {dtype}");
            }
        }
        let (got, count) = run(Device::GPU, &biases::rounded_once_and_twice());
        assert_eq!(got, [vec![258.0; 8], vec![256.0; 8]]);
        assert_eq!(count, 1);
    });
}

/// Workgroups that are taken to run at the same time and do not: the run is done again by one of them, and
/// what comes later by dispatches.
#[test]
fn workgroups_that_wait_in_vain() {
    in_vain("interpreter::workgroups_that_wait_in_vain", None);
}

#[test]
fn workgroups_with_quantized_caches_that_wait_in_vain() {
    let test = "interpreter::workgroups_with_quantized_caches_that_wait_in_vain";
    in_vain(test, Some((8, 64)));
}

fn in_vain(test: &str, cache: Option<(usize, usize)>) {
    mlx_tests::in_child(test, &[ON, MANY], || {
        let _turn = turn();
        let decoder = Decoder { cache, ..BUSY };
        let graph = decoder.graph();
        let want = decoder.compared(once(Device::CPU, &graph));
        // The first time the device may fetch, between the steps, what only the host has.
        for _ in 0..2 {
            let got = decoder.compared(once(Device::GPU, &graph));
            assert_close(&format!("{decoder:?}"), decoder.dtype, &want, &got);
        }
        assert!(stats::snapshot().interpreted > 0);
        decoder.check(0);
        assert_eq!(stats::snapshot().repeated, 1);
    });
}

/// Without the kernel of runs, steps are dispatches.
#[test]
fn a_driver_that_refuses_the_kernel() {
    let lanes = ("MLX_VK_ENABLE_INTEGER_DOTS", "0");
    let refused = ("MLX_VK_DEBUG_REFUSE_KERNEL", "interpreter");
    mlx_tests::in_child(
        "interpreter::a_driver_that_refuses_the_kernel",
        &[ON, lanes, refused],
        || {
            let _turn = turn();
            DECODER.check(0);
        },
    );
}

/// How experts are picked by scores.
const SCORES: Scores = Scores { wide: true, biased: true, eps: Some(1e-20), factor: Some(1.75) };

/// Between other products, mixtures of experts are three rows each, with routers of other formats.
#[test]
fn mixtures_become_steps() {
    let few = ("MLX_VK_INTERPRETER_MIN_STEPS", "2");
    mlx_tests::in_child("interpreter::mixtures_become_steps", &[ON, few], || {
        let _turn = turn();
        let formats = [
            (Dtype::Bfloat16, (4, 64), [Some((8, 64)), Some((4, 32))], [128, 192]),
            (Dtype::Float16, (8, 32), [None, Some((8, 64))], [320, 96]),
        ];
        for (dtype, format, routers, sizes @ [hidden, _]) in formats {
            let of = |router| Block::new(sizes, format, router, dtype);
            let (x, (bits, group)) = (noise(1, &[1, hidden], dtype), format);
            let [a, b] = [2, 3].map(|i| Quantized::new(i, hidden, hidden, group, bits, dtype));
            // Also with experts that all tokens have, with and without a share.
            let shared = |router, share| of(router).sharing(sizes[1], format, share);
            let [first, second] = routers;
            let blocks = match dtype {
                Dtype::Bfloat16 => {
                    [[of(first), of(second)], [shared(first, Some(first)), shared(second, None)]]
                }
                _ => [
                    [shared(first, Some(first)), of(second)],
                    // Of two runs, because one picks in one way.
                    [of(first), shared(second, None).scoring(SCORES)],
                ],
            };
            for (i, [first, second]) in blocks.into_iter().enumerate() {
                let graph = || {
                    let row = a.forward(&ops::multiply(&x, 1.5f32)?)?;
                    let row = second.forward(&first.forward(&row)?)?;
                    Ok(vec![b.forward(&row)?, row])
                };
                agrees(&format!("{format:?} {routers:?} {dtype} {sizes:?} {i}"), dtype, 8, &graph);
            }
        }
    });
}

/// Two layers of linear attention between products; key heads, value heads, and features of both.
fn linear_attention(sizes: [usize; 4], dtype: Dtype) -> impl Fn() -> Result<Vec<Array>> {
    let hidden = 256;
    let layers = [50, 60].map(|seed| LinearLayer::new(seed, hidden, sizes, (4, 64), dtype));
    let x = noise(1, &[1, 1, hidden], dtype);
    let [a, b] = [2, 3].map(|i| Quantized::new(i, hidden, hidden, 64, 4, dtype));
    move || {
        let mut row = a.forward(&ops::multiply(&x, 1.5f32)?)?;
        let mut results = Vec::new();
        for layer in &layers {
            let [next, before, state] = layer.forward(&row)?;
            row = next;
            results.extend([before, state]);
        }
        results.push(b.forward(&row)?);
        Ok(results)
    }
}

/// A token's convolution and its step of the delta rule are rows, too.
#[test]
fn linear_attention_becomes_steps() {
    mlx_tests::in_child("interpreter::linear_attention_becomes_steps", &[ON], || {
        let _turn = turn();
        let sizes = [[2, 4, 64, 32], [1, 4, 128, 64], [4, 8, 128, 128]];
        let dtypes = [Dtype::Bfloat16, Dtype::Float16, Dtype::Bfloat16];
        for (sizes, dtype) in sizes.into_iter().zip(dtypes) {
            let graph = linear_attention(sizes, dtype);
            agrees(&format!("{sizes:?} {dtype}"), dtype, 12, &graph);
        }
    });
}

/// Workgroups that do not run at the same time: the run is done again, from the states before it.
#[test]
fn linear_attention_is_repeated() {
    mlx_tests::in_child("interpreter::linear_attention_is_repeated", &[ON, MANY], || {
        let _turn = turn();
        // Each of 4,096 workgroups has a channel.
        let (sizes, dtype) = ([8, 16, 128, 128], Dtype::Bfloat16);
        let graph = linear_attention(sizes, dtype);
        let want = once(Device::CPU, &graph);
        // The first time pipelines may not be made yet, and the host looks before a run how the last one
        // went.
        for _ in 0..3 {
            assert_close(&format!("{sizes:?}"), dtype, &want, &once(Device::GPU, &graph));
        }
        assert!(stats::snapshot().repeated > 0);
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
            Decoder { past, layers: 1, cache: Some((8, 64)), ..DECODER }.check(STEPS);
        }
    });
}

/// Attentions of more keys than runs take are dispatches, which the runs behind them begin beside, also where
/// these have to be repeated.
fn long_attentions(test: &str, groups: &[(&str, &str)]) {
    let is_repeated = !groups.is_empty();
    let few = ("MLX_VK_INTERPRETER_MIN_STEPS", "1");
    let (rounds, shares) = (("MLX_VK_INTERPRETER_MAX_ROUNDS", "1"), ("MLX_VK_SDPA_SPLIT_K", "3"));
    let environment = [&[ON, few, rounds, shares], groups].concat();
    mlx_tests::in_child(test, &environment, || {
        let _turn = turn();
        for (cache, dtype) in [(None, Dtype::Float16), (Some((8, 64)), Dtype::Bfloat16)] {
            // Each of 4,096 workgroups has some of the middle's results to make.
            let decoder = Decoder { past: 300, inner: 8192, cache, dtype, ..DECODER };
            let (graph, what) = (decoder.graph(), format!("{decoder:?}"));
            let want = decoder.compared(once(Device::CPU, &graph));
            let before = stats::snapshot();
            // The first time the device may fetch, between the steps, what only the host has.
            for _ in 0..2 {
                let got = decoder.compared(once(Device::GPU, &graph));
                assert_close(&what, dtype, &want, &got);
            }
            // All but the attentions, until runs are given up.
            let steps = (STEPS - 1) * decoder.layers as u64;
            let counted = stats::snapshot().since(&before);
            let given_up = before.repeated + counted.repeated > 0;
            assert!(counted.interpreted >= steps || given_up, "{what}: {counted:?}");
        }
        assert_eq!(stats::snapshot().repeated > 0, is_repeated);
    });
}

/// What a graph evaluates to on a device.
fn once(device: Device, graph: &dyn Fn() -> Result<Vec<Array>>) -> Vec<Vec<f64>> {
    mlx::with_device(device, || evaluated(graph).iter().map(values).collect()).unwrap()
}

#[test]
fn runs_beside_long_attentions() {
    long_attentions("interpreter::runs_beside_long_attentions", &[]);
}

#[test]
fn runs_that_are_repeated_beside_long_attentions() {
    long_attentions("interpreter::runs_that_are_repeated_beside_long_attentions", &[MANY]);
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
