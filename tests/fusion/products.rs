//! Products with norms, siblings, gates and residuals.

use mlx::{Array, Dtype, Result, fast, ops};
use ops::FpMode;

use super::{Linear, Quantized, agrees, decoder::geglu, noise, turn};

pub(crate) const HALVES: [Dtype; 2] = [Dtype::Bfloat16, Dtype::Float16];
pub(crate) const DTYPES: [Dtype; 3] = [Dtype::Bfloat16, Dtype::Float16, Dtype::Float32];

pub(crate) fn all() {
    mat_vecs();
    many_rows();
    values_that_are_needed_are_kept();
    groups_that_come_apart();
}

/// Those of few rows.
pub(crate) fn mat_vecs() {
    siblings_and_norms();
    gates();
    gates_of_halves();
    sums_of_norms();
    residuals();
    every_format();
    dense();
    fragments();
    several_rows();
    several_rows_of_slices();
    several_rows_of_other_formats();
    several_long_rows();
}

/// Three products of normalized rows are one kernel: norm and two products disappear in the first. Their
/// outputs are no whole fragments, so that few rows are mat-vecs on any device.
#[test]
fn siblings_and_norms() {
    let _turn = turn();
    for dtype in DTYPES {
        for rows in [1, 2, 3, few_rows(8, Some((3, 64)), dtype)] {
            let x = noise(1, &[rows, 192], dtype);
            let weight = noise(2, &[192], dtype);
            let [q, k, v] =
                [(3, 100), (4, 36), (5, 40)].map(|(s, n)| Quantized::new(s, n, 192, 64, 4, dtype));
            agrees(&format!("qkv {dtype} {rows}"), 3, dtype, &|| {
                let y = fast::rms_norm(&x, Some(&weight), 1e-5)?;
                Ok(vec![q.forward(&y)?, k.forward(&y)?, v.forward(&y)?])
            });
        }
    }
}

pub(crate) fn gated(up_first: bool, gate: &Array, up: &Array) -> Result<Array> {
    let silu = ops::multiply(gate, &ops::sigmoid(gate)?)?;
    if up_first { ops::multiply(up, &silu) } else { ops::multiply(&silu, up) }
}

#[test]
pub(crate) fn gates() {
    let _turn = turn();
    for dtype in DTYPES {
        for up_first in [false, true] {
            let x = noise(6, &[1, 256], dtype);
            let weight = noise(7, &[256], dtype);
            let [g, u] = [8, 9].map(|s| Quantized::new(s, 160, 256, 32, 4, dtype));
            agrees(&format!("gate {dtype} {up_first}"), 5, dtype, &|| {
                let y = fast::rms_norm(&x, Some(&weight), 1e-6)?;
                Ok(vec![gated(up_first, &g.forward(&y)?, &u.forward(&y)?)?])
            });
            agrees(&format!("gelu {dtype}"), 11, dtype, &|| {
                let y = fast::rms_norm(&x, Some(&weight), 1e-6)?;
                Ok(vec![geglu(&g.forward(&y)?, &u.forward(&y)?)?])
            });
        }
    }
}

/// Gate and other half are halves of one product's rows.
#[test]
pub(crate) fn gates_of_halves() {
    let _turn = turn();
    for dtype in DTYPES {
        for format in [Some((4, 32)), Some((8, 64)), None] {
            for rows in [1, 2, 20] {
                let tiles = rows > 16;
                let x = noise(6, &[rows, 256], dtype);
                let both = Linear::new(8, 320, 256, format, dtype);
                let fused = if tiles && !has_tiles(dtype) { [0; 2] } else { [3, 9] };
                let halves = || {
                    let y = both.forward(&x)?;
                    Ok([ops::slice_axis(&y, 1, 0, 160)?, ops::slice_axis(&y, 1, 160, 320)?])
                };
                agrees(&format!("halves {dtype} {format:?} {rows}"), fused[0], dtype, &|| {
                    let [gate, up] = halves()?;
                    Ok(vec![gated(false, &gate, &up)?])
                });
                agrees(&format!("gelu {dtype} {format:?} {rows}"), fused[1], dtype, &|| {
                    let [gate, up] = halves()?;
                    Ok(vec![geglu(&gate, &up)?])
                });
                // The other way round it is none.
                agrees(&format!("turned {dtype} {format:?} {rows}"), 0, dtype, &|| {
                    let [up, gate] = halves()?;
                    Ok(vec![gated(false, &gate, &up)?])
                });
            }
        }
    }
}

