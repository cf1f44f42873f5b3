//! Large graphs that nobody waits for are encoded while who built them goes on.

use std::thread;

use mlx::{Array, Device, Dtype, Stream, ops};
use mlx_tests::{array, in_child, init, on_each_device, values};

use super::waiting::Gate;

/// `x` plus one, so often that another thread encodes it.
fn much(x: &Array, stream: Stream) -> Array {
    let add = |x: Array, _| ops::add(&x, 1.0f32).unwrap();
    mlx::with_stream(stream, || (0..300).fold(x.clone(), add))
}

fn ones() -> Array {
    array(&[1.0; 100], &[100], Dtype::Float32)
}

/// A device that cannot go on takes only part of the work, and holds up nobody but who asks for the result.
fn go_on_beside_a_device_that_is_held_up() {
    init();
    let gate = Gate::new(mlx::new_stream(Device::CPU).unwrap());
    let stream = mlx::new_thread_unsafe_stream(Device::GPU).unwrap();
    let result = much(&gate.held, stream);
    mlx::async_eval_detached(&[&result]).unwrap();
    assert!(result.node().is_some(), "two batches may be in flight, and it is more than that");
    thread::scope(|scope| {
        let elsewhere = || values(&much(&ones(), mlx::new_stream(Device::CPU).unwrap()));
        let other = scope.spawn(elsewhere);
        assert_eq!(other.join().unwrap(), [301.0; 100]);
        let synchronized = scope.spawn(move || mlx::synchronize(stream));
        gate.open();
        synchronized.join().unwrap().unwrap();
    });
    assert!(result.is_available(), "all of it was waited for");
    assert_eq!(values(&result), [302.0]);
}

#[test]
fn who_does_not_wait_goes_on() {
    let test = "detached::who_does_not_wait_goes_on";
    let variables = [("MLX_VK_MAX_INFLIGHT_SEQUENCES", "2"), ("MLX_VK_MAX_OPS_PER_BUFFER", "8")];
    in_child(test, &variables, go_on_beside_a_device_that_is_held_up);
}

#[test]
fn evaluations_of_a_thread_keep_their_order() {
    on_each_device(|device| {
        let stream = mlx::default_stream(device).unwrap();
        let mut x = ones();
        for _ in 0..20 {
            x = much(&x, stream);
            mlx::async_eval_detached(&[&x]).unwrap();
        }
        assert_eq!(values(&ops::negative(&x).unwrap()), [-6001.0; 100], "{device}");
    });
}

#[test]
fn a_stream_is_given_back_when_its_work_is_encoded() {
    on_each_device(|device| {
        let leave_behind = move || {
            let result = much(&ones(), mlx::new_stream(device).unwrap());
            mlx::async_eval_detached(&[&result]).unwrap();
            result
        };
        for _ in 0..10 {
            let result = thread::spawn(leave_behind).join().unwrap();
            assert_eq!(values(&result), [301.0; 100], "{device}");
        }
    });
}

#[test]
fn streams_of_others_are_refused_at_once() {
    on_each_device(|device| {
        let stream = mlx::new_stream(device).unwrap();
        let result = much(&ones(), stream);
        let refused = thread::scope(|scope| {
            scope
                .spawn(|| mlx::async_eval_detached(&[&result]).unwrap_err().to_string())
                .join()
                .unwrap()
        });
        assert!(refused.contains("There is no Stream"), "{refused}");
        assert_eq!(values(&result), [301.0; 100], "{device}");
    });
}

#[test]
fn streams_of_the_caller_are_used_however_deep() {
    on_each_device(|device| {
        let deep = much(&ones(), mlx::new_stream(device).unwrap());
        let result = much(&deep, mlx::default_stream(device).unwrap());
        mlx::async_eval_detached(&[&result]).unwrap();
        assert_eq!(values(&result), [601.0; 100], "{device}");
    });
}

#[test]
fn deep_streams_of_others_are_refused_to_who_reads() {
    on_each_device(|device| {
        let deep = much(&ones(), mlx::new_stream(device).unwrap());
        let elsewhere = || {
            let result = much(&deep, mlx::default_stream(device).unwrap());
            mlx::async_eval_detached(&[&result]).unwrap();
            (result.eval().unwrap_err().to_string(), result)
        };
        let (refused, result) = thread::scope(|scope| scope.spawn(elsewhere).join().unwrap());
        assert!(refused.contains("There is no Stream"), "{refused}");
        assert_eq!(values(&result), [601.0; 100], "{device}");
    });
}

#[test]
fn who_reads_is_told_what_went_wrong() {
    on_each_device(|device| {
        let stream = mlx::default_stream(device).unwrap();
        let huge = ops::broadcast_to(&ones(), &[1 << 40, 100]).unwrap();
        let result = ops::sum(&much(&huge, stream), &[], false).unwrap();
        mlx::async_eval_detached(&[&result]).unwrap();
        for _ in 0..2 {
            assert!(result.eval().is_err(), "{device}");
        }
        assert_eq!(values(&much(&ones(), stream)), [301.0; 100], "{device}");
    });
}
