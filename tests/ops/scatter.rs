//! Writing at indices, against sums, products and extremes of small integers, which are exact in
//! every dtype whatever their order.

use mlx::{Array, Complex, Dtype, Result, ops};
use mlx_tests::{
    Layout, complex_parts, dtypes_of, filled, indices, integers, keeping, on_each_device, ravel,
    scattered, values, wrapped,
};

/// A number: real part, imaginary part.
type Number = [i128; 2];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Op {
    Assign,
    Sum,
    Prod,
    Max,
    Min,
}

const OPS: [Op; 5] = [Op::Assign, Op::Sum, Op::Prod, Op::Max, Op::Min];

impl Op {
    fn scatter(
        self,
        a: &Array,
        picks: &[&Array],
        updates: &Array,
        axes: &[isize],
    ) -> Result<Array> {
        let f = match self {
            Op::Assign => ops::scatter,
            Op::Sum => ops::scatter_add,
            Op::Prod => ops::scatter_prod,
            Op::Max => ops::scatter_max,
            Op::Min => ops::scatter_min,
        };
        f(a, picks, updates, axes)
    }

    fn join(self, a: Number, b: Number, dtype: Dtype) -> Number {
        let extreme = |max: bool| if (a < b) == max { b } else { a };
        let joined = match self {
            Op::Assign => b,
            Op::Sum if dtype == Dtype::Bool => extreme(true),
            Op::Prod if dtype == Dtype::Bool => extreme(false),
            Op::Sum => [a[0] + b[0], a[1] + b[1]],
            // Modulo 2^128, from which integers are cut.
            Op::Prod => {
                let times = i128::wrapping_mul;
                [
                    times(a[0], b[0]).wrapping_sub(times(a[1], b[1])),
                    times(a[0], b[1]).wrapping_add(times(a[1], b[0])),
                ]
            }
            Op::Max => extreme(true),
            Op::Min => extreme(false),
        };
        if dtype.is_inexact() || dtype == Dtype::Bool {
            joined
        } else {
            [wrapped(joined[0], dtype), 0]
        }
    }
}

/// Elements that sums and products of a few keep exact; those of 64-bit integers are large.
fn numbers(shape: &[usize], dtype: Dtype, seed: u64) -> Array {
    let n: usize = shape.iter().product();
    let hash = |i: usize| scattered(i, seed);
    let small = |i: usize| [1.0, -1.0, 2.0, 1.0][(hash(i) >> 9 & 3) as usize];
    match dtype {
        Dtype::Int64 => {
            let data: Vec<i64> = (0..n).map(|i| hash(i) as i64).collect();
            Array::from_slice(&data, shape).unwrap()
        }
        Dtype::Uint64 => {
            let data: Vec<u64> = (0..n).map(hash).collect();
            Array::from_slice(&data, shape).unwrap()
        }
        Dtype::Complex64 => {
            let part = |i: usize| if hash(i) >> 20 & 1 == 1 { small(i + 77) as f32 } else { 0.0 };
            let data: Vec<Complex> =
                (0..n).map(|i| Complex::new(small(i) as f32, part(i))).collect();
            Array::from_slice(&data, shape).unwrap()
        }
        d if d.is_inexact() => filled(shape, dtype, small),
        _ => filled(shape, dtype, |i| (hash(i) >> 9 & 7) as f64),
    }
}

fn read(a: &Array) -> Vec<Number> {
    match a.dtype() {
        Dtype::Complex64 => {
            complex_parts(a).into_iter().map(|z| [z[0] as i128, z[1] as i128]).collect()
        }
        d if d.is_inexact() => values(a).into_iter().map(|x| [x as i128, 0]).collect(),
        _ => integers(a).into_iter().map(|x| [x, 0]).collect(),
    }
}

/// Random indices into an axis of `n`, some of them negative.
fn picks(shape: &[usize], dtype: Dtype, n: usize, seed: u64) -> Array {
    filled(shape, dtype, |i| {
        let hash = scattered(i, seed);
        let index = (hash % n as u64) as f64;
        if dtype.is_signed_integer() && hash >> 40 & 1 == 1 { index - n as f64 } else { index }
    })
}

