//! Joining arrays and replacing parts of them.

mod common;

use common::*;
use mlx_vulkan_core::{Array, Dtype, ops};

#[test]
fn joins_along_every_axis() {
    on_cpu(|| {
        for dtype in Dtype::ALL {
            for axis in 0..3 {
                let (mut sa, mut sb) = ([2, 3, 4], [2, 3, 4]);
                (sa[axis], sb[axis]) = (2, 5);
                let a = stored(&sequence(sa.iter().product(), 0.0, 50.0), dtype);
                let b = stored(&sequence(sb.iter().product(), 50.0, 99.0), dtype);
                let mut so = sa;
                so[axis] = 7;
                let want: Vec<f64> = (0..so.iter().product())
                    .map(|i| {
                        let mut index = index_of(i, &so);
                        if index[axis] < 2 {
                            return a[number_of(&index, &sa)];
                        }
                        index[axis] -= 2;
                        b[number_of(&index, &sb)]
                    })
                    .collect();
                for (la, a) in layouts(&a, &sa, dtype) {
                    for (lb, b) in layouts(&b, &sb, dtype) {
                        let got = ops::concatenate(&[&a, &b], axis as isize).unwrap();
                        assert_same(&got, &want, &format!("{dtype} {la} {lb} {axis}"));
                    }
                }
            }
        }
    });
}

#[test]
fn joins_of_odd_inputs() {
    on_cpu(|| {
        let a = array(&[1.0, 2.0], &[2], Dtype::Int32);
        let empty = array(&[], &[0], Dtype::Int32);
        let got = ops::concatenate(&[&empty, &a, &empty, &a, &a], 0).unwrap();
        assert_same(&got, &[1.0, 2.0, 1.0, 2.0, 1.0, 2.0], "the same array again");
        let repeated = ops::broadcast_to(&a, &[3, 2]).unwrap();
        let got = ops::stack(&[&repeated, &repeated], 1).unwrap();
        assert_same(&got, &[1.0, 2.0, 1.0, 2.0].repeat(3), "broadcast");
        let long = array(&sequence(100_000, 0.0, 1.0), &[100_000], Dtype::Float32);
        let want = [read(&long), read(&long)].concat();
        assert_same(&ops::concatenate(&[&long, &long], 0).unwrap(), &want, "large");
    });
}

#[test]
fn replaces_slices() {
    let shape = [4, 5, 6];
    on_cpu(|| {
        for dtype in Dtype::ALL {
            let values = stored(&sequence(120, 0.0, 50.0), dtype);
            // Rows 1 and 3, columns 3..1 backwards, every second element.
            let (start, stop, step) = ([1, 3, 0], [4, 0, 6], [2, -1, 2]);
            let update = stored(&sequence(2 * 3 * 3, 50.0, 99.0), dtype);
            let mut want = values.clone();
            for (i, &v) in update.iter().enumerate() {
                let j = index_of(i, &[2, 3, 3]);
                want[number_of(&[1 + 2 * j[0], 3 - j[1], 2 * j[2]], &shape)] = v;
            }
            for (la, a) in layouts(&values, &shape, dtype) {
                for (lu, update) in layouts(&update, &[2, 3, 3], dtype) {
                    let got = ops::slice_update(&a, &update, &start, &stop, &step).unwrap();
                    assert_same(&got, &want, &format!("{dtype} {la} {lu}"));
                    assert_same(&a, &values, "the original stays");
                }
            }
        }
    });
}

#[test]
fn replaces_in_place() {
    on_cpu(|| {
        let mut cache = ops::zeros(&[2, 600, 8], Dtype::Float32).unwrap();
        cache.eval().unwrap();
        let memory = cache.data().unwrap().buffer.id();
        for t in 0..3 {
            let row = Array::scalar_of(t as f64 + 1.0, Dtype::Float32).unwrap();
            let new =
                ops::slice_update(&cache, &row, &[0, t, 0], &[2, t + 1, 8], &[1, 1, 1]).unwrap();
            drop(cache);
            new.eval().unwrap();
            assert_eq!(new.data().unwrap().buffer.id(), memory, "step {t} copied the cache");
            cache = new;
        }
        let used = ops::slice_axis(&cache, 1, 0, 4).unwrap();
        let want: Vec<f64> = (0..64).map(|i| [1.0, 2.0, 3.0, 0.0][i / 8 % 4]).collect();
        assert_same(&used, &want, "cache");
    });
}