/// What almost is gelu stays what it is.
#[test]
fn other_gates() {
    let _turn = turn();
    let dtype = Dtype::Float32;
    let x = noise(6, &[1, 256], dtype);
    let [g, u] = [8, 9].map(|s| Quantized::new(s, 160, 256, 32, 4, dtype));
    let gelu = [3.0, 0.5, 1.0, 0.797_884_6];
    for (i, near) in [2.0, 0.501, 1.001, 0.8].into_iter().enumerate() {
        let [power, half, one, root] = std::array::from_fn(|k| if k == i { near } else { gelu[k] });
        agrees(&format!("{power}, {half}, {one}, {root}"), 1, dtype, &|| {
            let (gate, up) = (g.forward(&x)?, u.forward(&x)?);
            let cube = ops::multiply(ops::power(&gate, power)?, 0.044715f32)?;
            let inner = ops::multiply(ops::add(&gate, cube)?, root)?;
            let scaled = ops::multiply(&gate, half)?;
            let tanh = ops::add(ops::tanh(&inner)?, one)?;
            Ok(vec![ops::multiply(&ops::multiply(&scaled, tanh)?, &up)?])
        });
    }
}

/// Rows that are a residual's sum with what a norm makes, with a norm behind that or without one; the sum is
/// read elsewhere or not.
#[test]
pub(crate) fn sums_of_norms() {
    let _turn = turn();
    for dtype in DTYPES {
        for rows in [1, 2] {
            let (x, y) = (noise(80, &[rows, 192], dtype), noise(81, &[rows, 192], dtype));
            let [behind, before] = [82, 83].map(|seed| noise(seed, &[192], dtype));
            let [q, k, v] = [(84, 100), (85, 36), (86, 40)]
                .map(|(s, n)| Quantized::new(s, n, 192, 64, 4, dtype));
            let sum = |first: bool| {
                let norm = fast::rms_norm(&y, Some(&behind), 1e-5)?;
                if first { ops::add(&norm, &x) } else { ops::add(&x, &norm) }
            };
            agrees(&format!("sum, norm, qkv {dtype} {rows}"), 5, dtype, &|| {
                let sum = sum(false)?;
                let z = fast::rms_norm(&sum, Some(&before), 1e-5)?;
                Ok(vec![q.forward(&z)?, k.forward(&z)?, v.forward(&z)?, sum])
            });
            agrees(&format!("sum, qkv {dtype} {rows}"), 4, dtype, &|| {
                let sum = sum(true)?;
                Ok(vec![q.forward(&sum)?, k.forward(&sum)?, v.forward(&sum)?])
            });
            // What is added behind a product may need the sum: it is made before.
            let square = Quantized::new(87, 192, 192, 64, 4, dtype);
            agrees(&format!("sum, residual {dtype} {rows}"), 2, dtype, &|| {
                let sum = sum(false)?;
                let z = fast::rms_norm(&sum, Some(&before), 1e-5)?;
                Ok(vec![ops::add(&sum, square.forward(&z)?)?])
            });
            agrees(&format!("sum of a product's sum {dtype} {rows}"), 4, dtype, &|| {
                let norm = fast::rms_norm(&y, Some(&behind), 1e-5)?;
                let sum = ops::add(square.forward(&x)?, norm)?;
                let z = fast::rms_norm(&sum, Some(&before), 1e-5)?;
                Ok(vec![q.forward(&z)?, k.forward(&z)?, v.forward(&z)?])
            });
            // Four products are two kernels, which both make the sum, and one of them stores it.
            agrees(&format!("sum, four {dtype} {rows}"), 5, dtype, &|| {
                let sum = sum(true)?;
                let all = [&q, &k, &v, &q].map(|matrix| matrix.forward(&sum));
                all.into_iter().chain([Ok(sum)]).collect()
            });
        }
    }
}

#[test]
pub(crate) fn residuals() {
    let _turn = turn();
    for dtype in HALVES {
        let (h, x) = (noise(10, &[1, 512], dtype), noise(11, &[1, 96], dtype));
        let down = Quantized::new(12, 96, 512, 128, 4, dtype);
        agrees(&format!("residual {dtype}"), 1, dtype, &|| {
            Ok(vec![ops::add(&x, &down.forward(&h)?)?])
        });
        agrees(&format!("residual {dtype}, other way"), 1, dtype, &|| {
            Ok(vec![ops::add(&down.forward(&h)?, &x)?])
        });
    }
}

