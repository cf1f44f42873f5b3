//! Sorting and selection on a Vulkan device, against Rust's stable sort.

mod common;
mod layouts;

use std::cmp::Ordering;

use common::with_gpu;
use layouts::{LAYOUTS, Layout, Value, arrange, dtypes, each_row, random};
use mlx_vulkan_core::{Array, Complex, Dtype, bf16, dispatch_dtype, f16, ops};

/// Ascending, NaN last, zeros of both signs equal; complex numbers by real, then imaginary part.
fn order<T: Value>(a: T, b: T) -> Ordering {
    let parts = |x: T| -> [f64; 2] {
        let bytes = bytemuck::bytes_of(&x);
        match T::DTYPE {
            Dtype::Complex64 => {
                let z: Complex = *bytemuck::from_bytes(bytes);
                [z.re.into(), z.im.into()]
            }
            _ => [x.number(), 0.0],
        }
    };
    let real = |x: f64, y: f64| match (x.is_nan(), y.is_nan()) {
        (false, false) => x.partial_cmp(&y).unwrap(),
        (x, y) => x.cmp(&y),
    };
    let wide = |x: T| -> i128 {
        let bytes = bytemuck::bytes_of(&x);
        match T::DTYPE {
            Dtype::Int64 => i64::from_le_bytes(bytes.try_into().unwrap()).into(),
            _ => u64::from_le_bytes(bytes.try_into().unwrap()).into(),
        }
    };
    if matches!(T::DTYPE, Dtype::Int64 | Dtype::Uint64) {
        return wide(a).cmp(&wide(b));
    }
    let (a, b) = (parts(a), parts(b));
    real(a[0], b[0]).then(if a[0].is_nan() { Ordering::Equal } else { real(a[1], b[1]) })
}

fn check<T: Value>(values: &[T], shape: &[usize], axis: usize, layout: Layout) {
    let (a, shown) = arrange(values, shape, layout);
    let (mut elements, mut indices) = (shown.clone(), vec![0u32; shown.len()]);
    each_row(shape, axis, |row| {
        let mut places: Vec<u32> = (0..row.len() as u32).collect();
        places.sort_by(|&i, &j| order(shown[row[i as usize]], shown[row[j as usize]]));
        for (&at, place) in row.iter().zip(places) {
            (elements[at], indices[at]) = (shown[row[place as usize]], place);
        }
    });
    let what = || format!("{} {shape:?} axis {axis} {layout:?}", T::DTYPE);
    let got = ops::argsort(&a, axis as isize).unwrap().to_vec::<u32>().unwrap();
    let bad = (0..got.len()).find(|&i| got[i] != indices[i]);
    assert_eq!(bad.map(|i| (i, got[i], indices[i])), None, "argsort {}", what());
    let got = ops::sort(&a, axis as isize).unwrap().to_vec::<T>().unwrap();
    // Bit by bit: NaN keep their payload and zeros their sign.
    let same = |i: &usize| bytemuck::bytes_of(&got[*i]) == bytemuck::bytes_of(&elements[*i]);
    let bad = (0..got.len()).find(|i| !same(i));
    assert_eq!(bad.map(|i| (i, got[i], elements[i])), None, "sort {}", what());
}

/// Elements of random bits in a narrow range, with many equal ones.
fn repeated<T: Value>(n: usize, seed: u64) -> Vec<T> {
    let mut next = random(seed);
    let low = if T::DTYPE.is_unsigned_integer() || T::DTYPE == Dtype::Bool { 0.0 } else { -40.0 };
    (0..n).map(|_| T::from_f64(low + (next() % 90) as f64)).collect()
}

/// Elements of any bits.
fn any_bits<T: Value>(n: usize, seed: u64) -> Vec<T> {
    let mut next = random(seed);
    (0..n)
        .map(|_| {
            let bits = next() ^ next() << 30;
            match T::DTYPE {
                Dtype::Bool => T::from_f64((bits & 1) as f64),
                _ => *bytemuck::from_bytes(&bits.to_le_bytes()[..size_of::<T>()]),
            }
        })
        .collect()
}

#[test]
fn every_layout_and_axis() {
    with_gpu(|| {
        for layout in LAYOUTS {
            for axis in 0..3 {
                check(&repeated::<f32>(4 * 33 * 6, 5), &[4, 33, 6], axis, layout);
            }
        }
    });
}

