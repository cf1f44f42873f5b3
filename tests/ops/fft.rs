//! Fourier transforms against their definition in float64.

use std::f64::consts::TAU;

use mlx::{
    Array, Complex, Dtype,
    fft::{self, Norm},
    ops,
};
use mlx_tests::{
    Layout, array, complex_noise, complex_parts, epsilon, filled, indices, keeping, noise,
    on_each_device, ravel, values,
};

/// Real and imaginary part.
type Pair = [f64; 2];

fn times([a, b]: Pair, [c, d]: Pair) -> Pair {
    [a * c - b * d, a * d + b * c]
}

/// The transform of one axis of a row-major array, by definition; the inverse is divided by its
/// size.
fn along(x: &[Pair], shape: &[usize], axis: usize, inverse: bool) -> Vec<Pair> {
    let n = shape[axis];
    let sign = if inverse { 1.0 } else { -1.0 };
    let roots: Vec<Pair> = (0..n)
        .map(|i| {
            let (sin, cos) = (TAU * i as f64 / n as f64).sin_cos();
            [cos, sign * sin]
        })
        .collect();
    let scale = if inverse { 1.0 / n as f64 } else { 1.0 };
    let one = |mut index: Vec<usize>| {
        let k = index[axis];
        let terms = (0..n).map(|j| {
            index[axis] = j;
            times(x[ravel(&index, shape)], roots[j * k % n])
        });
        let sum = terms.fold([0.0, 0.0], |s, t| [s[0] + t[0], s[1] + t[1]]);
        sum.map(|part| part * scale)
    };
    indices(shape).map(one).collect()
}

/// Elements as pairs; the imaginary parts of real arrays are zero.
fn pairs(a: &Array) -> Vec<Pair> {
    match a.dtype() {
        Dtype::Complex64 => complex_parts(a),
        _ => values(a).iter().map(|&x| [x, 0.0]).collect(),
    }
}

/// Checks coefficients: the rounding errors of a fast transform grow with the logarithm of its
/// length, relative to the norm of all elements (Higham, Accuracy and Stability, 24.1).
fn assert_near(what: &str, got: &Array, want: &[Pair], n: usize) {
    let got = pairs(got);
    assert_eq!(got.len(), want.len(), "{what}: number of elements");
    // By Parseval's theorem, the root of the mean square times √n is the other side's norm.
    let norm = want.iter().flatten().map(|x| x * x).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
    let per_element = norm / (want.len() as f64).sqrt();
    let error = (8.0 + 6.0 * (n as f64).log2()) * epsilon(Dtype::Float32) * per_element * 2.0;
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let off = (g[0] - w[0]).hypot(g[1] - w[1]);
        assert!(
            off <= error,
            "{what}: element {i} is {g:?}, not {w:?}: off by {off:e} > {error:e}"
        );
    }
}

/// Lengths of every radix, their products, primes, and lengths over one pass.
const LENGTHS: [usize; 17] = [1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 32, 60, 143, 210, 256, 391];

#[test]
fn every_length_there_and_back() {
    on_each_device(|device| {
        for n in LENGTHS {
            let a = complex_noise(&[3, n], n as u64);
            let what = format!("{n} on {device}");
            let got = keeping(&what, &[&a], || fft::fft(&a, None, -1, Norm::Backward).unwrap());
            assert_eq!((got.shape(), got.dtype()), (&[3, n][..], Dtype::Complex64), "{what}");
            assert_near(&what, &got, &along(&pairs(&a), &[3, n], 1, false), n);
            let got = fft::ifft(&a, None, -1, Norm::Backward).unwrap();
            assert_near(&format!("inverse {what}"), &got, &along(&pairs(&a), &[3, n], 1, true), n);

            let x = filled(&[2, n], Dtype::Float32, noise(n as u64, -1.0, 1.0));
            let got = fft::rfft(&x, None, -1, Norm::Backward).unwrap();
            let whole = along(&pairs(&x), &[2, n], 1, false);
            let half = |row: &[Pair]| row[..n / 2 + 1].to_vec();
            let want: Vec<Pair> = whole.chunks(n).flat_map(half).collect();
            assert_eq!(got.shape(), [2, n / 2 + 1], "{what}");
            assert_near(&format!("real {what}"), &got, &want, n);
            let back = fft::irfft(&got, Some(n), -1, Norm::Backward).unwrap();
            assert_eq!((back.shape(), back.dtype()), (&[2, n][..], Dtype::Float32), "{what}");
            assert_near(&format!("back {what}"), &back, &pairs(&x), n);
        }
    });
}

