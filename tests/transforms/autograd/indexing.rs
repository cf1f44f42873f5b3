//! Derivatives through indices, gathers, scatters and updates.

use mlx::{Array, Complex, Dtype, Result, Slice, ops, transforms::tree};
use mlx_tests::{complex_parts, on_each_device, values};

use super::{by, floats, ints, shaped};

fn ones(shape: &[usize]) -> Array {
    ops::ones(shape, Dtype::Float32).unwrap()
}

#[test]
fn elements_that_are_replaced_have_no_derivative() {
    on_each_device(|_| {
        let index = [ints(&[1, 3]).into()];
        let replaced = |x: &Array| {
            let mut x = x.clone();
            x.set_item(&index, 2.0f32)?;
            Ok(x)
        };
        assert_eq!(values(&by(replaced, &floats(&[1.0, 2.0, 3.0, 4.0]))), [1.0, 0.0, 1.0, 0.0]);
        let replacing = |x: &Array| {
            let mut y = floats(&[0.0, 1.0, 2.0, 3.0]);
            y.set_item(&index, x)?;
            ops::multiply(&y, floats(&[1.0, 2.0, 3.0, 4.0]))
        };
        assert_eq!(values(&by(replacing, &floats(&[2.0, 3.0]))), [2.0, 4.0]);
    });
}

#[test]
fn derivatives_by_indices_are_refused_with_the_remedy() {
    on_each_device(|_| {
        let (x, i, updates) = (floats(&[1.0, 2.0, 3.0, 4.0]), ints(&[1, 3]), floats(&[5.0, 6.0]));
        let column = |a: &Array| ops::expand_dims(a, &[1]).unwrap();
        type Three = [Array; 3];
        let refusal = |fun: &dyn Fn(&Three) -> Result<Array>, at: &Three, cotangent: &[usize]| {
            let error = tree::vjp(fun, at, &ones(cotangent)).map(drop).unwrap_err().to_string();
            assert!(error.contains("stop_gradient"), "{error}");
        };
        let flat = [x.clone(), i.clone(), updates.clone()];
        let columns = [column(&x), column(&i), column(&updates)];
        refusal(&|[x, i, _]| ops::take(x, i, 0), &flat, &[2]);
        refusal(&|[x, i, _]| ops::take_along_axis(x, i, 0), &columns, &[2, 1]);
        refusal(&|[x, i, u]| x.at(&[i.into()]).add(u), &flat, &[4]);
        refusal(&|[x, i, u]| ops::put_along_axis(x, i, u, 0), &columns, &[4, 1]);
    });
}

