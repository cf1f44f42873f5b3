//! Results that take over the memory of their inputs.

use mlx::{Array, Dtype, ops};
use mlx_tests::{array, on_each_device, values};

/// Where an evaluated array lies.
fn buffer_of(a: &Array) -> usize {
    a.eval().unwrap();
    a.data().expect("evaluated").buffer.id()
}

/// An evaluated array that no host copy backs, so that it may be donated.
fn computed(n: usize) -> Array {
    let a = ops::add(ops::arange(0.0, n as f64, 1.0, Dtype::Float32).unwrap(), 0.0f32).unwrap();
    a.eval().unwrap();
    a
}

#[test]
fn the_last_user_works_in_place() {
    on_each_device(|device| {
        let a = computed(1000);
        let before = buffer_of(&a);
        let b = ops::add(&a, 1.0f32).unwrap();
        drop(a);
        assert_eq!(buffer_of(&b), before, "{device}");
        assert_eq!(values(&b)[..3], [1.0, 2.0, 3.0]);
    });
}

#[test]
fn an_array_somebody_holds_is_never_overwritten() {
    on_each_device(|device| {
        let a = computed(1000);
        let b = ops::add(&a, 1.0f32).unwrap();
        assert_ne!(buffer_of(&b), buffer_of(&a), "{device}");
        assert_eq!(values(&a)[..3], [0.0, 1.0, 2.0]);
    });
}

#[test]
fn a_view_keeps_its_source_from_donation() {
    on_each_device(|device| {
        let a = computed(1000);
        let view = ops::slice(&a, &[0], &[10], &[1]).unwrap();
        view.eval().unwrap();
        let b = ops::add(&a, 1.0f32).unwrap();
        drop(a);
        b.eval().unwrap();
        assert_eq!(values(&view)[..3], [0.0, 1.0, 2.0], "{device}");
    });
}

#[test]
fn both_operands_the_same_array_are_safe() {
    on_each_device(|device| {
        let a = computed(100);
        let b = ops::add(&a, &a).unwrap();
        drop(a);
        assert_eq!(values(&b)[..3], [0.0, 2.0, 4.0], "{device}");
    });
}

#[test]
fn slice_update_writes_in_place() {
    on_each_device(|device| {
        let mut cache = ops::zeros(&[1, 2, 256, 4], Dtype::Float32).unwrap();
        cache.eval().unwrap();
        let place = buffer_of(&cache);
        for position in 0..5 {
            let row = ops::full(&[1, 2, 1, 4], position as f32 + 1.0, Dtype::Float32).unwrap();
            let (start, stop) = ([0, 0, position, 0], [1, 2, position + 1, 4]);
            cache = ops::slice_update(&cache, &row, &start, &stop, &[1; 4]).unwrap();
            let seen = ops::slice(&cache, &[0; 4], &stop, &[1; 4]).unwrap();
            // A reader in flight, as attention over the cache is.
            let sum = ops::sum(&seen, &[], false).unwrap();
            drop(seen);
            mlx::async_eval(&[&sum, &cache]).unwrap();
            let want: isize = (1..=position + 1).map(|i| i * 8).sum();
            assert_eq!(values(&sum), [want as f64], "{device}");
        }
        assert_eq!(buffer_of(&cache), place, "the cache stays where it is on {device}");
    });
}

#[test]
fn memory_that_another_stream_still_reads_is_not_overwritten() {
    mlx_tests::init();
    for device in mlx_tests::DEVICES {
        let other = mlx::new_stream(device).unwrap();
        for _ in 0..20 {
            mlx::with_device(device, || {
                let a = computed(100_000);
                // The other stream reads `a` at the end of a chain.
                let slow = mlx::with_stream(other, || {
                    let mut x = ops::sum(&a, &[], false).unwrap();
                    for _ in 0..20 {
                        x = ops::add(&x, ops::sum(&a, &[], false).unwrap()).unwrap();
                    }
                    x
                });
                mlx::async_eval(&[&slow]).unwrap();
                // This stream is then the only owner and would like to work in place.
                let b = ops::multiply(&a, 0.0f32).unwrap();
                drop(a);
                mlx::async_eval(&[&b]).unwrap();
                let want = 21.0 * (0..100_000).map(f64::from).sum::<f64>();
                let got = values(&slow)[0];
                assert!((got - want).abs() < want * 1e-5, "{got} is not {want} on {device}");
            })
            .unwrap();
        }
    }
}

#[test]
fn host_arrays_are_not_changed_by_their_users() {
    on_each_device(|_| {
        let a = array(&[1.0, 2.0], &[2], Dtype::Float32);
        let b = ops::add(&a, 1.0f32).unwrap();
        assert_eq!(values(&b), [2.0, 3.0]);
        assert_eq!(values(&a), [1.0, 2.0]);
    });
}

/// A slice is replaced in place while another stream still reads what was there.
#[test]
fn slices_that_another_stream_still_reads_are_not_replaced() {
    on_each_device(|device| {
        let other = mlx::new_stream(device).unwrap();
        let ones = ops::ones(&[1024], Dtype::Float32).unwrap();
        let mut a = computed(1 << 18);
        for round in 0..20 {
            let reader = mlx::with_stream(other, || ops::astype(&a, Dtype::Int32).unwrap());
            mlx::async_eval(&[&reader]).unwrap();
            a = ops::slice_update(&a, &ones, &[0], &[1024], &[1]).unwrap();
            mlx::async_eval(&[&a]).unwrap();
            let seen = values(&reader);
            let want = if round == 0 { 1023.0 } else { 1.0 };
            assert_eq!((seen[1023], seen[1024]), (want, 1024.0), "round {round} on {device}");
        }
    });
}
