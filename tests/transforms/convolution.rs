//! Derivatives of convolutions with any parameters, and convolutions mapped over inputs and weights.

use mlx::{
    Array, Device, Dtype, Result,
    ops::{self, ConvOptions, ConvolveMode},
};
use mlx_tests::{
    Approx, assert_approx, filled, noise, on_each_device, sum_error, tf32_error, values,
};

use crate::{derivatives::check_function, mapping};

/// A convolution and the shapes of what it is applied to.
struct Case {
    options: ConvOptions<'static>,
    input: &'static [usize],
    weight: &'static [usize],
}

fn case(input: &'static [usize], weight: &'static [usize], options: ConvOptions<'static>) -> Case {
    Case { options, input, weight }
}

fn cases() -> Vec<Case> {
    let plain = ConvOptions::default;
    vec![
        case(&[2, 7, 3], &[4, 3, 3], plain()),
        case(&[2, 8, 3], &[4, 3, 3], ConvOptions { stride: &[3], ..plain() }),
        case(&[1, 6, 2], &[3, 3, 2], ConvOptions { padding: (&[2], &[0]), ..plain() }),
        case(&[1, 6, 2], &[3, 3, 2], ConvOptions { padding: (&[0], &[1]), flip: true, ..plain() }),
        // Windows that see padding alone.
        case(
            &[1, 4, 2],
            &[2, 2, 2],
            ConvOptions { padding: (&[3], &[5]), stride: &[2], ..plain() },
        ),
        // No window sees an element.
        case(
            &[1, 1, 2],
            &[3, 1, 2],
            ConvOptions { padding: (&[1], &[1]), stride: &[2], ..plain() },
        ),
        case(
            &[2, 9, 2],
            &[3, 3, 2],
            ConvOptions { kernel_dilation: &[3], stride: &[2], ..plain() },
        ),
        case(
            &[2, 4, 2],
            &[3, 3, 2],
            ConvOptions { input_dilation: &[3], stride: &[2], padding: (&[1], &[2]), ..plain() },
        ),
        // The last elements are in no window.
        case(&[1, 9, 1], &[1, 2, 1], ConvOptions { stride: &[4], input_dilation: &[2], ..plain() }),
        case(&[2, 6, 6], &[4, 3, 3], ConvOptions { groups: 2, flip: true, ..plain() }),
        case(&[2, 5, 3], &[3, 2, 1], ConvOptions { groups: 3, padding: (&[1], &[0]), ..plain() }),
        case(
            &[2, 5, 6, 4],
            &[6, 3, 2, 2],
            ConvOptions {
                groups: 2,
                stride: &[2, 1],
                padding: (&[1, 0], &[2, 1]),
                kernel_dilation: &[1, 2],
                input_dilation: &[2, 1],
                flip: true,
            },
        ),
        case(
            &[1, 3, 4, 3, 2],
            &[3, 2, 2, 2, 2],
            ConvOptions { stride: &[1, 2, 1], padding: (&[1, 0, 2], &[0, 1, 1]), ..plain() },
        ),
    ]
}

impl Case {
    fn inputs(&self, dtype: Dtype, seed: u64) -> Vec<Array> {
        let array = |shape: &[usize], seed| filled(shape, dtype, noise(seed, -1.0, 1.0));
        vec![array(self.input, 2 * seed + 1), array(self.weight, 2 * seed + 2)]
    }

    /// Compares both derivatives on a device with those in float64; the latter of absolute values bound what
    /// roundings may add up to.
    fn check_derivatives(&self, device: Device, dtype: Dtype) {
        let inputs = self.inputs(dtype, 3);
        let output = self.apply(&inputs).unwrap().swap_remove(0);
        let cotangent = filled(output.shape(), dtype, noise(9, -1.0, 1.0));
        let exact = |of: fn(&Array) -> Result<Array>| {
            let found = mlx::with_device(Device::CPU, || {
                let wide = |a: &Array| of(&ops::astype(a, Dtype::Float64)?);
                let inputs = inputs.iter().map(wide).collect::<Result<Vec<_>>>()?;
                let fun = |x: &[Array]| self.apply(x);
                let (_, found) = mlx::transforms::vjp(fun, &inputs, &[wide(&cotangent)?])?;
                mlx::eval(&found.iter().collect::<Vec<_>>())?;
                Ok::<_, mlx::Error>(found)
            });
            found.unwrap().unwrap()
        };
        let (want, most) = (exact(|a| Ok(a.clone())), exact(ops::abs));
        let fun = |x: &[Array]| self.apply(x);
        let (_, got) = mlx::transforms::vjp(fun, &inputs, &[cotangent]).unwrap();
        let weight = &inputs[1];
        let terms = [weight.size() / weight.dim(-1), output.size() / weight.dim(0)];
        for (i, got) in got.iter().enumerate() {
            let want = values(&want[i]).into_iter().zip(values(&most[i]));
            let rounded = |most| if dtype == Dtype::Float32 { tf32_error(most) } else { 0.0 };
            let error = |most| sum_error(terms[i], most, dtype) + rounded(most);
            let want: Vec<Approx> =
                want.map(|(value, most)| Approx { value, error: error(most) }).collect();
            let what = format!("{:?} {:?} {dtype} by {i} on {device}", self.options, self.input);
            assert_approx(&what, got, &want);
        }
    }

    fn apply(&self, inputs: &[Array]) -> Result<Vec<Array>> {
        Ok(vec![ops::conv_general(&inputs[0], &inputs[1], self.options)?])
    }
}

#[test]
fn derivatives() {
    for case in cases() {
        let inputs = case.inputs(Dtype::Float64, 0);
        check_function(&format!("{:?}", case.options), &inputs, |inputs| case.apply(inputs));
    }
}