/// Lengths that need several passes, or a convolution of them.
#[test]
fn long_lengths() {
    on_each_device(|device| {
        for n in [1536, 2048, 5005, 3001] {
            let a = complex_noise(&[1, n], n as u64);
            let got = fft::fft(&a, None, 1, Norm::Backward).unwrap();
            assert_near(
                &format!("{n} on {device}"),
                &got,
                &along(&pairs(&a), &[1, n], 1, false),
                n,
            );
            let x = filled(&[n], Dtype::Float32, noise(n as u64, -1.0, 1.0));
            let half = fft::rfft(&x, None, 0, Norm::Backward).unwrap();
            let back = fft::irfft(&half, Some(n), 0, Norm::Backward).unwrap();
            assert_near(&format!("{n} and back on {device}"), &back, &pairs(&x), n);
        }
        // Two impulses in two million elements: each coefficient is a sum of two roots.
        let n = 1 << 21;
        let mut x = vec![Complex::new(0.0, 0.0); n];
        let places = [3, 1_234_567];
        places.iter().for_each(|&i| x[i] = Complex::new(1.0, 0.0));
        let a = Array::from_slice(&x, &[n]).unwrap();
        let got = fft::fft(&a, None, 0, Norm::Backward).unwrap();
        let root = |turns: usize| {
            let (sin, cos) = (TAU * (turns % n) as f64 / n as f64).sin_cos();
            [cos, -sin]
        };
        let want: Vec<Pair> = (0..n)
            .map(|k| {
                let [a, b] = places.map(|j| root(j * k));
                [a[0] + b[0], a[1] + b[1]]
            })
            .collect();
        assert_near(&format!("two impulses on {device}"), &got, &want, n);
    });
}

#[test]
fn several_axes_of_every_layout() {
    on_each_device(|device| {
        for layout in Layout::VIEWS {
            let shape = [4, 6, 5];
            let a = layout.view(&shape, |s| complex_noise(s, 3));
            let x = layout.view(&shape, |s| filled(s, Dtype::Float32, noise(4, -1.0, 1.0)));
            let what = format!("{layout:?} on {device}");
            for axes in [&[0][..], &[1], &[-1], &[0, 2], &[2, 0], &[-2, -1], &[0, 1, 2]] {
                let places: Vec<usize> =
                    axes.iter().map(|&x: &isize| x.rem_euclid(3) as usize).collect();
                let n = places.iter().map(|&p| shape[p]).product();
                let mut want = pairs(&a);
                for inverse in [false, true] {
                    want = places.iter().fold(pairs(&a), |x, &p| along(&x, &shape, p, inverse));
                    let transform = if inverse { fft::ifftn } else { fft::fftn };
                    let got = keeping(&what, &[&a], || {
                        let got = transform(&a, None, Some(axes), Norm::Backward).unwrap();
                        got.eval().expect(&what);
                        got
                    });
                    assert_near(&format!("{axes:?} {inverse} {what}"), &got, &want, n);
                }
                drop(want);
                let got = fft::rfftn(&x, None, Some(axes), Norm::Backward).unwrap();
                let whole = places.iter().fold(pairs(&x), |x, &p| along(&x, &shape, p, false));
                let last = places[places.len() - 1];
                let mut kept = shape.to_vec();
                kept[last] = shape[last] / 2 + 1;
                let want: Vec<Pair> = indices(&kept).map(|i| whole[ravel(&i, &shape)]).collect();
                assert_eq!(got.shape(), kept, "{axes:?} {what}");
                assert_near(&format!("real {axes:?} {what}"), &got, &want, n);
                let sizes: Vec<usize> = places.iter().map(|&p| shape[p]).collect();
                let back = fft::irfftn(&got, Some(&sizes), Some(axes), Norm::Backward).unwrap();
                assert_near(&format!("back {axes:?} {what}"), &back, &pairs(&x), n);
            }
        }
    });
}

