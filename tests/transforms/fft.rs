//! Derivatives of Fourier transforms of any axes, and what is made of them.

use mlx::{
    Array, Dtype, Result,
    fft::{self, Frames, Norm, PadMode},
    ops,
};
use mlx_tests::{complex_noise, filled, noise};

use crate::{derivatives::check_function, mapping};

type Transform = fn(&Array, Option<&[usize]>, Option<&[isize]>, Norm) -> Result<Array>;

/// Whether the input is real, and the transform.
const TRANSFORMS: [(bool, Transform); 4] =
    [(false, fft::fftn), (false, fft::ifftn), (true, fft::rfftn), (false, fft::irfftn)];

fn input(shape: &[usize], is_real: bool, seed: u64) -> Array {
    match is_real {
        true => filled(shape, Dtype::Float32, noise(seed, -1.0, 1.0)),
        false => complex_noise(shape, seed),
    }
}

#[test]
fn derivatives() {
    let axes: [&[isize]; 5] = [&[0], &[1], &[2], &[0, 2], &[2, 0, 1]];
    for (i, (is_real, transform)) in TRANSFORMS.into_iter().enumerate() {
        for axes in axes {
            for norm in [Norm::Backward, Norm::Ortho] {
                let fun = |x: &[Array]| Ok(vec![transform(&x[0], None, Some(axes), norm)?]);
                let inputs = [input(&[3, 4, 5], is_real, 1)];
                check_function(&format!("{i} {axes:?} {norm:?}"), &inputs, fun);
            }
        }
        // Odd, cut off and filled up.
        for sizes in [[7, 2], [2, 5], [1, 1]] {
            let fun = |x: &[Array]| {
                Ok(vec![transform(&x[0], Some(&sizes), Some(&[0, 1]), Norm::Forward)?])
            };
            check_function(&format!("{i} {sizes:?}"), &[input(&[4, 3], is_real, 2)], fun);
        }
    }
}

#[test]
fn mapped() {
    for (i, (is_real, transform)) in TRANSFORMS.into_iter().enumerate() {
        let fun = |x: &[Array]| Ok(vec![transform(&x[0], None, Some(&[2, 0]), Norm::Backward)?]);
        let inputs = |seed| vec![input(&[4, 2, 3], is_real, seed)];
        mapping::check_function(&i.to_string(), inputs, fun);
    }
}

fn frames(window: &Array) -> Frames<'_> {
    Frames { hop_length: Some(3), window: Some(window), ..Frames::of(8) }
}

#[test]
fn of_frames() {
    let window = filled(&[8], Dtype::Float32, noise(3, 0.5, 1.0));
    for mode in [PadMode::Reflect, PadMode::Constant, PadMode::Edge] {
        check_function(&format!("{mode:?}"), &[input(&[2, 20], true, 1)], |x| {
            Ok(vec![fft::stft(&x[0], frames(&window), mode)?])
        });
    }
    check_function("istft", &[input(&[5, 4], false, 1)], |x| {
        Ok(vec![fft::istft(&x[0], frames(&window), None)?])
    });
    check_function("power", &[input(&[20], true, 1), window.clone()], |x| {
        let spectrum = fft::stft(&x[0], frames(&x[1]), PadMode::Reflect)?;
        Ok(vec![ops::square(&ops::abs(&spectrum)?)?])
    });
}
