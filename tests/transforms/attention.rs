//! Derivatives of attention with every mask, and attention mapped over any input; what is made of it.

use mlx::{
    Array, Device, Dtype, Result,
    fast::{self, Mask},
    ops,
    transforms::{jvp, vjp},
};
use mlx_tests::{epsilon, filled, noise, on_each_device, values};

use crate::{derivatives::check_function, mapping};

/// What masks the scores in a test.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    None,
    Causal,
    Bool,
    Additive,
}

const KINDS: [Kind; 4] = [Kind::None, Kind::Causal, Kind::Bool, Kind::Additive];

fn random(shape: &[usize], dtype: Dtype, seed: u64) -> Array {
    filled(shape, dtype, noise(seed, -1.0, 1.0))
}

/// Queries of four heads, keys and values of two, and the mask, if there is an array.
fn inputs(kind: Kind, [rows, keys]: [usize; 2], dtype: Dtype, seed: u64) -> Vec<Array> {
    let seed = 10 * seed;
    let shapes = [[2, 4, rows, 6], [2, 2, keys, 6], [2, 2, keys, 3]];
    let mut all: Vec<Array> =
        shapes.iter().zip(seed..).map(|(shape, seed)| random(shape, dtype, seed)).collect();
    match kind {
        Kind::None | Kind::Causal => {}
        // Of some rows it hides everything.
        Kind::Bool => all.push(filled(&[2, 1, rows, keys], Dtype::Bool, |i| {
            f64::from(i / keys % 3 != 1 && !(i as u64 + seed / 10).is_multiple_of(3))
        })),
        Kind::Additive => all.push(random(&[4, rows, keys], dtype, seed + 5)),
    }
    all
}

fn attention(kind: Kind, x: &[Array]) -> Result<Vec<Array>> {
    let mask = match kind {
        Kind::None => Mask::None,
        Kind::Causal => Mask::Causal,
        Kind::Bool | Kind::Additive => Mask::Array(&x[3]),
    };
    Ok(vec![fast::scaled_dot_product_attention(&x[0], &x[1], &x[2], 0.4, mask)?])
}

#[test]
fn derivatives() {
    for kind in KINDS {
        // With more rows than keys, the first ones see none.
        for sizes in [[3, 5], [4, 2], [1, 1]] {
            let mut all = inputs(kind, sizes, Dtype::Float64, 1);
            let mask = (kind == Kind::Bool).then(|| all.remove(3));
            check_function(&format!("{kind:?} {sizes:?}"), &all, |x| {
                let all: Vec<Array> = x.iter().chain(&mask).cloned().collect();
                attention(kind, &all)
            });
        }
    }
}

#[test]
fn mapped() {
    for kind in KINDS {
        let inputs = |seed| inputs(kind, [3, 5], Dtype::Float32, seed);
        mapping::check_function(&format!("{kind:?}"), inputs, |x| attention(kind, x));
    }
}

#[test]
fn derivatives_of_halves_are_computed_in_float32() {
    on_each_device(|_| {
        for dtype in [Dtype::Float16, Dtype::Bfloat16] {
            for kind in [Kind::None, Kind::Causal] {
                let halves = inputs(kind, [16, 64], dtype, 1);
                let cotangent = random(&[2, 4, 16, 3], dtype, 9);
                let derivatives = |x: &[Array], cotangent: &Array| {
                    vjp(|x| attention(kind, x), x, std::slice::from_ref(cotangent)).unwrap().1
                };
                let got = derivatives(&halves, &cotangent);
                let wide = |a: &Array| ops::astype(a, Dtype::Float32).unwrap();
                let floats: Vec<Array> = halves.iter().map(wide).collect();
                let want = derivatives(&floats, &wide(&cotangent));
                for (got, want) in got.iter().zip(&want) {
                    assert_eq!(got.dtype(), dtype);
                    for (got, want) in values(got).into_iter().zip(values(want)) {
                        assert!((got - want).abs() <= epsilon(dtype) * want.abs().max(0.01));
                    }
                }
            }
        }
    });
}

/// Of many scores halves are multiplied as they are: that is off by roundings of weights and of the output.
#[test]
fn derivatives_of_many_scores() {
    on_each_device(|_| {
        for (dtype, kind) in [(Dtype::Bfloat16, Kind::Causal), (Dtype::Float16, Kind::None)] {
            let of = |heads, seed| random(&[1, heads, 520, 64], dtype, seed);
            let halves = [of(4, 1), of(2, 2), of(2, 3)];
            let cotangent = of(4, 4);
            let derivatives = |x: &[Array], cotangent: &Array| {
                vjp(|x| attention(kind, x), x, std::slice::from_ref(cotangent)).unwrap().1
            };
            let got = derivatives(&halves, &cotangent);
            let want = mlx::with_device(Device::CPU, || {
                let wide = |a: &Array| ops::astype(a, Dtype::Float64).unwrap();
                let want = derivatives(&halves.each_ref().map(wide), &wide(&cotangent));
                want.iter().map(values).collect::<Vec<_>>()
            });
            for (got, want) in got.iter().zip(want.unwrap()) {
                assert_eq!(got.dtype(), dtype);
                let off = distance(&values(got), &want);
                assert!(off <= epsilon(dtype), "{dtype} {off}");
            }
        }
    });
}

