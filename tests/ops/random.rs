//! Random numbers: the same on both devices, and the same as upstream's.

use mlx::{Array, Dtype, bf16, f16, ops, random};
use mlx_tests::{
    Approx, array, assert_approx, epsilon, filled, integers, noise, on_each_device, random_bits,
    rounded, series_erf, sum_epsilon, values,
};
use serde_json::Value;

const FLOATS: [Dtype; 3] = [Dtype::Float32, Dtype::Float16, Dtype::Bfloat16];

/// Threefry-2x32 with 20 rounds (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3).
fn threefry(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let keys = [key[0], key[1], key[0] ^ key[1] ^ 0x1BD1_1BDA];
    let [mut x, mut y] = [counter[0].wrapping_add(keys[0]), counter[1].wrapping_add(keys[1])];
    for group in 0..5 {
        for r in ROTATIONS[group % 2] {
            x = x.wrapping_add(y);
            y = y.rotate_left(r) ^ x;
        }
        x = x.wrapping_add(keys[(group + 1) % 3]);
        y = y.wrapping_add(keys[(group + 2) % 3]).wrapping_add(group as u32 + 1);
    }
    [x, y]
}

/// MLX's order: counters `(i, i + half)` give the words `i` and `i + half`. With an odd number of
/// words the middle one is the first word of the counter `(half, 0)`.
fn words(key: [u32; 2], count: usize) -> Vec<u32> {
    let (half, odd) = (count / 2, count % 2);
    let mut out = vec![0; count];
    for i in 0..half {
        let second = half + odd + i;
        [out[i], out[second]] = threefry(key, [i as u32, second as u32]);
    }
    if odd == 1 {
        out[half] = threefry(key, [half as u32, 0])[0];
    }
    out
}

/// The first `count` numbers of `width` bytes.
fn numbers(key: [u32; 2], count: usize, width: usize) -> Vec<i128> {
    let words = words(key, (count * width).div_ceil(4));
    let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    let number = |b: &[u8]| b.iter().rev().fold(0, |x, &b| x << 8 | i128::from(b));
    bytes.chunks_exact(width).take(count).map(number).collect()
}

fn key_array(key: [u32; 2]) -> Array {
    Array::from_slice(&key, &[2]).unwrap()
}

const KEYS: [[u32; 2]; 3] = [[0, 7], [0xDEAD_BEEF, 0x1234_5678], [u32::MAX, u32::MAX]];

/// Bit for bit what MLX 0.32 makes.
#[test]
fn bits_are_upstreams() {
    let kept = include_str!("data/threefry.json");
    let kept: Value = serde_json::from_str(kept).unwrap();
    let list = |x: &Value| -> Vec<u64> {
        x.as_array().unwrap().iter().map(|x| x.as_u64().unwrap()).collect()
    };
    on_each_device(|device| {
        for case in kept["cases"].as_array().unwrap() {
            let key: Vec<u32> = list(&case["key"]).iter().map(|&x| x as u32).collect();
            let shape: Vec<usize> = list(&case["shape"]).iter().map(|&x| x as usize).collect();
            let width = case["width"].as_u64().unwrap() as usize;
            let got = random::bits(&shape, width, Some(&key_array([key[0], key[1]]))).unwrap();
            let want: Vec<i128> = list(&case["bits"]).into_iter().map(i128::from).collect();
            assert_eq!(integers(&got), want, "{key:?} {shape:?} {width} on {device}");
        }
    });
}

#[test]
fn bits_of_every_width_and_count() {
    on_each_device(|device| {
        for key in KEYS {
            for width in [1, 2, 4] {
                for shape in
                    [&[][..], &[1], &[2, 3], &[5, 0], &[255], &[1025], &[3, 1367], &[100_001]]
                {
                    let got = random::bits(shape, width, Some(&key_array(key))).unwrap();
                    assert_eq!((got.shape(), got.dtype().size()), (shape, width));
                    let want = numbers(key, shape.iter().product(), width);
                    assert_eq!(integers(&got), want, "{key:?} {shape:?} {width} on {device}");
                }
            }
        }
        // A key that does not lie densely.
        let pairs = array(&[1.0, 9.0, 2.0, 9.0], &[2, 2], Dtype::Uint32);
        let column = ops::squeeze(&ops::slice_axis(&pairs, 1, 0, 1).unwrap(), &[1]).unwrap();
        let got = random::bits(&[33], 4, Some(&column)).unwrap();
        assert_eq!(integers(&got), numbers([1, 2], 33, 4), "strided key on {device}");
        assert!(
            random::bits(&[3], 3, None).is_err() && random::bits(&[3], 4, Some(&pairs)).is_err()
        );
    });
}

