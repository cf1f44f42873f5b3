//! Window functions, against their formulas in float64.

use std::f64::consts::PI;

use mlx::{Array, Dtype, Result, ops};
use mlx_tests::{Approx, assert_approx, epsilon, on_each_device};

#[test]
fn windows_follow_their_formulas() {
    type Window = (fn(usize) -> Result<Array>, fn(f64) -> f64);
    let windows: [Window; 4] = [
        (ops::bartlett, |t| 1.0 - (2.0 * t - 1.0).abs()),
        (ops::hanning, |t| 0.5 - 0.5 * (2.0 * PI * t).cos()),
        (ops::hamming, |t| 0.54 - 0.46 * (2.0 * PI * t).cos()),
        (ops::blackman, |t| 0.42 - 0.5 * (2.0 * PI * t).cos() + 0.08 * (4.0 * PI * t).cos()),
    ];
    on_each_device(|device| {
        for (i, (window, formula)) in windows.into_iter().enumerate() {
            for m in [0, 1, 2, 5, 64, 1001] {
                let got = window(m).unwrap();
                assert_eq!((got.shape(), got.dtype()), (&[m][..], Dtype::Float32));
                let want = (0..m).map(|n| {
                    let t = n as f64 / (m - 1).max(1) as f64;
                    let value = if m == 1 { 1.0 } else { formula(t) };
                    // Arguments of up to 2π are rounded twice; the rest adds a few roundings.
                    Approx { value, error: 32.0 * epsilon(Dtype::Float32) }
                });
                assert_approx(&format!("{i} of {m} on {device}"), &got, &want.collect::<Vec<_>>());
            }
        }
    });
}