/// The start of a slice of `size`, if it lies inside.
fn start(index: i128, n: usize, size: usize) -> Option<usize> {
    let index = if index < 0 { index + n as i128 } else { index };
    (index >= 0 && index + size as i128 <= n as i128).then_some(index as usize)
}

/// Checks a result: `targets` are the places in `a` and the updates for them.
fn check(context: &str, op: Op, a: &Array, got: &Array, targets: &[(usize, Number)]) {
    assert_eq!((got.shape(), got.dtype()), (a.shape(), a.dtype()), "{context}");
    let (before, got) = (read(a), read(got));
    let mut want = before.clone();
    let mut choices = vec![Vec::new(); want.len()];
    for &(place, value) in targets {
        want[place] = op.join(want[place], value, a.dtype());
        choices[place].push(value);
    }
    for (i, got) in got.iter().enumerate() {
        // Of several assignments any may be left.
        let right = match op {
            Op::Assign if !choices[i].is_empty() => choices[i].contains(got),
            _ => *got == want[i],
        };
        assert!(right, "{context}: element {i} is {got:?}, not {:?}", want[i]);
    }
}

fn check_scatter(
    context: &str,
    op: Op,
    a: &Array,
    lists: &[&Array],
    updates: &Array,
    axes: &[isize],
) {
    let got = keeping(context, &[&[a, updates][..], lists].concat(), || {
        let got = op.scatter(a, lists, updates, axes).expect(context);
        got.eval().expect(context);
        got
    });
    let joint = ops::broadcast_arrays(lists).unwrap();
    let places: Vec<Vec<i128>> = joint.iter().map(integers).collect();
    let batch = updates.ndim() - a.ndim();
    let sizes = &updates.shape()[batch..];
    let mut targets = Vec::new();
    for (at, value) in indices(updates.shape()).zip(read(updates)) {
        let pick = ravel(&at[..batch], &updates.shape()[..batch]);
        let mut to = Some(at[batch..].to_vec());
        for (list, &axis) in places.iter().zip(axes) {
            let axis = axis as usize;
            let from = start(list[pick], a.shape()[axis], sizes[axis]);
            to = to.zip(from).map(|(mut to, from)| {
                to[axis] += from;
                to
            });
        }
        targets.extend(to.map(|to| (ravel(&to, a.shape()), value)));
    }
    check(context, op, a, &got, &targets);
}

#[test]
fn rows_join_in_every_dtype_and_layout() {
    on_each_device(|device| {
        for dtype in dtypes_of(device) {
            for op in OPS {
                for layout in Layout::VIEWS {
                    let what = format!("{op:?} {dtype} {layout:?} on {device}");
                    let a = layout.view(&[6, 5], |s| numbers(s, dtype, 1));
                    let updates = layout.view(&[9, 1, 5], |s| numbers(s, dtype, 2));
                    let list = picks(&[9], Dtype::Int32, 6, 3);
                    check_scatter(&what, op, &a, &[&list], &updates, &[0]);
                }
            }
        }
    });
}

#[test]
fn several_arrays_of_indices_and_slices() {
    on_each_device(|device| {
        for (op, dtype) in OPS.into_iter().zip([
            Dtype::Bfloat16,
            Dtype::Float32,
            Dtype::Int32,
            Dtype::Uint8,
            Dtype::Int16,
        ]) {
            let what = format!("{op:?} {dtype} on {device}");
            let a = numbers(&[4, 5, 6], dtype, 1);
            let (x, y) = (picks(&[3, 1], Dtype::Int32, 4, 2), picks(&[7], Dtype::Int8, 5, 3));
            let points = numbers(&[3, 7, 1, 1, 6], dtype, 4);
            check_scatter(&what, op, &a, &[&x, &y], &points, &[0, 1]);
            let swapped = ops::transpose(&numbers(&[3, 7, 6, 1, 1], dtype, 5), &[0, 1, 3, 4, 2]);
            check_scatter(&what, op, &a, &[&y, &x], &swapped.unwrap(), &[1, 0]);
            // Slices that may reach outside: those are left out.
            let blocks = numbers(&[8, 2, 5, 3], dtype, 6);
            let (x, z) = (picks(&[8], Dtype::Int64, 4, 7), picks(&[8], Dtype::Uint16, 6, 8));
            check_scatter(&what, op, &a, &[&x, &z], &blocks, &[0, 2]);
            let none = numbers(&[2, 5, 6], dtype, 9);
            check_scatter(&what, op, &a, &[], &none, &[]);
            let nothing = numbers(&[0, 1, 5, 6], dtype, 9);
            check_scatter(&what, op, &a, &[&picks(&[0], Dtype::Int32, 4, 1)], &nothing, &[0]);
        }
    });
}

