//! A process may end at any time: nobody is in the driver when its libraries are torn down.

use std::thread;

use mlx::{Array, Device, Dtype, ops};
use mlx_tests::{exit_in_child, in_child, init};

/// Processes that end in the midst of evaluations.
const TIMES: usize = 25;

/// A chain of so many products.
fn chain(links: usize) -> mlx::Result<Array> {
    let stream = mlx::new_thread_unsafe_stream(Device::GPU)?;
    mlx::with_stream(stream, || {
        let a = ops::full(&[64, 64], 1.0f32 / 64.0, Dtype::Float32)?;
        (0..links).try_fold(a.clone(), |product, _| ops::matmul(&product, &a))
    })
}

/// Gives the device work and leaves threads that evaluate and that wait, each once it has begun.
fn be_in_the_midst() {
    init();
    let (begun, begins) = std::sync::mpsc::channel();
    for _ in 0..2 {
        let begun = begun.clone();
        thread::spawn(move || {
            loop {
                chain(40).and_then(|product| product.eval()).unwrap();
                let _ = begun.send(());
            }
        });
    }
    let waited = chain(2000).unwrap();
    mlx::async_eval(&[&waited]).unwrap();
    thread::spawn(move || waited.eval());
    for _ in 0..2 {
        begins.recv().unwrap();
    }
}

#[test]
fn exit_in_the_midst_of_evaluations_is_orderly() {
    let test = "exiting::exit_in_the_midst_of_evaluations_is_orderly";
    (0..TIMES).for_each(|_| exit_in_child(test, &[], be_in_the_midst));
}

#[test]
fn the_end_of_main_in_the_midst_of_evaluations_is_orderly() {
    let test = "exiting::the_end_of_main_in_the_midst_of_evaluations_is_orderly";
    for _ in 0..TIMES {
        if in_child(test, &[], be_in_the_midst).is_none() {
            return;
        }
    }
}