/// The distance of two lists by the norm of the second.
fn distance(got: &[f64], want: &[f64]) -> f64 {
    let norm = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
    let off = norm(&mut got.iter().zip(want).map(|(got, want)| got - want));
    off / norm(&mut want.iter().copied())
}

/// Float32 whose products a device may round to eleven bits: attention and its derivatives, of cotangents of
/// any magnitude, are off by no more than the roundings of two products one behind the other.
#[test]
fn of_many_scores_in_float32() {
    on_each_device(|device| {
        for (kind, magnitude) in [(Kind::Causal, 1e-9), (Kind::Additive, 1e9)] {
            let of = |shape: &[usize], seed| random(shape, Dtype::Float32, seed);
            let mut x =
                vec![of(&[1, 4, 400, 64], 1), of(&[1, 2, 420, 64], 2), of(&[1, 2, 420, 48], 3)];
            if kind == Kind::Additive {
                x.push(of(&[400, 420], 4));
            }
            let cotangent =
                filled(&[1, 4, 400, 48], Dtype::Float32, |i| magnitude * noise(5, -1.0, 1.0)(i));
            let all = |x: &[Array], cotangent: &Array| {
                let function = |three: &[Array]| attention(kind, &[three, &x[3..]].concat());
                let (mut result, derivatives) =
                    vjp(function, &x[..3], std::slice::from_ref(cotangent)).unwrap();
                result.extend(derivatives);
                result.iter().map(values).collect::<Vec<_>>()
            };
            let got = all(&x, &cotangent);
            let want = mlx::with_device(Device::CPU, || {
                let wide = |a: &Array| ops::astype(a, Dtype::Float64).unwrap();
                all(&x.iter().map(wide).collect::<Vec<_>>(), &wide(&cotangent))
            });
            for (i, (got, want)) in got.iter().zip(want.unwrap()).enumerate() {
                let off = distance(got, &want);
                assert!(off <= 2.0 * epsilon(Dtype::Float16), "{kind:?} {i} on {device}: {off}");
            }
        }
    });
}

#[test]
fn with_sinks() {
    for kind in KINDS {
        let mut all = inputs(kind, [3, 5], Dtype::Float64, 1);
        let mask = (kind == Kind::Bool).then(|| all.remove(3));
        all.push(random(&[4], Dtype::Float64, 8));
        let with_sinks = |x: &[Array]| {
            let (sinks, x) = x.split_last().expect("sinks are the last");
            let array = x.get(3).or(mask.as_ref());
            let mask = match kind {
                Kind::None => Mask::None,
                Kind::Causal => Mask::Causal,
                Kind::Bool | Kind::Additive => Mask::Array(array.expect("there is one")),
            };
            let output = fast::scaled_dot_product_attention_with_sinks(
                &x[0], &x[1], &x[2], 0.4, mask, sinks,
            );
            Ok(vec![output?])
        };
        check_function(&format!("{kind:?}"), &all, with_sinks);
        let mapped = |seed| {
            let mut all = inputs(kind, [3, 5], Dtype::Float32, seed);
            all.truncate(if kind == Kind::Additive { 4 } else { 3 });
            all.push(random(&[4], Dtype::Float32, 10 * seed + 8));
            all
        };
        mapping::check_function(&format!("{kind:?}"), mapped, with_sinks);
    }
}

/// Queries, keys, values, decays, rates and the first state.
fn delta_inputs(dtype: Dtype, seed: u64) -> Vec<Array> {
    let seed = 10 * seed;
    let shapes: [&[usize]; 6] =
        [&[2, 3, 1, 4], &[2, 3, 1, 4], &[2, 3, 2, 3], &[2, 3, 2], &[2, 3, 2], &[2, 2, 3, 4]];
    shapes.iter().zip(seed..).map(|(shape, seed)| random(shape, dtype, seed)).collect()
}

#[test]
fn of_the_gated_delta_rule() {
    let mask = filled(&[2, 3], Dtype::Bool, |i| f64::from(i != 1));
    for mask in [None, Some(&mask)] {
        let fun = |x: &[Array]| {
            let (outputs, state) =
                fast::gated_delta_update([&x[0], &x[1], &x[2]], &x[3], &x[4], Some(&x[5]), mask)?;
            Ok(vec![outputs, state])
        };
        check_function("gated_delta_update", &delta_inputs(Dtype::Float64, 1), fun);
        let inputs = |seed| delta_inputs(Dtype::Float32, seed);
        mapping::check_function("gated_delta_update", inputs, fun);
    }
}

#[test]
fn of_no_queries() {
    on_each_device(|_| {
        let all = inputs(Kind::Causal, [0, 5], Dtype::Float32, 1);
        let cotangent = ops::zeros(&[2, 4, 0, 3], Dtype::Float32).unwrap();
        let (_, got) = vjp(|x| attention(Kind::Causal, x), &all, &[cotangent]).unwrap();
        for (derivative, input) in got.iter().zip(&all) {
            assert_eq!(derivative.spec(), input.spec());
            assert!(values(derivative).iter().all(|&x| x == 0.0));
        }
        let (_, got) = jvp(|x| attention(Kind::Causal, x), &all, &all).unwrap();
        assert_eq!(got[0].shape(), [2, 4, 0, 3]);
    });
}
