//! Ranges of numbers.

use mlx::{Dtype, ops};
use mlx_tests::{Approx, assert_approx, dtypes_of, on_each_device, sum_epsilon, values};

#[test]
fn ranges_step_from_start_to_before_stop() {
    // The last is empty.
    let ranges = [(0.0, 100.0, 1.0), (3.0, 90.0, 7.0), (100.0, 1.0, -9.0), (5.0, 5.0, 1.0)];
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|&d| d != Dtype::Bool) {
            for (start, stop, step) in ranges {
                let want: Vec<f64> = (0..200)
                    .map(|i| start + step * i as f64)
                    .take_while(|&x| if step > 0.0 { x < stop } else { x > stop })
                    .collect();
                let got = ops::arange(start, stop, step, dtype).unwrap();
                assert_eq!(got.dtype(), dtype);
                assert_eq!(values(&got), want, "{start}..{stop} by {step} {dtype} on {device}");
            }
        }
    });
}

/// A product and a sum, each rounded as halves' are in float32.
#[test]
fn fractions_are_rounded_twice_at_most() {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| d.is_floating()) {
            for (start, step, n) in [(-3.5, 0.375, 20), (1.0, -0.0625, 1025), (0.25, 1.5, 4099)] {
                let stop = start + step * n as f64;
                let got = ops::arange(start, stop, step, dtype).unwrap();
                let want: Vec<Approx> = (0..n)
                    .map(|i| {
                        let (way, unit) = (step * i as f64, sum_epsilon(dtype));
                        Approx { value: start + way, error: unit * (way.abs() + f64::abs(start)) }
                    })
                    .collect();
                assert_approx(&format!("{start} by {step} {dtype} on {device}"), &got, &want);
            }
        }
    });
}

#[test]
fn large_integers_are_exact() {
    on_each_device(|device| {
        let start = 2f64.powi(40);
        let got = ops::arange(start, start + 9.0, 3.0, Dtype::Int64).unwrap();
        assert_eq!(values(&got), [start, start + 3.0, start + 6.0], "{device}");
        let got = ops::arange(4_294_967_290.0, 4_294_967_296.0, 2.0, Dtype::Uint32).unwrap();
        let want = [4_294_967_290.0, 4_294_967_292.0, 4_294_967_294.0];
        assert_eq!(values(&got), want, "{device}");
    });
}

/// Three elementary operations in float32, then the conversion.
#[test]
fn linspace_includes_both_ends() {
    on_each_device(|device| {
        for (from, to, n) in [(0.0, 1.0, 11), (-5.0, 3.0, 2), (2.0, 2.0, 5), (7.0, 9.0, 1)] {
            let got = ops::linspace(from, to, n, true, Dtype::Float32).unwrap();
            let want: Vec<Approx> = (0..n)
                .map(|i| {
                    let t = i as f64 / (n.max(2) - 1) as f64;
                    let error = 4.0 * sum_epsilon(Dtype::Float32) * (f64::abs(from) + f64::abs(to));
                    Approx { value: from + t * (to - from), error }
                })
                .collect();
            assert_approx(&format!("{from} to {to} on {device}"), &got, &want);
            let ends = values(&got);
            assert_eq!(ends[0], from, "{device}");
            assert_eq!(ends[n - 1], if n == 1 { from } else { to }, "{device}");
        }
    });
}

#[test]
fn endless_ranges_are_refused() {
    on_each_device(|_| {
        for (start, stop, step) in
            [(0.0, f64::NAN, 1.0), (0.0, f64::INFINITY, 1.0), (0.0, 1.0, 0.0)]
        {
            assert!(ops::arange(start, stop, step, Dtype::Float32).is_err());
        }
        assert!(ops::arange(0.0, 2.0, 1.0, Dtype::Bool).is_err());
    });
}
