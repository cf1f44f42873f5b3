//! Pipelines are promised while an evaluation goes on: who waits for a driver's compiler, and what becomes of
//! results whose kernel it refuses.

use std::sync::mpsc;

use mlx::{
    Array, Device, Dtype, Result, Stream, ops,
    vulkan::{
        internals::{Kernel, provoke},
        stats,
    },
};
use mlx_tests::{array, exit_in_child, in_child, init, values};

/// No pipelines of earlier processes.
const COLD: (&str, &str) = ("MLX_VK_PIPELINE_CACHE", "off");

/// A function of one argument on the device, and what it is.
type Function = (fn(&Array) -> Result<Array>, fn(f64) -> f64);

/// Each takes a pipeline of its own.
const FUNCTIONS: [Function; 12] = [
    (|x| ops::exp(x), f64::exp),
    (|x| ops::sin(x), f64::sin),
    (|x| ops::cos(x), f64::cos),
    (|x| ops::tanh(x), f64::tanh),
    (|x| ops::log1p(x), f64::ln_1p),
    (|x| ops::sqrt(x), f64::sqrt),
    (|x| ops::negative(x), |x| -x),
    (|x| ops::square(x), |x| x * x),
    (|x| ops::add(x, 1.0f32), |x| x + 1.0),
    (|x| ops::multiply(x, 3.0f32), |x| 3.0 * x),
    (|x| ops::maximum(x, 0.5f32), |x| x.max(0.5)),
    (|x| ops::sigmoid(x), |x| 1.0 / (1.0 + (-x).exp())),
];

const X: [f64; 5] = [0.0, 0.25, 0.5, 1.0, 2.0];

/// All functions in one evaluation.
fn evaluate_all() {
    let x = array(&X, &[5], Dtype::Float32);
    let all = FUNCTIONS.map(|(function, _)| function(&x).unwrap());
    mlx::eval(&all.each_ref()).unwrap();
    for (k, (result, (_, want))) in all.iter().zip(FUNCTIONS).enumerate() {
        for (x, got) in X.iter().zip(values(result)) {
            assert!((got - want(*x)).abs() < 1e-5, "function {k} of {x}: {got}");
        }
    }
}

fn on_gpu(test: impl FnOnce()) {
    init();
    mlx::with_device(Device::GPU, test).unwrap();
}

#[test]
fn pipelines_of_one_evaluation_are_made_while_it_goes_on() {
    let test = "pipelines::pipelines_of_one_evaluation_are_made_while_it_goes_on";
    let run = || {
        on_gpu(|| {
            evaluate_all();
            let made = stats::snapshot().pipeline_creations;
            assert!(made >= FUNCTIONS.len() as u64, "{made} pipelines");
            // Now nobody waits.
            let before = stats::snapshot();
            (0..5).for_each(|_| evaluate_all());
            let seen = stats::snapshot().since(&before);
            assert_eq!((seen.pipeline_waits, seen.pipeline_creations), (0, 0), "{seen:?}");
            assert!(seen.pipeline_hits >= 5 * FUNCTIONS.len() as u64, "{seen:?}");
        });
        mlx::shutdown();
    };
    in_child(test, &[COLD], run);
    in_child(test, &[COLD, ("MLX_VK_ENABLE_COMMIT_THREAD", "0")], run);
    in_child(test, &[COLD, ("MLX_VK_MAX_OPS_PER_BUFFER", "2")], run);
}

#[test]
fn threads_that_need_the_same_pipeline_share_it() {
    let test = "pipelines::threads_that_need_the_same_pipeline_share_it";
    in_child(test, &[COLD], || {
        init();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| on_gpu(evaluate_all));
            }
        });
        let made = stats::snapshot().pipeline_creations;
        on_gpu(evaluate_all);
        assert_eq!(stats::snapshot().pipeline_creations, made);
        let most = stats::pipelines_created().into_iter().max_by_key(|(_, count)| *count).unwrap();
        assert!(made <= 2 * FUNCTIONS.len() as u64, "{made} pipelines, most of {most:?}");
    });
}

