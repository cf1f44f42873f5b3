//! Steps of the gated delta rule, as models write them, in compiled functions.

use mlx::{Array, Dtype, Result, compile::Compiled, fast, ops, transforms::grad};
use mlx_tests::{Approx, array, assert_approx, epsilon, filled, noise, on_each_device, values};

use crate::compile::primitives;

/// What a variant of the step does otherwise.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Variant {
    Usual,
    /// Factors in the other order.
    Swapped,
    /// A decay for each key feature.
    EachFeature,
    /// Where a mask is false, the state stays.
    Masked,
    /// The decayed state is returned as well.
    Decayed,
    /// Keys meet values instead of features.
    Crossed,
    /// The output comes from the state before.
    Early,
}

/// A step: query and key (batch, heads, features), value (batch, heads, values), decay, rate and state.
fn step(variant: Variant, inputs: &[Array]) -> Result<Vec<Array>> {
    let [q, k, v, g, beta, old, mask] = inputs else { unreachable!("seven arrays") };
    let row = |a: &Array| ops::expand_dims(a, &[2]);
    let column = |a: &Array| ops::expand_dims(a, &[3]);
    let times = |a: &Array, b: &Array| match variant {
        Variant::Swapped => ops::multiply(b, a),
        _ => ops::multiply(a, b),
    };
    let key = if variant == Variant::Crossed { column(k)? } else { row(k)? };
    let decay = if g.ndim() == 3 { row(g)? } else { ops::expand_dims(g, &[2, 3])? };
    let decayed = times(old, &decay)?;
    let held = ops::sum(&times(&decayed, &key)?, &[-1], false)?;
    let delta = times(&ops::subtract(v, &held)?, &ops::expand_dims(beta, &[2])?)?;
    let new = ops::add(&decayed, &times(&key, &column(&delta)?)?)?;
    let read = if variant == Variant::Early { &decayed } else { &new };
    let y = ops::sum(&times(read, &row(q)?)?, &[-1], false)?;
    let mut results = vec![ops::astype(&y, q.dtype())?, new.clone()];
    match variant {
        Variant::Masked => {
            let mask = ops::expand_dims(mask, &[1, 2, 3])?;
            results[1] = ops::where_(&mask, &new, old)?;
        }
        Variant::Decayed => results.push(decayed),
        _ => {}
    }
    Ok(results)
}

/// Inputs of two batches, three heads, eight values and features.
fn inputs(variant: Variant, dtype: Dtype) -> Vec<Array> {
    let make = |shape: &[usize], dtype, seed| filled(shape, dtype, noise(seed, 0.1, 0.9));
    let gates: &[usize] = if variant == Variant::EachFeature { &[2, 3, 8] } else { &[2, 3] };
    vec![
        make(&[2, 3, 8], dtype, 1),
        make(&[2, 3, 8], dtype, 2),
        make(&[2, 3, 8], dtype, 3),
        make(gates, Dtype::Float32, 4),
        make(&[2, 3], dtype, 5),
        make(&[2, 3, 8, 8], Dtype::Float32, 6),
        array(&[1.0, 0.0], &[2], Dtype::Bool),
    ]
}

/// The same but for the order of sums, before both were rounded.
fn assert_near(what: &str, got: &Array, want: &Array) {
    let rounding = 2.0 * epsilon(want.dtype());
    let near = |&value: &f64| Approx { value, error: 1e-5 + rounding * value.abs() };
    assert_approx(what, got, &values(want).iter().map(near).collect::<Vec<_>>());
}

#[test]
fn steps_of_the_rule_are_one_primitive() {
    use Variant::*;
    on_each_device(|device| {
        for dtype in [Dtype::Float32, Dtype::Bfloat16] {
            for variant in [Usual, Swapped, EachFeature, Masked, Decayed, Crossed, Early] {
                let fun = Compiled::new(move |inputs| step(variant, inputs), false);
                let inputs = inputs(variant, dtype);
                let names = primitives(&fun, &inputs);
                let is_rule = matches!(variant, Usual | Swapped | EachFeature | Masked);
                let found = names.iter().any(|name| name == "GatedDelta");
                assert_eq!(found, is_rule, "{variant:?} {dtype}: {names:?}");
                assert!(
                    !(found && names.iter().any(|name| name == "Sum")),
                    "{variant:?}: {names:?}"
                );
                let got = fun.call(&inputs).unwrap();
                let want = step(variant, &inputs).unwrap();
                assert_eq!(got.len(), want.len());
                for (got, want) in got.iter().zip(&want) {
                    let what = format!("{variant:?} {dtype} on {device}");
                    assert_eq!((got.shape(), got.dtype()), (want.shape(), want.dtype()), "{what}");
                    assert_near(&what, got, want);
                }
            }
        }
    });
}