#[test]
fn lengths_around_networks_and_tiles() {
    with_gpu(|| {
        for n in [1usize, 2, 31, 32, 33, 255, 256, 257, 1000, 2048, 2049, 4097] {
            check(&repeated::<f32>(n * 2, n as u64), &[2, n], 1, Layout::Contiguous);
        }
        check(&any_bits::<f32>(100_000, 3), &[100_000], 0, Layout::Contiguous);
    });
}

#[test]
fn long_rows_of_every_layout() {
    with_gpu(|| {
        for layout in LAYOUTS {
            check(&repeated::<f32>(3 * 2500, 1), &[3, 2500], 1, layout);
            check(&repeated::<i16>(3 * 2500, 1), &[2500, 3], 0, layout);
        }
    });
}

#[test]
fn every_dtype() {
    with_gpu(|| {
        for dtype in dtypes() {
            dispatch_dtype!(dtype, T => {
                check(&repeated::<T>(300, 1), &[3, 100], 1, Layout::Contiguous);
                check(&any_bits::<T>(100, 3), &[100], 0, Layout::Contiguous);
            });
        }
    });
}

/// One dtype of each size, signedness and kind: the keys themselves are those of short rows.
#[test]
fn long_rows_of_several_dtypes() {
    with_gpu(|| {
        for dtype in [Dtype::Int8, Dtype::Bfloat16, Dtype::Int32, Dtype::Uint64, Dtype::Complex64] {
            dispatch_dtype!(dtype, T => check(&any_bits::<T>(3000, 3), &[3000], 0, Layout::Contiguous));
        }
    });
}

#[test]
fn nan_and_zeros() {
    with_gpu(|| {
        let v = [
            0.0f32,
            f32::NAN,
            -0.0,
            f32::NEG_INFINITY,
            -f32::NAN,
            1e-45,
            -1e-45,
            f32::INFINITY,
            0.0,
        ];
        let long = v.repeat(300);
        let halves: Vec<f16> = long.iter().map(|&x| f16::from_f32(x)).collect();
        let brains: Vec<bf16> = long.iter().map(|&x| bf16::from_f32(x)).collect();
        check(&brains[..9], &[9], 0, Layout::Contiguous);
        for n in [9, 2700] {
            check(&long[..n], &[n], 0, Layout::Contiguous);
            check(&halves[..n], &[n], 0, Layout::Contiguous);
        }
        let parts = [1.0f32, f32::NAN, -1.0];
        let complex: Vec<Complex> =
            (0..9).map(|i| Complex::new(parts[i / 3], parts[i % 3])).collect();
        check(&complex, &[9], 0, Layout::Contiguous);
        check(&complex.repeat(300), &[2700], 0, Layout::Contiguous);
    });
}

#[test]
fn partitions_put_one_element_into_place() {
    with_gpu(|| {
        let v = repeated::<f32>(2 * 700, 4);
        let a = Array::from_slice(&v, &[2, 700]).unwrap();
        for kth in [0isize, 5, 699, -1] {
            let at = kth.rem_euclid(700) as usize;
            let parts = ops::partition(&a, kth, 1).unwrap().to_vec::<f32>().unwrap();
            let picks = ops::argpartition(&a, kth, 1).unwrap().to_vec::<u32>().unwrap();
            for row in 0..2 {
                let mut sorted = v[row * 700..][..700].to_vec();
                sorted.sort_by(f32::total_cmp);
                let part = &parts[row * 700..][..700];
                assert_eq!(part[at], sorted[at]);
                assert!(part[..at].iter().all(|x| *x <= sorted[at]));
                assert!(part[at..].iter().all(|x| *x >= sorted[at]));
                assert_eq!(v[row * 700 + picks[row * 700 + at] as usize], sorted[at]);
            }
        }
    });
}

#[test]
fn nothing_and_one() {
    with_gpu(|| {
        let empty = Array::from_slice::<f32>(&[], &[2, 0]).unwrap();
        assert!(ops::sort(&empty, 1).unwrap().to_vec::<f32>().unwrap().is_empty());
        let one = Array::from_slice(&[7i64], &[1]).unwrap();
        assert_eq!(ops::argsort(&one, 0).unwrap().to_vec::<u32>().unwrap(), [0]);
    });
}