#[test]
fn sizes_norms_and_defaults() {
    on_each_device(|device| {
        let a = complex_noise(&[3, 6], 1);
        let what = format!("on {device}");
        for n in [4, 6, 9] {
            let got = fft::fft(&a, Some(n), 1, Norm::Backward).unwrap();
            let x = pairs(&a);
            let resized: Vec<Pair> = (0..3 * n)
                .map(|i| if i % n < 6 { x[i / n * 6 + i % n] } else { [0.0, 0.0] })
                .collect();
            assert_near(&format!("{n} {what}"), &got, &along(&resized, &[3, n], 1, false), n);
        }
        let scaled = |x: &[Pair], f: f64| x.iter().map(|z| z.map(|p| p * f)).collect::<Vec<_>>();
        let forward = along(&pairs(&a), &[3, 6], 1, false);
        let inverse = along(&pairs(&a), &[3, 6], 1, true);
        for (norm, f, g) in
            [(Norm::Ortho, 6f64.sqrt().recip(), 6f64.sqrt()), (Norm::Forward, 1.0 / 6.0, 6.0)]
        {
            let got = fft::fft(&a, None, -1, norm).unwrap();
            assert_near(&format!("{norm:?} {what}"), &got, &scaled(&forward, f), 6);
            let got = fft::ifft(&a, None, -1, norm).unwrap();
            assert_near(&format!("inverse {norm:?} {what}"), &got, &scaled(&inverse, g), 6);
        }
        let all = fft::fftn(&a, None, None, Norm::Backward).unwrap();
        let two = fft::fft2(&a, None, None, Norm::Backward).unwrap();
        assert_eq!(complex_parts(&all), complex_parts(&two), "{what}");
        // Without a size, the last axis has an even one.
        assert_eq!(fft::irfft2(&a, None, None, Norm::Backward).unwrap().shape(), [3, 10]);
        let whole = array(&[1.0, 2.0, 3.0, 4.0], &[4], Dtype::Int32);
        let got = fft::rfft(&whole, None, -1, Norm::Backward).unwrap();
        assert_near(&what, &got, &[[10.0, 0.0], [-2.0, 2.0], [-2.0, 0.0]], 4);
        let none = fft::fft(&complex_noise(&[0, 4], 1), None, -1, Norm::Backward).unwrap();
        assert_eq!(none.shape(), [0, 4]);
        assert!(fft::fft(&a, None, 2, Norm::Backward).is_err());
        assert!(fft::fft(&a, Some(0), 0, Norm::Backward).is_err());
        assert!(fft::fftn(&a, None, Some(&[0, -2]), Norm::Backward).is_err());
        assert!(fft::fftn(&a, Some(&[2]), None, Norm::Backward).is_err());
        assert!(fft::fft(&array(&[1.0], &[], Dtype::Float32), None, 0, Norm::Backward).is_err());
        assert!("middle".parse::<Norm>().is_err() && "ortho".parse::<Norm>().is_ok());
    });
}

#[test]
fn frequencies_and_shifts() {
    on_each_device(|device| {
        let freq = |n| values(&fft::fftfreq(n, 1.0 / n as f64).unwrap());
        assert_eq!(freq(4), [0.0, 1.0, -2.0, -1.0], "{device}");
        assert_eq!(freq(5), [0.0, 1.0, 2.0, -2.0, -1.0], "{device}");
        assert_eq!(values(&fft::rfftfreq(5, 0.2).unwrap()), [0.0, 1.0, 2.0], "{device}");
        assert!(fft::fftfreq(0, 1.0).is_err() && fft::rfftfreq(3, 0.0).is_err());
        for n in [4, 5] {
            let a = ops::arange(0.0, n as f64, 1.0, Dtype::Float32).unwrap();
            let shifted = fft::fftshift(&a, None).unwrap();
            assert_eq!(values(&shifted)[n / 2], 0.0, "{n} on {device}");
            assert_eq!(values(&fft::ifftshift(&shifted, None).unwrap()), values(&a), "{device}");
        }
        let grid = filled(&[2, 3], Dtype::Float32, |i| i as f64);
        let got = fft::fftshift(&grid, Some(&[-1])).unwrap();
        assert_eq!(values(&got), [2.0, 0.0, 1.0, 5.0, 3.0, 4.0], "{device}");
        assert!(fft::fftshift(&grid, Some(&[2])).is_err());
    });
}

