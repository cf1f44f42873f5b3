//! Operations run when their results are asked for.

use mlx::{Array, Dtype, Result, ops};
use mlx_tests::{on_each_device, values};

use crate::{buffer_of, computed};

/// One more than each of four numbers, not evaluated.
fn lazy() -> Array {
    let a = ops::add(computed(&[4]), 1.0f32).unwrap();
    assert!(a.data().is_none(), "an operation ran when it was called");
    a
}

#[test]
fn a_result_that_nobody_uses_is_not_computed() {
    on_each_device(|device| {
        let source = computed(&[4]);
        let unused = ops::exp(&source).unwrap();
        let used = ops::add(&source, 1.0f32).unwrap();
        used.eval().unwrap();
        assert!(used.data().is_some() && unused.data().is_none(), "{device}");
    });
}

#[test]
fn a_graph_needs_no_memory_for_its_arrays() {
    on_each_device(|device| {
        // Four tebibytes.
        let all = ops::ones(&[1 << 20, 1 << 20], Dtype::Float32).unwrap();
        let sum = ops::sum(&ops::add(&all, &all).unwrap(), &[], false).unwrap();
        assert!(sum.shape().is_empty() && sum.data().is_none(), "{device}");
    });
}

#[test]
fn reading_evaluates() {
    on_each_device(|device| {
        let a = lazy();
        assert_eq!(a.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0], "{device}");
        assert!(a.data().is_some(), "{device}");
    });
}

#[test]
fn printing_evaluates() {
    on_each_device(|device| {
        let a = lazy();
        assert!(a.to_string().contains('4'), "{a} on {device}");
        assert!(a.data().is_some(), "{device}");
    });
}

#[test]
fn item_evaluates() {
    on_each_device(|device| {
        let sum = ops::sum(&lazy(), &[], false).unwrap();
        assert_eq!(sum.item::<f32>().unwrap(), 10.0, "{device}");
        assert!(sum.data().is_some(), "{device}");
    });
}

#[test]
fn eval_takes_several_arrays() {
    on_each_device(|device| {
        let (a, b) = (lazy(), lazy());
        mlx::eval(&[&a, &b]).unwrap();
        assert!(a.data().is_some() && b.data().is_some(), "{device}");
    });
}

#[test]
fn eval_of_an_evaluated_array_does_nothing() {
    on_each_device(|device| {
        let a = lazy();
        let place = buffer_of(&a);
        mlx::async_eval(&[&a]).unwrap();
        assert_eq!(buffer_of(&a), place, "{device}");
    });
}

#[test]
fn an_evaluated_array_forgets_how_it_was_made() {
    on_each_device(|device| {
        let a = lazy();
        assert!(a.node().is_some(), "{device}");
        a.eval().unwrap();
        assert!(a.node().is_none(), "{device}");
    });
}

/// An array whose evaluation fails: nobody has such memory.
fn failing() -> Result<Array> {
    ops::add(ops::ones(&[1 << 24, 1 << 30], Dtype::Float32)?, 1.0f32)
}

/// The error of an evaluation, without the memory that other tests use.
fn error(a: &Array) -> String {
    let text = a.eval().unwrap_err().to_string();
    text.split_once(": ").expect("there is a hint").0.into()
}

#[test]
fn a_graph_that_fails_stays_lazy_and_fails_alike() {
    on_each_device(|device| {
        let a = failing().unwrap();
        let first = error(&a);
        assert!(first.starts_with("[malloc] Unable to allocate"), "{first}");
        assert!(a.data().is_none() && a.node().is_some(), "{device}");
        assert_eq!(error(&a), first, "{device}");
        let user = ops::sum(&a, &[], false).unwrap();
        assert_eq!(error(&user), first, "{device}");
        assert_eq!(values(&lazy()), [1.0, 2.0, 3.0, 4.0], "others run on {device}");
    });
}
