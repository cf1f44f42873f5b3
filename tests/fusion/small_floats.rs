//! Products with matrices of small floats in groups: norms, siblings, gates, residuals and biases.

use mlx::{Array, Device, Dtype, Result, fast, ops, ops::FpMode, vulkan::stats::Snapshot};
use mlx_tests::filled;

use super::{
    Linear, agrees, assert_close,
    biases::{alone, same},
    int8_rows::{INT8_ROWS, was_used},
    interpreter::{self, counted},
    noise,
    products::{self, DTYPES, gated},
    turn,
};

const MODES: [FpMode; 3] = [FpMode::Mxfp4, FpMode::Nvfp4, FpMode::Mxfp8];

pub(crate) fn all() {
    siblings_and_norms();
    gates();
    residuals();
    biases();
    long_rows_and_many_results();
    what_stays_single();
}

/// The format of which bits and group size are also those of an affine one that is often used.
const LIKE_AFFINE: (usize, usize) = (4, 32);

/// Whether so many rows go to the kernel of several rows on cooperative matrices, which takes no norm.
fn takes_several(rows: usize, mode: FpMode, dtype: Dtype) -> bool {
    let fits = mode == FpMode::Mxfp4 && dtype == Dtype::Bfloat16 && rows <= 16;
    fits && products::takes_several(rows, Some((4, 32)), dtype)
}

/// Every format with rows of every count and dtype.
fn every(rows: &[usize], check: impl Fn(usize, FpMode, Dtype)) {
    for (i, &rows) in rows.iter().enumerate() {
        for (k, mode) in MODES.into_iter().enumerate() {
            check(rows, mode, DTYPES[(i + k) % 3]);
        }
    }
}

/// Three products of a normalized row are one kernel, also of an inner axis that is no power of two and with
/// results that no team shares evenly.
#[test]
fn siblings_and_norms() {
    let _turn = turn();
    every(&[1, 2, 3, 4, 5, 8], |rows, mode, dtype| {
        let several = takes_several(rows, mode, dtype);
        let (inner, outputs) = match (several, rows.is_multiple_of(2)) {
            (true, _) => (416, [96, 32, 48]),
            (false, true) => (192, [96, 32, 40]),
            (false, false) => (416, [33, 64, 7]),
        };
        let x = noise(1, &[rows, 1, inner], dtype);
        let weight = noise(2, &[inner], dtype);
        let products = outputs.map(|n| Linear::floats(n as u64, n, inner, mode, dtype));
        let what = format!("{mode:?} {dtype} {rows}x{inner}x{outputs:?}");
        let all = |x: &Array| products.iter().map(|p| p.forward(x)).collect();
        agrees(&format!("{what}, normalized"), 2 + u64::from(!several), dtype, &|| {
            all(&fast::rms_norm(&x, Some(&weight), 1e-5)?)
        });
        agrees(&what, 2, dtype, &|| all(&x));
    });
}

#[test]
pub(crate) fn gates() {
    let _turn = turn();
    every(&[1, 2, 3, 4], |rows, mode, dtype| {
        let x = noise(6, &[rows, 256], dtype);
        let weight = noise(7, &[256], dtype);
        let [gate, up] = [8, 9].map(|seed| Linear::floats(seed, 160, 256, mode, dtype));
        for up_first in [false, true] {
            let fused = 4 + u64::from(!takes_several(rows, mode, dtype));
            agrees(&format!("{mode:?} {dtype} {rows} rows, {up_first}"), fused, dtype, &|| {
                let y = fast::rms_norm(&x, Some(&weight), 1e-6)?;
                Ok(vec![gated(up_first, &gate.forward(&y)?, &up.forward(&y)?)?])
            });
        }
    });
}

#[test]
pub(crate) fn residuals() {
    let _turn = turn();
    every(&[1, 2, 3, 4], |rows, mode, dtype| {
        let (h, x) = (noise(10, &[rows, 512], dtype), noise(11, &[rows, 96], dtype));
        let down = Linear::floats(12, 96, 512, mode, dtype);
        let what = format!("{mode:?} {dtype} {rows} rows");
        agrees(&what, 1, dtype, &|| Ok(vec![ops::add(&x, &down.forward(&h)?)?]));
        agrees(&what, 1, dtype, &|| Ok(vec![ops::add(&down.forward(&h)?, &x)?]));
    });
}

