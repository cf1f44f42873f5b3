//! Reading at indices on a Vulkan device, against loops in Rust.

mod common;
mod layouts;

use common::with_gpu;
use layouts::{LAYOUTS, Layout, Value, arrange, dtypes, ravel, small, unravel};
use mlx_vulkan_core::{
    Array, Complex, Dtype, array::FromF64, bf16, dispatch_dtype, dtype::Element, f16, ops,
};

/// From the end if negative, and then the nearest that exists.
fn wrap(i: i64, n: usize) -> usize {
    let n = n as i64;
    (if i < 0 { i + n } else { i }).clamp(0, n - 1) as usize
}

/// Picks along an axis of size `n`, some of them negative.
fn picks(count: usize, n: usize) -> Vec<i64> {
    (0..count as i64).map(|i| i * 7 % (2 * n as i64) - n as i64).collect()
}

fn bits<T: Element>(values: &[T]) -> Vec<&[u8]> {
    values.iter().map(bytemuck::bytes_of).collect()
}

fn check_take<T: Value>(shape: &[usize], axis: usize, layout: Layout, pick_layout: Layout) {
    let n: usize = shape.iter().product();
    let (a, shown) = arrange(&small::<T>(n, 3), shape, layout);
    let (indices, picked) = arrange(&picks(6, shape[axis]), &[2, 3], pick_layout);
    let indices = ops::astype(&indices, Dtype::Int32).unwrap();
    let got = ops::take(&a, &indices, axis as isize).unwrap();
    let mut flat = shape.to_vec();
    flat[axis] = 6;
    let count: usize = flat.iter().product();
    let want: Vec<T> = (0..count)
        .map(|i| {
            let mut index = unravel(i, &flat);
            index[axis] = wrap(picked[index[axis]], shape[axis]);
            shown[ravel(&index, shape)]
        })
        .collect();
    let got = got.to_vec::<T>().unwrap();
    assert_eq!(
        bits(&got),
        bits(&want),
        "take {} {shape:?} axis {axis} {layout:?} {pick_layout:?}",
        T::DTYPE
    );
}

fn check_along<T: Value>(shape: &[usize], axis: usize, layout: Layout, pick_layout: Layout) {
    let n: usize = shape.iter().product();
    let (a, shown) = arrange(&small::<T>(n, 3), shape, layout);
    let mut out = shape.to_vec();
    out[axis] = 5;
    let count = out.iter().product();
    let (indices, picked) = arrange(&picks(count, shape[axis]), &out, pick_layout);
    let got = ops::take_along_axis(&a, &indices, axis as isize).unwrap();
    let want: Vec<T> = (0..count)
        .map(|i| {
            let mut index = unravel(i, &out);
            index[axis] = wrap(picked[i], shape[axis]);
            shown[ravel(&index, shape)]
        })
        .collect();
    let got = got.to_vec::<T>().unwrap();
    assert_eq!(
        bits(&got),
        bits(&want),
        "along {} {shape:?} axis {axis} {layout:?} {pick_layout:?}",
        T::DTYPE
    );
}

#[test]
fn every_layout_and_axis() {
    with_gpu(|| {
        for layout in LAYOUTS {
            for axis in 0..3 {
                for pick_layout in [Layout::Contiguous, Layout::Transposed, Layout::Sliced] {
                    check_take::<f32>(&[4, 9, 6], axis, layout, pick_layout);
                    check_along::<f32>(&[4, 9, 6], axis, layout, pick_layout);
                }
            }
        }
    });
}

#[test]
fn every_dtype_and_word() {
    with_gpu(|| {
        for dtype in dtypes() {
            dispatch_dtype!(dtype, T => {
                // Slices of whole 16-byte words, of smaller words, and of single elements.
                for width in [64, 12, 6, 3, 1] {
                    check_take::<T>(&[9, width], 0, Layout::Contiguous, Layout::Contiguous);
                }
                check_along::<T>(&[9, 3], 0, Layout::Contiguous, Layout::Contiguous);
            });
        }
    });
}

