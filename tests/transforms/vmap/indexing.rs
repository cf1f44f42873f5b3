//! Indices, scatters and masks, each part mapped or shared.

use mlx::{Array, Dtype, Index, Result, ops, transforms::tree::vmap};
use mlx_tests::{array, on_each_device, values};

use super::{assert_same, counted};

type Shape = &'static [usize];
type Axis = Option<isize>;

#[test]
fn elements_at_mapped_or_shared_indices() {
    on_each_device(|_| {
        let a = counted(&[2, 2, 2, 2], Dtype::Int32);
        let i = array(&[0.0, 1.0, 0.0, 1.0, 1.0, 0.0], &[2, 3], Dtype::Int32);
        let at = |[a, i]: &[Array; 2]| a.get_item(&[i.into()]);
        let row = |a: &Array, k: i32| a.get_item(&[k.into()]).unwrap();
        let both = [a.clone(), i.clone()];
        let stacked = |f: &dyn Fn(i32) -> Array| ops::stack(&[&f(0), &f(1)], 0).unwrap();
        let of = |a: Array, i: Array| at(&[a, i]).unwrap();
        let want = stacked(&|k| of(row(&a, k), row(&i, k)));
        assert_same(&vmap(at, &both, 0, 0).unwrap(), &want);
        let want = stacked(&|k| of(row(&a, k), i.clone()));
        assert_same(&vmap(at, &both, [Some(0), None], 0).unwrap(), &want);
        let want = stacked(&|k| of(a.clone(), row(&i, k)));
        assert_same(&vmap(at, &both, [None, Some(0)], 0).unwrap(), &want);
        let two = |[a, i, j]: &[Array; 3]| a.get_item(&[i.into(), j.into()]);
        let j = array(&[0.0, 1.0, 0.0, 0.0, 1.0, 0.0], &[2, 3], Dtype::Int32);
        let want = stacked(&|k| two(&[a.clone(), row(&i, k), row(&j, k)]).unwrap());
        let three = [a, i, j];
        assert_same(&vmap(two, &three, [None, Some(0), Some(0)], 0).unwrap(), &want);
        let one = Array::scalar(0i32).unwrap();
        let small = [counted(&[2, 2], Dtype::Int32), one];
        let first = vmap(at, &small, [Some(1), None], 0).unwrap();
        assert_eq!(values(&first), [0.0, 1.0]);
    });
}

#[test]
fn shapes_of_gathers_and_updates_along_axes() {
    on_each_device(|_| {
        let zeros = |shape: &[usize], dtype| ops::zeros(shape, dtype).unwrap();
        let floats = |shape: &[usize]| zeros(shape, Dtype::Float32);
        let ints = |shape: &[usize]| zeros(shape, Dtype::Int32);
        let take = |[a, i]: &[Array; 2]| ops::take_along_axis(a, i, 0);
        let cases: [(Shape, Shape, [Axis; 2], Shape); 4] = [
            (&[4, 5, 1], &[2, 4, 1], [Some(0), Some(1)], &[4, 2, 1]),
            (&[4, 5, 1], &[2, 1], [Some(0), None], &[4, 2, 1]),
            (&[5, 1], &[4, 2, 1], [None, Some(0)], &[4, 2, 1]),
            (&[4, 5, 3], &[2, 2, 1, 3], [None, Some(0)], &[2, 2, 5, 3]),
        ];
        for (a, i, axes, want) in cases {
            let taken = vmap(take, &[floats(a), ints(i)], axes, 0).unwrap();
            assert_eq!(taken.shape(), want);
        }
        let put = |[a, i, u]: &[Array; 3]| ops::put_along_axis(a, i, u, 0);
        let cases: [([Shape; 3], [Axis; 3]); 4] = [
            ([&[4, 5, 1], &[2, 4, 1], &[2, 4, 1]], [Some(0), Some(1), Some(1)]),
            ([&[4, 5, 1], &[2, 4, 1], &[2, 1]], [Some(0), Some(1), None]),
            ([&[4, 5, 1], &[2, 1], &[2, 1]], [Some(0), None, None]),
            ([&[5, 1], &[2, 4, 1], &[2, 4, 1]], [None, Some(1), Some(1)]),
        ];
        for ([a, i, u], axes) in cases {
            assert_eq!(
                vmap(put, &[floats(a), ints(i), floats(u)], axes, 0).unwrap().shape(),
                [4, 5, 1]
            );
        }
    });
}