/// The frames' spectra by definition, and the way back.
#[test]
fn short_time_transforms() {
    on_each_device(|device| {
        let x = filled(&[2, 20], Dtype::Float32, noise(1, -1.0, 1.0));
        let window = array(&[0.5, 1.0, 0.75, 1.0, 0.25, 0.5], &[6], Dtype::Float32);
        let frames = fft::Frames {
            hop_length: Some(3),
            win_length: Some(6),
            window: Some(&window),
            ..fft::Frames::of(8)
        };
        let what = format!("on {device}");
        let got = fft::stft(&x, frames, fft::PadMode::Reflect).unwrap();
        assert_eq!(got.shape(), [2, 5, 7], "{what}");
        let (signal, w) = (values(&x), values(&window));
        let element = |b: usize, i: isize| {
            let i = i.rem_euclid(38);
            signal[b * 20 + i.min(38 - i) as usize]
        };
        let framed: Vec<Pair> = indices(&[2, 7, 8])
            .map(|i| {
                let factor = if (1..7).contains(&i[2]) { w[i[2] - 1] } else { 0.0 };
                [factor * element(i[0], (3 * i[1] + i[2]) as isize - 4), 0.0]
            })
            .collect();
        let whole = along(&framed, &[2, 7, 8], 2, false);
        let want: Vec<Pair> =
            indices(&[2, 5, 7]).map(|i| whole[ravel(&[i[0], i[2], i[1]], &[2, 7, 8])]).collect();
        assert_near(&what, &got, &want, 8);
        let back = fft::istft(&got, frames, Some(20)).unwrap();
        assert_eq!(back.shape(), [2, 20], "{what}");
        // Every element lies under some part of the window but the last ones.
        let inside = ops::slice_axis(&back, -1, 0, 18).unwrap();
        let want: Vec<Pair> = indices(&[2, 18]).map(|i| [signal[i[0] * 20 + i[1]], 0.0]).collect();
        assert_near(&format!("back {what}"), &inside, &want, 64);

        let plain = fft::Frames::of(8);
        for mode in [fft::PadMode::Reflect, fft::PadMode::Constant, fft::PadMode::Edge] {
            for norm in [Norm::Backward, Norm::Ortho, Norm::Forward] {
                for onesided in [true, false] {
                    let frames = fft::Frames { norm, onesided: Some(onesided), ..plain };
                    let spectrum = fft::stft(&x, frames, mode).unwrap();
                    let back = fft::istft(&spectrum, frames, None).unwrap();
                    let name = format!("{mode:?} {norm:?} {onesided} {what}");
                    assert_near(&name, &back, &pairs(&x), 64);
                }
            }
        }
        let loose = fft::Frames { center: false, hop_length: Some(3), ..plain };
        let spectrum = fft::stft(&x, loose, fft::PadMode::Reflect).unwrap();
        assert_eq!(spectrum.shape(), [2, 5, 5], "{what}");
        assert_eq!(fft::istft(&spectrum, loose, Some(23)).unwrap().shape(), [2, 23], "{what}");
        let z = complex_noise(&[20], 3);
        let spectrum = fft::stft(&z, plain, fft::PadMode::Edge).unwrap();
        assert_eq!(spectrum.shape(), [8, 11], "{what}");
        let short = fft::stft(&filled(&[2], Dtype::Float32, |_| 1.0), plain, fft::PadMode::Reflect);
        assert_eq!(short.unwrap().shape(), [5, 2], "{what}");
        // A given window has its own length.
        let unread = fft::Frames { win_length: Some(9), window: Some(&window), ..plain };
        assert!(fft::stft(&x, unread, fft::PadMode::Reflect).is_ok(), "{what}");
        let long = array(&[1.0; 9], &[9], Dtype::Float32);
        let refused = |frames| fft::stft(&x, frames, fft::PadMode::Reflect).is_err();
        assert!(refused(fft::Frames { window: Some(&long), ..plain }));
        assert!(refused(fft::Frames { win_length: Some(9), ..plain }));
        assert!(refused(fft::Frames { hop_length: Some(0), ..plain }));
        assert!(refused(fft::Frames::of(0)) && refused(fft::Frames::of(2)));
        assert!(refused(fft::Frames { center: false, ..fft::Frames::of(32) }));
        assert!(fft::istft(&z, plain, None).is_err(), "one axis");
    });
}
