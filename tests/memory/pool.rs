//! Random use of memory against what is held: nothing overlaps, sizes hold, and caches obey their limit.

use mlx::{Array, Dtype, memory, ops};
use mlx_tests::{cases, on_each_device};
use proptest::prelude::*;

use crate::counters;

/// What is done with memory.
#[derive(Debug, Clone)]
enum Step {
    /// An array of so many bytes, of one value.
    Allocate(usize),
    /// One of the arrays is forgotten, by its place among them.
    Free(prop::sample::Index),
    /// One of the arrays is replaced by a larger value, in its own memory if it may be.
    Touch(prop::sample::Index),
    /// So many bytes may stay cached.
    Limit(usize),
    Clear,
}

/// Sizes of every magnitude: spans of units, of pages, and blocks of their own.
fn bytes() -> impl Strategy<Value = usize> {
    (0u32..23, any::<u32>()).prop_map(|(bits, x)| (1 << bits) + (x as usize & ((1 << bits) - 1)))
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => bytes().prop_map(Step::Allocate),
        4 => any::<prop::sample::Index>().prop_map(Step::Free),
        2 => any::<prop::sample::Index>().prop_map(Step::Touch),
        1 => bytes().prop_map(Step::Limit),
        1 => Just(Step::Clear),
    ];
    prop::collection::vec(step, 1..40)
}

/// Checks that everything held still has its value, and that it is counted.
fn check(held: &[(Array, u8)], before: usize) {
    let bytes: usize = held.iter().map(|(a, _)| a.size()).sum();
    let active = memory::active_memory() - before;
    assert!(active >= bytes, "{active} bytes are in use, {bytes} are held");
    // A span is rounded up, or the next larger one that was cached; guards have a kilobyte on either side.
    let most = 2 * bytes + held.len() * (64 << 10);
    assert!(active <= most, "{active} bytes are in use for {bytes}");
    for (a, value) in held {
        let [low, high] = [ops::min(a, &[], false), ops::max(a, &[], false)];
        let ends = [low, high].map(|end| end.unwrap().item::<u8>().unwrap());
        assert_eq!(ends, [*value; 2], "{} bytes", a.size());
    }
}

/// Waits for what runs: then what was forgotten is cached, and no more than may be.
fn settle(limit: usize) {
    mlx::synchronize(mlx::current_stream().unwrap()).unwrap();
    let cached = memory::cache_memory();
    assert!(cached <= limit, "{cached} bytes are cached, {limit} may be");
}

fn run(steps: &[Step]) {
    memory::clear_cache();
    mlx::synchronize(mlx::current_stream().unwrap()).unwrap();
    let before = memory::active_memory();
    let mut limit = usize::MAX;
    let mut held: Vec<(Array, u8)> = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        match step {
            Step::Allocate(bytes) => {
                let value = (i % 200) as u8;
                let a = ops::full(&[*bytes], i32::from(value), Dtype::Uint8).unwrap();
                // Memory of its own, not a number that is repeated.
                let a = ops::add(&a, 1).unwrap();
                a.eval().unwrap();
                held.push((a, value + 1));
            }
            Step::Free(which) if !held.is_empty() => {
                drop(held.swap_remove(which.index(held.len())))
            }
            Step::Touch(which) if !held.is_empty() => {
                let (a, value) = held.swap_remove(which.index(held.len()));
                let b = ops::maximum(&a, 250).unwrap();
                drop(a);
                b.eval().unwrap();
                held.push((b, value.max(250)));
            }
            Step::Limit(bytes) => {
                limit = *bytes;
                memory::set_cache_limit(limit);
            }
            Step::Clear => memory::clear_cache(),
            _ => {}
        }
        settle(limit);
        check(&held, before);
    }
    held.clear();
    mlx::synchronize(mlx::current_stream().unwrap()).unwrap();
    assert_eq!(memory::active_memory(), before, "everything was given back");
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn memory_in_use_never_overlaps(steps in steps()) {
        let _counters = counters();
        let limit = memory::cache_limit();
        on_each_device(|_| {
            run(&steps);
            memory::set_cache_limit(limit);
        });
    }
}
