//! Which thread may use a stream, and what becomes of streams whose threads end.

use std::{fs, thread};

use mlx::{Array, DeviceType, Dtype, Result, Stream, ops};
use mlx_tests::{DEVICES, array, in_child, init, on_each_device, values};

/// Runs on a thread of its own, which then ends.
fn elsewhere<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(f).join().expect("the thread returns"))
}

/// A lazy sum on a stream.
fn lazy(stream: Stream) -> Array {
    let ones = array(&[1.0; 100], &[100], Dtype::Float32);
    mlx::with_stream(stream, || ops::add(&ones, 1.0f32)).unwrap()
}

fn expect_refused(result: Result<()>, stream: Stream) {
    let error = result.expect_err("the stream is another thread's");
    assert!(matches!(error, mlx::Error::Runtime { .. }), "{error:?}");
    let text =
        format!("There is no Stream({}, {}) in current thread.", stream.device.kind, stream.index);
    assert!(error.to_string().ends_with(&text), "{error}");
}

#[test]
fn a_stream_belongs_to_the_thread_that_made_it() {
    on_each_device(|device| {
        let stream = mlx::new_stream(device).unwrap();
        let sum = lazy(stream);
        elsewhere(|| {
            expect_refused(sum.eval(), stream);
            expect_refused(lazy(stream).eval(), stream);
            let waited = mlx::synchronize(stream);
            match stream.device.kind {
                DeviceType::Gpu => expect_refused(waited, stream),
                DeviceType::Cpu => waited.unwrap(),
            }
        });
        // Nothing was lost.
        assert_eq!(values(&sum), [2.0; 100], "{device}");
        assert_eq!(elsewhere(|| values(&sum)), [2.0; 100], "what is evaluated is everybody's");
    });
}

#[test]
fn some_streams_belong_to_all_threads() {
    on_each_device(|device| {
        let shared = mlx::new_thread_unsafe_stream(device).unwrap();
        let local = mlx::new_thread_local_stream(device).unwrap();
        assert_ne!(local, mlx::new_thread_local_stream(device).unwrap());
        let mine = local.stream().unwrap();
        assert_eq!(mine, local.stream().unwrap());
        let sums = [lazy(shared), lazy(mine)];
        elsewhere(|| {
            assert_eq!(values(&sums[0]), [2.0; 100], "{device}");
            expect_refused(sums[1].eval(), mine);
            let there = local.stream().unwrap();
            assert_ne!(there, mine, "{device}");
            assert_eq!(values(&lazy(there)), [2.0; 100], "{device}");
        });
    });
}

#[test]
fn each_thread_has_default_streams_that_all_may_evaluate_on() {
    on_each_device(|device| {
        let here = mlx::default_stream(device).unwrap();
        assert_eq!(here, mlx::default_stream(device).unwrap());
        let made = mlx::new_stream(device).unwrap();
        mlx::set_default_stream(made);
        assert_eq!(mlx::default_stream(device).unwrap(), made);
        let sum = lazy(here);
        let (there, left) = elsewhere(|| {
            let there = mlx::default_stream(device).unwrap();
            assert!(there != here && there != made, "{device}");
            assert_eq!(values(&sum), [2.0; 100], "{device}");
            (there, lazy(there))
        });
        assert!(!mlx::stream::streams().contains(&there), "it ended with its thread");
        // What its thread left undone runs here, also when another stream has its index.
        let again = elsewhere(|| mlx::default_stream(device).unwrap());
        assert_ne!(again, there);
        assert_eq!(values(&ops::add(&left, 1.0f32).unwrap()), [3.0; 100], "{device}");
        mlx::set_default_stream(here);
    });
}

#[test]
fn cleared_streams_are_gone_and_their_results_stay() {
    on_each_device(|device| {
        elsewhere(|| {
            let stream = mlx::new_stream(device).unwrap();
            let default = mlx::default_stream(device).unwrap();
            let (done, under_way) = (lazy(stream), lazy(default));
            done.eval().unwrap();
            mlx::async_eval(&[&under_way]).unwrap();
            let [lost, left] = [lazy(stream), lazy(default)];
            mlx::clear_streams();
            assert!(!mlx::stream::streams().contains(&stream), "{device}");
            for sum in [&done, &under_way] {
                assert_eq!(values(sum), [2.0; 100], "{device}");
            }
            expect_refused(lost.eval(), stream);
            assert_eq!(values(&left), [2.0; 100], "{device}");
            assert_ne!(mlx::default_stream(device).unwrap(), default, "{device}");
            // Their successors on the same clocks wait for what they wrote.
            for _ in 0..4 {
                let next = mlx::new_stream(device).unwrap();
                let sum = mlx::with_stream(next, || ops::add(&under_way, &done)).unwrap();
                assert_eq!(values(&sum), [4.0; 100], "{device}");
                mlx::clear_streams();
            }
        });
    });
}

/// A number of this process that the system keeps, such as its threads or its resident KiB.
fn status(key: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("tests run on Linux");
    let line = status.lines().find_map(|line| line.strip_prefix(key)).expect(key);
    let digits = line.trim_start_matches(':').split_whitespace().next();
    digits.and_then(|digits| digits.parse().ok()).expect(key)
}

fn come_and_go() {
    init();
    let results: Vec<Array> = (0..64).map(|_| array(&[0.0; 64], &[64], Dtype::Float32)).collect();
    let mut threads = 0;
    let mut resident = Vec::new();
    for k in 1..=35_000 {
        elsewhere(|| {
            let streams = DEVICES.map(|device| mlx::new_stream(device).unwrap());
            // More than 16 bits of them, on two devices; some work, some leave work behind.
            if k % 16 == 0 {
                for stream in streams {
                    let sum = mlx::with_stream(stream, || ops::add(&results[k / 16 % 64], 1.0f32))
                        .unwrap();
                    mlx::async_eval(&[&sum]).unwrap();
                    if k % 32 == 0 {
                        assert_eq!(values(&sum), [1.0; 64], "{stream}");
                    }
                }
            }
        });
        if k == 5_000 {
            threads = status("Threads");
        }
        if k % 5_000 == 0 {
            resident.push(status("VmRSS"));
        }
    }
    assert!(mlx::stream::streams().len() < 8, "{:?}", mlx::stream::streams());
    // A thread that serves streams of the CPU has a pool with one for each core; four may be busy at once.
    let served = 4 * thread::available_parallelism().unwrap().get();
    let now = status("Threads");
    assert!(now <= threads + served, "{threads} threads became {now}");
    // What threads do not give back makes all spans grow, half a KiB each by 2,500.
    let mut grown: Vec<usize> = resident.windows(2).map(|w| w[1].saturating_sub(w[0])).collect();
    grown.sort_unstable();
    let in_all = resident[resident.len() - 1].saturating_sub(resident[0]);
    let is_level = grown[grown.len() / 2] < 2400 && in_all <= 16 << 10;
    assert!(is_level, "KiB after each 5,000 threads: {resident:?}");
}

#[test]
fn streams_are_given_back_when_threads_end() {
    in_child("threads::streams_are_given_back_when_threads_end", &[], come_and_go);
}
