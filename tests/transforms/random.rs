//! Random numbers mapped over their keys.

use mlx::{Array, Dtype, ops, random};
use mlx_tests::on_each_device;

use crate::{common::gradient, mapping};

#[test]
fn mapped_keys() {
    let inputs = |seed| vec![random::key(seed).unwrap()];
    mapping::check_function("split", inputs, |x| {
        let (first, second) = random::split(&x[0])?;
        Ok(vec![first, second, random::split_n(&x[0], 3)?])
    });
    for width in [1, 2, 4] {
        // Odd numbers of bytes end within a word.
        let bits = |x: &[Array]| Ok(vec![random::bits(&[3, 3], width, Some(&x[0]))?]);
        mapping::check_function("bits", inputs, bits);
    }
    for dtype in [Dtype::Float32, Dtype::Float16, Dtype::Complex64] {
        mapping::check_function("normal", inputs, |x| {
            Ok(vec![random::normal(&[2, 3], dtype, 0.5, 2.0, Some(&x[0]))?])
        });
    }
    mapping::check_function("uniform", inputs, |x| {
        Ok(vec![random::uniform(0.0f32, 2.0f32, &[5], Dtype::Float32, Some(&x[0]))?])
    });
}

#[test]
fn bits_have_no_derivative() {
    on_each_device(|_| {
        let fun = |x: &Array| {
            let key = ops::astype(x, Dtype::Uint32)?;
            let noise = random::uniform(0.0f32, 1.0f32, &[2], Dtype::Float32, Some(&key))?;
            ops::add(x, &noise)
        };
        assert_eq!(gradient(&[1.0, 2.0], fun), [1.0, 1.0]);
    });
}
