//! Guards around device memory find what writes outside of its output, and nothing else.

use mlx::{
    Device, Dtype, Result, ops,
    vulkan::{check_guards, internals::provoke, stats},
};
use mlx_tests::{array, in_child, init, values};

const GUARD: (&str, &str) = ("MLX_VK_DEBUG_GUARD", "1");
const DISCRETE: (&str, &str) = ("MLX_VK_FORCE_DISCRETE", "1");

/// Lets a kernel write outside of its output and expects to be told exactly that.
fn find(bytes: u64, at: i64, want: &str) {
    let before = stats::snapshot();
    provoke::write_outside(bytes, at).unwrap();
    let error = check_guards().unwrap_err().to_string();
    for part in [want, "provoke", "move_bytes", "[guard]"] {
        assert!(error.contains(part), "{bytes} bytes, written at {at}: {error}");
    }
    assert_eq!(stats::snapshot().since(&before).guards_broken, 1, "{error}");
    check_guards().expect("each finding is told once");
}

fn find_all() {
    init();
    find(300, 300, "bytes 1 to 4 past the end of the 300 bytes");
    // Whole aligned words: a GPU may move others.
    find(301, 304, "bytes 4 to 7 past the end of the 301 bytes");
    find(300, -4, "bytes 1 to 4 before the 300 bytes");
    find(70_000, 71_000, "bytes 1001 to 1004 past the end of the 70000 bytes");
    find(3 << 20, -1024, "bytes 1021 to 1024 before the 3145728 bytes");
    // Who waits is told, too.
    provoke::write_outside(64, 64).unwrap();
    let stream = mlx::default_stream(Device::GPU).unwrap();
    let told = mlx::synchronize(stream).unwrap_err();
    assert!(told.to_string().contains("past the end of the 64 bytes"));
    // Memory in use is looked at, too, when nothing runs.
    let held = mlx::with_device(Device::GPU, || ops::ones(&[77], Dtype::Float32)).unwrap().unwrap();
    held.eval().unwrap();
    let checked = stats::snapshot().guards_checked;
    check_guards().unwrap();
    assert!(stats::snapshot().guards_checked > checked);
    drop(held);
    // Inside is fine.
    provoke::write_outside(300, 296).unwrap();
    check_guards().unwrap();
    mlx::shutdown();
}

#[test]
fn writes_outside_of_shared_memory_are_found() {
    in_child("guard::writes_outside_of_shared_memory_are_found", &[GUARD], find_all);
}

#[test]
fn writes_outside_of_device_memory_are_found() {
    let test = "guard::writes_outside_of_device_memory_are_found";
    in_child(test, &[GUARD, DISCRETE], find_all);
}

/// Odd sizes in every width of element, so that words and outputs do not end together.
fn ordinary() -> Result<()> {
    init();
    let before = stats::snapshot();
    mlx::with_device(Device::GPU, || {
        for dtype in [Dtype::Uint8, Dtype::Float16, Dtype::Bfloat16, Dtype::Float32, Dtype::Int64] {
            for n in [1usize, 3, 17, 255, 1023, 4099] {
                let a = array(&vec![1.0; n], &[n], dtype);
                let b = ops::add(&a, &a)?;
                let total = ops::sum(&ops::astype(&b, Dtype::Float32)?, &[], false)?;
                assert_eq!(values(&total), [2.0 * n as f64], "{dtype} {n}");
                ops::sort(&ops::concatenate(&[&b, &a], 0)?, 0)?.eval()?;
                ops::transpose(&ops::broadcast_to(&b, &[3, n])?, &[])?.eval()?;
                ops::contiguous(&ops::slice_axis(&b, 0, 0, n as isize)?, false)?.eval()?;
            }
        }
        let a = array(&[0.5; 37 * 53], &[37, 53], Dtype::Float32);
        ops::softmax(&ops::matmul(&a, &ops::transpose(&a, &[])?)?, &[-1], false)?.eval()
    })??;
    check_guards()?;
    let seen = stats::snapshot().since(&before);
    assert!(seen.guards_checked > 100, "{seen:?}");
    assert_eq!(seen.guards_broken, 0);
    Ok(())
}

#[test]
fn ordinary_graphs_are_clean() {
    let test = "guard::ordinary_graphs_are_clean";
    in_child(test, &[GUARD], || ordinary().unwrap());
    in_child(test, &[GUARD, DISCRETE], || ordinary().unwrap());
}

#[test]
fn without_the_switch_there_are_no_guards() {
    in_child(
        "guard::without_the_switch_there_are_no_guards",
        &[("MLX_VK_DEBUG_GUARD", "0")],
        || {
            init();
            assert!(provoke::write_outside(64, 64).is_err(), "nothing would take the blow");
            mlx::with_device(Device::GPU, || ops::ones(&[9], Dtype::Int8)?.eval())
                .unwrap()
                .unwrap();
            check_guards().unwrap();
            assert_eq!(stats::snapshot().guards_checked, 0);
        },
    );
}
