//! What is refused, when, and with which words.

use mlx::{Array, Device, Dtype, Error, Result, io, ops};
use mlx_tests::{array, init, on_each_device};

fn ones(shape: &[usize]) -> Array {
    ops::ones(shape, Dtype::Float32).unwrap()
}

/// Checks that making an array, before anything is evaluated, fails with all these words.
fn refused<T>(words: &[&str], make: impl Fn() -> Result<T>) {
    on_each_device(|device| {
        let Err(error) = make() else { panic!("not refused on {device}") };
        let text = error.to_string();
        words.iter().for_each(|word| assert!(text.contains(word), "{word:?} is not in {text:?}"));
    });
}

#[test]
fn shapes_that_do_not_broadcast() {
    let words = ["Shapes", "cannot be broadcast"];
    refused(&words, || ops::add(ones(&[2, 3]), ones(&[4])));
    refused(&words, || ops::broadcast_to(&ones(&[3]), &[2, 4]));
    refused(&words, || ops::where_(&ones(&[2]), ones(&[3]), ones(&[1])));
}

#[test]
fn inner_sizes_that_differ() {
    let words = ["[matmul]", "Last dimension of first input", "second to last dimension"];
    refused(&words, || ops::matmul(&ones(&[2, 3]), &ones(&[2, 3])));
    refused(&["[matmul]", "at least one dimension"], || ops::matmul(&ones(&[]), &ones(&[3])));
}

#[test]
fn axes_that_are_not_there() {
    for axis in [1, 3, -2] {
        refused(&["xis ", "for array with 1 dimensions"], || ops::sum(&ones(&[3]), &[axis], false));
    }
    refused(&["1 dimensions"], || ops::softmax(&ones(&[3]), &[2], false));
    refused(&["1 dimensions"], || ops::sort(&ones(&[3]), 2));
    refused(&["1 dimensions"], || ops::argmax(&ones(&[3]), Some(-2), false));
}

#[test]
fn axes_that_are_given_twice() {
    refused(&["uplicate"], || ops::sum(&ones(&[2, 2]), &[0, 0], false));
    refused(&["uplicate"], || ops::sum(&ones(&[2, 2]), &[0, -2], false));
    refused(&["uplicate"], || ops::expand_dims(&ones(&[2]), &[0, 0]));
    refused(&["Repeat axes not allowed"], || ops::transpose(&ones(&[2, 2]), &[0, 0]));
}

#[test]
fn a_transpose_names_every_axis() {
    refused(&["Received 1 axes for array with 2 dimensions"], || {
        ops::transpose(&ones(&[2, 2]), &[0])
    });
}

#[test]
fn reshapes_to_another_size() {
    for shape in [&[2, 2][..], &[2, -1], &[], &[0]] {
        refused(&["[reshape]", "Cannot reshape array of size 3"], || {
            ops::reshape(&ones(&[3]), shape)
        });
    }
    refused(&["can only infer one dimension"], || ops::reshape(&ones(&[4]), &[-1, -1]));
}

#[test]
fn an_axis_that_is_longer_than_one_stays() {
    refused(&["Cannot squeeze axis 0 with size 2"], || ops::squeeze(&ones(&[2, 2]), &[0]));
}

#[test]
fn arrays_that_cannot_be_joined() {
    let joined = |shapes: [&[usize]; 2]| {
        let [a, b] = shapes.map(ones);
        ops::concatenate(&[&a, &b], 0)
    };
    let words = ["match exactly except for the concatenation axis"];
    refused(&words, || joined([&[2, 3], &[2, 4]]));
    refused(&["same number of dimensions"], || joined([&[2, 3], &[2]]));
    refused(&["No arrays provided"], || ops::concatenate(&[], 0));
    refused(&["All arrays must have the same shape"], || {
        ops::stack(&[&ones(&[2]), &ones(&[3])], 0)
    });
}

#[test]
fn parts_of_unequal_size() {
    refused(&["equal size"], || ops::split(&ones(&[3]), 2, 0));
}

#[test]
fn an_item_of_more_than_one_element() {
    refused(&["arrays of size 1"], || ones(&[3]).item::<f32>());
    refused(&["arrays of size 1"], || ones(&[0]).item::<f32>());
}

#[test]
fn indices_that_are_no_integers() {
    let words = ["Got indices with invalid dtype", "must be integral"];
    refused(&words, || ops::take(&ones(&[3]), &ones(&[1]), 0));
}

#[test]
fn indices_out_of_bounds_are_not_checked() {
    on_each_device(|device| {
        let far = array(&[7.0, -9.0, 1e9], &[3], Dtype::Int32);
        let taken = ops::take(&ones(&[3]), &far, 0).unwrap();
        assert_eq!((taken.eval().is_ok(), taken.shape()), (true, &[3][..]), "{device}");
    });
}

#[test]
fn a_wrong_argument_is_an_error_of_the_call() {
    on_each_device(|device| {
        let error = ops::matmul(&ones(&[2, 3]), &ones(&[2, 3])).unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }), "{error:?} on {device}");
    });
}

#[test]
fn float64_is_refused_on_a_gpu_when_the_graph_is_built() {
    init();
    let wide = array(&[1.0, 2.0], &[2], Dtype::Float64);
    // Inputs and outputs, views as well.
    let made: [fn(&Array) -> Result<Array>; 6] = [
        |a| ops::add(a, a),
        ops::exp,
        |a| ops::astype(a, Dtype::Float32),
        |_| ops::astype(&ops::ones(&[2], Dtype::Float32)?, Dtype::Float64),
        |a| ops::reshape(a, &[2, 1]),
        |a| ops::sum(a, &[], false),
    ];
    for (k, make) in made.into_iter().enumerate() {
        let run = |device| mlx::with_device(device, || make(&wide)).unwrap();
        let error = run(Device::GPU).expect_err("a GPU has no float64");
        assert!(matches!(error, Error::Invalid { .. }), "{k}: {error:?}");
        assert!(error.to_string().ends_with("float64 is not supported on the GPU"), "{error}");
        run(Device::CPU).and_then(|a| a.eval()).expect("the CPU has float64");
    }
}

#[test]
fn a_file_that_is_cut_off_fails_who_reads_its_elements() {
    on_each_device(|device| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cut.npy");
        io::save(&path, &ones(&[4, 8])).unwrap();
        let length = std::fs::metadata(&path).unwrap().len();
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length - 100).unwrap();
        let cut = io::npy::load(&path).unwrap();
        assert_eq!((cut.shape(), cut.dtype()), (&[4, 8][..], Dtype::Float32));
        let producer = mlx::new_stream(device).unwrap();
        let flat = mlx::with_stream(producer, || ops::reshape(&cut, &[-1])).unwrap();
        let sum = ops::add(&flat, 1.0f32).unwrap();
        for failed in [&cut, &flat, &sum, &ops::transpose(&cut, &[]).unwrap()] {
            for _ in 0..2 {
                let error = failed.eval().unwrap_err().to_string();
                assert!(error.contains("cut.npy: data: shape and dtype need 128 bytes"), "{error}");
            }
        }
        // Nothing else is lost with it.
        assert_eq!(mlx_tests::values(&ops::add(ones(&[2]), 1.0f32).unwrap()), [2.0; 2]);
        let _ = mlx::synchronize(producer);
    });
}
