//! Graphs of every depth and width.

use mlx::{Array, Dtype, ops};
use mlx_tests::{array, on_each_device, values};

#[test]
fn a_chain_of_a_million_nodes_is_dropped_without_recursion() {
    on_each_device(|_| {
        let one = array(&[1.0], &[1], Dtype::Float32);
        let mut x = one.clone();
        for _ in 0..1_000_000 {
            x = ops::add(&x, &one).unwrap();
        }
        drop(x);
    });
}

/// Runs `f` on a thread with a stack of 1 MiB.
fn on_a_small_stack(f: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let small = std::thread::Builder::new().stack_size(1 << 20);
        small.spawn_scoped(scope, f).unwrap().join().unwrap();
    });
}

/// Links of a chain that recursion of any kind does not survive on a small stack.
const DEEP: usize = 200_000;

/// `x = x + x`, starting from zero.
fn doubled(links: usize) -> Array {
    let zero = array(&[0.0], &[1], Dtype::Int32);
    (0..links).fold(zero, |x, _| ops::add(&x, &x).unwrap())
}

#[test]
fn chains_that_read_each_link_twice_are_dropped_without_recursion() {
    on_each_device(|_| {
        let stream = mlx::current_stream().unwrap();
        on_a_small_stack(|| mlx::with_stream(stream, || drop(doubled(DEEP))));
    });
}

#[test]
fn chains_that_read_each_link_twice_evaluate_without_recursion() {
    on_each_device(|device| {
        let stream = mlx::current_stream().unwrap();
        let links = if device == mlx::Device::CPU { DEEP } else { DEEP / 10 };
        on_a_small_stack(|| {
            mlx::with_stream(stream, || assert_eq!(values(&doubled(links)), [0.0]))
        });
    });
}

#[test]
fn chains_whose_links_others_held_are_dropped_without_recursion() {
    on_each_device(|_| {
        let stream = mlx::current_stream().unwrap();
        on_a_small_stack(|| {
            mlx::with_stream(stream, || {
                let mut x = array(&[0.0], &[1], Dtype::Int32);
                let mut held = Vec::new();
                for _ in 0..DEEP {
                    held.push(x.clone());
                    x = ops::add(&x, 1).unwrap();
                }
                drop(x);
                drop(held);
            });
        });
    });
}

#[test]
fn chains_of_nodes_with_several_outputs_are_dropped_without_recursion() {
    on_each_device(|_| {
        let stream = mlx::current_stream().unwrap();
        on_a_small_stack(|| {
            mlx::with_stream(stream, || {
                let mut x = array(&[1.0; 32], &[1, 32], Dtype::Float32);
                for _ in 0..DEEP / 10 {
                    let (_, scales, biases) = ops::quantize(&x, 32, 4).unwrap();
                    let sum = ops::add(&scales, &biases).unwrap();
                    x = ops::broadcast_to(&sum, &[1, 32]).unwrap();
                }
                drop(x);
            });
        });
    });
}

#[test]
fn a_chain_of_a_million_nodes_evaluates() {
    mlx_tests::init();
    mlx::with_device(mlx::Device::CPU, || {
        let one = array(&[1.0], &[1], Dtype::Int32);
        let mut x = one.clone();
        for _ in 0..1_000_000 {
            x = ops::add(&x, &one).unwrap();
        }
        assert_eq!(values(&x), [1_000_001.0]);
    })
    .unwrap();
}

#[test]
fn a_long_chain_evaluates_on_each_device() {
    on_each_device(|device| {
        let one = array(&[1.0], &[1], Dtype::Int32);
        let mut x = one.clone();
        for _ in 0..10_000 {
            x = ops::add(&x, &one).unwrap();
        }
        assert_eq!(values(&x), [10_001.0], "{device}");
    });
}

#[test]
fn wide_graphs_evaluate_once_per_node() {
    on_each_device(|device| {
        let leaves: Vec<Array> = (0..100)
            .map(|i| ops::add(array(&[i as f64; 8], &[8], Dtype::Float32), 1.0f32).unwrap())
            .collect();
        let total = leaves.iter().skip(1).fold(leaves[0].clone(), |sum, x| &sum + x);
        // Shared nodes below both outputs.
        let twice = &total + &total;
        mlx::eval(&[&total, &twice]).unwrap();
        assert_eq!(values(&total), [5050.0; 8], "{device}");
        assert_eq!(values(&twice), [10100.0; 8], "{device}");
    });
}

#[test]
fn evaluated_intermediates_stay_available() {
    on_each_device(|device| {
        let a = array(&[1.0, 2.0], &[2], Dtype::Float32);
        let b = ops::exp(&a).unwrap();
        let c = ops::log(&b).unwrap();
        assert!(!b.is_available());
        c.eval().unwrap();
        assert!(b.is_available(), "{device}");
        assert!(b.node().is_none(), "evaluated arrays let go of their inputs");
    });
}

#[test]
fn several_outputs_survive_each_other() {
    on_each_device(|device| {
        let w =
            array(&(0..128).map(|i| i as f64 / 16.0).collect::<Vec<_>>(), &[2, 64], Dtype::Float32);
        let (packed, scales, biases) = ops::quantize(&w, 64, 4).unwrap();
        drop(packed);
        scales.eval().unwrap();
        assert_eq!(values(&scales).len(), 2, "{device}");
        assert_eq!(values(&biases).len(), 2, "{device}");
    });
}
