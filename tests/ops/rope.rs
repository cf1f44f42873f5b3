//! Rotary position embedding.

use mlx::{Array, Dtype, fast, ops};
use mlx_tests::{
    Approx, Layout, array, assert_approx, dtypes_of, filled, hashed, keeping, noise,
    on_each_device, sum_epsilon, values,
};
use serde_json::Value;

/// What a rotation is asked for.
#[derive(Clone)]
struct Rotation {
    dims: usize,
    traditional: bool,
    scale: f64,
    /// One for all batches, or one of each.
    offsets: Vec<f64>,
    /// Radians per position of each pair.
    frequencies: Vec<f64>,
}

/// The frequencies of a base.
fn powers(base: f64, dims: usize) -> Vec<f64> {
    (0..dims / 2).map(|i| base.powf(-2.0 * i as f64 / dims as f64)).collect()
}

impl Rotation {
    /// Rotates rows of (batch, …, positions, features).
    ///
    /// An angle is the product of three rounded numbers, of which a power has an error of a few
    /// units: the angle's own error grows with it, and moves the point along its circle.
    fn of(&self, x: &[f64], shape: &[usize], dtype: Dtype) -> Vec<Approx> {
        let (features, positions) = (shape[shape.len() - 1], shape[shape.len() - 2]);
        let per_batch: usize = shape[1..].iter().product();
        let mut out: Vec<Approx> = x.iter().map(|&x| Approx::exact(x)).collect();
        for (i, row) in out.chunks_mut(features).enumerate() {
            let offset = self.offsets[i * features / per_batch % self.offsets.len()];
            for (pair, frequency) in self.frequencies.iter().enumerate() {
                let angle = ((i % positions) as f64 + offset) * self.scale * frequency;
                let (p, q) = match self.traditional {
                    true => (2 * pair, 2 * pair + 1),
                    false => (pair, pair + self.dims / 2),
                };
                let (a, b) = (row[p].value, row[q].value);
                let error = sum_epsilon(dtype) * (8.0 * angle.abs() + 8.0) * a.hypot(b);
                row[p] = Approx { value: a * angle.cos() - b * angle.sin(), error };
                row[q] = Approx { value: a * angle.sin() + b * angle.cos(), error };
            }
        }
        out
    }
}

/// Checks a rotation by a base, and by the frequencies that the base stands for.
fn check(context: &str, x: &Array, base: f32, rotation: &Rotation, offset: &Array) {
    let &Rotation { dims, traditional, scale, .. } = rotation;
    let powers = powers(base.into(), dims);
    // Given frequencies are the inverse ones.
    let inverse: Vec<f64> = powers.iter().map(|p| 1.0 / p).collect();
    let freqs = array(&inverse, &[dims / 2], Dtype::Float32);
    let kept = values(&freqs).iter().map(|f| 1.0 / f).collect();
    for (base, freqs, frequencies) in [(Some(base), None, powers), (None, Some(&freqs), kept)] {
        let context =
            format!("{context}, dims {dims}, {traditional}, base {base:?}, {:?}", x.shape());
        let got = keeping(&context, &[x, offset], || {
            let got = fast::rope(x, dims, traditional, base, scale as f32, offset, freqs).unwrap();
            got.eval().expect(&context);
            got
        });
        assert_eq!((got.shape(), got.dtype()), (x.shape(), x.dtype()), "{context}");
        let want =
            Rotation { frequencies, ..rotation.clone() }.of(&values(x), x.shape(), x.dtype());
        assert_approx(&context, &got, &want);
    }
}

fn rotation(dims: usize, traditional: bool, scale: f64, offsets: &[f64]) -> Rotation {
    Rotation { dims, traditional, scale, offsets: offsets.to_vec(), frequencies: Vec::new() }
}

