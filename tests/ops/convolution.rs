//! Convolutions against their definition in float64.

use mlx::{Array, Device, Dtype, ops};
use mlx_tests::{
    Approx, Host, Layout, array, assert_approx, dtypes_of, filled, indices, keeping, noise,
    on_each_device, sum_error, tf32_error, values,
};
use ops::{ConvOptions, ConvolveMode};

fn floats(device: Device) -> impl Iterator<Item = Dtype> {
    dtypes_of(device).filter(|d| d.is_floating())
}

/// Parameters per spatial axis.
#[derive(Debug, Clone)]
struct Case {
    /// Batch, spatial sizes, channels.
    input: Vec<usize>,
    /// Outputs, spatial sizes, channels of a group.
    weight: Vec<usize>,
    stride: Vec<isize>,
    low: Vec<isize>,
    high: Vec<isize>,
    kernel_dilation: Vec<isize>,
    input_dilation: Vec<isize>,
    groups: usize,
    flip: bool,
}

impl Case {
    /// Without padding, and everything next to each other.
    fn plain(input: &[usize], weight: &[usize]) -> Case {
        let axes = input.len() - 2;
        let ones = vec![1; axes];
        Case {
            input: input.into(),
            weight: weight.into(),
            stride: ones.clone(),
            low: vec![0; axes],
            high: vec![0; axes],
            kernel_dilation: ones.clone(),
            input_dilation: ones,
            groups: 1,
            flip: false,
        }
    }

    fn options(&self) -> ConvOptions<'_> {
        ConvOptions {
            stride: &self.stride,
            padding: (&self.low, &self.high),
            kernel_dilation: &self.kernel_dilation,
            input_dilation: &self.input_dilation,
            groups: self.groups,
            flip: self.flip,
        }
    }

    /// The element of the input under tap `tap` of window `place`, along one axis.
    fn under(&self, axis: usize, place: usize, tap: usize) -> Option<usize> {
        let at = place as isize * self.stride[axis] + tap as isize * self.kernel_dilation[axis]
            - self.low[axis];
        let spread = self.input_dilation[axis];
        let inside = at >= 0 && at % spread == 0 && at / spread < self.input[axis + 1] as isize;
        inside.then_some((at / spread) as usize)
    }

    /// An output as a sum of products.
    fn output(&self, x: &Host, w: &Host, index: &[usize], dtype: Dtype) -> Approx {
        let axes = self.stride.len();
        let (outputs, channels) = (self.weight[0] / self.groups, self.weight[axes + 1]);
        let output = index[axes + 1];
        let (mut value, mut magnitude, mut terms) = (0.0, 0.0, 0);
        for tap in indices(&self.weight[1..=axes]) {
            let from: Option<Vec<usize>> =
                (0..axes).map(|axis| self.under(axis, index[axis + 1], tap[axis])).collect();
            let Some(from) = from else { continue };
            let flipped = |axis: usize| match self.flip {
                true => self.weight[axis + 1] - 1 - tap[axis],
                false => tap[axis],
            };
            for c in 0..channels {
                let mut at = vec![index[0]];
                at.extend(&from);
                at.push(output / outputs * channels + c);
                let mut tap = vec![output];
                tap.extend((0..axes).map(flipped));
                tap.push(c);
                let term = x.at(&at) * w.at(&tap);
                (value, magnitude, terms) = (value + term, magnitude + term.abs(), terms + 1);
            }
        }
        Approx { value, error: sum_error(terms, magnitude, dtype) }
    }

    fn definition(&self, x: &Host, w: &Host, shape: &[usize], dtype: Dtype) -> Vec<Approx> {
        indices(shape).map(|index| self.output(x, w, &index, dtype)).collect()
    }

    fn check(&self, device: Device, dtype: Dtype, layout: Layout) {
        let what = format!("{self:?} {dtype} {layout:?} on {device}");
        let make = |shape: &[usize], seed| {
            layout.view(shape, |s| filled(s, dtype, noise(seed, -1.0, 1.0)))
        };
        let (input, weight) = (make(&self.input, 1), make(&self.weight, 2));
        let got = keeping(&what, &[&input, &weight], || {
            let got = ops::conv_general(&input, &weight, self.options()).expect(&what);
            got.eval().expect(&what);
            got
        });
        let (x, w) = (Host::of(&input), Host::of(&weight));
        let want = self.definition(&x, &w, got.shape(), dtype);
        assert_approx(&what, &got, &want);
    }
}

