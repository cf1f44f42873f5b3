//! `a[…]`, `a[…] = v` and `a.at[…]`, against what upstream answers to random indices
//! (`data/upstream.py`), and by hand.

use mlx::{Array, Dtype, Index, Slice, ops};
use mlx_tests::{Layout, array, dtypes_of, integers, on_each_device, values};
use serde_json::Value;

fn list(x: &Value) -> Vec<i64> {
    x.as_array().unwrap().iter().map(|x| x.as_i64().unwrap()).collect()
}

fn sizes(x: &Value) -> Vec<usize> {
    list(x).into_iter().map(|x| x as usize).collect()
}

/// A part of an index as the file has it.
fn part(x: &Value) -> Index {
    let number = |i: usize| x[i].as_i64().map(|x| x as isize);
    match x[0].as_str().unwrap() {
        "int" => Index::Int(number(1).unwrap()),
        "slice" => Slice::new(number(1), number(2), number(3)).into(),
        "ellipsis" => Index::Ellipsis,
        "new" => Index::NewAxis,
        _ => {
            let picks: Vec<i32> = list(&x[2]).into_iter().map(|x| x as i32).collect();
            Array::from_slice(&picks, &sizes(&x[1])).unwrap().into()
        }
    }
}

/// 0, 1, 2, … in a shape and layout.
fn counting(shape: &[usize], layout: Layout) -> Array {
    // The layout decides in which order they are stored, not which value is where.
    let n: usize = shape.iter().product();
    let dense = ops::arange(0.0, n as f64, 1.0, Dtype::Int32).unwrap();
    let shape: Vec<isize> = shape.iter().map(|&d| d as isize).collect();
    let dense = ops::reshape(&dense, &shape).unwrap();
    match layout {
        Layout::Transposed => {
            let turned = ops::contiguous(&ops::transpose(&dense, &[]).unwrap(), false).unwrap();
            ops::transpose(&turned, &[]).unwrap()
        }
        _ => dense,
    }
}

fn ints(a: &Array) -> Vec<i64> {
    integers(a).into_iter().map(|x| x as i64).collect()
}

#[test]
fn random_indices_mean_what_they_mean_upstream() {
    let cases: Value = serde_json::from_str(include_str!("data/index.json")).unwrap();
    on_each_device(|device| {
        for (i, case) in cases.as_array().unwrap().iter().enumerate() {
            let what = format!("case {i} {} of {} on {device}", case["index"], case["shape"]);
            let shape = sizes(&case["shape"]);
            let layout = [Layout::Contiguous, Layout::Transposed][i % 2];
            let a = counting(&shape, layout);
            let index: Vec<Index> = case["index"].as_array().unwrap().iter().map(part).collect();
            let got = a.get_item(&index).expect(&what);
            assert_eq!(got.shape(), sizes(&case["get"][0]), "{what}");
            assert_eq!(ints(&got), list(&case["get"][1]), "{what}");
            let zeros = ops::zeros(&shape, Dtype::Int32).unwrap();
            let counts = zeros.at(&index).add(1).expect(&what);
            assert_eq!(ints(&counts), list(&case["add"]), "add {what}");
            let mut filled = a.clone();
            filled.set_item(&index, -7).expect(&what);
            let pairs = ints(&a).into_iter().zip(list(&case["add"]));
            let want: Vec<i64> = pairs.map(|(x, n)| if n > 0 { -7 } else { x }).collect();
            assert_eq!(ints(&filled), want, "fill {what}");
            if let Some(want) = case.get("set") {
                let value = ops::subtract(-1, counting(got.shape(), Layout::Contiguous)).unwrap();
                let mut set = a.clone();
                set.set_item(&index, &value).expect(&what);
                assert_eq!(ints(&set), list(want), "set {what}");
            }
            assert_eq!(ints(&a)[..3], [0, 1, 2], "{what}: the array was written to");
        }
    });
}

#[test]
fn values_are_joined_as_often_as_an_index_names_a_place() {
    on_each_device(|device| {
        let a = array(&[1.0, 2.0, 3.0, 4.0], &[4], Dtype::Float32);
        let picks = array(&[0.0, 2.0, 0.0, -1.0], &[4], Dtype::Int64);
        let index = [Index::from(&picks)];
        let at = a.at(&index);
        let v = array(&[10.0, 20.0, 30.0, 2.0], &[4], Dtype::Float32);
        let check = |got: mlx::Result<Array>, want: [f64; 4]| {
            assert_eq!(values(&got.unwrap()), want, "{device}");
        };
        check(at.add(&v), [41.0, 2.0, 23.0, 6.0]);
        check(at.subtract(&v), [-39.0, 2.0, -17.0, 2.0]);
        check(at.multiply(&v), [300.0, 2.0, 60.0, 8.0]);
        check(at.divide(2.0f32), [0.25, 2.0, 1.5, 2.0]);
        check(at.maximum(&v), [30.0, 2.0, 20.0, 4.0]);
        check(at.minimum(&v), [1.0, 2.0, 3.0, 2.0]);
        // Slices name each place once.
        let index = [Slice::new(None, None, -2).into()];
        let at = a.at(&index);
        check(at.add(array(&[10.0, 20.0], &[2], Dtype::Float32)), [1.0, 22.0, 3.0, 14.0]);
        check(at.subtract(1.0f32), [1.0, 1.0, 3.0, 3.0]);
        check(at.multiply(3.0f32), [1.0, 6.0, 3.0, 12.0]);
        check(at.divide(4.0f32), [1.0, 0.5, 3.0, 1.0]);
        check(at.maximum(3.0f32), [1.0, 3.0, 3.0, 4.0]);
        check(at.minimum(3.0f32), [1.0, 2.0, 3.0, 3.0]);
        check(a.at(&[Index::Ellipsis]).add(1.0f32), [2.0, 3.0, 4.0, 5.0]);
    });
}

