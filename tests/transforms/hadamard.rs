//! Derivatives of Hadamard transforms of every order.

use mlx::{Array, Dtype, ops};
use mlx_tests::{filled, noise};

use crate::{derivatives::check_function, mapping};

#[test]
fn derivatives() {
    // The matrices of order 20 and 28 are not symmetric.
    for n in [1, 2, 16, 12, 48, 20, 40, 28, 112] {
        let input = filled(&[2, n], Dtype::Float64, noise(1, -1.0, 1.0));
        for scale in [None, Some(0.5)] {
            let fun = |x: &[Array]| Ok(vec![ops::hadamard_transform(&x[0], scale)?]);
            check_function(&format!("{n} {scale:?}"), std::slice::from_ref(&input), fun);
        }
    }
}

#[test]
fn mapped() {
    for n in [8, 20] {
        let inputs = |seed| vec![filled(&[2, n], Dtype::Float32, noise(seed, -1.0, 1.0))];
        mapping::check_function(&n.to_string(), inputs, |x| {
            Ok(vec![ops::hadamard_transform(&x[0], None)?])
        });
    }
}