/// Sizes that cooperative matrices take, on each device against float64.
#[test]
fn derivatives_of_many_windows() {
    let two = |stride: &'static [isize]| ConvOptions {
        stride,
        padding: (&[1, 1], &[1, 1]),
        ..ConvOptions::default()
    };
    let cases = [
        case(&[8, 16, 16, 64], &[72, 3, 3, 64], two(&[1, 1])),
        case(&[8, 17, 15, 40], &[64, 3, 3, 40], two(&[2, 1])),
        case(
            &[8, 16, 16, 32],
            &[128, 1, 1, 32],
            ConvOptions { stride: &[2], ..ConvOptions::default() },
        ),
        case(&[16, 16, 16, 3], &[64, 3, 3, 3], two(&[1, 1])),
        case(
            &[4, 12, 12, 48],
            &[24, 3, 2, 48],
            ConvOptions { kernel_dilation: &[2, 3], ..two(&[2, 2]) },
        ),
        case(
            &[8, 64, 24],
            &[40, 5, 24],
            ConvOptions { padding: (&[2], &[1]), ..ConvOptions::default() },
        ),
    ];
    on_each_device(|device| {
        for case in &cases {
            for dtype in [Dtype::Bfloat16, Dtype::Float16, Dtype::Float32] {
                case.check_derivatives(device, dtype);
            }
        }
    });
}

#[test]
fn mapped() {
    for case in cases() {
        let inputs = |index| case.inputs(Dtype::Float32, index);
        let context = format!("{:?}", case.options);
        mapping::check_function(&context, inputs, |inputs| case.apply(inputs));
    }
}

#[test]
fn of_empty_arrays() {
    on_each_device(|_| {
        let array = |shape: &[usize]| ops::ones(shape, Dtype::Float32).unwrap();
        let fun = |x: &[Array]| Ok(vec![ops::conv1d(&x[0], &x[1], [1], [0], [1], 1)?]);
        for (input, weight) in
            [([0, 4, 2], [3, 2, 2]), ([2, 4, 0], [3, 2, 0]), ([2, 4, 2], [0, 2, 2])]
        {
            let primals = [array(&input), array(&weight)];
            let cotangent = array(&[input[0], 3, weight[0]]);
            let (_, got) = mlx::transforms::vjp(fun, &primals, &[cotangent]).unwrap();
            for (derivative, primal) in got.iter().zip(&primals) {
                assert_eq!(derivative.spec(), primal.spec());
                assert!(values(derivative).iter().all(|&x| x == 0.0));
            }
        }
        let (input, weight) = (array(&[0, 1, 4, 2]), array(&[0, 3, 2, 2]));
        for axes in [[Some(0), None], [None, Some(0)], [Some(0), Some(0)]] {
            let pick = |a: &Array, axis: Option<isize>| match axis {
                Some(_) => a.clone(),
                None => array(&a.shape()[1..]),
            };
            let inputs = [pick(&input, axes[0]), pick(&weight, axes[1])];
            let got = mlx::transforms::vmap(fun, &inputs, &axes, |n| Ok(vec![Some(0); n])).unwrap();
            assert_eq!(got[0].shape(), [0, 1, 3, 3]);
        }
    });
}

#[test]
fn transposed_convolutions() {
    let array = |shape: &[usize], seed| filled(shape, Dtype::Float64, noise(seed, -1.0, 1.0));
    let inputs = [array(&[2, 4, 4], 1), array(&[6, 3, 2], 2)];
    check_function("conv_transpose1d", &inputs, |x| {
        Ok(vec![ops::conv_transpose1d(&x[0], &x[1], [2], [1], [2], [1], 2)?])
    });
    let inputs = [array(&[1, 3, 3, 2], 1), array(&[3, 2, 3, 2], 2)];
    check_function("conv_transpose2d", &inputs, |x| {
        Ok(vec![ops::conv_transpose2d(&x[0], &x[1], [2, 1], [0, 2], [1, 1], [1, 0], 1)?])
    });
    let inputs = [array(&[1, 2, 3, 2, 2], 1), array(&[2, 2, 1, 2, 2], 2)];
    check_function("conv_transpose3d", &inputs, |x| {
        let (stride, padding) = ([1, 2, 1], [0, 0, 1]);
        let ones = [1; 3];
        Ok(vec![ops::conv_transpose3d(&x[0], &x[1], stride, padding, ones, [0; 3], 1)?])
    });
}

#[test]
fn of_vectors() {
    let array = |shape: &[usize], seed| filled(shape, Dtype::Float64, noise(seed, -1.0, 1.0));
    for mode in [ConvolveMode::Full, ConvolveMode::Valid, ConvolveMode::Same] {
        let fun = |x: &[Array]| Ok(vec![ops::convolve(&x[0], &x[1], mode)?]);
        check_function(&format!("{mode:?}"), &[array(&[7], 1), array(&[4], 2)], fun);
        check_function(&format!("{mode:?}"), &[array(&[3], 1), array(&[8], 2)], fun);
    }
}

#[test]
fn derivatives_mapped_over_the_batch() {
    let array = |shape: &[usize], seed| filled(shape, Dtype::Float32, noise(seed, -1.0, 1.0));
    let inputs = |i| vec![array(&[1, 6, 2], 3 * i), array(&[4, 3, 2], 3 * i + 1)];
    mapping::check_function("vjp of conv1d", inputs, |x| {
        let fun = |x: &[Array]| Ok(vec![ops::conv1d(&x[0], &x[1], [2], [1], [1], 1)?]);
        let cotangent = ops::ones(&[1, 3, 4], Dtype::Float32)?;
        Ok(mlx::transforms::vjp(fun, x, &[cotangent])?.1)
    });
}