#[test]
fn keys_split_and_follow_one_another() {
    on_each_device(|device| {
        let seed = 0x0123_4567_89AB_CDEF;
        let key = random::key(seed).unwrap();
        let parts = [0x0123_4567, 0x89AB_CDEF];
        assert_eq!(integers(&key), parts.map(i128::from));
        let want = numbers(parts, 4, 4);
        let (next, drawn) = random::split(&key).unwrap();
        assert_eq!([integers(&next), integers(&drawn)].concat(), want, "{device}");
        assert_eq!(integers(&random::split_n(&key, 5).unwrap()), numbers(parts, 10, 4), "{device}");
        // Without a key: the state's split is the next state and the key of the call.
        random::seed(seed).unwrap();
        let mut state = parts;
        for call in 0..3 {
            let four = words(state, 4);
            state = [four[0], four[1]];
            let got = random::bits(&[9], 4, None).unwrap();
            assert_eq!(
                integers(&got),
                numbers([four[2], four[3]], 9, 4),
                "call {call} on {device}"
            );
        }
    });
}

/// Uniform numbers of a dtype in 0..1, as MLX makes them of bits: division by 2³² is exact, so
/// that rounding to float32 and to the dtype is all there is.
fn units(key: [u32; 2], count: usize, dtype: Dtype) -> Vec<f64> {
    let below_one = match dtype {
        Dtype::Float16 => f16::from_bits(0x3BFF).to_f64(),
        Dtype::Bfloat16 => bf16::from_bits(0x3F7F).to_f64(),
        _ => 1.0 - 2f64.powi(-24),
    };
    let unit = |word: u32| rounded(f64::from(word as f32) / 2f64.powi(32), dtype).min(below_one);
    words(key, count).into_iter().map(unit).collect()
}

/// Every step is one operation that IEEE rounds correctly, so devices agree in each bit.
#[test]
fn uniform_numbers_are_exact() {
    on_each_device(|device| {
        for dtype in FLOATS {
            for key in KEYS {
                for (low, high) in [(0.0, 1.0), (-3.0, 5.0), (100.0, 100.5)] {
                    let got = random::uniform(low, high, &[7, 143], dtype, Some(&key_array(key)))
                        .unwrap();
                    assert_eq!((got.shape(), got.dtype()), (&[7, 143][..], dtype));
                    let range = rounded(rounded(high, dtype) - rounded(low, dtype), dtype);
                    let scaled =
                        |u: f64| rounded(rounded(range * u, dtype) + rounded(low, dtype), dtype);
                    let want: Vec<f64> = units(key, 1001, dtype).into_iter().map(scaled).collect();
                    assert_eq!(values(&got), want, "{low}..{high} {dtype} {key:?} on {device}");
                }
            }
        }
        let low = array(&[0.0, 10.0], &[2, 1], Dtype::Float32);
        let got = random::uniform(&low, 20.0f32, &[2, 50], Dtype::Float32, None).unwrap();
        let x = values(&got);
        assert!(x[..50].iter().all(|x| (0.0..20.0).contains(x)), "{device}");
        assert!(x[50..].iter().all(|x| (10.0..20.0).contains(x)), "{device}");
        assert!(random::uniform(0.0f32, 1.0f32, &[2], Dtype::Int32, None).is_err());
        assert_eq!(random::uniform(0.0f32, 1.0f32, &[0], Dtype::Float32, None).unwrap().size(), 0);
    });
}

/// The inverse of the error function, by Newton's steps from a coarse start.
fn inverse_erf(y: f64) -> f64 {
    // Winitzki's approximation, good to three digits.
    let log = (1.0 - y * y).ln();
    let half = 2.0 / (std::f64::consts::PI * 0.147) + log / 2.0;
    let mut x = ((half * half - log / 0.147).sqrt() - half).sqrt().copysign(y);
    for _ in 0..4 {
        let slope = std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp();
        x -= (series_erf(x) - y) / slope;
    }
    x
}

