//! Derivatives of rotary embeddings, and rotary embeddings mapped over any input.

use mlx::{Array, Dtype, fast, ops, transforms::vjp};
use mlx_tests::{array, epsilon, filled, noise, on_each_device, values};

use crate::{derivatives::check_function, mapping};

const SHAPE: [usize; 4] = [2, 3, 4, 10];

/// Rotated features, whether neighbours are pairs, scale, and offsets with their shape.
type Case = (usize, bool, f32, &'static [f64], &'static [usize]);

const CASES: [Case; 4] = [
    (10, false, 1.0, &[0.0], &[]),
    (6, false, 0.5, &[7.0], &[]),
    (8, true, -2.0, &[3.0], &[1]),
    (4, true, 1.0, &[3.0, 50.0], &[2]),
];

fn x(dtype: Dtype, seed: u64) -> Array {
    filled(&SHAPE, dtype, noise(seed, -1.0, 1.0))
}

fn freqs(dims: usize, seed: u64) -> Array {
    filled(&[dims / 2], Dtype::Float32, noise(seed, 4.0, 16.0))
}

#[test]
fn derivatives() {
    for (dims, traditional, scale, offset, shape) in CASES {
        let context = format!("{dims} {traditional} {scale}");
        let offset = array(offset, shape, Dtype::Int32);
        check_function(&context, &[x(Dtype::Float64, 1)], |x| {
            Ok(vec![fast::rope(&x[0], dims, traditional, Some(100.0), scale, &offset, None)?])
        });
        check_function(&context, &[x(Dtype::Float64, 1), freqs(dims, 2)], |x| {
            // Far positions turn fast, which differences do not follow.
            let near = ops::minimum(&offset, 3)?;
            Ok(vec![fast::rope(&x[0], dims, traditional, None, scale, &near, Some(&x[1]))?])
        });
    }
}

#[test]
fn an_offset_has_no_derivative() {
    let fun = |offset: &[Array]| {
        Ok(vec![fast::rope(&x(Dtype::Float32, 1), 10, false, Some(100.0), 1.0, &offset[0], None)?])
    };
    on_each_device(|_| {
        let offset = array(&[3.0], &[], Dtype::Int32);
        let cotangent = x(Dtype::Float32, 2);
        let (_, got) = vjp(fun, std::slice::from_ref(&offset), &[cotangent]).unwrap();
        assert_eq!((got[0].spec(), values(&got[0])), (offset.spec(), vec![0.0]));
    });
}

#[test]
fn of_halves_undoes_the_rotation() {
    on_each_device(|_| {
        for dtype in [Dtype::Float16, Dtype::Bfloat16] {
            let input = x(dtype, 1);
            let rotated =
                |x: &[Array]| Ok(vec![fast::rope(&x[0], 8, false, Some(100.0), 1.0, 5, None)?]);
            let turned = rotated(std::slice::from_ref(&input)).unwrap();
            let (_, got) = vjp(rotated, std::slice::from_ref(&input), &turned).unwrap();
            let most = 4.0 * epsilon(dtype);
            let pairs = values(&got[0]).into_iter().zip(values(&input));
            assert!(pairs.into_iter().all(|(got, want)| (got - want).abs() <= most));
        }
    });
}

#[test]
fn mapped() {
    for (dims, traditional, scale, offset, shape) in CASES {
        let context = format!("{dims} {traditional} {scale}");
        let at = |i: u64, most: f64| {
            let moved: Vec<f64> =
                offset.iter().map(|&offset| offset.min(most) + 2.0 * i as f64).collect();
            array(&moved, shape, Dtype::Int32)
        };
        let inputs = |i| vec![x(Dtype::Float32, i), at(i, 100.0)];
        mapping::check_function(&context, inputs, |x| {
            Ok(vec![fast::rope(&x[0], dims, traditional, Some(100.0), scale, &x[1], None)?])
        });
        // The composition has the angles in float32, of which far ones have few digits.
        let inputs = |i| vec![x(Dtype::Float32, i), at(i, 3.0), freqs(dims, i)];
        mapping::check_function(&context, inputs, |x| {
            Ok(vec![fast::rope(&x[0], dims, traditional, None, scale, &x[1], Some(&x[2]))?])
        });
    }
}