/// One to three axes, with every parameter, and widths on both sides of what kernels take at once.
fn cases() -> Vec<Case> {
    let strided = Case {
        stride: vec![2, 3],
        low: vec![1, 0],
        high: vec![2, 4],
        kernel_dilation: vec![2, 1],
        ..Case::plain(&[2, 9, 8, 3], &[5, 3, 2, 3])
    };
    let spread = Case {
        input_dilation: vec![3, 2],
        low: vec![2, 1],
        high: vec![0, 3],
        flip: true,
        ..Case::plain(&[1, 5, 4, 8], &[9, 2, 3, 8])
    };
    vec![
        Case::plain(&[2, 11, 4], &[8, 3, 4]),
        Case {
            low: vec![2],
            high: vec![1],
            stride: vec![2],
            ..Case::plain(&[1, 7, 3], &[2, 4, 3])
        },
        strided.clone(),
        Case { flip: true, ..strided },
        spread,
        Case::plain(&[2, 6, 5, 16], &[33, 1, 1, 16]),
        Case {
            groups: 4,
            low: vec![1, 1],
            high: vec![1, 1],
            ..Case::plain(&[1, 5, 6, 16], &[40, 3, 3, 4])
        },
        Case { groups: 2, ..Case::plain(&[2, 9, 6], &[4, 2, 3]) },
        // Channels that do not mix.
        Case {
            groups: 8,
            low: vec![1, 0],
            high: vec![1, 1],
            ..Case::plain(&[2, 6, 5, 8], &[8, 3, 2, 1])
        },
        Case {
            groups: 4,
            stride: vec![2],
            flip: true,
            low: vec![2],
            kernel_dilation: vec![2],
            input_dilation: vec![3],
            ..Case::plain(&[2, 7, 4], &[4, 3, 1])
        },
        Case { groups: 6, stride: vec![2], flip: true, ..Case::plain(&[1, 9, 6], &[6, 3, 1]) },
        Case { groups: 3, ..Case::plain(&[1, 9, 3], &[6, 3, 1]) },
        Case {
            stride: vec![1, 2, 1],
            low: vec![0, 1, 1],
            high: vec![1, 0, 1],
            input_dilation: vec![1, 1, 2],
            ..Case::plain(&[1, 4, 5, 3, 2], &[9, 2, 3, 2, 2])
        },
    ]
}

/// Sizes from which a device may make products of float32 on cooperative matrices of float16; the oracle is
/// the CPU in float64.
#[test]
fn large_convolutions_of_float32() {
    let sames = Case {
        low: vec![1, 1],
        high: vec![1, 1],
        ..Case::plain(&[4, 32, 32, 41], &[64, 3, 3, 41])
    };
    let strided = Case { stride: vec![2, 1], ..Case::plain(&[6, 40, 33, 64], &[40, 3, 5, 64]) };
    let pointwise = Case::plain(&[5, 40, 41, 130], &[72, 1, 1, 130]);
    on_each_device(|device| {
        for case in [&sames, &strided, &pointwise] {
            for layout in [Layout::Contiguous, Layout::Transposed] {
                let make = |shape: &[usize], seed| {
                    layout.view(shape, |s| filled(s, Dtype::Float32, noise(seed, -1.0, 1.0)))
                };
                let (input, weight) = (make(&case.input, 1), make(&case.weight, 2));
                let convolve = |x: &Array, w: &Array| ops::conv_general(x, w, case.options());
                let exact = |of: fn(&Array) -> mlx::Result<Array>| {
                    let wide = |a: &Array| of(&ops::astype(a, Dtype::Float64)?);
                    let result =
                        mlx::with_device(Device::CPU, || convolve(&wide(&input)?, &wide(&weight)?));
                    values(&result.unwrap().unwrap())
                };
                let terms = case.weight[1..].iter().product();
                let want = exact(|a| Ok(a.clone())).into_iter().zip(exact(ops::abs));
                let want = want.map(|(value, magnitude)| Approx {
                    value,
                    error: sum_error(terms, magnitude, Dtype::Float32) + tf32_error(magnitude),
                });
                let got = convolve(&input, &weight).unwrap();
                let what = format!("{case:?} {layout:?} on {device}");
                assert_approx(&what, &got, &want.collect::<Vec<_>>());
            }
        }
    });
}