#[test]
fn every_kind_of_rotation_matches_float64() {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| d.is_floating()) {
            for shape in [&[2, 3, 5, 16][..], &[2, 1, 1, 64], &[3, 7, 6], &[1, 2, 33, 128]] {
                let x = filled(shape, dtype, noise(1, -1.0, 1.0));
                let width = shape[shape.len() - 1];
                for dims in [width, width / 4 * 2, 2] {
                    let one = |offset: f64| array(&[offset], &[], Dtype::Int32);
                    for (traditional, scale, offset) in [
                        (false, 1.0, 0.0),
                        (true, 1.0, 0.0),
                        (false, 0.5, 7.0),
                        (true, 0.25, 100.0),
                    ] {
                        let what = format!("{dtype} by {offset} on {device}");
                        let rotation = rotation(dims, traditional, scale, &[offset]);
                        check(&what, &x, 10_000.0, &rotation, &one(offset));
                    }
                    let each: Vec<f64> = (0..shape[0]).map(|b| 3.0 + 40.0 * b as f64).collect();
                    let offsets = array(&each, &[shape[0]], Dtype::Int32);
                    let what = format!("{dtype} by each on {device}");
                    check(&what, &x, 1e6, &rotation(dims, dims == 2, 1.0, &each), &offsets);
                }
            }
        }
    });
}

/// Far positions, as long contexts have them: an angle of many turns.
#[test]
fn far_positions() {
    on_each_device(|device| {
        for offset in [2047.0, 32_768.0, 131_071.0] {
            let x = filled(&[1, 2, 3, 64], Dtype::Float32, noise(2, -1.0, 1.0));
            let at = array(&[offset], &[], Dtype::Int64);
            check(
                &format!("{offset} on {device}"),
                &x,
                1e6,
                &rotation(64, false, 1.0, &[offset]),
                &at,
            );
        }
        let scale = f64::from(0.1f32);
        let x = filled(&[1, 2, 9, 32], Dtype::Float32, noise(4, -1.0, 1.0));
        let at = array(&[1e6], &[], Dtype::Int32);
        let what = format!("scaled on {device}");
        check(&what, &x, 1e4, &rotation(32, false, scale, &[1e6]), &at);
        // Enough rows for several workgroups and cores.
        let x = filled(&[2, 8, 70, 64], Dtype::Float32, noise(5, -1.0, 1.0));
        let at = array(&[7.0, 1e5], &[2], Dtype::Int32);
        check(
            &format!("many rows on {device}"),
            &x,
            1e4,
            &rotation(64, true, 1.0, &[7.0, 1e5]),
            &at,
        );
    });
}

/// Periods of any size, also those that never end.
#[test]
fn given_frequencies_of_any_size() {
    on_each_device(|device| {
        let exponents = noise(9, -3.0, 3.0);
        let many = filled(&[10], Dtype::Float32, |i| 10f64.powf(exponents(i)));
        let endless = array(&[f64::INFINITY, 1.0], &[2], Dtype::Float32);
        for (freqs, offsets) in [(many, [3.0, 0.0, 1000.0]), (endless, [2.0; 3])] {
            let frequencies: Vec<f64> = values(&freqs).iter().map(|f| 1.0 / f).collect();
            let dims = 2 * frequencies.len();
            let x = filled(&[3, 4, 6, dims], Dtype::Float32, noise(5, -1.0, 1.0));
            let at = array(&offsets, &[3], Dtype::Int32);
            let got = fast::rope(&x, dims, false, None, 0.25, &at, Some(&freqs)).unwrap();
            let want = Rotation { frequencies, ..rotation(dims, false, 0.25, &offsets) };
            let want = want.of(&values(&x), x.shape(), Dtype::Float32);
            assert_approx(&format!("{dims} features on {device}"), &got, &want);
        }
    });
}

/// Heads and positions exchanged, as models hand queries over, and any other strides.
#[test]
fn every_layout_matches_float64() {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| d.is_floating()) {
            let offsets = array(&[5.0, 90.0], &[2], Dtype::Int32);
            for layout in Layout::VIEWS {
                let x = layout.view(&[2, 3, 4, 32], |s| filled(s, dtype, noise(3, -1.0, 1.0)));
                for (dims, traditional) in [(32, false), (32, true), (20, false), (20, true)] {
                    let rotation = rotation(dims, traditional, 1.0, &[5.0, 90.0]);
                    let what = format!("{layout:?} {dtype} on {device}");
                    check(&what, &x, 10_000.0, &rotation, &offsets);
                    let heads = ops::transpose(&x, &[0, 2, 1, 3]).unwrap();
                    check(&format!("heads of {what}"), &heads, 10_000.0, &rotation, &offsets);
                }
            }
        }
    });
}