#[test]
fn masks_take_values_one_after_the_other() {
    on_each_device(|device| {
        for dtype in dtypes_of(device) {
            let mut a = ops::zeros(&[5], dtype).unwrap();
            let mask = array(&[1.0, 0.0, 1.0, 1.0, 0.0], &[5], Dtype::Bool);
            a.set_item(&[(&mask).into()], array(&[1.0, 1.0, 0.0], &[3], dtype)).unwrap();
            assert_eq!(values(&a), [1.0, 0.0, 1.0, 0.0, 0.0], "{dtype} on {device}");
        }
        let mask = array(&[0.0, 1.0, 1.0], &[3], Dtype::Bool);
        let rows = |value: &Array| {
            let mut a = ops::zeros(&[3, 2], Dtype::Int32).unwrap();
            a.set_item(&[(&mask).into()], value).map(|()| integers(&a))
        };
        let two = array(&[1.0, 2.0, 3.0, 4.0], &[2, 2], Dtype::Int32);
        assert_eq!(rows(&two).unwrap(), [0, 0, 1, 2, 3, 4], "{device}");
        let one = array(&[5.0, 6.0], &[2], Dtype::Int32);
        assert_eq!(rows(&one).unwrap(), [0, 0, 5, 6, 5, 6], "{device}");
        // Where values run out, elements stay.
        let few = ops::slice_axis(&two, 0, 0, 1).unwrap();
        assert_eq!(rows(&few).unwrap(), [0, 0, 1, 2, 0, 0], "{device}");
        assert!(rows(&array(&[0.0; 8], &[1, 2, 4], Dtype::Int32)).is_err());
        let a = ops::zeros(&[3, 2], Dtype::Int32).unwrap();
        let wrong = array(&[1.0, 0.0], &[2], Dtype::Bool);
        assert!(ops::masked_scatter(&a, &wrong, &one).is_err(), "another shape");
        assert!(ops::masked_scatter(&a, &one, &one).is_err(), "no bools");
        let all = ops::masked_scatter(&a, &Array::scalar(mlx::dtype::Bool8(1)).unwrap(), &one);
        assert_eq!(integers(&all.unwrap()), [5, 6, 5, 6, 5, 6], "{device}");
    });
}

#[test]
fn wrong_indices_are_refused() {
    on_each_device(|_| {
        let a = ops::zeros(&[2, 3], Dtype::Float32).unwrap();
        let refused = |index: &[Index]| match a.get_item(index) {
            Ok(got) => panic!("{:?} was read", got.shape()),
            Err(e) => e.to_string(),
        };
        let many = refused(&[0.into(), 0.into(), 0.into()]);
        assert_eq!(many, "[index] Too many indices for array with 2 dimensions.");
        let twice = refused(&[Index::Ellipsis, Index::Ellipsis]);
        assert_eq!(twice, "[index] An index can only have a single ellipsis (...)");
        assert!(refused(&[2.into()]).contains("out of bounds"));
        assert!(refused(&[(-3).into()]).contains("out of bounds"));
        assert!(refused(&[Slice::new(None, None, 0).into()]).contains("zero"));
        let mask = array(&[1.0, 0.0], &[2], Dtype::Bool);
        assert!(refused(&[mask.into()]).contains("boolean indices are not yet supported"));
        let float = array(&[1.0, 0.0], &[2], Dtype::Float32);
        assert!(refused(&[float.into()]).contains("integral"));
        let scalar = ops::zeros(&[], Dtype::Float32).unwrap();
        assert!(scalar.get_item(&[0.into()]).is_err());
        assert_eq!(scalar.get_item(&[Index::NewAxis]).unwrap().shape(), [1]);
        assert_eq!(scalar.get_item(&[]).unwrap().ndim(), 0);
        let mut b = a.clone();
        assert!(b.set_item(&[0.into()], ops::zeros(&[4], Dtype::Float32).unwrap()).is_err());
        let empty = a.get_item(&[(1..1).into(), (..).into()]).unwrap();
        assert_eq!(empty.shape(), [0, 3]);
        let backwards = a.get_item(&[Slice::new(-9, None, -1).into()]).unwrap();
        assert_eq!(backwards.shape(), [0, 3]);
    });
}