#[test]
fn computed_indices_are_stopped() {
    on_each_device(|_| {
        let first = |a: &Array, n: isize| ops::slice_axis(a, a.ndim() as isize - 1, 0, n);
        let smallest = |w: &Array, n| ops::stop_gradient(&first(&ops::argsort(w, -1)?, n)?);
        let w = floats(&[4.0, 3.0, 2.0, 1.0]);
        assert_eq!(values(&by(|w| ops::take(w, &smallest(w, 2)?, 0), &w)), [0.0, 0.0, 1.0, 1.0]);
        let scattered = |w: &Array| {
            let mut out = ops::zeros(&[4], Dtype::Float32)?;
            out.set_item(&[smallest(w, 2)?.into()], &first(w, 2)?)?;
            Ok(out)
        };
        assert_eq!(values(&by(scattered, &w)), [1.0, 1.0, 0.0, 0.0]);
        let rows = shaped(&[3.0, 2.0, 1.0, 1.0, 3.0, 2.0], &[2, 3]);
        let taken = |w: &Array| ops::take_along_axis(w, &smallest(w, 1)?, 1);
        assert_eq!(values(&by(taken, &rows)), [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
        let put = |w: &Array| {
            let zeros = ops::zeros_like(&ops::stop_gradient(w)?)?;
            ops::put_along_axis(&zeros, &smallest(w, 1)?, &ops::sum(w, &[1], true)?, 1)
        };
        assert_eq!(values(&by(put, &rows)), [1.0; 6]);
    });
}

#[test]
fn cotangents_of_one_element_add_up() {
    on_each_device(|_| {
        let zeros = ops::zeros(&[4], Dtype::Complex64).unwrap();
        let cotangent = [Complex::new(1.0, 2.0), Complex::new(3.0, 4.0)];
        let cotangent = Array::from_slice(&cotangent, &[2]).unwrap();
        let taken = |z: &Array| ops::take_along_axis(z, &ints(&[3, 3]), 0);
        let (_, by) = tree::vjp(taken, &zeros, &cotangent).unwrap();
        assert_eq!(complex_parts(&by), [[0.0; 2], [0.0; 2], [0.0; 2], [4.0, 6.0]]);
    });
}

/// The derivatives of an update of `[1, 2, 3, 4]` by both, along `[4, 5, 6, 7]`.
fn updated(fun: impl Fn(&Array, &Array) -> Result<Array>, updates: &Array) -> [Vec<f64>; 2] {
    let at = [floats(&[1.0, 2.0, 3.0, 4.0]), updates.clone()];
    let cotangent = floats(&[4.0, 5.0, 6.0, 7.0]);
    let (_, by) = tree::vjp(|[source, updates]| fun(source, updates), &at, &cotangent).unwrap();
    by.map(|a| values(&a))
}

#[test]
fn the_larger_or_smaller_of_source_and_scattered_has_the_derivative() {
    on_each_device(|_| {
        let index = [ints(&[1, 3]).into()];
        let sum = updated(|x, u| x.at(&index).add(u), &floats(&[1.0, 2.0]));
        assert_eq!(sum, [vec![4.0, 5.0, 6.0, 7.0], vec![5.0, 7.0]]);
        let kept = [vec![4.0, 5.0, 6.0, 7.0], vec![0.0, 0.0]];
        let replaced = [vec![4.0, 0.0, 6.0, 0.0], vec![5.0, 7.0]];
        let max = |updates: &[f32]| updated(|x, u| x.at(&index).maximum(u), &floats(updates));
        assert_eq!((max(&[1.0, 2.0]), max(&[5.0, 6.0])), (kept.clone(), replaced.clone()));
        let min = |updates: &[f32]| updated(|x, u| x.at(&index).minimum(u), &floats(updates));
        assert_eq!((min(&[5.0, 6.0]), min(&[1.0, 1.0])), (kept, replaced));
    });
}

#[test]
fn updates_of_slices_join_derivatives() {
    on_each_device(|_| {
        let slice = [Slice::new(1, 3, None).into()];
        let row = |a: f64, b: f64| shaped(&[a, b], &[1, 2]);
        let kept = [vec![4.0, 5.0, 6.0, 7.0], vec![0.0, 0.0]];
        let replaced = [vec![4.0, 0.0, 0.0, 7.0], vec![5.0, 6.0]];
        let max = |a, b| updated(|x, u| x.at(&slice).maximum(u), &row(a, b));
        assert_eq!((max(1.0, 2.0), max(5.0, 6.0)), (kept.clone(), replaced.clone()));
        let min = |a, b| updated(|x, u| x.at(&slice).minimum(u), &row(a, b));
        assert_eq!((min(5.0, 6.0), min(1.0, 1.0)), (kept, replaced));
        let add = updated(|x, u| x.at(&slice).add(u), &row(1.0, 2.0));
        assert_eq!(add, [vec![4.0, 5.0, 6.0, 7.0], vec![5.0, 6.0]]);
        let multiply = updated(|x, u| x.at(&slice).multiply(u), &row(2.0, 3.0));
        assert_eq!(multiply, [vec![4.0, 10.0, 18.0, 7.0], vec![10.0, 18.0]]);
    });
}

#[test]
fn values_put_along_an_axis_have_derivatives() {
    on_each_device(|_| {
        let column = |values: &[f64]| shaped(values, &[values.len(), 1]);
        let index = ops::expand_dims(&ints(&[0, 3]), &[1]).unwrap();
        let put = |[a, b]: &[Array; 2]| ops::put_along_axis(a, &index, b, 0);
        let at = [column(&[0.0; 5]), column(&[1.0; 2])];
        let (_, by) = tree::vjp(put, &at, &column(&[2.0, 3.0, 4.0, 5.0, 6.0])).unwrap();
        assert_eq!(by.map(|a| values(&a)), [vec![0.0, 3.0, 4.0, 0.0, 6.0], vec![2.0, 5.0]]);
        let tangents = [column(&[2.0; 5]), column(&[3.0, 4.0])];
        let (_, along) = tree::jvp(put, &at, &tangents).unwrap();
        assert_eq!(values(&along), [3.0, 2.0, 2.0, 4.0, 2.0]);
        let (_, along) =
            tree::jvp(|a| put(&[a.clone(), at[1].clone()]), &at[0], &tangents[0]).unwrap();
        assert_eq!(values(&along), [0.0, 2.0, 2.0, 0.0, 2.0]);
    });
}

#[test]
fn a_slice_at_a_computed_place_takes_tangents_of_either() {
    on_each_device(|_| {
        let (source, update, start) = (floats(&[0.0; 4]), floats(&[1.0; 2]), ints(&[1]));
        let fun = |[s, u]: &[Array; 2]| ops::dynamic_slice_update(s, u, &start, &[0]);
        let by_update = |u: &Array| fun(&[source.clone(), u.clone()]);
        let by_source = |s: &Array| fun(&[s.clone(), update.clone()]);
        let (of_source, of_update) = (floats(&[1.0; 4]), floats(&[2.0; 2]));
        assert_eq!(
            values(&tree::jvp(by_update, &update, &of_update).unwrap().1),
            [0.0, 2.0, 2.0, 0.0]
        );
        assert_eq!(
            values(&tree::jvp(by_source, &source, &of_source).unwrap().1),
            [1.0, 0.0, 0.0, 1.0]
        );
        let both = [source.clone(), update.clone()];
        let (_, along) = tree::jvp(fun, &both, &[of_source, of_update]).unwrap();
        assert_eq!(values(&along), [1.0, 2.0, 2.0, 1.0]);
    });
}

#[test]
fn masked_elements_take_the_tangents_of_their_source() {
    on_each_device(|_| {
        let mask = ops::equal(ints(&[1, 0, 1, 0]), 1).unwrap();
        let fun = |source: &Array| {
            let mut x = ops::zeros(&[4], Dtype::Float32)?;
            x.set_item(&[mask.clone().into()], source)?;
            Ok(x)
        };
        let (_, along) = tree::jvp(fun, &floats(&[1.0; 2]), &floats(&[5.0, 6.0])).unwrap();
        assert_eq!(values(&along), [5.0, 0.0, 6.0, 0.0]);
    });
}