/// A result that may take the memory of its input is the same.
#[test]
fn rotated_in_place() {
    on_each_device(|device| {
        for (dtype, dims) in [(Dtype::Float32, 32), (Dtype::Bfloat16, 32), (Dtype::Float16, 12)] {
            for traditional in [false, true] {
                let a = filled(&[1, 4, 6, 32], dtype, noise(4, -1.0, 1.0));
                let doubled = ops::add(&a, &a).unwrap();
                let x = values(&doubled);
                let doubled = ops::add(&a, &a).unwrap();
                let got = fast::rope(&doubled, dims, traditional, Some(1e4), 1.0, 3, None).unwrap();
                drop(doubled);
                let frequencies = powers(1e4, dims);
                let want = Rotation { frequencies, ..rotation(dims, traditional, 1.0, &[3.0]) };
                let want = want.of(&x, &[1, 4, 6, 32], dtype);
                assert_approx(&format!("{dtype} {dims} {traditional} on {device}"), &got, &want);
            }
        }
    });
}

#[test]
fn kept_results_of_upstream() {
    let kept = include_str!("data/kept.json");
    let kept: Value = serde_json::from_str(kept).unwrap();
    let numbers = |list: &Value| -> Vec<f64> {
        list.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
    };
    on_each_device(|device| {
        for case in kept["rope"].as_array().unwrap() {
            let dims = case["dims"].as_u64().unwrap() as usize;
            let x = array(&hashed(96, dims as u64), &[2, 2, 3, 8], Dtype::Float32);
            let offset = numbers(&case["offset"]);
            let shape: &[usize] = if offset.len() == 1 { &[] } else { &[2] };
            let offset = array(&offset, shape, Dtype::Int32);
            let freqs = array(&[1.0, 2.5, 7.0, 30.0][..dims / 2], &[dims / 2], Dtype::Float32);
            let base = (case["kind"] == "base").then_some(10_000.0);
            let freqs = base.is_none().then_some(&freqs);
            let traditional = case["traditional"].as_bool().unwrap();
            let got = fast::rope(&x, dims, traditional, base, 0.5, &offset, freqs).unwrap();
            // Upstream's float32 angles of up to a hundred radians are as far off as ours may be.
            let error = 100.0 * sum_epsilon(Dtype::Float32);
            let near = |&value: &f64| Approx { value, error };
            let want: Vec<Approx> = numbers(&case["out"]).iter().map(near).collect();
            let what =
                format!("{dims} {traditional} {} {} on {device}", case["kind"], case["offset"]);
            assert_approx(&what, &got, &want);
        }
    });
}

#[test]
fn wrong_arguments_are_refused() {
    on_each_device(|_| {
        let x = filled(&[2, 3, 8], Dtype::Float32, |_| 1.0);
        let freqs = filled(&[4], Dtype::Float32, |_| 1.0);
        let rope = |dims, base, freqs| fast::rope(&x, dims, false, base, 1.0, 0, freqs);
        assert!(rope(8, Some(1e4), None).is_ok());
        assert!(rope(7, Some(1e4), None).is_err() && rope(10, Some(1e4), None).is_err());
        let refused = |base, freqs| rope(8, base, freqs).map(drop).unwrap_err().to_string();
        assert_eq!(refused(None, None), "[rope] Neither base nor freqs has a value.");
        let both = refused(Some(1e4), Some(&freqs));
        assert_eq!(both, "[rope] Only one of base or freqs can have a value.");
        assert!(rope(6, None, Some(&freqs)).is_err(), "four frequencies for three pairs");
        let offsets = array(&[1.0; 3], &[3], Dtype::Int32);
        assert!(fast::rope(&x, 8, false, Some(1e4), 1.0, &offsets, None).is_err());
    });
}