#[test]
fn indices_of_every_dtype() {
    on_each_device(|device| {
        for index in dtypes_of(device).filter(|d| d.is_integer()) {
            for op in [Op::Assign, Op::Sum] {
                let what = format!("{op:?} at {index} on {device}");
                let a = numbers(&[70], Dtype::Float32, 1);
                let updates = numbers(&[31, 1], Dtype::Float32, 2);
                let list = Layout::Sliced.view(&[31], |s| picks(s, index, 90, 3));
                check_scatter(&what, op, &a, &[&list], &updates, &[0]);
            }
        }
        let far = Array::from_slice(&[u64::MAX, 1 << 63, 2], &[3]).unwrap();
        let a = numbers(&[3], Dtype::Int32, 1);
        check_scatter("far", Op::Sum, &a, &[&far], &numbers(&[3, 1], Dtype::Int32, 2), &[0]);
    });
}

/// Rows that are copied in wide words, and updates of the words beside them.
#[test]
fn long_rows_are_replaced() {
    on_each_device(|device| {
        for (dtype, width) in [(Dtype::Uint8, 1040), (Dtype::Float16, 264), (Dtype::Complex64, 33)]
        {
            let what = format!("rows of {width} {dtype} on {device}");
            let a = numbers(&[40, width], dtype, 1);
            let rows = filled(&[20], Dtype::Int32, |i| ((7 * i) % 40) as f64);
            let updates = numbers(&[20, 1, width], dtype, 2);
            check_scatter(&what, Op::Assign, &a, &[&rows], &updates, &[0]);
            let parts = numbers(&[20, 1, 16], dtype, 3);
            let starts = filled(&[20], Dtype::Int32, |i| (i % 17) as f64);
            check_scatter(&what, Op::Assign, &a, &[&rows, &starts], &parts, &[0, 1]);
        }
    });
}

/// Many threads that all write to the same few places.
#[test]
fn nothing_is_lost_where_all_write() {
    on_each_device(|device| {
        for dtype in dtypes_of(device).filter(|d| *d != Dtype::Bool) {
            let n = if dtype == Dtype::Bfloat16 { 500 } else { 3000 };
            let list = filled(&[n], Dtype::Uint32, |i| (i % 3) as f64);
            let ones = ops::ones(&[n, 1], dtype).unwrap();
            let zeros = ops::zeros(&[5], dtype).unwrap();
            let got = ops::scatter_add(&zeros, &[&list], &ones, &[0]).unwrap();
            let counted = |k: usize| (n - k).div_ceil(3) as i128;
            let counted =
                |k| if dtype.is_integer() { wrapped(counted(k), dtype) } else { counted(k) };
            let want = [counted(0), counted(1), counted(2), 0, 0].map(|x| [x, 0]);
            assert_eq!(read(&got), want, "{dtype} on {device}");
            let all: Vec<Number> = read(&numbers(&[n], dtype, 5));
            let updates = ops::reshape(&numbers(&[n], dtype, 5), &[-1, 1]).unwrap();
            let got = ops::scatter_max(&zeros, &[&list], &updates, &[0]).unwrap();
            let largest = |k: usize| all[k..].iter().step_by(3).copied().max().unwrap().max([0, 0]);
            assert_eq!(read(&got)[..3], [0, 1, 2].map(largest), "{dtype} on {device}");
        }
    });
}