/// With the bits of additions of their own, alone, before a residual and before a gate.
#[test]
pub(crate) fn biases() {
    let _turn = turn();
    every(&[1, 2, 3, 4], |rows, mode, dtype| {
        let x = noise(20, &[rows, 192], dtype);
        let [q, k] = [21, 22].map(|seed| Linear::floats(seed, 96, 192, mode, dtype));
        let [b, c] = [23, 24].map(|seed| noise(seed, &[96], dtype));
        let (residual, weight) = (noise(25, &[rows, 96], dtype), noise(26, &[192], dtype));
        let what = format!("{mode:?} {dtype} {rows} rows");
        let biased = |x: &Array| -> Result<[Array; 2]> {
            Ok([ops::add(&q.forward(x)?, &b)?, ops::add(&k.forward(x)?, &c)?])
        };
        same(&format!("{what}, siblings"), 3, dtype, &|| Ok(biased(&x)?.to_vec()), &|| {
            let (q, k) = (alone(q.forward(&x)?)?, alone(k.forward(&x)?)?);
            Ok(vec![alone(ops::add(&q, &b)?)?, alone(ops::add(&k, &c)?)?])
        });
        let sum = || ops::add(&residual, &ops::add(&q.forward(&x)?, &b)?);
        same(&format!("{what}, residual"), 2, dtype, &|| Ok(vec![sum()?]), &|| {
            let y = alone(ops::add(&alone(q.forward(&x)?)?, &b)?)?;
            Ok(vec![ops::add(&residual, &y)?])
        });
        let fused = 6 + u64::from(!takes_several(rows, mode, dtype));
        agrees(&format!("{what}, gated"), fused, dtype, &|| {
            let [gate, up] = biased(&fast::rms_norm(&x, Some(&weight), 1e-6)?)?;
            Ok(vec![gated(rows == 2, &gate, &up)?])
        });
    });
}

/// Sizes of which affine products go to cooperative matrices where the device has them; rows that are too
/// long for a workgroup to keep are in no group.
#[test]
fn long_rows_and_many_results() {
    let _turn = turn();
    let shapes = [(1, 8192, 48, 1), (2, 4096, 32, 1), (5, 1024, 64, 1), (3, 12_288, 32, 0)];
    for (i, (rows, inner, outputs, fused)) in shapes.into_iter().enumerate() {
        for (k, mode) in MODES.into_iter().enumerate() {
            let dtype = [Dtype::Bfloat16, Dtype::Float16][(i + k) % 2];
            let (x, weight) = (noise(30, &[rows, inner], dtype), noise(31, &[inner], dtype));
            let residual = noise(32, &[rows, outputs], dtype);
            let [a, b] = [33, 34].map(|seed| Linear::floats(seed, outputs, inner, mode, dtype));
            let what = format!("{mode:?} {dtype} {rows}x{inner}x{outputs}");
            agrees(&format!("{what}, residual"), fused, dtype, &|| {
                Ok(vec![ops::add(&residual, &a.forward(&x)?)?])
            });
            let norm = u64::from(!takes_several(rows, mode, dtype));
            agrees(&format!("{what}, gated"), (4 + norm) * fused, dtype, &|| {
                let y = fast::rms_norm(&x, Some(&weight), 1e-6)?;
                Ok(vec![gated(true, &a.forward(&y)?, &b.forward(&y)?)?])
            });
        }
    }
    let (x, residual) = (noise(35, &[1, 128], DTYPES[0]), noise(36, &[1, 40_000], DTYPES[0]));
    for mode in MODES {
        let head = Linear::floats(37, 40_000, 128, mode, DTYPES[0]);
        agrees(&format!("{mode:?}, many results"), 1, DTYPES[0], &|| {
            Ok(vec![ops::add(&head.forward(&x)?, &residual)?])
        });
    }
}

/// Formats that only look alike are no siblings; what is no whole chunk, and more rows than are few, is as
/// before.
#[test]
fn what_stays_single() {
    let _turn = turn();
    let dtype = Dtype::Bfloat16;
    let x = noise(50, &[1, 192], dtype);
    let affine = Linear::new(51, 64, 192, Some(LIKE_AFFINE), dtype);
    let [mx, nv, eight] = MODES.map(|mode| Linear::floats(52, 64, 192, mode, dtype));
    agrees("four formats", 0, dtype, &|| {
        [&affine, &mx, &nv, &eight].iter().map(|product| product.forward(&x)).collect()
    });
    let eight_bits = Linear::new(51, 64, 192, Some((8, 32)), dtype);
    agrees("8 bits", 0, dtype, &|| Ok(vec![eight_bits.forward(&x)?, eight.forward(&x)?]));
    let (x, residual) = (noise(53, &[1, 176], dtype), noise(54, &[1, 64], dtype));
    let odd = Linear::floats(55, 64, 176, FpMode::Nvfp4, dtype);
    agrees("11 groups", 0, dtype, &|| Ok(vec![ops::add(&residual, &odd.forward(&x)?)?]));
    for (i, mode) in MODES.into_iter().enumerate() {
        // The first of them have a kernel where the device has cooperative matrices.
        let rows = [9, 17, 300][i];
        let x = noise(56, &[rows, 256], dtype);
        let residual = noise(57, &[rows, 64], dtype);
        let [a, b] = [58, 59].map(|seed| Linear::floats(seed, 64, 256, mode, dtype));
        let fused = u64::from(takes_several(rows, mode, dtype));
        agrees(&format!("{mode:?}, {rows} rows"), fused, dtype, &|| {
            Ok(vec![ops::add(&residual, &a.forward(&x)?)?, b.forward(&x)?])
        });
    }
}

