//! Products with biases, which their kernels add: with the bits that operations one by one give.

use mlx::{Array, Device, Dtype, Result, fast, ops};

use super::{
    Linear, agrees,
    decoder::{DECODER, Decoder},
    fusing, interpreter, noise,
    products::{DTYPES, HALVES, few_rows, gated, has_fragments, has_tiles, takes_several},
    run, turn,
};

pub(crate) fn all() {
    mat_vecs();
    many_rows_add_theirs_behind();
    what_is_no_bias();
}

/// Those of few rows.
pub(crate) fn mat_vecs() {
    siblings();
    residuals();
    gates();
    several_rows();
    long_rows_and_many_results();
    sums_of_one_operation();
}

/// A product's matrix, and its bias if there is one.
struct Biased {
    matrix: Linear,
    bias: Option<Array>,
}

type Format = Option<(usize, usize)>;

const FORMATS: [Format; 4] = [Some((4, 64)), Some((8, 32)), Some((3, 64)), None];

impl Biased {
    fn new(seed: u64, [outputs, inner]: [usize; 2], format: Format, dtype: Dtype) -> Self {
        let bias = Some(noise(seed + 1000, &[outputs], dtype));
        Biased { matrix: Linear::new(seed, outputs, inner, format, dtype), bias }
    }

    fn forward(&self, x: &Array) -> Result<Array> {
        self.add(self.matrix.forward(x)?)
    }

    fn add(&self, y: Array) -> Result<Array> {
        self.bias.as_ref().map_or(Ok(y.clone()), |bias| ops::add(&y, bias))
    }
}

/// An array evaluated before anything is made of it.
pub(crate) fn alone(a: Array) -> Result<Array> {
    mlx::eval(&[&a])?;
    Ok(a)
}

pub(crate) type Graph<'a> = &'a dyn Fn() -> Result<Vec<Array>>;

/// A graph of which `fused` operations become part of others gives what the CPU's gives, and the bits of
/// `single`, which is evaluated step by step.
pub(crate) fn same(what: &str, fused: u64, dtype: Dtype, graph: Graph<'_>, single: Graph<'_>) {
    agrees(what, fused, dtype, graph);
    let ((got, _), (want, _)) = (run(Device::GPU, graph), run(Device::GPU, single));
    assert_eq!(got, want, "{what}: bits");
}

/// Three products of the same rows, of which each has a bias or none.
#[test]
fn siblings() {
    let _turn = turn();
    for (i, rows) in [1, 2, 5, 8].into_iter().enumerate() {
        for format in FORMATS {
            let dtype = DTYPES[(i + format.map_or(0, |(bits, _)| bits / 4)) % 3];
            siblings_of(few_rows(rows, format, dtype), format, dtype);
        }
    }
}

fn siblings_of(rows: usize, format: Format, dtype: Dtype) {
    let x = noise(1, &[rows, 1, 256], dtype);
    let weight = noise(2, &[256], dtype);
    for which in [[true; 3], [true, false, true], [false, true, false]] {
        let what = format!("qkv {rows} {format:?} {dtype} {which:?}");
        let mut seeds = 3..;
        let products = [96, 32, 48]
            .map(|outputs| Biased::new(seeds.next().unwrap(), [outputs, 256], format, dtype));
        let mut products = products
            .into_iter()
            .zip(which)
            .map(|(product, biased)| Biased { bias: product.bias.filter(|_| biased), ..product });
        let products: [Biased; 3] = std::array::from_fn(|_| products.next().unwrap());
        let sums = which.iter().filter(|&&biased| biased).count() as u64;
        let graph = |x: &Array| products.iter().map(|p| p.forward(x)).collect::<Result<Vec<_>>>();
        same(&what, 2 + sums, dtype, &|| graph(&x), &|| {
            let plain =
                products.iter().map(|p| p.matrix.forward(&x)).collect::<Result<Vec<_>>>()?;
            mlx::eval(&plain.iter().collect::<Vec<_>>())?;
            products.iter().zip(plain).map(|(p, y)| alone(p.add(y)?)).collect()
        });
        let norm = u64::from(!takes_several(rows, format, dtype));
        agrees(&format!("{what}, normalized"), 2 + sums + norm, dtype, &|| {
            graph(&fast::rms_norm(&x, Some(&weight), 1e-5)?)
        });
    }
}

