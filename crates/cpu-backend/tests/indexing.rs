//! Reading elements at indices.

mod common;

use common::*;
use mlx_vulkan_core::{Array, Dtype, ops};

#[test]
fn takes_slices() {
    let shape = [3, 4, 5];
    on_cpu(|| {
        for dtype in Dtype::ALL {
            let values = stored(&sequence(60, 0.0, 99.0), dtype);
            for axis in 0..3 {
                let picks = [1.0, 0.0, 2.0, 2.0, 1.0, 0.0];
                let mut out = shape.to_vec();
                out.splice(axis..axis + 1, [2, 3]);
                let want: Vec<f64> = (0..out.iter().product())
                    .map(|i| {
                        let mut index = index_of(i, &out);
                        let pick = picks[index[axis] * 3 + index[axis + 1]] as usize;
                        index.splice(axis..axis + 2, [pick]);
                        values[number_of(&index, &shape)]
                    })
                    .collect();
                for (la, a) in layouts(&values, &shape, dtype) {
                    for (li, indices) in layouts(&picks, &[2, 3], Dtype::Uint32) {
                        let got = ops::take(&a, &indices, axis as isize).unwrap();
                        assert_same(&got, &want, &format!("{dtype} {la} {li} {axis}"));
                    }
                }
            }
        }
    });
}

#[test]
fn any_index_dtype_and_any_index() {
    on_cpu(|| {
        let a = array(&[10.0, 11.0, 12.0, 13.0], &[4], Dtype::Float32);
        for dtype in INTS {
            let indices = array(&[3.0, 0.0, 100.0], &[3], dtype);
            assert_same(&ops::take(&a, &indices, 0).unwrap(), &[13.0, 10.0, 13.0], dtype.name());
            if dtype.is_signed_integer() {
                let indices = array(&[-1.0, -4.0, -100.0], &[3], dtype);
                assert_same(
                    &ops::take(&a, &indices, 0).unwrap(),
                    &[13.0, 10.0, 10.0],
                    dtype.name(),
                );
            }
        }
        let wild = Array::from_slice(&[i64::MIN, i64::MAX], &[2]).unwrap();
        assert_same(&ops::take(&a, &wild, 0).unwrap(), &[10.0, 13.0], "clamped");
        let scalar = Array::scalar(2i32).unwrap();
        assert_same(&ops::take(&a, &scalar, 0).unwrap(), &[12.0], "scalar index");
        let none = array(&[], &[0], Dtype::Int32);
        assert_same(&ops::take(&a, &none, 0).unwrap(), &[], "no index");
    });
}

#[test]
fn embeds_rows() {
    on_cpu(|| {
        let table = stored(&sequence(1000 * 64, -1.0, 1.0), Dtype::Bfloat16);
        let ids: Vec<f64> = (0..3000).map(|i| (i * 37 % 1000) as f64).collect();
        let a = array(&table, &[1000, 64], Dtype::Bfloat16);
        let got = ops::take(&a, &array(&ids, &[3, 1000], Dtype::Int32), 0).unwrap();
        assert_eq!(got.shape(), [3, 1000, 64]);
        let want: Vec<f64> =
            ids.iter().flat_map(|&i| &table[i as usize * 64..][..64]).copied().collect();
        assert_same(&got, &want, "embedding");
    });
}

#[test]
fn takes_along_axes() {
    let shape = [3, 4, 5];
    on_cpu(|| {
        for dtype in Dtype::ALL {
            let values = stored(&sequence(60, 0.0, 99.0), dtype);
            for axis in 0..3 {
                let mut out = shape;
                out[axis] = 2;
                let n = out.iter().product();
                let picks: Vec<f64> = (0..n)
                    .map(|i| (i * 7 % shape[axis]) as f64 - (i % 2 * shape[axis]) as f64)
                    .collect();
                let want: Vec<f64> = (0..n)
                    .map(|i| {
                        let mut index = index_of(i, &out);
                        index[axis] = i * 7 % shape[axis];
                        values[number_of(&index, &shape)]
                    })
                    .collect();
                for (la, a) in layouts(&values, &shape, dtype) {
                    for (li, indices) in layouts(&picks, &out, Dtype::Int32) {
                        let got = ops::take_along_axis(&a, &indices, axis as isize).unwrap();
                        assert_same(&got, &want, &format!("{dtype} {la} {li} {axis}"));
                    }
                }
            }
        }
    });
}

#[test]
fn sorted_by_indices() {
    on_cpu(|| {
        let a = array(&sequence(80_000, -1.0, 1.0), &[400, 200], Dtype::Float32);
        let order = ops::argsort(&a, -1).unwrap();
        let taken = ops::take_along_axis(&a, &order, -1).unwrap();
        assert_same(&taken, &read(&ops::sort(&a, -1).unwrap()), "argsort sorts");
    });
}
