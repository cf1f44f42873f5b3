//! What loading takes.

use std::path::Path;

use mlx::{Array, Dtype, io::npy, memory, ops};
use mlx_tests::{filled, in_child, noise, on_each_device};

use crate::counters;

/// The most bytes that were active while an array was loaded and what `then` makes of it evaluated.
fn peak(path: &Path, then: impl Fn(Array) -> Array) -> usize {
    // Memory that is kept for reuse may be larger than what is asked for.
    mlx::synchronize(mlx::current_stream().unwrap()).unwrap();
    memory::clear_cache();
    memory::reset_peak_memory();
    then(npy::load(path).unwrap()).eval().unwrap();
    mlx::synchronize(mlx::current_stream().unwrap()).unwrap();
    memory::peak_memory()
}

fn load_and_multiply() {
    let _counters = counters();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers.npy");
    let scale = filled(&[], Dtype::Float32, |_| 2.0);
    // So few bytes that the result is brought to the host at once, and more than are staged at a time.
    for count in [1 << 10, 5 << 20] {
        npy::save(&path, &filled(&[count], Dtype::Float32, noise(1, -1.0, 1.0))).unwrap();
        on_each_device(|device| {
            let alone = peak(&path, |a| a);
            let doubled = peak(&path, |a| ops::multiply(a, &scale).unwrap());
            assert_eq!(doubled, alone, "{count} elements on {device}");
        });
    }
}

/// The result takes the array's memory over, and the device's copy is none besides.
#[test]
fn a_product_of_a_loaded_array_takes_what_the_array_takes() {
    let test = "loaded::a_product_of_a_loaded_array_takes_what_the_array_takes";
    for discrete in ["0", "1"] {
        // Guards around a device's memory count as active memory; a file has none.
        let variables = [("MLX_VK_FORCE_DISCRETE", discrete), ("MLX_VK_DEBUG_GUARD", "0")];
        in_child(test, &variables, load_and_multiply);
    }
}
