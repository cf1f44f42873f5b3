//! Sorting and partitioning along axes.

mod common;

use common::*;
use mlx_vulkan_core::{Array, Complex, Dtype, ops};

/// The rows of row-major values along an axis.
fn rows(values: &[f64], shape: &[usize], axis: usize) -> Vec<Vec<f64>> {
    let mut kept = shape.to_vec();
    kept[axis] = 1;
    (0..kept.iter().product())
        .map(|i| {
            let mut index = index_of(i, &kept);
            (0..shape[axis])
                .map(|j| {
                    index[axis] = j;
                    values[number_of(&index, shape)]
                })
                .collect()
        })
        .collect()
}

#[test]
fn every_dtype_layout_and_axis() {
    let shape = [3, 7, 5];
    on_cpu(|| {
        for dtype in Dtype::ALL {
            let values = stored(&sequence(105, 0.0, 50.0), dtype);
            for (layout, a) in layouts(&values, &shape, dtype) {
                for axis in 0..3 {
                    let what = format!("{dtype} {layout} {axis}");
                    let sorted = read(&ops::sort(&a, axis as isize).unwrap());
                    let order = read(&ops::argsort(&a, axis as isize).unwrap());
                    let all = rows(&values, &shape, axis).into_iter();
                    let results =
                        rows(&sorted, &shape, axis).into_iter().zip(rows(&order, &shape, axis));
                    for (row, (sorted, order)) in all.zip(results) {
                        let mut want: Vec<usize> = (0..row.len()).collect();
                        want.sort_by(|&i, &j| row[i].total_cmp(&row[j]));
                        assert_eq!(
                            order,
                            want.iter().map(|&i| i as f64).collect::<Vec<_>>(),
                            "{what}"
                        );
                        assert_eq!(
                            sorted,
                            want.iter().map(|&i| row[i]).collect::<Vec<_>>(),
                            "{what}"
                        );
                    }
                }
            }
        }
    });
}

#[test]
fn nan_is_last_and_equals_keep_their_order() {
    on_cpu(|| {
        let nan = f32::NAN;
        let a = Array::from_slice(&[nan, 2.0, -f32::INFINITY, nan, 0.0, -0.0], &[6]).unwrap();
        let sorted = ops::sort(&a, 0).unwrap().to_vec::<f32>().unwrap();
        assert_eq!(sorted[..4], [-f32::INFINITY, 0.0, 0.0, 2.0]);
        assert!(sorted[4].is_nan() && sorted[5].is_nan() && sorted[1].is_sign_positive());
        assert_eq!(ops::argsort(&a, 0).unwrap().to_vec::<u32>().unwrap(), [2, 4, 5, 1, 0, 3]);
        let (x, y, z) = (Complex::new(1.0, 5.0), Complex::new(1.0, -5.0), Complex::new(0.0, 9.0));
        let a = Array::from_slice(&[x, y, z], &[3]).unwrap();
        assert_eq!(ops::sort(&a, 0).unwrap().to_vec::<Complex>().unwrap(), [z, y, x]);
    });
}

#[test]
fn long_rows() {
    on_cpu(|| {
        let values = stored(&sequence(150_000, -1.0, 1.0), Dtype::Float32);
        let a = array(&values, &[150_000], Dtype::Float32);
        let mut want = values.clone();
        want.sort_by(f64::total_cmp);
        assert_same(&ops::sort(&a, 0).unwrap(), &want, "sort");
        let order = read(&ops::argsort(&a, 0).unwrap());
        assert!(order.iter().zip(&want).all(|(&i, &w)| values[i as usize] == w));
    });
}

#[test]
fn partitions() {
    on_cpu(|| {
        for axis in [0isize, 1] {
            let values = stored(&sequence(12 * 40, -1.0, 1.0), Dtype::Float32);
            let a = array(&values, &[12, 40], Dtype::Float32);
            let n = a.shape()[axis as usize];
            for kth in [0, 3, n - 1] {
                let parts = read(&ops::partition(&a, kth as isize, axis).unwrap());
                let places = read(&ops::argpartition(&a, kth as isize, axis).unwrap());
                let all = rows(&values, &[12, 40], axis as usize);
                let parts = rows(&parts, &[12, 40], axis as usize);
                let places = rows(&places, &[12, 40], axis as usize);
                for ((row, part), place) in all.iter().zip(parts).zip(places) {
                    let mut sorted = row.clone();
                    sorted.sort_by(f64::total_cmp);
                    let picked: Vec<f64> = place.iter().map(|&i| row[i as usize]).collect();
                    for got in [&part, &picked] {
                        assert_eq!(got[kth], sorted[kth]);
                        assert!(got[..kth].iter().all(|&x| x <= sorted[kth]));
                        assert!(got[kth..].iter().all(|&x| x >= sorted[kth]));
                    }
                }
            }
        }
        let a = array(&[4.0, 1.0, 3.0, 2.0], &[4], Dtype::Int32);
        let mut top = read(&ops::topk(&a, 2, 0).unwrap());
        top.sort_by(f64::total_cmp);
        assert_eq!(top, [3.0, 4.0]);
    });
}

#[test]
fn nothing_to_sort() {
    on_cpu(|| {
        let a = array(&[], &[0, 3], Dtype::Float32);
        assert_same(&ops::sort(&a, 0).unwrap(), &[], "along the empty axis");
        assert_same(&ops::argsort(&a, 1).unwrap(), &[], "along the other");
    });
}