#[test]
fn indices_of_every_dtype_stay_inside() {
    with_gpu(|| {
        let a = Array::from_slice(&[10.0f32, 11.0, 12.0], &[3]).unwrap();
        for dtype in dtypes().filter(|d| d.is_integer()) {
            let mut wanted = vec![0i64, 2, 1, 3, 100];
            if dtype.is_signed_integer() {
                wanted.extend([-1, -3, -4, -100]);
            }
            let want: Vec<f32> = wanted.iter().map(|&i| 10.0 + wrap(i, 3) as f32).collect();
            dispatch_dtype!(dtype, T => {
                let v: Vec<T> = wanted.iter().map(|&i| <T as FromF64>::from_f64(i as f64)).collect();
                let indices = Array::from_slice(&v, &[v.len()]).unwrap();
                assert_eq!(ops::take(&a, &indices, 0).unwrap().to_vec::<f32>().unwrap(), want, "{dtype}");
                let got = ops::take_along_axis(&a, &indices, 0).unwrap();
                assert_eq!(got.to_vec::<f32>().unwrap(), want, "{dtype}");
            });
        }
        let far = Array::from_slice(&[u64::MAX, 1 << 40], &[2]).unwrap();
        assert_eq!(ops::take(&a, &far, 0).unwrap().to_vec::<f32>().unwrap(), [12.0; 2]);
        let far = Array::from_slice(&[i64::MIN, i64::MAX], &[2]).unwrap();
        assert_eq!(ops::take(&a, &far, 0).unwrap().to_vec::<f32>().unwrap(), [10.0, 12.0]);
    });
}

#[test]
fn an_embedding_of_many_rows() {
    with_gpu(|| {
        let (rows, width, count) = (500usize, 96usize, 1000usize);
        let table: Vec<bf16> = (0..rows * width).map(|i| bf16::from_bits(i as u16)).collect();
        let ids: Vec<u32> = (0..count as u32).map(|i| i * 31 % 500).collect();
        let a = Array::from_slice(&table, &[rows, width]).unwrap();
        let got = ops::take(&a, &Array::from_slice(&ids, &[count]).unwrap(), 0).unwrap();
        let got: Vec<u16> = got.to_vec::<bf16>().unwrap().iter().map(|x| x.to_bits()).collect();
        let want: Vec<u16> = ids
            .iter()
            .flat_map(|&r| (0..width).map(move |j| (r as usize * width + j) as u16))
            .collect();
        assert!(got == want);
    });
}

#[test]
fn scalars_and_nothing() {
    with_gpu(|| {
        let a = Array::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap();
        let one = ops::take(&a, &Array::scalar(-1i32).unwrap(), 0).unwrap();
        assert_eq!((one.shape(), one.to_vec::<f32>().unwrap()), (&[2usize][..], vec![3.0, 4.0]));
        let none = Array::from_slice::<i32>(&[], &[0]).unwrap();
        assert_eq!(ops::take(&a, &none, 1).unwrap().shape(), [2, 0]);
        assert!(ops::take(&a, &none, 1).unwrap().to_vec::<f32>().unwrap().is_empty());
        let half = Array::from_slice(&[f16::ONE], &[1]).unwrap();
        let got = ops::take(&half, &Array::from_slice(&[0u8, 0], &[2]).unwrap(), 0).unwrap();
        assert_eq!(got.to_vec::<f16>().unwrap(), [f16::ONE; 2]);
        let complex = Array::from_slice(&[Complex::new(1.0, 2.0)], &[1, 1]).unwrap();
        let got = ops::take(&complex, &Array::scalar(0u64).unwrap(), 0).unwrap();
        assert_eq!(got.item::<Complex>().unwrap(), Complex::new(1.0, 2.0));
    });
}