#[test]
fn every_parameter_matches_the_definition() {
    on_each_device(|device| {
        for dtype in floats(device) {
            for case in cases() {
                case.check(device, dtype, Layout::Contiguous);
            }
        }
    });
}

#[test]
fn every_layout_and_more_windows_than_a_tile() {
    on_each_device(|device| {
        for layout in Layout::VIEWS {
            for case in cases() {
                case.check(device, Dtype::Float32, layout);
            }
        }
        let large = Case {
            low: vec![1, 1],
            high: vec![1, 1],
            ..Case::plain(&[1, 9, 10, 20], &[70, 3, 3, 20])
        };
        for dtype in floats(device) {
            large.check(device, dtype, Layout::Contiguous);
        }
    });
}

/// What cooperative matrices take: any stride, dilation and padding of one or two axes, channels in octets
/// and not, one output more than they begin with, and several tiles.
fn wide_cases() -> Vec<Case> {
    let same = |input: &[usize], weight: &[usize]| {
        let half: Vec<isize> =
            weight[1..weight.len() - 1].iter().map(|k| *k as isize / 2).collect();
        Case { low: half.clone(), high: half, ..Case::plain(input, weight) }
    };
    vec![
        same(&[2, 6, 7, 16], &[24, 3, 3, 16]),
        Case { stride: vec![2, 2], ..same(&[3, 7, 8, 8], &[17, 3, 3, 8]) },
        Case { stride: vec![2, 2], ..Case::plain(&[2, 7, 8, 16], &[20, 1, 1, 16]) },
        Case { flip: true, stride: vec![1, 2], ..same(&[2, 9, 6, 3], &[65, 3, 3, 3]) },
        Case {
            kernel_dilation: vec![3, 2],
            low: vec![4, 1],
            high: vec![2, 3],
            ..Case::plain(&[1, 8, 9, 12], &[70, 3, 2, 12])
        },
        Case {
            input_dilation: vec![2, 3],
            low: vec![1, 2],
            high: vec![2, 1],
            flip: true,
            ..Case::plain(&[2, 5, 4, 8], &[18, 3, 4, 8])
        },
        Case {
            input_dilation: vec![4, 2],
            stride: vec![2, 3],
            kernel_dilation: vec![2, 1],
            low: vec![3, 0],
            ..Case::plain(&[1, 6, 7, 24], &[32, 4, 2, 24])
        },
        Case { input_dilation: vec![2], ..Case::plain(&[2, 12, 16], &[19, 1, 16]) },
        Case { stride: vec![3], ..same(&[4, 40, 40], &[130, 5, 40]) },
    ]
}

#[test]
fn windows_for_cooperative_matrices() {
    on_each_device(|device| {
        for dtype in floats(device).filter(|dtype| dtype.size() == 2) {
            for case in wide_cases() {
                for layout in [Layout::Contiguous, Layout::Transposed, Layout::Sliced] {
                    case.check(device, dtype, layout);
                }
            }
        }
    });
}

/// As an image decoder's last one has them: so many that they go to cooperative matrices all the same.
#[test]
fn few_outputs_of_many_windows() {
    let colours =
        Case { low: vec![1, 1], high: vec![1, 1], ..Case::plain(&[2, 72, 64, 68], &[3, 3, 3, 68]) };
    let sound = Case::plain(&[1, 8000, 300], &[1, 7, 300]);
    on_each_device(|device| {
        for dtype in floats(device).filter(|dtype| dtype.size() == 2) {
            for case in [&colours, &sound] {
                case.check(device, dtype, Layout::Contiguous);
            }
        }
    });
}