/// Every width of bits and groups.
#[test]
fn every_format() {
    let _turn = turn();
    for bits in [2, 3, 4, 5, 6, 8] {
        for group in [32, 64, 128] {
            let dtype = HALVES[(bits + group / 32) % 2];
            let x = noise(13, &[1, 384], dtype);
            let [a, b] = [14, 15].map(|s| Quantized::new(s, 48, 384, group, bits, dtype));
            agrees(&format!("{bits} bits, groups of {group}"), 1, dtype, &|| {
                Ok(vec![a.forward(&x)?, b.forward(&x)?])
            });
        }
    }
}

/// Matrices that are not quantized.
#[test]
pub(crate) fn dense() {
    let _turn = turn();
    for dtype in DTYPES {
        let x = noise(16, &[1, 136], dtype);
        let [a, b] = [17, 18].map(|s| noise(s, &[40, 136], dtype));
        agrees(&format!("dense {dtype}"), 1, dtype, &|| {
            let forward = |w: &Array| ops::matmul(&x, &ops::transpose(w, &[1, 0])?);
            Ok(vec![forward(&a)?, forward(&b)?])
        });
    }
}

/// Sizes that go to cooperative matrices where the device has them: long axes, several rows, and more blocks
/// of results than a device has places for workgroups.
#[test]
fn fragments() {
    let _turn = turn();
    let shapes = [(1, 8192, 48), (1, 12_288, 64), (2, 4096, 32), (3, 4480, 16), (1, 128, 69_632)];
    for (i, (rows, inner, outputs)) in shapes.into_iter().enumerate() {
        for group in [32, 64, 128] {
            let dtype = HALVES[(i + group / 32) % 2];
            let x = noise(30, &[rows, inner], dtype);
            let weight = noise(31, &[inner], dtype);
            let residual = noise(32, &[rows, outputs], dtype);
            let [a, b] = [33, 34].map(|s| Quantized::new(s, outputs, inner, group, 4, dtype));
            let what = format!("{rows}x{inner}x{outputs}, groups of {group}");
            // The kernel of several rows does not take the norm.
            let norm = u64::from(rows == 1 || !has_fragments(dtype));
            agrees(&format!("{what}, gated"), 4 + norm, dtype, &|| {
                let y = fast::rms_norm(&x, Some(&weight), 1e-6)?;
                let (gate, up) = (a.forward(&y)?, b.forward(&y)?);
                Ok(vec![gated(false, &gate, &up)?])
            });
            agrees(&format!("{what}, residual"), 1, dtype, &|| {
                Ok(vec![ops::add(&residual, &a.forward(&x)?)?])
            });
        }
    }
}

/// Whether products of many rows go to cooperative matrices in this process.
pub(crate) fn has_tiles(dtype: Dtype) -> bool {
    let caps = mlx::vulkan::capabilities(0).unwrap();
    let fragments = match dtype {
        Dtype::Float16 => caps.fragments.float16,
        Dtype::Bfloat16 => caps.fragments.bfloat16,
        _ => None,
    };
    fragments.is_some() && !caps.is_software() && mlx::vulkan::Config::get().enable_coopmat
}

/// Siblings, gates and residuals of more rows than mat-vecs take, in tiles where the device has cooperative
/// matrices: so many operations become part of others then.
fn tiles(
    rows: usize,
    inner: usize,
    outputs: [usize; 3],
    dtype: Dtype,
    format: Option<(usize, usize)>,
    fused: [u64; 3],
) {
    let what = format!("{rows}x{inner}x{outputs:?} {dtype} {format:?}");
    let tiles = |fused: u64| if has_tiles(dtype) { fused } else { 0 };
    let x = noise(50, &[1, rows, inner], dtype);
    let make = |seed, outputs| Linear::new(seed, outputs, inner, format, dtype);
    let [q, k, v] = [(51, 0), (52, 1), (53, 2)].map(|(seed, i)| make(seed, outputs[i]));
    agrees(&format!("{what}, siblings"), tiles(fused[0]), dtype, &|| {
        Ok(vec![q.forward(&x)?, k.forward(&x)?, v.forward(&x)?])
    });
    let other = make(54, outputs[1]);
    agrees(&format!("{what}, gated"), tiles(fused[1]), dtype, &|| {
        Ok(vec![gated(rows.is_multiple_of(2), &k.forward(&x)?, &other.forward(&x)?)?])
    });
    let gelu = if fused[1] > 0 { fused[1] + 6 } else { 0 };
    agrees(&format!("{what}, gelu"), tiles(gelu), dtype, &|| {
        Ok(vec![geglu(&k.forward(&x)?, &other.forward(&x)?)?])
    });
    let residual = noise(55, &[1, rows, outputs[2]], dtype);
    agrees(&format!("{what}, residual"), tiles(fused[2]), dtype, &|| {
        Ok(vec![ops::add(&residual, &v.forward(&x)?)?])
    });
}

