//! Updates in a loop take no more memory than one turn of it. Counters belong to the
//! process: each test has its own.

use mlx::{Array, Dtype, memory, ops};
use mlx_tests::{in_child, on_each_device};

/// Elements of the array that is updated: much more than anything else here.
const SIZE: usize = 1 << 20;
const BYTES: usize = 4 * SIZE;

fn settle() {
    mlx::synchronize(mlx::current_stream().unwrap()).unwrap();
}

/// Checks that turns of a loop neither keep nor need a second array.
fn constant_memory(update: impl Fn(Array, usize) -> Array) {
    on_each_device(|device| {
        let mut x = update(ops::zeros(&[SIZE], Dtype::Float32).unwrap(), 0);
        x.eval().unwrap();
        settle();
        let before = memory::active_memory();
        memory::reset_peak_memory();
        for turn in 1..10 {
            x = update(x, turn);
            x.eval().unwrap();
            settle();
            let after = memory::active_memory();
            assert!(after <= before + BYTES / 4, "{before} B became {after} B on {device}");
        }
        let peak = memory::peak_memory();
        assert!(peak < before + BYTES / 2, "{before} B and at most {peak} B on {device}");
    });
}

#[test]
fn adding_to_an_array_keeps_its_memory() {
    in_child("in_place::adding_to_an_array_keeps_its_memory", &[], || {
        mlx_tests::init();
        constant_memory(|x, turn| ops::add(&x, turn as f32).unwrap());
    });
}

#[test]
fn a_chain_of_updates_keeps_its_memory() {
    in_child("in_place::a_chain_of_updates_keeps_its_memory", &[], || {
        mlx_tests::init();
        constant_memory(|x, _| {
            let doubled = ops::multiply(&x, 2.0f32).unwrap();
            drop(x);
            ops::subtract(doubled, 1.0f32).unwrap()
        });
    });
}

#[test]
fn updating_slices_keeps_the_memory() {
    in_child("in_place::updating_slices_keeps_the_memory", &[], || {
        mlx_tests::init();
        constant_memory(|x, turn| {
            let row = ops::full(&[16], turn as f32, Dtype::Float32).unwrap();
            let start = 16 * turn as isize;
            ops::slice_update(&x, &row, &[start], &[start + 16], &[1]).unwrap()
        });
    });
}