#[test]
fn normal_numbers_are_the_inverse_of_uniform_ones() {
    on_each_device(|device| {
        for dtype in FLOATS {
            for (loc, scale) in [(0.0, 1.0), (2.0, 0.5)] {
                let key = KEYS[1];
                let got = random::normal(&[999], dtype, loc, scale, Some(&key_array(key))).unwrap();
                assert_eq!(got.dtype(), dtype);
                // uniform(-1, 1) of float32, whose lower end is the number above -1.
                let single = Dtype::Float32;
                let low = -1.0 + 2f64.powi(-24);
                let range = rounded(1.0 - low, single);
                let want: Vec<Approx> = units(key, 999, single)
                    .into_iter()
                    .map(|u| rounded(rounded(range * u, single) + low, single))
                    .map(|u| {
                        let noise = std::f64::consts::SQRT_2 * f64::from(scale) * inverse_erf(u);
                        let value = noise + f64::from(loc);
                        // erfinv is good to six units of float32; it, the factor, its scaling,
                        // the product and the sum are rounded to the dtype.
                        let units = 12.0 * epsilon(Dtype::Float32) + 5.0 * epsilon(dtype);
                        Approx { value, error: units * (noise.abs() + value.abs()) }
                    })
                    .collect();
                assert_approx(&format!("{dtype} {loc} {scale} on {device}"), &got, &want);
            }
        }
    });
}

/// `-log(-log(u))`, whose inner logarithm has an error that the outer one sees as an absolute
/// one.
fn gumbel_of(u: f64) -> Approx {
    let unit = 8.0 * sum_epsilon(Dtype::Float32);
    let value = -(-u.ln()).ln();
    Approx { value, error: if value.is_finite() { unit * (1.0 + value.abs()) } else { 0.0 } }
}

#[test]
fn gumbel_numbers_are_logarithms_of_uniform_ones() {
    on_each_device(|device| {
        for key in KEYS {
            let got = random::gumbel(&[999], Dtype::Float32, Some(&key_array(key))).unwrap();
            let want: Vec<Approx> =
                units(key, 999, Dtype::Float32).into_iter().map(gumbel_of).collect();
            assert_approx(&format!("{key:?} on {device}"), &got, &want);
        }
    });
}

#[test]
fn categorical_takes_the_largest_of_logits_and_noise() {
    on_each_device(|device| {
        for (rows, classes, axis) in [(40, 5, 1), (3, 2000, 1), (5, 40, 0)] {
            let key = KEYS[0];
            let logits = filled(&[rows, classes], Dtype::Float32, noise(1, -2.0, 2.0));
            let got = random::categorical(&logits, axis, Some(&key_array(key))).unwrap();
            let noise = units(key, rows * classes, Dtype::Float32).into_iter().map(gumbel_of);
            let sums: Vec<Approx> = values(&logits)
                .iter()
                .zip(noise)
                .map(|(x, g)| {
                    let value = x + g.value;
                    Approx { value, error: g.error + sum_epsilon(Dtype::Float32) * value.abs() }
                })
                .collect();
            let (_, lines) = mlx_tests::groups(&[rows, classes], &[axis as usize]);
            let picks = integers(&got);
            assert_eq!(picks.len(), lines.len());
            for (line, pick) in lines.iter().zip(picks) {
                let chosen = sums[line[pick as usize]];
                // Within the errors of both there is none larger.
                let largest = line
                    .iter()
                    .all(|&i| sums[i].value - sums[i].error <= chosen.value + chosen.error);
                assert!(largest, "{rows}x{classes}: {pick} on {device}");
            }
        }
        // Chances of zero are never taken.
        let logits = array(&[0.0, f64::NEG_INFINITY, 0.0], &[3], Dtype::Float32);
        let many = ops::broadcast_to(&logits, &[500, 3]).unwrap();
        let picks = integers(&random::categorical(&many, -1, Some(&key_array(KEYS[1]))).unwrap());
        assert!(picks.iter().all(|&p| p != 1), "{device}");
        assert!(picks.contains(&0) && picks.contains(&2), "{device}");
        let lone = random_bits(&[4, 1], Dtype::Uint8, 1);
        let picks = random::categorical(&lone, 1, Some(&key_array(KEYS[2]))).unwrap();
        assert_eq!(integers(&picks), [0; 4], "{device}");
    });
}

/// What upstream draws with the same key (`data/upstream.py`): integers, bools and choices are equal;
/// floats as near as the functions that they go through.
#[test]
fn draws_are_upstreams() {
    let cases: Value = serde_json::from_str(include_str!("data/draws.json")).unwrap();
    on_each_device(|device| {
        for case in cases.as_array().unwrap() {
            let what = format!("{} {} on {device}", case["name"], case["arguments"]);
            let got = draw(case);
            let shape: Vec<u64> = got.shape().iter().map(|&d| d as u64).collect();
            let want: Vec<u64> = numbers_of(&case["shape"]).into_iter().map(|x| x as u64).collect();
            assert_eq!(shape, want, "{what}");
            assert_eq!(got.dtype().name(), case["dtype"].as_str().unwrap(), "{what}");
            let want = numbers_of(&case["values"]);
            let (unit, got) = match got.dtype() {
                Dtype::Complex64 => (Dtype::Float32, mlx_tests::complex_parts(&got).concat()),
                dtype => (dtype, values(&got)),
            };
            assert_eq!(got.len(), want.len(), "{what}");
            for (g, w) in got.iter().zip(&want) {
                let error = 16.0 * epsilon(Dtype::Float32) + 4.0 * epsilon(unit);
                let near = (g - w).abs() <= error * (1.0 + w.abs());
                let exact =
                    !case["dtype"].as_str().unwrap().contains("float") && unit != Dtype::Float32;
                assert!(if exact { g == w } else { near }, "{what}: {g} is not {w}");
            }
        }
    });
}