/// Whether products of several rows have a kernel of their own in this process.
pub(crate) fn has_fragments(dtype: Dtype) -> bool {
    let caps = mlx::vulkan::capabilities(0).unwrap();
    let fragment = match dtype {
        Dtype::Float16 => caps.fragments.float16,
        Dtype::Bfloat16 => caps.fragments.bfloat16,
        _ => None,
    };
    let square = fragment.is_some_and(|f| (f.m, f.n, f.k) == (16, 16, 16));
    has_tiles(dtype) && square && mlx::vulkan::Config::get().enable_coopmat_matvec
}

/// Whether so many rows go there, which takes no norm: those of matrices of 4 or 8 bits, or not quantized.
pub(crate) fn takes_several(rows: usize, format: Option<(usize, usize)>, dtype: Dtype) -> bool {
    let known = format.is_none_or(|(bits, _)| matches!(bits, 4 | 8));
    rows > 2 && known && has_fragments(dtype)
}

/// At most `most` rows that are no tiles, which matrices of other formats are from five rows on.
pub(crate) fn few_rows(most: usize, format: Option<(usize, usize)>, dtype: Dtype) -> usize {
    let tiles = has_tiles(dtype) && format.is_some() && !takes_several(most, format, dtype);
    if tiles { most.min(4) } else { most }
}

/// What rows are multiplied with.
#[derive(Clone, Copy, Debug)]
enum Stored {
    /// Bits and elements of a group.
    Affine(usize, usize),
    Mxfp4,
    Dense,
}

impl Stored {
    fn make(self, seed: u64, outputs: usize, inner: usize, dtype: Dtype) -> Linear {
        let format = match self {
            Stored::Mxfp4 => return Linear::floats(seed, outputs, inner, FpMode::Mxfp4, dtype),
            Stored::Affine(bits, group) => Some((bits, group)),
            Stored::Dense => None,
        };
        Linear::new(seed, outputs, inner, format, dtype)
    }
}

/// Siblings, a gated pair and a residual of several rows, behind a norm.
fn several(rows: usize, inner: usize, outputs: [usize; 3], stored: Stored, dtype: Dtype) {
    let what = format!("{rows}x{inner}x{outputs:?} {dtype} {stored:?}");
    // The norm goes with rows that are few, and the kernel of more does not take it.
    let has = rows > 2 && has_fragments(dtype);
    // Without fragments a workgroup keeps the rows, with sums of their groups, in 30 KiB.
    let kept = rows <= 8 && rows * inner / 4 * 9 <= 30 << 10;
    let fused = |count: u64| {
        if has {
            count
        } else if kept {
            count + 1
        } else {
            0
        }
    };
    let x = noise(70, &[rows, 1, inner], dtype);
    let weight = noise(71, &[inner], dtype);
    let make = |seed, outputs| stored.make(seed, outputs, inner, dtype);
    let [q, k, v] = [(72, 0), (73, 1), (74, 2)].map(|(seed, i)| make(seed, outputs[i]));
    let normed = || fast::rms_norm(&x, Some(&weight), 1e-5);
    agrees(&format!("{what}, siblings"), fused(2), dtype, &|| {
        let y = normed()?;
        Ok(vec![q.forward(&y)?, k.forward(&y)?, v.forward(&y)?])
    });
    let other = make(75, outputs[1]);
    agrees(&format!("{what}, gated"), fused(4), dtype, &|| {
        let y = normed()?;
        Ok(vec![gated(rows.is_multiple_of(2), &k.forward(&y)?, &other.forward(&y)?)?])
    });
    let residual = noise(76, &[rows, 1, outputs[2]], dtype);
    agrees(&format!("{what}, residual"), fused(1).min(1), dtype, &|| {
        Ok(vec![ops::add(&residual, &v.forward(&x)?)?])
    });
    agrees(&format!("{what}, alone"), 0, dtype, &|| Ok(vec![q.forward(&x)?]));
}