/// Streams of the device, and of the CPU.
fn streams() -> [Stream; 3] {
    init();
    [Device::GPU, Device::GPU, Device::CPU].map(|device| mlx::new_stream(device).unwrap())
}

fn add(stream: Stream, a: &Array) -> Array {
    mlx::with_stream(stream, || ops::add(a, 1.0f32)).unwrap()
}

fn fill() -> Array {
    array(&[1.0, 2.0], &[2], Dtype::Float32)
}

/// A result that fails, with what is computed from it, and what is beside it.
struct Failing {
    streams: [Stream; 3],
    what: &'static str,
    failed: Vec<Array>,
    before: Array,
}

impl Failing {
    fn new(streams: [Stream; 3], what: &'static str) -> Self {
        let before = add(streams[0], &fill());
        before.eval().unwrap();
        Failing { streams, what, failed: Vec::new(), before }
    }

    /// This result fails, and so does what is computed from it while nobody knows.
    fn push(&mut self, failed: Array) {
        let behind = add(self.streams[0], &failed);
        let elsewhere = [1, 2].map(|k| add(self.streams[k], &behind));
        self.failed = vec![failed, behind];
        self.failed.extend(elsewhere);
        // Where it is known already, this tells.
        let _ = mlx::async_eval(&self.failed.iter().collect::<Vec<_>>());
    }

    fn check(&self) {
        let told = |a: &Array| {
            let told = a.eval().unwrap_err().to_string();
            assert!(told.contains(self.what), "{told}");
        };
        // Whoever asks, and however often.
        self.failed.iter().chain(&self.failed).for_each(told);
        for stream in self.streams {
            assert_eq!(values(&add(stream, &fill())), [2.0, 3.0], "later on {stream}");
            assert_eq!(values(&add(stream, &self.before)), [3.0, 4.0], "later on {stream}");
            self.failed[..2].iter().for_each(|failed| told(&add(stream, failed)));
            mlx::synchronize(stream).unwrap();
        }
        assert_eq!(values(&self.before), [2.0, 3.0]);
    }
}

/// A kernel is refused when it is recorded: results beside it are not there.
fn a_kernel_is_refused_when_it_is_recorded() {
    let mut failing = Failing::new(streams(), "refused a kernel");
    for _ in 0..3 {
        provoke::refuse_kernel(failing.streams[0], || ()).unwrap();
        failing.push(add(failing.streams[0], &failing.before));
        failing.check();
    }
    // Of what nobody was told, who synchronizes is.
    let stream = failing.streams[0];
    provoke::refuse_kernel(stream, || ()).unwrap();
    let told = mlx::synchronize(stream).unwrap_err().to_string();
    assert!(told.contains("refused a kernel"), "{told}");
    assert_eq!(values(&add(stream, &fill())), [2.0, 3.0]);
    mlx::synchronize(stream).unwrap();
    mlx::shutdown();
}

/// A kernel that is known to be refused is an error of the operation alone.
fn a_kernel_is_refused() {
    let select = |stream, a: &Array| {
        let select = || ops::where_(&ops::greater(a, 0.0f32)?, a, 5.0f32);
        mlx::with_stream(stream, select).unwrap()
    };
    let mut failing = Failing::new(streams(), "kernel select");
    for _ in 0..3 {
        failing.push(select(failing.streams[0], &failing.before));
        failing.check();
        // On the CPU it runs.
        assert_eq!(values(&select(failing.streams[2], &failing.before)), [2.0, 3.0]);
    }
    mlx::shutdown();
}

/// A copy of the host's, and no thread that records.
const OTHERS: [(&str, &str); 2] =
    [("MLX_VK_FORCE_DISCRETE", "1"), ("MLX_VK_ENABLE_COMMIT_THREAD", "0")];