fn numbers_of(x: &Value) -> Vec<f64> {
    let number = |x: &Value| x.as_f64().or(x.as_bool().map(|b| b as u8 as f64)).unwrap();
    x.as_array().unwrap().iter().map(number).collect()
}

/// Calls the function of a case.
fn draw(case: &Value) -> Array {
    let arguments = case["arguments"].as_array().unwrap();
    let number = |i: usize| arguments[i].as_f64().unwrap();
    let key = random::key(arguments[0].as_u64().unwrap()).unwrap();
    let key = Some(&key);
    let dtype: Dtype = case["dtype"].as_str().unwrap().parse().unwrap();
    let shape: Vec<usize> = numbers_of(&case["shape"]).into_iter().map(|x| x as usize).collect();
    let (loc, scale) = (|| number(1) as f32, || number(2) as f32);
    let logits = filled(&[5, 7], Dtype::Float32, |i| (i * 7 % 11) as f64 / 4.0);
    let row = || ops::slice_axis(&logits, 0, 0, 1).unwrap();
    let axis = || number(1) as isize;
    let drawn = match case["name"].as_str().unwrap() {
        "randint" => random::randint(number(1) as i32, number(2) as i32, &shape, dtype, key),
        "bernoulli" => random::bernoulli(number(1) as f32, &shape, key),
        "normal" => random::normal(&shape, dtype, loc(), scale(), key),
        "truncated_normal" => random::truncated_normal(loc(), scale(), &shape, dtype, key),
        "laplace" => random::laplace(&shape, dtype, loc(), scale(), key),
        "gumbel" => random::gumbel(&shape, dtype, key),
        "permutation" => random::permutation_of(number(1) as usize, key),
        "permutation_axis" => {
            let a = filled(&[3, 5], Dtype::Int32, |i| i as f64);
            random::permutation(&a, axis(), key)
        }
        "categorical" => random::categorical(&logits, axis(), key),
        "categorical_samples" => {
            random::categorical_with_samples(&logits, axis(), number(2) as usize, key)
        }
        "categorical_shape" => random::categorical_with_shape(&logits, axis(), &shape, key),
        "categorical_row" => random::categorical(&row(), axis(), key),
        "categorical_row_samples" => {
            let row = ops::squeeze(&row(), &[0]).unwrap();
            random::categorical_with_samples(&row, axis(), number(2) as usize, key)
        }
        name => panic!("no function {name}"),
    };
    drawn.unwrap()
}

#[test]
fn wrong_distributions_are_refused() {
    on_each_device(|device| {
        let int = Dtype::Int32;
        assert!(random::randint(0, 3, &[2], Dtype::Float32, None).is_err());
        let one = Array::scalar(1i32).unwrap();
        assert!(random::bernoulli(&one, &[2], None).is_err(), "a probability of no float dtype");
        let p = array(&[0.5, 0.5], &[2], Dtype::Float32);
        assert!(random::bernoulli(&p, &[3], None).is_err());
        assert!(random::normal(&[2], int, 0.0, 1.0, None).is_err());
        assert!(random::laplace(&[2], int, 0.0, 1.0, None).is_err());
        assert!(random::truncated_normal(0.0f32, 1.0f32, &[2], int, None).is_err());
        let logits = ops::zeros(&[2, 3], Dtype::Float32).unwrap();
        assert!(random::categorical(&logits, 2, None).is_err());
        assert!(random::categorical_with_shape(&logits, 1, &[3], None).is_err());
        // Means and deviations of their own for each number.
        let narrow = Array::scalar(0.05f32).unwrap();
        let loc = array(&[0.0, 100.0], &[2, 1], Dtype::Float32);
        let x = random::normal_with(&[2, 400], Dtype::Float32, Some(&loc), Some(&narrow), None);
        let x = values(&x.unwrap());
        assert!(x[..400].iter().all(|x| x.abs() < 1.0), "{device}");
        assert!(x[400..].iter().all(|x| (x - 100.0).abs() < 1.0), "{device}");
    });
}