#[test]
fn tokens_follow_one_another() {
    on_each_device(|device| {
        let fun = Compiled::new(|inputs| step(Variant::Usual, inputs), false);
        let mut compiled = inputs(Variant::Usual, Dtype::Float32);
        let mut plain = compiled.clone();
        let (mut got, mut want) = (Vec::new(), Vec::new());
        for token in 0..4 {
            let value = filled(&[2, 3, 8], Dtype::Float32, noise(10 + token, -0.5, 0.5));
            compiled[2] = value.clone();
            plain[2] = value;
            let results = [fun.call(&compiled), step(Variant::Usual, &plain)].map(Result::unwrap);
            compiled[5] = results[0][1].clone();
            plain[5] = results[1][1].clone();
            got.push(results[0][0].clone());
            want.push(results[1][0].clone());
        }
        let all = |parts: &[Array]| ops::stack(&parts.iter().collect::<Vec<_>>(), 1).unwrap();
        assert_near(&format!("four tokens on {device}"), &all(&got), &all(&want));
        assert_near(&format!("the last state on {device}"), &compiled[5], &plain[5]);
    });
}

#[test]
fn tokens_of_one_function_are_a_primitive_each() {
    on_each_device(|device| {
        let all = |inputs: &[Array]| -> Result<Vec<Array>> {
            let mut at = inputs.to_vec();
            let mut results = Vec::new();
            for _ in 0..3 {
                let next = step(Variant::Usual, &at)?;
                at[5] = next[1].clone();
                // The next value is what was read.
                at[2] = next[0].clone();
                results.push(next[0].clone());
            }
            results.push(at.swap_remove(5));
            Ok(results)
        };
        let fun = Compiled::new(all, false);
        let inputs = inputs(Variant::Usual, Dtype::Float32);
        let names = primitives(&fun, &inputs);
        let rules = names.iter().filter(|name| *name == "GatedDelta").count();
        assert_eq!((rules, names.contains(&"Sum".into())), (3, false), "{names:?}");
        let (got, want) = (fun.call(&inputs).unwrap(), all(&inputs).unwrap());
        for (got, want) in got.iter().zip(&want) {
            assert_near(&format!("three tokens on {device}"), got, want);
        }
    });
}

#[test]
fn gradients_go_through_the_operations() {
    on_each_device(|device| {
        let sums = |results: Vec<Array>| {
            ops::add(&ops::sum(&results[0], &[], false)?, &ops::sum(&results[1], &[], false)?)
        };
        let fun = Compiled::new(|inputs| step(Variant::Usual, inputs), false);
        let all = inputs(Variant::Usual, Dtype::Float32);
        let of = |k: &Array| [&all[..1], std::slice::from_ref(k), &all[2..]].concat();
        let got = grad(|k: &Array| sums(fun.call(&of(k))?), &all[1]).unwrap();
        let want = grad(|k: &Array| sums(step(Variant::Usual, &of(k))?), &all[1]).unwrap();
        assert_near(&format!("gradient on {device}"), &got, &want);
    });
}

/// A decay for each key feature, all of a head alike, is one for each head.
#[test]
fn decays_of_features_are_differentiated() {
    on_each_device(|device| {
        let make = |shape: &[usize], seed| filled(shape, Dtype::Float32, noise(seed, 0.1, 0.9));
        let (q, k, v) = (make(&[1, 3, 1, 4], 1), make(&[1, 3, 1, 4], 2), make(&[1, 3, 2, 5], 3));
        let (gamma, beta) = (make(&[1, 3, 2], 4), make(&[1, 3, 2], 5));
        let sums = |gamma: &Array| {
            let (y, state) = fast::gated_delta_update([&q, &k, &v], gamma, &beta, None, None)?;
            ops::add(&ops::sum(&y, &[], false)?, &ops::sum(&state, &[], false)?)
        };
        let of_features = |gamma: &Array| {
            sums(&ops::broadcast_to(&ops::expand_dims(gamma, &[3])?, &[1, 3, 2, 4])?)
        };
        let (got, want) = (grad(of_features, &gamma).unwrap(), grad(sums, &gamma).unwrap());
        assert_near(&format!("gradient by decays on {device}"), &got, &want);
    });
}