/// Layers in every format are runs, with biases and without.
#[test]
fn layers_become_runs() {
    let test = "small_floats::layers_become_runs";
    mlx_tests::in_child(
        test,
        &[interpreter::ON, INT8_ROWS, ("MLX_VK_ENABLE_HALF_ROWS", "0")],
        || {
            decoders();
            was_used("interpreter_floats");
        },
    );
}

/// The same with half rows, where the device keeps subnormal halves.
#[test]
fn layers_become_runs_of_half_rows() {
    let test = "small_floats::layers_become_runs_of_half_rows";
    mlx_tests::in_child(test, &[interpreter::ON], || {
        decoders();
        was_used(runs_by());
    });
}

fn decoders() {
    let _turn = turn();
    interpreter::decoder_of_floats(FpMode::Mxfp4, Dtype::Bfloat16, 0);
    interpreter::decoder_of_floats(FpMode::Nvfp4, Dtype::Float16, 0);
    interpreter::decoder_of_floats(FpMode::Mxfp8, Dtype::Bfloat16, 3);
}

/// The kernel of runs of small floats.
fn runs_by() -> &'static str {
    let halves = mlx::vulkan::capabilities(0).unwrap().float16_denormals;
    if halves { "interpreter_halves" } else { "interpreter_floats" }
}

/// Rows whose chunks of 32 elements are of different sizes, one of them zeros, and long ones: as the CPU has
/// it. Times a power of two they give the results times that, to the bit: half rows have such units.
#[test]
fn rows_of_any_size_are_multiplied() {
    let test = "small_floats::rows_of_any_size_are_multiplied";
    let few = ("MLX_VK_INTERPRETER_MIN_STEPS", "1");
    mlx_tests::in_child(test, &[interpreter::ON, few], || {
        let _turn = turn();
        for (mode, inner) in MODES.into_iter().flat_map(|mode| [(mode, 160), (mode, 2176)]) {
            let floats = Linear::floats(70, 96, inner, mode, Dtype::Bfloat16);
            let element = mlx_tests::noise(71, -1.0, 1.0);
            let x = |power| {
                filled(&[1, inner], Dtype::Bfloat16, |i| {
                    let size = (i / 32 % 5) as i32;
                    if size == 3 { 0.0 } else { element(i) * f64::powi(2.0, size * 3 - 6 + power) }
                })
            };
            let product = |device, power| {
                let x = x(power);
                let (got, snapshot) = counted(device, &|| Ok(vec![floats.forward(&x)?]));
                assert_eq!(snapshot.interpreted, u64::from(device == Device::GPU), "{mode:?}");
                got[0].clone()
            };
            let got = product(Device::GPU, 0);
            let what = format!("{mode:?} of {inner}");
            assert_close(&what, Dtype::Bfloat16, &product(Device::CPU, 0), &got);
            for power in [-80, -20, 20, 80] {
                let scaled: Vec<f64> = got.iter().map(|y| y * f64::powi(2.0, power)).collect();
                assert_eq!(product(Device::GPU, power), scaled, "{what} times 2^{power}");
            }
        }
        was_used(runs_by());
    });
}

/// A run has matrices of one format, also where another one has the same bits and groups.
#[test]
fn formats_end_runs() {
    let test = "small_floats::formats_end_runs";
    let few = ("MLX_VK_INTERPRETER_MIN_STEPS", "1");
    mlx_tests::in_child(test, &[interpreter::ON, few, INT8_ROWS], || {
        let _turn = turn();
        let dtype = Dtype::Bfloat16;
        let x = noise(60, &[1, 128], dtype);
        let [a, b] = [61, 62].map(|seed| Linear::new(seed, 128, 128, Some(LIKE_AFFINE), dtype));
        for mode in MODES {
            let floats = Linear::floats(63, 128, 128, mode, dtype);
            let graph = || {
                let y = a.forward(&x)?;
                let z = ops::add(&y, &floats.forward(&y)?)?;
                Ok(vec![b.forward(&z)?, y, z])
            };
            let (want, _) = counted(Device::CPU, &graph);
            let (got, snapshot) = counted(Device::GPU, &graph);
            let Snapshot { interpreted, fused, dispatches, .. } = snapshot;
            assert_eq!((interpreted, fused), (3, 1), "{mode:?}");
            // Three runs, each of which has a guard where several workgroups take part.
            assert!(dispatches == 3 || dispatches == 6, "{mode:?}: {dispatches}");
            for (i, (want, got)) in want.iter().zip(&got).enumerate() {
                assert_close(&format!("{mode:?}: result {i}"), dtype, want, got);
            }
        }
    });
}
