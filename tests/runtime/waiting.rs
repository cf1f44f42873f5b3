//! Who waits holds nothing that others need: other threads evaluate meanwhile, and code of users that runs
//! inside of the runtime may evaluate itself.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering::SeqCst},
    mpsc::{self, Receiver, Sender},
};

use mlx::{
    Array, Device, Dtype, Error, Stream,
    buffer::{Buffer, HostMemory},
    clock,
    interrupt::interruptible,
    ops,
};
use mlx_tests::{DEVICES, array, in_child, init, values};

/// Holds a CPU stream up until it is opened: its next operation waits for that.
pub(super) struct Gate {
    open: Sender<()>,
    /// What the stream is held up by.
    pub(super) held: Array,
}

/// Bytes that can be read once the gate is open.
struct Gated {
    bytes: [u8; 4],
    opened: Mutex<Receiver<()>>,
}

impl HostMemory for Gated {
    fn bytes(&self) -> &[u8] {
        // A gate that is gone is open.
        let _ = self.opened.lock().unwrap().recv();
        &self.bytes
    }

    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        None
    }
}

impl Gate {
    /// Holds `stream` up. The size of the memory is asked for once before.
    pub(super) fn new(stream: Stream) -> Gate {
        let (open, opened) = mpsc::channel();
        open.send(()).unwrap();
        let memory = Gated { bytes: 1.0f32.to_le_bytes(), opened: Mutex::new(opened) };
        let buffer = Buffer::from_host(memory);
        let shape = [1usize][..].into();
        let gated = Array::from_buffer(buffer, shape, Dtype::Float32, 0).unwrap();
        let held = mlx::with_stream(stream, || ops::add(&gated, 1.0f32)).unwrap();
        mlx::async_eval(&[&held]).unwrap();
        assert!(!held.is_available());
        Gate { open, held }
    }

    pub(super) fn open(self) {
        drop(self.open);
        assert_eq!(values(&self.held), [2.0]);
    }
}

/// Builds, evaluates and reads on a CPU stream of its own.
fn work_elsewhere() {
    let stream = mlx::new_stream(Device::CPU).unwrap();
    mlx::with_stream(stream, || {
        let x = array(&[1.0; 100], &[100], Dtype::Float32);
        let sum = (0..200).fold(x, |x, _| ops::add(&x, 1.0f32).unwrap());
        assert!(sum.node().is_some());
        assert_eq!(values(&sum), [201.0; 100]);
        mlx::synchronize(stream).unwrap();
    });
}

/// Encodes far more than may be in flight on a stream of a device that cannot go on.
fn wait_for_a_device() {
    init();
    let gate = Gate::new(mlx::new_stream(Device::CPU).unwrap());
    let stream = mlx::new_thread_unsafe_stream(Device::GPU).unwrap();
    let before = gate.held.clone();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            mlx::with_stream(stream, || {
                values(&(0..100).fold(before, |x, _| ops::add(&x, 1.0f32).unwrap()))
            })
        });
        let gpu = mlx::backend::gpu().unwrap();
        // Two batches may be in flight.
        while gpu.tick(stream).value < 3 {
            std::thread::yield_now();
        }
        (0..10).for_each(|_| work_elsewhere());
        // Another stream of the device takes work, too; its queue may be the one that is held up.
        let other = mlx::new_stream(Device::GPU).unwrap();
        let x = mlx::with_stream(other, || ops::full(&[4], 3.0f32, Dtype::Float32)).unwrap();
        let y = mlx::with_stream(other, || ops::add(&x, 1.0f32)).unwrap();
        mlx::async_eval(&[&y]).unwrap();
        assert!(!waiting.is_finished());
        gate.open();
        assert_eq!(waiting.join().unwrap(), [102.0]);
        assert_eq!(values(&y), [4.0; 4]);
    });
}

#[test]
fn others_evaluate_while_a_thread_waits_for_a_device() {
    let test = "waiting::others_evaluate_while_a_thread_waits_for_a_device";
    let variables = [("MLX_VK_MAX_INFLIGHT_SEQUENCES", "2"), ("MLX_VK_MAX_OPS_PER_BUFFER", "8")];
    in_child(test, &variables, wait_for_a_device);
}