/// The rows of sequences that are decoded together.
#[test]
pub(crate) fn several_rows() {
    let _turn = turn();
    for (i, rows) in [2, 3, 4, 5, 7, 8, 9, 12, 15, 16].into_iter().enumerate() {
        let group = [64, 32, 128][i % 3];
        several(rows, 128 * (1 + i % 4), [96, 32, 48], Stored::Affine(4, group), HALVES[i % 2]);
    }
    several(4, 1024, [272, 16, 64], Stored::Affine(4, 64), Dtype::Bfloat16);
    several(16, 1024, [64, 64, 128], Stored::Affine(4, 64), Dtype::Float16);
    // Rows that end within the 128 elements that a subgroup takes at a time.
    for (i, (rows, inner, group)) in
        [(5, 192, 64), (12, 160, 32), (16, 224, 32), (7, 96, 32)].into_iter().enumerate()
    {
        several(rows, inner, [96, 32, 48], Stored::Affine(4, group), HALVES[i % 2]);
    }
}

/// Rows that are whole slices, one to sixteen of them, and more blocks of results than a device of 132
/// multiprocessors has places for.
#[test]
pub(crate) fn several_rows_of_slices() {
    let _turn = turn();
    for (i, (rows, inner, outputs, group)) in [
        (2, 256, [64, 32, 84_496], 64),
        (3, 768, [26_416, 16, 64], 32),
        (8, 2048, [512, 10_576, 528], 128),
        (5, 2560, [96, 32, 5_328], 32),
        (8, 4096, [96, 5_296, 64], 64),
        (4, 4096, [96, 32, 5_312], 32),
        (7, 4096, [5_296, 5_280, 48], 128),
    ]
    .into_iter()
    .enumerate()
    {
        several(rows, inner, outputs, Stored::Affine(4, group), HALVES[i % 2]);
    }
}

/// The same of bytes, of small floats and of what is not quantized: groups of which a subgroup takes several
/// at a time, or a part, and rows that end within what it takes.
#[test]
pub(crate) fn several_rows_of_other_formats() {
    let _turn = turn();
    let bytes = [(8, 64, 320), (3, 32, 160), (16, 128, 384), (6, 128, 640), (9, 64, 1024)];
    for (i, (rows, group, inner)) in bytes.into_iter().enumerate() {
        several(rows, inner, [96, 32, 48], Stored::Affine(8, group), HALVES[i % 2]);
        several(rows, inner, [96, 32, 48], Stored::Affine(8, group), HALVES[(i + 1) % 2]);
    }
    for (rows, inner) in [(3, 256), (8, 160), (9, 192), (16, 288)] {
        several(rows, inner, [96, 32, 48], Stored::Mxfp4, Dtype::Bfloat16);
    }
    for (i, (rows, inner)) in [(4, 256), (8, 160), (11, 96), (16, 512)].into_iter().enumerate() {
        several(rows, inner, [96, 32, 48], Stored::Dense, HALVES[i % 2]);
    }
}

/// Rows that are too long for a workgroup to keep.
#[test]
fn several_long_rows() {
    let _turn = turn();
    for (rows, inner) in [(3, 12_288), (6, 4096), (14, 4480), (11, 2880)] {
        let dtype = Dtype::Bfloat16;
        let x = noise(80, &[rows, inner], dtype);
        let residual = noise(81, &[rows, 96], dtype);
        let matrix = Quantized::new(82, 96, inner, 64, 4, dtype);
        let fused = u64::from(has_fragments(dtype));
        agrees(&format!("{rows} rows of {inner}"), fused, dtype, &|| {
            Ok(vec![ops::add(&residual, &matrix.forward(&x)?)?])
        });
    }
}

/// Three products, a gated pair, a residual.
const ALL: [u64; 3] = [2, 4, 1];

#[test]
fn many_rows() {
    let _turn = turn();
    for dtype in HALVES {
        for rows in [17, 40, 131, 400] {
            tiles(rows, 192, [256, 160, 72], dtype, Some((4, 64)), ALL);
            tiles(rows, 192, [72, 208, 99], dtype, None, ALL);
        }
        tiles(33, 128, [64, 48, 40], dtype, Some((3, 32)), ALL);
        tiles(33, 256, [64, 300, 40], dtype, Some((8, 128)), ALL);
        tiles(140, 72, [64, 40, 24], dtype, None, ALL);
        // The widest tiles.
        tiles(512, 128, [2048, 1024, 4096], dtype, Some((4, 64)), ALL);
        tiles(600, 64, [100, 8000, 4004], dtype, None, ALL);
        tiles(20, 192, [256, 160, 72], Dtype::Float32, None, ALL);
    }
}

