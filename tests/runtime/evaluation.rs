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