/// A bias first and then a residual, in any order of their operands.
#[test]
pub(crate) fn residuals() {
    let _turn = turn();
    for (i, rows) in [1, 3, 8].into_iter().enumerate() {
        for format in FORMATS {
            let dtype = HALVES[(i + format.map_or(1, |(bits, _)| bits / 4)) % 2];
            let rows = few_rows(rows, format, dtype);
            let (h, x) = (noise(10, &[rows, 512], dtype), noise(11, &[rows, 96], dtype));
            let down = Biased::new(12, [96, 512], format, dtype);
            let bias = down.bias.as_ref().unwrap();
            let single = || -> Result<Vec<Array>> {
                let y = alone(down.add(alone(down.matrix.forward(&h)?)?)?)?;
                Ok(vec![ops::add(&x, &y)?])
            };
            let what = format!("{rows} rows, {format:?}, {dtype}");
            same(&what, 2, dtype, &|| Ok(vec![ops::add(&x, &down.forward(&h)?)?]), &single);
            same(
                &what,
                2,
                dtype,
                &|| Ok(vec![ops::add(&ops::add(bias, &down.matrix.forward(&h)?)?, &x)?]),
                &single,
            );
            same(&what, 1, dtype, &|| Ok(vec![down.forward(&h)?]), &|| {
                Ok(vec![down.add(alone(down.matrix.forward(&h)?)?)?])
            });
        }
    }
}

#[test]
pub(crate) fn gates() {
    let _turn = turn();
    for (i, dtype) in DTYPES.into_iter().enumerate() {
        for format in FORMATS {
            let rows = 1 + i;
            let x = noise(20, &[rows, 256], dtype);
            let weight = noise(21, &[256], dtype);
            let [gate, up] = [22, 23].map(|seed| Biased::new(seed, [160, 256], format, dtype));
            let plain = Biased { bias: None, ..Biased::new(24, [160, 256], format, dtype) };
            let what = format!("gate {rows} {format:?} {dtype}");
            agrees(&what, 7, dtype, &|| {
                let y = fast::rms_norm(&x, Some(&weight), 1e-6)?;
                Ok(vec![gated(i == 1, &gate.forward(&y)?, &up.forward(&y)?)?])
            });
            // The gate is found second.
            agrees(&what, 5, dtype, &|| {
                let (plain, up) = (plain.forward(&x)?, up.forward(&x)?);
                Ok(vec![gated(i == 1, &up, &plain)?])
            });
        }
    }
}

/// Rows of sequences that are decoded together, which one kernel takes where the device has fragments.
#[test]
fn several_rows() {
    let _turn = turn();
    for (i, rows) in [2, 4, 5, 8, 9, 16].into_iter().enumerate() {
        let (dtype, format) = (HALVES[i % 2], Some((4, [64, 32, 128][i % 3])));
        let inner = 128 * (1 + i % 4);
        let x = noise(30, &[rows, 1, inner], dtype);
        let [q, k, o] = [96, 32, 48].map(|n| Biased::new(n as u64, [n, inner], format, dtype));
        let residual = noise(31, &[rows, 1, 48], dtype);
        let fused = |count| if rows <= 8 || has_fragments(dtype) { count } else { 0 };
        let what = format!("{rows}x{inner} {format:?} {dtype}");
        same(&what, fused(3), dtype, &|| Ok(vec![q.forward(&x)?, k.forward(&x)?]), &|| {
            let (a, b) = (q.matrix.forward(&x)?, k.matrix.forward(&x)?);
            mlx::eval(&[&a, &b])?;
            Ok(vec![alone(q.add(a)?)?, alone(k.add(b)?)?])
        });
        same(&what, fused(2), dtype, &|| Ok(vec![ops::add(&residual, &o.forward(&x)?)?]), &|| {
            Ok(vec![ops::add(&residual, &alone(o.add(alone(o.matrix.forward(&x)?)?)?)?)?])
        });
        let [gate, up] = [32, 33].map(|seed| Biased::new(seed, [64, inner], format, dtype));
        agrees(&what, fused(6), dtype, &|| {
            Ok(vec![gated(false, &gate.forward(&x)?, &up.forward(&x)?)?])
        });
    }
}

/// Sizes that go to cooperative matrices where the device has them.
#[test]
fn long_rows_and_many_results() {
    let _turn = turn();
    for (i, (rows, inner, outputs)) in
        [(1, 8192, 48), (2, 4096, 32), (1, 128, 69_632)].into_iter().enumerate()
    {
        let (dtype, format) = (HALVES[i % 2], Some((4, [64, 128, 32][i % 3])));
        let x = noise(40, &[rows, inner], dtype);
        let residual = noise(41, &[rows, outputs], dtype);
        let [gate, up] = [42, 43].map(|seed| Biased::new(seed, [outputs, inner], format, dtype));
        let what = format!("{rows}x{inner}x{outputs} {format:?} {dtype}");
        same(&what, 2, dtype, &|| Ok(vec![ops::add(&residual, &up.forward(&x)?)?]), &|| {
            Ok(vec![ops::add(&residual, &alone(up.add(alone(up.matrix.forward(&x)?)?)?)?)?])
        });
        agrees(&what, 6, dtype, &|| Ok(vec![gated(true, &gate.forward(&x)?, &up.forward(&x)?)?]));
    }
}

