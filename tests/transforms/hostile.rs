//! Files of functions that are not what they say.

use std::collections::BTreeSet;

use mlx::{
    Array, Device, Dtype, Result,
    export::{Exporter, export_function, parse},
    io::{Arrays, FileBytes},
    ops,
    primitives::Primitive,
};
use mlx_tests::{array, cases, example_inputs};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use crate::{
    common::row,
    export::{file, named},
};

/// A file with most of what files have.
fn sample(shapeless: bool) -> Vec<u8> {
    let (_folder, path) = file();
    let constant = array(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[3, 2], Dtype::Float32);
    let fun = |args: &[Array], kwargs: &Arrays| {
        let product = ops::matmul(&args[0], &constant)?;
        let rows = ops::take(&product, &args[1], 0)?;
        let halves = ops::split(&rows, 2, 1)?;
        let scaled = ops::multiply(&halves[0], &kwargs["scale"])?;
        let both = ops::divmod(&scaled, &halves[1])?;
        Ok(vec![ops::softmax(&scaled, &[-1], true)?, both.0, both.1])
    };
    let x = array(&[0.5; 12], &[4, 3], Dtype::Float32);
    let indices = array(&[0.0, 2.0, 1.0], &[3], Dtype::Int32);
    let mut exporter = Exporter::new(&path, fun, shapeless).with_metadata("sample");
    exporter.export(&[x.clone(), indices], &named([("scale", &row(&[2.0]))])).unwrap();
    exporter.close().unwrap();
    std::fs::read(&path).unwrap()
}

/// Loads bytes and, if they are a file, reads what it holds and builds the graph of its function.
fn load_and_call(bytes: &[u8], args: &[Array], kwargs: &Arrays) -> Result<()> {
    let imported = parse(&FileBytes::from_bytes("sample", bytes)?)?;
    for constant in imported.constants() {
        assert_eq!(constant.to_bytes()?.len(), constant.nbytes());
    }
    imported.call(args, kwargs).map(drop)
}

/// The same for [`sample`] and its arguments.
fn load(bytes: &[u8]) -> Result<()> {
    let x = array(&[0.5; 12], &[4, 3], Dtype::Float32);
    let indices = array(&[0.0, 2.0, 1.0], &[3], Dtype::Int32);
    load_and_call(bytes, &[x, indices], &named([("scale", &row(&[2.0]))]))
}

#[test]
fn files_that_are_cut_off_are_refused_with_the_field() {
    mlx_tests::init();
    let load = |bytes: &[u8]| mlx::with_device(Device::CPU, || load(bytes)).unwrap();
    let bytes = mlx::with_device(Device::CPU, || sample(false)).unwrap();
    load(&bytes).unwrap();
    for length in 0..bytes.len() {
        let error = load(&bytes[..length]).unwrap_err().to_string();
        assert!(error.starts_with("[import_function] sample: "), "{error}");
    }
}

#[test]
fn errors_name_what_is_wrong() {
    mlx_tests::init();
    let bytes = mlx::with_device(Device::CPU, || sample(false)).unwrap();
    let with = |place: usize, new: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[place..place + new.len()].copy_from_slice(new);
        parse(&FileBytes::from_bytes("f", &bytes).unwrap()).unwrap_err().to_string()
    };
    let at = |text: &str| {
        let is_there = |window: &[u8]| window == text.as_bytes();
        bytes.windows(text.len()).position(is_there).unwrap()
    };
    let huge = u64::MAX.to_le_bytes();
    let refused = |what: &str| format!("[import_function] f: {what}");
    let no_room = format!("needs {} bytes, the file has {} more", u64::MAX, bytes.len() - 8);
    assert_eq!(with(0, &huge), refused(&format!("version: {no_room}")));
    assert_eq!(
        with(8, b"0.31.9"),
        refused("version: files of 0.31.9 are older than those of 0.32")
    );
    assert_eq!(with(8, b"newest"), refused("version: \"newest\" is no version"));
    assert_eq!(with(18, &[2]), refused("shapeless: 2 is no truth value"));
    let unknown = "name of a primitive: Unable to deserialize primitive Matmux";
    assert_eq!(with(at("Matmul"), b"Matmux"), refused(unknown));
    let softmax = at("Softmax") + "Softmax".len();
    assert_eq!(with(softmax, &[7]), refused("state of Softmax: 7 is no truth value"));
    let wrong = with(softmax + 1 + 8 + 8, &[9]);
    assert!(
        wrong.contains("outputs of Softmax: ([9, 1] float32) would be ([3, 1] float32)"),
        "{wrong}"
    );
    assert!(with(at("Matmul") - 8 - 12 - 8, &huge).contains("was not there before"));
}

/// Changes a byte in one of three ways.
fn change(bytes: &mut [u8], place: usize, byte: u8, how: u8) {
    bytes[place] = match how {
        0 => byte,
        1 => bytes[place] ^ (1 << (byte % 8)),
        _ if byte.is_multiple_of(2) => 0,
        _ => 0xff,
    };
}

/// The state of each primitive is read in a way of its own.
#[test]
fn changed_files_of_every_primitive_do_no_harm() {
    const CHANGED: usize = 150;
    mlx_tests::init();
    let mut random = SmallRng::seed_from_u64(17);
    let mut seen = BTreeSet::new();
    let mut examples = Primitive::examples();
    examples.retain(|example| seen.insert(example.primitive.name()));
    let none = Arrays::new();
    let try_all = || {
        for example in &examples {
            let (_folder, path) = file();
            let inputs = example_inputs(example, 1).unwrap();
            let fun = |x: &[Array], _: &Arrays| {
                Ok(mlx::graph::apply(example.primitive.clone(), x.into())?.into_vec())
            };
            if export_function(&path, fun, &inputs, &none, false).is_err() {
                continue;
            }
            let original = std::fs::read(&path).unwrap();
            load_and_call(&original, &inputs, &none).unwrap();
            for _ in 0..CHANGED {
                let mut bytes = original.clone();
                for _ in 0..random.random_range(1..4) {
                    let place = random.random_range(0..bytes.len());
                    change(&mut bytes, place, random.random(), random.random_range(0..3));
                }
                let _ = load_and_call(&bytes, &inputs, &none);
            }
        }
    };
    mlx::with_device(Device::CPU, try_all).unwrap();
}

proptest! {
    #![proptest_config(cases(600))]

    /// Bytes that are not what they were are refused, or are another function.
    #[test]
    fn changed_files_do_no_harm(
        shapeless: bool,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..3), 1..6),
        length in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        mlx_tests::init();
        let run = || {
            let mut bytes = sample(shapeless);
            for (place, byte, how) in &changes {
                let place = place.index(bytes.len());
                change(&mut bytes, place, *byte, *how);
            }
            if let Some(length) = length {
                bytes.truncate(length.index(bytes.len()));
            }
            let _ = load(&bytes);
        };
        mlx::with_device(Device::CPU, run).unwrap();
    }
}