fn set([a, i, u]: &[Array; 3]) -> Result<Array> {
    let mut a = a.clone();
    a.set_item(&[i.into()], u)?;
    Ok(a)
}

#[test]
fn scatters_with_every_part_mapped_or_shared() {
    on_each_device(|_| {
        let floats = |values: &[f64]| array(values, &[values.len()], Dtype::Float32);
        let indices = array(&[0.0, 1.0, 2.0], &[3], Dtype::Int32);
        let zeros = ops::zeros(&[3, 4], Dtype::Float32).unwrap();
        let (one, updates) = (floats(&[1.0; 3]), floats(&[1.0, 2.0, 3.0]));
        let run = |parts: [&Array; 3], axes: [Option<isize>; 3]| {
            vmap(set, &parts.map(Array::clone), axes, 0).unwrap()
        };
        let eye = ops::eye(3, 4, 0, Dtype::Float32).unwrap();
        assert_same(&run([&zeros, &indices, &one], [Some(0); 3]), &eye);
        let scaled = ops::multiply(&eye, ops::expand_dims(&updates, &[1]).unwrap()).unwrap();
        assert_same(&run([&zeros, &indices, &updates], [Some(0); 3]), &scaled);
        let shared = run([&zeros, &indices, &one], [None, Some(0), Some(0)]);
        let rows: Vec<f64> = (0..36).map(|n| f64::from(u8::from(n / 12 == n / 4 % 3))).collect();
        assert_same(&shared, &array(&rows, &[3, 3, 4], Dtype::Float32));
        let add = |a: &Array| a.at(&[Index::Array(Array::scalar(0i32)?)]).add(1.0f32);
        let a = counted(&[2, 3], Dtype::Float32);
        assert_eq!(values(&vmap(add, &a, 0, 0).unwrap()), [1.0, 1.0, 2.0, 4.0, 4.0, 5.0]);
        assert_eq!(values(&vmap(add, &a, 1, 1).unwrap()), [1.0, 2.0, 3.0, 3.0, 4.0, 5.0]);
    });
}

#[test]
fn masks_start_again_for_every_index() {
    on_each_device(|_| {
        let ints = |values: &[f64], shape: &[usize]| array(values, shape, Dtype::Int32);
        let mask = |values: &[f64], shape: &[usize]| array(values, shape, Dtype::Bool);
        let run = |parts: [Array; 3], axes: [Option<isize>; 3]| {
            values(&vmap(set, &parts, axes, 0).unwrap())
        };
        let a = ints(&[10.0, 20.0, 30.0, 50.0, 60.0, 70.0], &[2, 3]);
        let own = mask(&[0.0, 1.0, 1.0, 1.0, 0.0, 1.0], &[2, 3]);
        let got = run([a.clone(), own.clone(), ints(&[1.0, 2.0, 3.0, 4.0], &[2, 2])], [Some(0); 3]);
        assert_eq!(got, [10.0, 1.0, 2.0, 3.0, 60.0, 4.0]);
        let shared = ints(&[8.0, 9.0], &[2]);
        let got = run([a.clone(), own.clone(), shared.clone()], [Some(0), Some(0), None]);
        assert_eq!(got, [10.0, 8.0, 9.0, 8.0, 60.0, 9.0]);
        let row = ints(&[10.0, 20.0, 30.0], &[3]);
        let got = run([row, own, shared], [None, Some(0), None]);
        assert_eq!(got, [10.0, 8.0, 9.0, 8.0, 20.0, 9.0]);
        let one = mask(&[1.0, 0.0, 1.0], &[3]);
        let got = run([a, one, ints(&[1.0, 2.0, 3.0, 4.0], &[2, 2])], [Some(0), None, Some(0)]);
        assert_eq!(got, [1.0, 20.0, 2.0, 3.0, 60.0, 4.0]);
    });
}