/// So few tiles that k is split: by themselves, but for a residual, which the sum of the parts adds. The
/// kernel of 4 bits adds the parts up by itself, of more than 32 rows where there are many outputs.
#[test]
fn many_rows_of_few_tiles() {
    let _turn = turn();
    let dtype = Dtype::Bfloat16;
    let x = noise(60, &[64, 4096], dtype);
    let [a, b] = [61, 62].map(|seed| noise(seed, &[64, 4096], dtype));
    agrees("few tiles", 0, dtype, &|| {
        let forward = |w: &Array| ops::matmul(&x, &ops::transpose(w, &[1, 0])?);
        Ok(vec![forward(&a)?, forward(&b)?])
    });
    tiles(64, 4096, [64, 64, 64], dtype, None, [0, 0, 1]);
    tiles(64, 2048, [64, 64, 64], dtype, Some((8, 64)), [0, 0, 1]);
    tiles(20, 2048, [64, 328, 40], dtype, Some((4, 32)), ALL);
    tiles(50, 1088, [640, 512, 520], dtype, Some((4, 64)), ALL);
    // More than eight million elements and 96 rows: large tiles of fields.
    tiles(100, 1152, [7424, 520, 512], dtype, Some((4, 128)), ALL);
    for (rows, group) in [(64, 64), (150, 128)] {
        tiles(rows, 2560, [2048, 328, 40], dtype, Some((4, group)), ALL);
    }
}

/// What somebody still holds, or reads in another way, is stored as well.
#[test]
fn values_that_are_needed_are_kept() {
    let _turn = turn();
    let dtype = Dtype::Bfloat16;
    let (x, weight) = (noise(20, &[1, 128], dtype), noise(21, &[128], dtype));
    let w = Quantized::new(22, 128, 128, 64, 4, dtype);
    agrees("the norm is a result too", 0, dtype, &|| {
        let y = fast::rms_norm(&x, Some(&weight), 1e-5)?;
        Ok(vec![w.forward(&y)?, y])
    });
    agrees("the norm is read elsewhere", 0, dtype, &|| {
        let y = fast::rms_norm(&x, Some(&weight), 1e-5)?;
        Ok(vec![w.forward(&y)?, ops::exp(&y)?])
    });
    agrees("the product is a result too", 0, dtype, &|| {
        let y = w.forward(&x)?;
        Ok(vec![ops::add(&x, &y)?, y])
    });
    // The sum may not take over the memory of the rows, which every part of the product reads.
    agrees("a chain of sums", 3, dtype, &|| {
        let mut y = x.clone();
        for _ in 0..3 {
            y = ops::add(&y, &w.forward(&y)?)?;
        }
        Ok(vec![y])
    });
}

/// What looks like a group, and turns out not to be one when it is evaluated.
#[test]
fn groups_that_come_apart() {
    let _turn = turn();
    let dtype = Dtype::Float32;
    let (x, a) = (noise(40, &[1, 64], dtype), noise(41, &[64, 64], dtype));
    let times = |w: &Array| ops::matmul(&x, &ops::transpose(w, &[1, 0])?);
    agrees("a matrix made of its sibling's product", 0, dtype, &|| {
        Ok(vec![times(&ops::add(&a, &times(&a)?)?)?])
    });
    let rows = noise(42, &[2, 64], dtype);
    let columns = noise(43, &[64, 2], dtype);
    agrees("a residual that is not dense", 0, dtype, &|| {
        let y = ops::matmul(&rows, &ops::transpose(&a, &[1, 0])?)?;
        Ok(vec![ops::add(&y, &ops::transpose(&columns, &[1, 0])?)?])
    });
    let wide = noise(44, &[2, 128], dtype);
    let weight = noise(45, &[64], dtype);
    agrees("a norm of rows with gaps", 1, dtype, &|| {
        let half = ops::slice_axis(&wide, 1, 0, 64)?;
        let y = fast::rms_norm(&half, Some(&weight), 1e-5)?;
        let (y, z) = (ops::matmul(&y, &ops::transpose(&a, &[1, 0])?)?, ops::exp(&rows)?);
        Ok(vec![ops::add(&ops::matmul(&z, &ops::transpose(&a, &[1, 0])?)?, &ops::abs(&y)?)?])
    });
}