/// Windows as rows of a matrix take more memory than is given to them at once.
#[test]
fn windows_in_several_parts() {
    on_each_device(|device| {
        for (dtype, channels) in [(Dtype::Float32, 96), (Dtype::Float16, 180)] {
            let case = Case {
                low: vec![1, 1],
                high: vec![1, 1],
                ..Case::plain(&[2, 74, 75, channels], &[9, 3, 3, channels])
            };
            let make = |shape: &[usize], seed| filled(shape, dtype, noise(seed, -1.0, 1.0));
            let (input, weight) = (make(&case.input, 1), make(&case.weight, 2));
            let got = ops::conv_general(&input, &weight, case.options()).unwrap();
            assert_eq!(got.shape(), [2, 74, 75, 9]);
            let (x, w, got) = (Host::of(&input), Host::of(&weight), Host::of(&got));
            for row in (0..2 * 74 * 75).step_by(61).chain([9727, 9728, 10_239, 10_240, 11_099]) {
                let index = [row / 75 / 74, row / 75 % 74, row % 75, row % 9];
                let (want, got) = (case.output(&x, &w, &index, dtype), got.at(&index));
                let off = (got - want.value).abs();
                assert!(
                    off <= want.error,
                    "{dtype} on {device}: {index:?} is {got}, not {}: off by {off:e}",
                    want.value
                );
            }
        }
    });
}

/// One tap without gaps: the input itself is the matrix, if it is dense.
#[test]
fn one_tap_is_a_product() {
    on_each_device(|device| {
        for dtype in floats(device) {
            for layout in [Layout::Contiguous, Layout::Sliced, Layout::Transposed] {
                Case::plain(&[2, 5, 7, 12], &[20, 1, 1, 12]).check(device, dtype, layout);
            }
        }
        let strided = Case { stride: vec![2, 1], ..Case::plain(&[2, 5, 7, 12], &[20, 1, 1, 12]) };
        strided.check(device, Dtype::Float32, Layout::Contiguous);
    });
}

#[test]
fn negative_padding_cuts_elements_off() {
    on_each_device(|device| {
        let input = filled(&[1, 9, 2], Dtype::Float32, noise(1, -1.0, 1.0));
        let weight = filled(&[3, 2, 2], Dtype::Float32, noise(2, -1.0, 1.0));
        let options = ConvOptions { padding: (&[-2], &[1]), ..ConvOptions::default() };
        let got = ops::conv_general(&input, &weight, options).unwrap();
        let rest = ops::slice_axis(&input, 1, 2, 9).unwrap();
        let options = ConvOptions { padding: (&[0], &[1]), ..ConvOptions::default() };
        let want = ops::conv_general(&rest, &weight, options).unwrap();
        assert_eq!((got.shape(), values(&got)), (want.shape(), values(&want)), "{device}");
    });
}

/// A transposed convolution is the transpose of the convolution as a matrix:
/// `<conv(x), y> = <x, transpose(y)>`; more elements at the end see no window.
#[test]
fn transposed_convolutions_are_transposes() {
    on_each_device(|device| {
        let make = |shape: &[usize], seed| filled(shape, Dtype::Float32, noise(seed, -1.0, 1.0));
        let dot = |a: &Array, b: &Array| -> f64 {
            assert_eq!(a.shape(), b.shape());
            values(a).iter().zip(values(b)).map(|(x, y)| x * y).sum()
        };
        // (stride, padding, dilation, output padding); the sizes fit the windows.
        for (stride, padding, dilation, extra) in
            [(1, 0, 1, 0), (2, 1, 1, 1), (3, 2, 2, 0), (2, 0, 2, 1)]
        {
            let x = make(&[2, 10, 4], 1);
            let weight = make(&[6, 3, 4], 2);
            let y = ops::conv1d(&x, &weight, [stride], [padding], [dilation], 1).unwrap();
            let back = ops::swapaxes(&weight, 0, 2).unwrap();
            let z = make(y.shape(), 3);
            let turned =
                ops::conv_transpose1d(&z, &back, [stride], [padding], [dilation], [extra], 1)
                    .unwrap();
            let size = turned.dim(1);
            let full = (y.dim(1) - 1) * stride + dilation * 2 + 1 + extra - 2 * padding as usize;
            assert_eq!(size, full, "{stride} {padding} {dilation} {extra}");
            let seen = ops::slice_axis(&x, 1, 0, size as isize).unwrap();
            let turned = ops::slice_axis(&turned, 1, 0, seen.dim(1) as isize).unwrap();
            let (left, right) = (dot(&y, &z), dot(&seen, &turned));
            assert!((left - right).abs() < 1e-4, "{stride} {padding} on {device}: {left} {right}");
        }
        let known = array(&[0.0, 1.0, 2.0, 3.0], &[1, 4, 1], Dtype::Float32);
        let ones = filled(&[1, 3, 1], Dtype::Float32, |_| 1.0);
        let got = ops::conv_transpose1d(&known, &ones, [2], [1], [1], [1], 1).unwrap();
        assert_eq!(values(&got), [0.0, 1.0, 1.0, 3.0, 2.0, 5.0, 3.0, 3.0], "{device}");
        let grid = make(&[1, 4, 5, 3], 4);
        let weight = make(&[2, 2, 3, 3], 5);
        let got = ops::conv_transpose2d(&grid, &weight, [2, 1], [0, 1], [1, 1], [1, 0], 1).unwrap();
        assert_eq!(got.shape(), [1, 9, 5, 2]);
        let cube = make(&[1, 2, 3, 2, 3], 6);
        let weight = make(&[2, 2, 2, 2, 3], 7);
        let got =
            ops::conv_transpose3d(&cube, &weight, [1, 2, 1], [0; 3], [1; 3], [0, 1, 0], 1).unwrap();
        assert_eq!(got.shape(), [1, 3, 7, 3, 2]);
    });
}