/// 257 and 1, added by `addmm` and by an addition. 257 is no number of bfloat16.
pub(super) fn rounded_once_and_twice() -> impl Fn() -> Result<Vec<Array>> {
    let dtype = Dtype::Bfloat16;
    let ones = |shape: &[usize]| ops::ones(shape, dtype).unwrap();
    let (x, bias) = (ones(&[1, 264]), ones(&[8]));
    let rest = ops::zeros(&[8, 7], dtype).unwrap();
    let w = alone(ops::concatenate(&[&ones(&[8, 257]), &rest], 1).unwrap()).unwrap();
    move || {
        let w = ops::transpose(&w, &[1, 0])?;
        let twice = ops::add(&ops::matmul(&x, &w)?, &bias)?;
        Ok(vec![ops::addmm(&bias, &x, &w, 1.0, 1.0)?, twice])
    }
}

/// Products one after another: one alone, three of its result, one of theirs with a residual.
pub(super) struct Steps {
    x: Array,
    first: Biased,
    three: [Biased; 3],
    last: Biased,
}

impl Steps {
    pub(super) fn new(format: Format, dtype: Dtype) -> Self {
        let product = |seed, sizes| Biased::new(seed, sizes, format, dtype);
        let three = [product(83, [96, 128]), product(84, [64, 128]), product(85, [40, 128])];
        let [q, k, v] = three;
        let three = [q, Biased { bias: None, ..k }, v];
        let (first, last) = (product(82, [128, 128]), product(86, [128, 64]));
        Steps { x: noise(81, &[1, 128], dtype), first, three, last }
    }

    /// In one evaluation.
    pub(super) fn together(&self) -> Result<Vec<Array>> {
        let first = self.first.forward(&self.x)?;
        let [q, k, v] = &self.three;
        let (q, k, v) = (q.forward(&first)?, k.forward(&first)?, v.forward(&first)?);
        let sum = ops::add(&first, &self.last.forward(&k)?)?;
        Ok(vec![first, q, k, v, sum])
    }

    /// Operation by operation, but for the products of the same row.
    pub(super) fn alone(&self) -> Result<Vec<Array>> {
        let first = alone(self.first.add(alone(self.first.matrix.forward(&self.x)?)?)?)?;
        let [q, k, v] = self.three.each_ref().map(|product| product.matrix.forward(&first));
        let plain = [q?, k?, v?];
        mlx::eval(&plain.each_ref())?;
        let sums = self.three.iter().zip(plain).map(|(product, y)| alone(product.add(y)?));
        let sums = sums.collect::<Result<Vec<_>>>()?;
        let sum = alone(self.last.add(alone(self.last.matrix.forward(&sums[1])?)?)?)?;
        Ok([vec![first.clone()], sums, vec![ops::add(&first, &sum)?]].concat())
    }
}

/// `addmm` rounds once what a product and an addition round twice.
#[test]
pub(crate) fn sums_of_one_operation() {
    let _turn = turn();
    let dtype = Dtype::Bfloat16;
    let forward = |x: &Array, w: &Array, bias: &Array| {
        ops::addmm(bias, x, &ops::transpose(w, &[1, 0])?, 1.0, 1.0)
    };
    for rows in [1, 3] {
        let (x, residual) = (noise(50, &[rows, 136], dtype), noise(51, &[rows, 40], dtype));
        let [a, b] = [52, 53].map(|seed| noise(seed, &[40, 136], dtype));
        let bias = noise(54, &[40], dtype);
        agrees(&format!("{rows} rows, siblings"), 1, dtype, &|| {
            Ok(vec![forward(&x, &a, &bias)?, forward(&x, &b, &bias)?])
        });
        agrees(&format!("{rows} rows, one without a bias"), 3, dtype, &|| {
            let plain = ops::matmul(&x, &ops::transpose(&b, &[1, 0])?)?;
            let both = ops::add(&ops::matmul(&x, &ops::transpose(&a, &[1, 0])?)?, &bias)?;
            Ok(vec![forward(&x, &a, &bias)?, plain, ops::abs(&both)?])
        });
        let apart = ops::reshape(&x, &[rows as isize, 1, 136]).unwrap();
        agrees(&format!("{rows} rows apart"), 1, dtype, &|| {
            Ok(vec![forward(&apart, &a, &bias)?, forward(&apart, &b, &bias)?])
        });
        agrees(&format!("{rows} rows, residual"), 1, dtype, &|| {
            Ok(vec![ops::add(&residual, &forward(&x, &a, &bias)?)?])
        });
        agrees(&format!("{rows} rows, factors"), 0, dtype, &|| {
            Ok(vec![ops::addmm(&bias, &x, &ops::transpose(&a, &[1, 0])?, 2.0, 1.0)?])
        });
    }
    let (got, fused) = run(Device::GPU, &rounded_once_and_twice());
    assert_eq!(got, [vec![258.0; 8], vec![256.0; 8]]);
    assert_eq!(fused, if fusing() { 2 } else { 0 });
}