/// Who waits is asked whether to go on; what was interrupted is computed when it is asked for again.
#[test]
fn waits_can_be_interrupted() {
    init();
    for device in DEVICES {
        let gate = Gate::new(mlx::new_stream(Device::CPU).unwrap());
        let x = mlx::with_device(device, || ops::add(&gate.held, 1.0f32).unwrap()).unwrap();
        let enough = || Err(Error::runtime("wait", "that is enough"));
        let interrupted = interruptible(enough, || x.eval()).unwrap_err();
        assert_eq!(interrupted.to_string(), "[wait] that is enough", "{device}");
        gate.open();
        assert_eq!(interruptible(|| Ok(()), || values(&x)), [3.0], "{device}");
    }
}

/// A stream waits for the CPU, which waits for another stream of the same device: neither may be before what
/// it waits for in a queue that they share.
#[test]
fn streams_wait_for_each_other_across_the_cpu() {
    init();
    let streams = [Device::GPU, Device::CPU, Device::GPU].map(|d| mlx::new_stream(d).unwrap());
    for evaluates_before in [false, true] {
        let mut x = array(&[1.0; 8], &[8], Dtype::Float32);
        for round in 0..4 {
            for stream in streams {
                x = mlx::with_stream(stream, || ops::add(&x, 1.0f32)).unwrap();
                if evaluates_before && round == 0 {
                    mlx::async_eval(&[&x]).unwrap();
                }
            }
        }
        assert_eq!(values(&x), [13.0; 8], "{evaluates_before}");
    }
}

/// Memory whose destructor evaluates.
struct Evaluating {
    bytes: [u8; 4],
    stream: Stream,
    results: Sender<Vec<f64>>,
}

impl HostMemory for Evaluating {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        None
    }
}

impl Drop for Evaluating {
    fn drop(&mut self) {
        let _ = self.results.send(mlx::with_stream(self.stream, || {
            values(&ops::add(array(&[1.0], &[1], Dtype::Float32), 2.0f32).unwrap())
        }));
    }
}

#[test]
fn destructors_evaluate() {
    init();
    for device in DEVICES {
        let stream = mlx::new_thread_unsafe_stream(device).unwrap();
        let (results, dropped) = mpsc::channel();
        mlx::with_stream(stream, || {
            let bytes = 1.0f32.to_le_bytes();
            let memory = Evaluating { bytes, stream, results: results.clone() };
            let buffer = Buffer::from_host(memory);
            let shape = [1usize][..].into();
            let a = Array::from_buffer(buffer, shape, Dtype::Float32, 0).unwrap();
            // Large enough for a copy of its own on the device: work in flight keeps it.
            let wide = ops::broadcast_to(&a, &[4, 1]).unwrap();
            let sum = ops::add(&wide, &a).unwrap();
            drop((a, wide));
            // Nobody but the graph has the memory now: it dies while the evaluation goes on, or with the
            // work.
            let mut x = sum;
            for _ in 0..200 {
                x = ops::add(&x, 1.0f32).unwrap();
            }
            assert_eq!(values(&x), [202.0; 4], "{device}");
            // What recorded work held goes when more is encoded.
            let seen = std::iter::from_fn(|| {
                mlx::eval(&[&ops::add(&x, 1.0f32).unwrap()]).unwrap();
                Some(dropped.try_recv())
            });
            assert_eq!(seen.flatten().next().unwrap(), [3.0], "{device}");
        });
    }
}

#[test]
fn callbacks_evaluate() {
    init();
    for device in DEVICES {
        let stream = mlx::new_thread_unsafe_stream(device).unwrap();
        let x = mlx::with_stream(stream, || ops::ones(&[8], Dtype::Float32)).unwrap();
        let (results, called) = mpsc::channel();
        let count = Arc::new(AtomicUsize::new(0));
        for _ in 0..20 {
            let y = mlx::with_stream(stream, || ops::add(&x, 1.0f32)).unwrap();
            mlx::async_eval(&[&y]).unwrap();
            let (results, count) = (results.clone(), count.clone());
            let tick = y.data().unwrap().buffer.written();
            let evaluate = move || {
                let z = mlx::with_stream(stream, || ops::add(&y, 1.0f32)).unwrap();
                results.send(values(&z)).unwrap();
                count.fetch_add(1, SeqCst);
            };
            clock::clock(tick.stream).when_reached(tick.value, Box::new(evaluate));
        }
        drop(results);
        let all: Vec<_> = called.iter().collect();
        assert_eq!(all, vec![vec![3.0; 8]; 20], "{device}");
        assert_eq!(count.load(SeqCst), 20);
    }
}