#[test]
fn what_a_refused_kernel_should_have_computed_stays_failed() {
    let test = "pipelines::what_a_refused_kernel_should_have_computed_stays_failed";
    in_child(test, &[], a_kernel_is_refused_when_it_is_recorded);
    for other in OTHERS {
        in_child(test, &[other], a_kernel_is_refused_when_it_is_recorded);
    }
}

#[test]
fn a_refused_kernel_is_an_error_of_its_results() {
    let test = "pipelines::a_refused_kernel_is_an_error_of_its_results";
    // A chain would do without this kernel once it was seen often.
    let refused = [("MLX_VK_DEBUG_REFUSE_KERNEL", "select"), ("MLX_VK_ENABLE_PROGRAMS", "0")];
    in_child(test, &refused, a_kernel_is_refused);
    for other in OTHERS {
        in_child(test, &[refused[0], refused[1], other], a_kernel_is_refused);
    }
}

/// While a driver compiles, whoever evaluates goes on, on the same stream and on others.
fn a_pipeline_takes_long() {
    let [late, others @ ..] = streams();
    let (open, gate) = mpsc::channel::<()>();
    // It ends once the other end is dropped.
    provoke::refuse_kernel(late, move || gate.recv().unwrap_or_default()).unwrap();
    let waiting: Vec<Array> = (0..3)
        .map(|_| {
            let result = add(late, &fill());
            mlx::async_eval(&[&result]).unwrap();
            for stream in others {
                assert_eq!(values(&add(stream, &fill())), [2.0, 3.0], "on {stream}");
            }
            result
        })
        .collect();
    drop(open);
    // They were encoded before anybody knew.
    for result in &waiting {
        assert!(result.eval().unwrap_err().to_string().contains("refused a kernel"));
    }
    assert!(stats::snapshot().pipeline_waits > 0);
    assert_eq!(values(&add(late, &fill())), [2.0, 3.0]);
    mlx::shutdown();
}

#[test]
fn nobody_else_waits_for_a_compiler() {
    let test = "pipelines::nobody_else_waits_for_a_compiler";
    in_child(test, &[], a_pipeline_takes_long);
    for other in OTHERS {
        in_child(test, &[other], a_pipeline_takes_long);
    }
}

#[test]
fn exit_while_pipelines_are_made_is_orderly() {
    let test = "pipelines::exit_while_pipelines_are_made_is_orderly";
    for _ in 0..5 {
        exit_in_child(test, &[COLD], || {
            on_gpu(|| {
                let x = array(&X, &[5], Dtype::Float32);
                let all = FUNCTIONS.map(|(function, _)| function(&x).unwrap());
                mlx::async_eval(&all.each_ref()).unwrap();
            });
        });
    }
}

/// A driver may compile for longer than the end of a process waits.
#[test]
fn exit_while_a_pipeline_takes_too_long_is_orderly() {
    let test = "pipelines::exit_while_a_pipeline_takes_too_long_is_orderly";
    exit_in_child(test, &[COLD], || {
        let [late, ..] = streams();
        let (open, gate) = mpsc::channel::<()>();
        provoke::refuse_kernel(late, move || gate.recv().unwrap_or_default()).unwrap();
        mlx::async_eval(&[&add(late, &fill())]).unwrap();
        // Nobody opens it.
        std::mem::forget(open);
    });
}

#[test]
fn a_driver_is_asked_for_every_kernel() {
    let refused = [("MLX_VK_DEBUG_REFUSE_KERNEL", "softmax_scale")];
    let run = || {
        init();
        let checked = mlx::vulkan::check(0).unwrap();
        let lacking: usize = checked.lacking.values().sum();
        assert_eq!(checked.compiled + lacking + 1, Kernel::ALL.len(), "{:?}", checked.refused);
        let names: Vec<_> = checked.refused.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["softmax_scale"]);
        assert_eq!(stats::snapshot().pipeline_creations, checked.compiled as u64);
    };
    in_child("pipelines::a_driver_is_asked_for_every_kernel", &refused, run);
}
