//! An error belongs to the result that it kept from being computed, and to what is computed from that.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use mlx::{
    Array, Device, Dtype, Stream,
    buffer::{Buffer, HostMemory},
    linalg, ops,
    vulkan::internals::provoke,
};
use mlx_tests::{array, in_child, init, late, values};

/// Bytes that cannot be read but for their number.
struct Broken {
    number: usize,
    counted: AtomicBool,
}

impl HostMemory for Broken {
    fn bytes(&self) -> &[u8] {
        if self.counted.swap(true, Relaxed) {
            panic!("broken {}", self.number);
        }
        &[0; 16]
    }

    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        None
    }
}

fn broken(number: usize) -> Array {
    let buffer = Buffer::from_host(Broken { number, counted: AtomicBool::new(false) });
    Array::from_buffer(buffer, [4usize][..].into(), Dtype::Float32, 0).unwrap()
}

fn cpu() -> Stream {
    init();
    mlx::new_stream(Device::CPU).unwrap()
}

fn text(result: mlx::Result<()>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn each_result_keeps_its_error_however_many_there_were() {
    let stream = cpu();
    let (mut failing, mut fine) = (Vec::new(), Vec::new());
    for k in 0..100 {
        mlx::with_stream(stream, || {
            failing.push(ops::add(broken(k), 1.0f32).unwrap());
            fine.push(ops::add(array(&[k as f64], &[1], Dtype::Float32), 1.0f32).unwrap());
        });
        mlx::async_eval(&[&failing[k], &fine[k]]).unwrap();
    }
    for k in (0..100).rev() {
        let want = format!("broken {k}");
        // Whoever asks, and however often.
        for _ in 0..2 {
            let told = text(failing[k].eval());
            assert!(told.ends_with(&want), "{told} instead of {want}");
        }
        assert!(failing[k].to_vec::<f32>().is_err());
        assert_eq!(values(&fine[k]), [k as f64 + 1.0], "others are as they should be");
    }
    mlx::synchronize(stream).unwrap();
}

#[test]
fn what_is_computed_from_a_failed_result_fails_alike() {
    let cpu = cpu();
    let streams =
        [cpu, mlx::new_stream(Device::CPU).unwrap(), mlx::new_stream(Device::GPU).unwrap()];
    for evaluated in [false, true] {
        let bad = mlx::with_stream(cpu, || ops::add(broken(7), 1.0f32)).unwrap();
        let good = mlx::with_stream(cpu, || ops::ones(&[4], Dtype::Float32)).unwrap();
        if evaluated {
            assert!(bad.eval().is_err());
        }
        for stream in streams {
            // A second stream behind it as well, and a view.
            for next in streams {
                let on =
                    |stream, a: &Array| mlx::with_stream(stream, || ops::add(a, 1.0f32)).unwrap();
                let sum = on(next, &on(stream, &bad));
                let view = ops::reshape(&sum, &[2, 2]).unwrap();
                let fine = on(next, &on(stream, &good));
                mlx::async_eval(&[&sum, &view, &fine]).unwrap();
                for failed in [&sum, &view] {
                    let told = text(failed.eval());
                    assert!(told.ends_with("broken 7"), "{told} on {stream} and {next}");
                }
                assert_eq!(values(&fine), [3.0; 4]);
            }
        }
    }
}

#[test]
fn what_memory_is_used_for_later_does_not_concern_a_result() {
    let cpu = cpu();
    let gpu = mlx::new_stream(Device::GPU).unwrap();
    let (late, open) = late();
    let input = mlx::with_stream(cpu, || ops::add(late, 1.0f32)).unwrap();
    let result = mlx::with_stream(gpu, || ops::add(&input, 1.0f32)).unwrap();
    // Encoded while its input is under way.
    mlx::async_eval(&[&result]).unwrap();
    drop(open);
    result.eval().unwrap();
    // Nobody else needs the input: its memory may be the sum's.
    let sum = mlx::with_stream(cpu, || ops::add(&input, broken(3))).unwrap();
    drop(input);
    assert!(text(sum.eval()).ends_with("broken 3"));
    result.eval().unwrap();
    assert_eq!(values(&result), [2.0; 4]);
}

#[test]
fn synchronize_tells_what_nobody_was_told_of() {
    let stream = cpu();
    let singular = array(&[0.0; 4], &[2, 2], Dtype::Float32);
    let inverse = || mlx::with_stream(stream, || linalg::inv(&singular)).unwrap();
    let result = inverse();
    mlx::async_eval(&[&result]).unwrap();
    assert!(text(mlx::synchronize(stream)).contains("singular"));
    mlx::synchronize(stream).unwrap();
    assert!(text(result.eval()).contains("singular"), "the result keeps it");

    let result = inverse();
    assert!(result.eval().is_err());
    mlx::synchronize(stream).unwrap();
}

fn break_a_guard() {
    init();
    let gpu = mlx::default_stream(Device::GPU).unwrap();
    let add = |a: &Array| mlx::with_stream(gpu, || ops::add(a, 1.0f32)).unwrap();
    let zeros = || array(&[0.0; 100], &[100], Dtype::Float32);
    let before = add(&zeros());
    before.eval().unwrap();
    provoke::write_outside(64, 64).unwrap();
    let beside = add(&zeros());
    mlx::async_eval(&[&beside]).unwrap();
    let behind = add(&beside);
    mlx::async_eval(&[&behind]).unwrap();
    // Whoever asks, and however often; the CPU's results from them as well.
    let on_cpu = mlx::with_stream(cpu(), || ops::add(&beside, 1.0f32)).unwrap();
    for failed in [&behind, &beside, &on_cpu, &beside] {
        let told = text(failed.eval());
        assert!(told.contains("past the end of the 64 bytes that provoke allocated"), "{told}");
    }
    before.eval().unwrap();
    assert_eq!(values(&before), [1.0; 100], "what was there before is as it should be");
    assert_eq!(values(&add(&zeros())), [1.0; 100], "and so is what comes later");
    mlx::synchronize(gpu).unwrap();
    mlx::vulkan::check_guards().unwrap();
    // Of what nobody was told, who synchronizes is.
    provoke::write_outside(64, 64).unwrap();
    assert!(text(mlx::synchronize(gpu)).contains("past the end of the 64 bytes"));
}

#[test]
fn a_broken_guard_is_an_error_of_the_results_beside_it() {
    let test = "errors::a_broken_guard_is_an_error_of_the_results_beside_it";
    let guard = ("MLX_VK_DEBUG_GUARD", "1");
    in_child(test, &[guard], break_a_guard);
    in_child(test, &[guard, ("MLX_VK_FORCE_DISCRETE", "1")], break_a_guard);
}
