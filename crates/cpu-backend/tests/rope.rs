//! Rotary embedding against upstream and float64.

mod common;
mod near;

use common::*;
use mlx_vulkan_core::{Array, Dtype, fast, ops};
use near::*;

const FREQS: [f64; 4] = [1.0, 2.5, 7.0, 30.0];

#[test]
fn upstreams_results() {
    on_cpu(|| {
        for case in upstream("rope") {
            let dims = case["dims"].as_u64().unwrap() as usize;
            let x = array(&hashed(96, dims as u64), &[2, 2, 3, 8], Dtype::Float32);
            let offset = numbers(&case["offset"]);
            let shape: &[usize] = if offset.len() == 1 { &[] } else { &[2] };
            let offset = array(&offset, shape, Dtype::Int32);
            let freqs = array(&FREQS[..dims / 2], &[dims / 2], Dtype::Float32);
            let with_base = case["kind"] == "base";
            let got = fast::rope(
                &x,
                dims,
                case["traditional"].as_bool().unwrap(),
                with_base.then_some(10000.0),
                0.5,
                &offset,
                (!with_base).then_some(&freqs),
            );
            let mut what = case.clone();
            what["out"].take();
            assert_within(&got.unwrap(), &numbers(&case["out"]), 4e-6, &what.to_string());
        }
    });
}

/// Rotation of row-major (batch, heads, positions, features).
fn rotated(
    x: &[f64],
    shape: [usize; 4],
    dims: usize,
    traditional: bool,
    offsets: &[f64],
) -> Vec<f64> {
    let mut out = x.to_vec();
    for (i, row) in out.chunks_mut(shape[3]).enumerate() {
        let batch = i / shape[1] / shape[2];
        let position = (i % shape[2]) as f64 + offsets[batch % offsets.len()];
        for pair in 0..dims / 2 {
            let angle = position * 10000f64.powf(-2.0 * pair as f64 / dims as f64);
            let (a, b) =
                if traditional { (2 * pair, 2 * pair + 1) } else { (pair, pair + dims / 2) };
            let (x, y) = (row[a], row[b]);
            row[a] = x * angle.cos() - y * angle.sin();
            row[b] = x * angle.sin() + y * angle.cos();
        }
    }
    out
}

#[test]
fn every_dtype_and_layout() {
    on_cpu(|| {
        for dtype in FLOATS {
            for shape in [[2, 3, 5, 16], [2, 1, 1, 64], [2, 8, 70, 64]] {
                let x = stored(&sequence(shape.iter().product(), -1.0, 1.0), dtype);
                for (layout, x_array) in layouts(&x, &shape, dtype) {
                    for (traditional, dims) in [(false, shape[3]), (true, shape[3]), (false, 12)] {
                        let offset = Array::from_slice(&[7i32, 100_000], &[2]).unwrap();
                        let want = rotated(&x, shape, dims, traditional, &[7.0, 100_000.0]);
                        let got = fast::rope(
                            &x_array,
                            dims,
                            traditional,
                            Some(10000.0),
                            1.0,
                            &offset,
                            None,
                        );
                        let what = format!("{dtype} {layout} {shape:?} {traditional} {dims}");
                        assert_within(&got.unwrap(), &want, 4.0 * sum_epsilon(dtype), &what);
                    }
                }
            }
        }
    });
}

/// The layout in which models hand queries over: heads and positions transposed.
#[test]
fn transposed_heads_and_in_place() {
    on_cpu(|| {
        let shape = [1, 4, 6, 32];
        let x = sequence(4 * 6 * 32, -1.0, 1.0);
        let by_position: Vec<f64> =
            (0..x.len()).map(|i| x[number_of(&[0, i / 32 % 4, i / 128, i % 32], &shape)]).collect();
        let x_array = array(&by_position, &[1, 6, 4, 32], Dtype::Float32);
        let heads = ops::transpose(&x_array, &[0, 2, 1, 3]).unwrap();
        let want = rotated(&x, shape, 32, false, &[3.0]);
        let got = fast::rope(&heads, 32, false, Some(10000.0), 1.0, 3, None).unwrap();
        assert_within(&got, &want, 1e-6, "transposed");

        let doubled = ops::add(array(&x, &shape, Dtype::Float32), 0.0f32).unwrap();
        let got = fast::rope(&doubled, 32, false, Some(10000.0), 1.0, 3, None).unwrap();
        drop(doubled);
        assert_within(&got, &want, 1e-6, "in place");
    });
}
