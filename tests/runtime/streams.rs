//! Streams, threads and what crosses them.

use std::sync::Barrier;

use mlx::{Array, Device, Dtype, Stream, ops};
use mlx_tests::{DEVICES, array, init, on_each_device, values};

/// A dependent chain of work.
fn chain(x: &Array, steps: usize) -> Array {
    (0..steps).fold(x.clone(), |x, _| ops::add(&x, 1.0f32).unwrap())
}

#[test]
fn streams_on_two_threads_race_safely() {
    init();
    for device in DEVICES {
        for _ in 0..20 {
            let start = Barrier::new(2);
            let run = |offset: f64| {
                let stream = mlx::new_stream(device).unwrap();
                start.wait();
                mlx::with_stream(stream, || {
                    let x = chain(&array(&[offset; 1000], &[1000], Dtype::Float32), 50);
                    values(&ops::sum(&x, &[], false).unwrap())
                })
            };
            std::thread::scope(|scope| {
                let one = scope.spawn(|| run(0.0));
                let two = scope.spawn(|| run(1.0));
                assert_eq!(one.join().unwrap(), [50_000.0], "{device}");
                assert_eq!(two.join().unwrap(), [51_000.0], "{device}");
            });
        }
    }
}

#[test]
fn a_shared_graph_is_evaluated_by_two_threads_at_once() {
    on_each_device(|device| {
        for _ in 0..20 {
            let shared = chain(&array(&[1.0; 100], &[100], Dtype::Float32), 30);
            let stream = mlx::current_stream().unwrap();
            std::thread::scope(|scope| {
                for k in 0..2 {
                    let shared = &shared;
                    scope.spawn(move || {
                        mlx::with_stream(stream, || {
                            let x = ops::add(shared, k as f32).unwrap();
                            assert_eq!(values(&x), [31.0 + k as f64; 100], "{device}");
                        });
                    });
                }
            });
        }
    });
}

/// Work that goes back and forth between streams.
fn ping_pong(streams: &[Stream]) {
    for round in 0..20 {
        let mut x = array(&[round as f64; 64], &[64], Dtype::Float32);
        for step in 0..12 {
            let stream = streams[step % streams.len()];
            x = mlx::with_stream(stream, || chain(&x, 3));
        }
        assert_eq!(values(&x), [round as f64 + 36.0; 64], "{streams:?}");
    }
}

#[test]
fn streams_of_one_device_wait_for_each_other() {
    init();
    for device in DEVICES {
        for count in [2, 3] {
            let streams: Vec<Stream> =
                (0..count).map(|_| mlx::new_stream(device).unwrap()).collect();
            ping_pong(&streams);
        }
    }
}

#[test]
fn cpu_and_gpu_streams_share_arrays() {
    init();
    let streams = [Device::CPU, Device::GPU].map(|d| mlx::new_stream(d).unwrap());
    ping_pong(&streams);
    ping_pong(&[streams[1], streams[0]]);
}

/// Who makes a stream and who brings arrays to the host for another one do not wait for each other.
#[test]
fn streams_are_made_while_others_are_evaluated() {
    init();
    let start = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let streams = [Device::CPU, Device::GPU].map(|d| mlx::new_stream(d).unwrap());
            ping_pong(&streams);
            start.wait();
            ping_pong(&streams);
        });
        start.wait();
        for _ in 0..4000 {
            mlx::new_stream(Device::CPU).unwrap();
        }
    });
}

#[test]
fn cpu_and_gpu_streams_share_large_arrays() {
    init();
    let [cpu, gpu] = [Device::CPU, Device::GPU].map(|d| mlx::new_stream(d).unwrap());
    let n = 3_000_000;
    let a = mlx::with_stream(cpu, || ops::arange(0.0, n as f64, 1.0, Dtype::Int32)).unwrap();
    let b = mlx::with_stream(gpu, || ops::add(&a, 1)).unwrap();
    let c = mlx::with_stream(cpu, || ops::subtract(&b, &a)).unwrap();
    assert!(values(&c).into_iter().all(|x| x == 1.0));
}

/// More than goes up or comes back in one piece, and no whole number of pieces.
#[test]
fn large_arrays_go_up_and_come_back_in_pieces() {
    on_each_device(|device| {
        let n: u32 = (80 << 20) / 4 + 3;
        let bits: Vec<u32> = (0..n).map(|i| i.wrapping_mul(2_654_435_761)).collect();
        let a = Array::from_slice(&bits, &[n as usize]).unwrap();
        let b = ops::slice(&a, &[1], &[n as isize], &[1]).unwrap();
        let c = ops::astype(&ops::contiguous(&b, false).unwrap(), Dtype::Int64).unwrap();
        let back = ops::astype(&c, Dtype::Uint32).unwrap().to_vec::<u32>().unwrap();
        assert!(back == bits[1..], "{device}");
    });
}

#[test]
fn async_eval_returns_before_completion() {
    init();
    // The CPU stream's thread is held up by work that waits for a lock that this thread has.
    let stream = mlx::new_stream(Device::CPU).unwrap();
    let blocker = array(&[1.0; 4], &[4], Dtype::Float32);
    let held = blocker.data().expect("host arrays are evaluated").buffer.write();
    let result = mlx::with_stream(stream, || ops::add(&blocker, 1.0f32)).unwrap();
    mlx::async_eval(&[&result]).unwrap();
    assert!(!result.is_available(), "async_eval came back while the work could not have run");
    drop(held);
    assert_eq!(values(&result), [2.0; 4]);

    // A GPU stream that depends on it has not finished either.
    let held = blocker.data().expect("host arrays are evaluated").buffer.write();
    let first = mlx::with_stream(stream, || ops::add(&blocker, 1.0f32)).unwrap();
    let second = mlx::with_device(Device::GPU, || ops::add(&first, 1.0f32)).unwrap().unwrap();
    mlx::async_eval(&[&second]).unwrap();
    assert!(!second.is_available());
    drop(held);
    assert_eq!(values(&second), [3.0; 4]);
}