/// More rows than mat-vecs take: their sums are operations of their own, as are residuals behind them.
#[test]
fn many_rows_add_theirs_behind() {
    let _turn = turn();
    for (dtype, format) in [(Dtype::Bfloat16, Some((4, 64))), (Dtype::Float16, None)] {
        let tiles = |fused: u64| if has_tiles(dtype) { fused } else { 0 };
        let x = noise(60, &[1, 400, 192], dtype);
        let residual = noise(61, &[1, 400, 256], dtype);
        let [a, b] = [62, 63].map(|seed| Biased::new(seed, [256, 192], format, dtype));
        agrees(&format!("{format:?}, siblings"), tiles(1), dtype, &|| {
            Ok(vec![a.forward(&x)?, b.forward(&x)?])
        });
        agrees(&format!("{format:?}, residual"), 0, dtype, &|| {
            Ok(vec![ops::add(&residual, &a.forward(&x)?)?])
        });
    }
}

/// What looks like a bias, or is one that the kernel does not read.
#[test]
fn what_is_no_bias() {
    let _turn = turn();
    let dtype = Dtype::Bfloat16;
    let x = noise(70, &[2, 128], dtype);
    let w = Biased::new(71, [128, 128], Some((4, 64)), dtype);
    let bias = w.bias.as_ref().unwrap();
    let product = || w.matrix.forward(&x);
    agrees("a number for each row", 0, dtype, &|| {
        Ok(vec![ops::add(&product()?, noise(72, &[2, 1], dtype))?])
    });
    agrees("one number", 0, dtype, &|| Ok(vec![ops::add(&product()?, noise(73, &[1], dtype))?]));
    agrees("the product is read twice", 0, dtype, &|| {
        let y = product()?;
        Ok(vec![ops::add(&y, bias)?, ops::exp(&y)?])
    });
    let wide = noise(74, &[256], dtype);
    agrees("every second number", 0, dtype, &|| {
        let bias = ops::slice(&wide, &[0], &[256], &[2])?;
        Ok(vec![ops::add(&product()?, &bias)?])
    });
    agrees("two of them", 1, dtype, &|| {
        Ok(vec![ops::add(&ops::add(&product()?, bias)?, noise(75, &[128], dtype))?])
    });
    agrees("made of the product of a sibling", 2, dtype, &|| {
        let row = ops::slice_axis(&product()?, 0, 0, 1)?;
        let bias = ops::reshape(&ops::abs(&row)?, &[128])?;
        let other = noise(76, &[2, 128], dtype);
        Ok(vec![ops::add(&ops::add(&w.matrix.forward(&other)?, &bias)?, &x)?])
    });
}

/// Layers whose products have biases take as many dispatches as layers without.
#[test]
fn layers_take_no_more_dispatches() {
    let dispatches = ("MLX_VK_ENABLE_INTERPRETER", "0");
    mlx_tests::in_child("biases::layers_take_no_more_dispatches", &[dispatches], || {
        let _turn = turn();
        for format in [Some((4, 64)), Some((8, 64)), None] {
            let plain = Decoder { norm: false, format, ..DECODER };
            let counted = [0, 3, 4, 7].map(|biases| {
                let decoder = Decoder { biases, ..plain };
                let graph = decoder.graph();
                let (got, counted) = interpreter::counted(Device::GPU, &graph);
                let (want, _) = interpreter::counted(Device::CPU, &graph);
                for (i, (want, got)) in want.iter().zip(&got).enumerate() {
                    super::assert_close(&format!("{decoder:?} {i}"), plain.dtype, want, got);
                }
                (counted.dispatches, counted.fused - (plain.layers * biases) as u64)
            });
            assert_eq!(counted, [counted[0]; 4], "{format:?}");
        }
    });
}