/// A graph with parts that several results read, products and norms among them, which are evaluated in
/// groups.
fn layers(x: &Array, depth: usize) -> Vec<Array> {
    let mut x = x.clone();
    let mut all = Vec::new();
    for k in 0..depth {
        let (a, b) =
            (ops::exp(&ops::multiply(&x, -1.0f32).unwrap()).unwrap(), ops::sin(&x).unwrap());
        let (words, scales, biases) = ops::quantize(&a, 32, 4).unwrap();
        let back = ops::dequantize(&words, &scales, &biases, 32, 4).unwrap();
        x = ops::add(ops::multiply(&back, &b).unwrap(), k as f32).unwrap();
        all.push(x.clone());
    }
    all
}

#[test]
fn overlapping_graphs_are_evaluated_by_several_threads() {
    init();
    for device in DEVICES {
        let streams = [(); 2].map(|()| mlx::new_thread_unsafe_stream(device).unwrap());
        let start: Vec<f64> = (0..256).map(|i| (i % 17) as f64 / 8.0).collect();
        let build = || {
            let x = array(&start, &[4, 64], Dtype::Float32);
            mlx::with_stream(streams[0], || layers(&x, 20))
        };
        let expected: Vec<Vec<f64>> = build().iter().map(values).collect();
        for round in 0..20 {
            let shared = build();
            std::thread::scope(|scope| {
                for (k, &stream) in streams.iter().enumerate() {
                    let (shared, expected) = (&shared, &expected);
                    scope.spawn(move || {
                        // From the middle, from the end, and a node of one's own behind.
                        let at = if (round + k) % 2 == 0 { 10 } else { 19 };
                        assert_eq!(values(&shared[at]), expected[at], "{device}");
                        let own = mlx::with_stream(stream, || {
                            ops::add(&shared[19], &shared[at]).unwrap()
                        });
                        let both = expected[19].iter().zip(&expected[at]);
                        let sums: Vec<f64> =
                            both.map(|(&a, &b)| f64::from(a as f32 + b as f32)).collect();
                        assert_eq!(values(&own), sums, "{device}");
                    });
                }
            });
        }
    }
}

/// Gated products of the same rows, which Vulkan evaluates in groups.
fn gated_layers(x: &Array, depth: usize) -> Vec<Array> {
    let weights = |k: usize| {
        let all: Vec<f64> =
            (0..64 * 64).map(|i| ((i * 7 + k) % 13) as f64 / 100.0 - 0.06).collect();
        ops::transpose(&array(&all, &[64, 64], Dtype::Float32), &[]).unwrap()
    };
    let mut all = vec![x.clone()];
    for k in 0..depth {
        let x = all.last().unwrap();
        let [gate, up] = [k, k + 5].map(|k| ops::matmul(x, &weights(k)).unwrap());
        let silu = ops::multiply(&gate, ops::sigmoid(&gate).unwrap()).unwrap();
        let down = ops::matmul(&ops::multiply(&silu, &up).unwrap(), &weights(k + 3)).unwrap();
        all.push(ops::add(x, &down).unwrap());
    }
    all
}

#[test]
fn overlapping_groups_are_evaluated_by_several_threads() {
    init();
    for device in DEVICES {
        let stream = mlx::new_thread_unsafe_stream(device).unwrap();
        let start: Vec<f64> = (0..64).map(|i| (i % 17) as f64 / 8.0).collect();
        let build = || {
            let x = array(&start, &[1, 64], Dtype::Float32);
            mlx::with_stream(stream, || gated_layers(&x, 30))
        };
        let expected: Vec<Vec<f64>> = build().iter().map(values).collect();
        for round in 0..20 {
            let shared = build();
            std::thread::scope(|scope| {
                for k in 0..3 {
                    let (shared, expected) = (&shared, &expected);
                    scope.spawn(move || {
                        let at = 30 - (round + k) % 3 * 10;
                        let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-4 * b.abs().max(1.0);
                        let got = values(&shared[at]);
                        assert!(got.iter().zip(&expected[at]).all(close), "{device} {got:?}");
                    });
                }
            });
        }
    }
}