#[test]
fn nan_wins_extremes() {
    on_each_device(|device| {
        for dtype in [Dtype::Float32, Dtype::Float16, Dtype::Bfloat16, Dtype::Complex64] {
            let list = filled(&[4], Dtype::Int32, |i| (i % 2) as f64);
            let updates = filled(&[4, 1], dtype, |i| [1.0, 2.0, f64::NAN, 0.0][i]);
            let a = filled(&[3], dtype, |i| [1.0, 1.0, f64::NAN][i]);
            for op in [Op::Max, Op::Min] {
                let got = values(&op.scatter(&a, &[&list], &updates, &[0]).unwrap());
                let nan = got.iter().map(|x| x.is_nan()).collect::<Vec<_>>();
                assert_eq!(nan, [true, false, true], "{op:?} {dtype} on {device}");
                assert_eq!(got[1], if op == Op::Max { 2.0 } else { 0.0 });
            }
        }
    });
}

/// An array that nobody else has is written in place, over and over.
#[test]
fn arrays_are_updated_in_place() {
    on_each_device(|device| {
        let mut a = ops::zeros(&[50], Dtype::Float32).unwrap();
        let mut want = vec![0.0; 50];
        for round in 0..6 {
            let list = picks(&[20], Dtype::Int32, 50, round);
            let ones = ops::ones(&[20, 1], Dtype::Float32).unwrap();
            a = ops::scatter_add(&a, &[&list], &ones, &[0]).unwrap();
            for i in integers(&list) {
                want[start(i, 50, 1).unwrap()] += 1.0;
            }
            if round % 2 == 1 {
                a.eval().unwrap();
            }
        }
        assert_eq!(values(&a), want, "{device}");
    });
}

#[test]
fn along_an_axis_in_every_dtype_and_layout() {
    on_each_device(|device| {
        for dtype in dtypes_of(device) {
            for (layout, axis) in Layout::VIEWS.into_iter().zip([0, 1, 2, 1, 0]) {
                let a = layout.view(layout.shape(), |s| numbers(s, dtype, 1));
                let mut shape = a.shape().to_vec();
                let n = shape[axis];
                shape[axis] = 7;
                let list = layout.view(&shape, |s| picks(s, Dtype::Int32, n, 2));
                let updates = layout.view(&shape, |s| numbers(s, dtype, 3));
                let places = integers(&list);
                let to = |(i, at): (usize, Vec<usize>)| {
                    let mut to = at;
                    to[axis] = start(places[i], n, 1).unwrap();
                    ravel(&to, a.shape())
                };
                let to = indices(&shape).enumerate().map(to);
                let targets: Vec<(usize, Number)> = to.zip(read(&updates)).collect();
                let x = axis as isize;
                let what = format!("{dtype} {layout:?} axis {axis} on {device}");
                let put = ops::put_along_axis(&a, &list, &updates, x).expect(&what);
                check(&what, Op::Assign, &a, &put, &targets);
                let sum = ops::scatter_add_axis(&a, &list, &updates, x - 3).expect(&what);
                check(&what, Op::Sum, &a, &sum, &targets);
            }
        }
        // Values and indices broadcast.
        let a = ops::zeros(&[2, 4], Dtype::Float32).unwrap();
        let list = filled(&[1, 2], Dtype::Int32, |i| [3.0, 1.0][i]);
        let put = ops::put_along_axis(&a, &list, &Array::scalar(5.0f32).unwrap(), 1).unwrap();
        assert_eq!(values(&put), [0.0, 5.0, 0.0, 5.0, 0.0, 5.0, 0.0, 5.0], "{device}");
    });
}

type SliceUpdate = fn(&Array, &Array, &[isize], &[isize], &[isize]) -> Result<Array>;