#[test]
fn vectors_convolve_in_every_mode() {
    on_each_device(|device| {
        let a = array(&[1.0, 2.0, 3.0, 4.0], &[4], Dtype::Float32);
        let v = array(&[1.0, -1.0, 2.0], &[3], Dtype::Float32);
        for (a, v) in [(&a, &v), (&v, &a)] {
            let got = |mode| values(&ops::convolve(a, v, mode).unwrap());
            assert_eq!(got(ConvolveMode::Full), [1.0, 1.0, 3.0, 5.0, 2.0, 8.0], "{device}");
            assert_eq!(got(ConvolveMode::Valid), [3.0, 5.0], "{device}");
            assert_eq!(got(ConvolveMode::Same), [1.0, 3.0, 5.0, 2.0], "{device}");
        }
        let even = array(&[1.0, 3.0], &[2], Dtype::Float32);
        let got = values(&ops::convolve(&a, &even, ConvolveMode::Same).unwrap());
        assert_eq!(got, [1.0, 5.0, 9.0, 13.0], "{device}");
    });
}

#[test]
fn wrong_and_empty_convolutions() {
    on_each_device(|device| {
        let ones = |shape: &[usize]| filled(shape, Dtype::Float32, |_| 1.0);
        let conv = |x: &[usize], w: &[usize], options: ConvOptions<'_>| {
            ops::conv_general(&ones(x), &ones(w), options)
        };
        let plain = ConvOptions::default();
        assert!(conv(&[1, 4], &[2, 2], plain).is_err(), "no channels");
        assert!(conv(&[1, 4, 2], &[2, 3, 3], plain).is_err(), "other channels");
        assert!(conv(&[1, 2, 2], &[2, 3, 2], plain).is_err(), "larger windows");
        assert!(conv(&[1, 4, 4], &[3, 3, 2], ConvOptions { groups: 2, ..plain }).is_err());
        assert!(conv(&[1, 4, 2], &[2, 3, 2], ConvOptions { stride: &[0], ..plain }).is_err());
        let groups = ConvOptions { groups: 2, ..plain };
        assert!(conv(&[1, 4, 4, 4, 2], &[2, 3, 3, 3, 1], groups).is_err(), "groups in 3D");
        let whole = array(&[1.0; 4], &[1, 2, 2], Dtype::Int32);
        assert!(ops::conv1d(&whole, &whole, [1], [0], [1], 1).is_err(), "integers");
        assert_eq!(conv(&[0, 4, 2], &[3, 3, 2], plain).unwrap().shape(), [0, 2, 3]);
        let padded = ConvOptions { padding: (&[2], &[2]), ..plain };
        let zeros = conv(&[1, 0, 2], &[2, 3, 2], padded).unwrap();
        assert_eq!((zeros.shape(), values(&zeros)), (&[1, 2, 2][..], vec![0.0; 4]), "{device}");
        let none = conv(&[1, 4, 0], &[2, 3, 0], plain).unwrap();
        assert_eq!(values(&none), [0.0; 4], "{device}");
    });
}