#[test]
fn slices_are_joined_with_updates() {
    on_each_device(|device| {
        for dtype in dtypes_of(device) {
            let a = numbers(&[5, 6], dtype, 1);
            let update = numbers(&[2, 3], dtype, 2);
            let (start, stop, steps) = ([4, 0], [0, 6], [-2, 2]);
            let flat = |i: &[usize]| ravel(&[4 - 2 * i[0], 2 * i[1]], &[5, 6]);
            let targets: Vec<(usize, Number)> =
                indices(&[2, 3]).map(|i| flat(&i)).zip(read(&update)).collect();
            let functions: [(Op, SliceUpdate); 5] = [
                (Op::Assign, ops::slice_update),
                (Op::Sum, ops::slice_update_add),
                (Op::Prod, ops::slice_update_prod),
                (Op::Max, ops::slice_update_max),
                (Op::Min, ops::slice_update_min),
            ];
            for (op, f) in functions {
                let got = f(&a, &update, &start, &stop, &steps).unwrap();
                check(&format!("{op:?} {dtype} on {device}"), op, &a, &got, &targets);
            }
        }
    });
}

#[test]
fn slices_start_where_arrays_say() {
    on_each_device(|device| {
        for dtype in [Dtype::Float32, Dtype::Uint8, Dtype::Complex64] {
            let a = numbers(&[4, 5, 16], dtype, 1);
            let at = Array::from_slice(&[2i32, 1], &[2]).unwrap();
            let got = ops::dynamic_slice(&a, &at, &[1, 0], &[2, 3, 16]).unwrap();
            let want = ops::slice(&a, &[1, 2, 0], &[3, 5, 16], &[1; 3]).unwrap();
            assert_eq!(read(&got), read(&want), "{dtype} on {device}");
            let update = numbers(&[2, 3, 16], dtype, 2);
            let got = ops::dynamic_slice_update(&a, &update, &at, &[1, 0]).unwrap();
            let want = ops::slice_update(&a, &update, &[1, 2, 0], &[3, 5, 16], &[1; 3]).unwrap();
            assert_eq!(read(&got), read(&want), "{dtype} on {device}");
            let row = numbers(&[16], dtype, 3);
            let got = ops::dynamic_slice_update(&a, &row, &at, &[1, 0]).unwrap();
            let want = ops::slice_update(&a, &row, &[1, 2, 0], &[2, 3, 16], &[1; 3]).unwrap();
            assert_eq!(read(&got), read(&want), "{dtype} on {device}");
        }
        let a = numbers(&[4], Dtype::Int32, 1);
        let one = Array::scalar(1u8).unwrap();
        let got = ops::dynamic_slice(&a, &one, &[-1], &[2]).unwrap();
        assert_eq!(read(&got), read(&a)[1..3], "{device}");
        assert!(ops::dynamic_slice(&a, &one, &[1], &[2]).is_err());
        assert!(ops::dynamic_slice(&a, &one, &[0], &[5]).is_err());
        assert!(ops::dynamic_slice(&a, &one, &[], &[2]).is_err());
    });
}

#[test]
fn wrong_scatters_are_refused() {
    on_each_device(|_| {
        let a = ops::zeros(&[3, 4], Dtype::Float32).unwrap();
        let list = Array::from_slice(&[0i32, 1], &[2]).unwrap();
        let updates = |shape: &[usize]| ops::zeros(shape, Dtype::Float32).unwrap();
        let refused = |lists: &[&Array], shape: &[usize], axes: &[isize]| {
            ops::scatter(&a, lists, &updates(shape), axes).map(drop).unwrap_err().to_string()
        };
        assert!(refused(&[&list], &[2, 4], &[0]).contains("does not match the sum"));
        assert!(refused(&[&list], &[3, 1, 4], &[0]).contains("not valid for broadcasted"));
        assert!(refused(&[&list], &[2, 1, 5], &[0]).contains("too large"));
        assert!(refused(&[&list], &[2, 1, 4], &[2]).contains("Axes don't match"));
        assert!(refused(&[&list, &list], &[2, 1, 1], &[0, 0]).contains("Repeat axes"));
        assert!(refused(&[&list], &[2, 1, 4], &[0, 1]).contains("Number of index arrays"));
        let float = updates(&[2]);
        assert!(refused(&[&float], &[2, 1, 4], &[0]).contains("integral"));
        assert!(ops::put_along_axis(&a, &list, &list, 0).is_err());
        assert!(ops::gather(&a, &[&list], &[0], &[1, 5]).is_err());
        assert!(ops::gather(&a, &[&list], &[0], &[1]).is_err());
    });
}
