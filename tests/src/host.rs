//! What oracles compute with: numbers on the host, in row-major order, and indices into them.

use mlx::{Array, Complex, Dtype};
use proptest::test_runner::{Config, RngSeed};
use rand::{Rng, RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

use crate::{array, values};

/// The generator of element `i`: each has its own, so that elements can be drawn in any order.
fn generator(i: usize, seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64((seed << 32).wrapping_add(i as u64))
}

/// Random bits by index, the same for the same seed.
pub fn scattered(i: usize, seed: u64) -> u64 {
    generator(i, seed).next_u64()
}

/// Random numbers in `low..high` by index, the same for the same seed.
pub fn noise(seed: u64, low: f64, high: f64) -> impl Fn(usize) -> f64 + Copy {
    move |i| low + (high - low) * generator(i, seed).random::<f64>()
}

/// So many cases of a property, the same ones in every run.
pub fn cases(cases: u32) -> Config {
    Config { cases, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..Config::default() }
}

/// An array whose elements are `value(i)` for their row-major place `i`.
///
/// # Panics
/// When memory is out.
pub fn filled(shape: &[usize], dtype: Dtype, value: impl Fn(usize) -> f64) -> Array {
    let n: usize = shape.iter().product();
    array(&(0..n).map(value).collect::<Vec<_>>(), shape, dtype)
}

/// Complex numbers whose parts are in -1..1.
///
/// # Panics
/// When memory is out.
pub fn complex_noise(shape: &[usize], seed: u64) -> Array {
    let (re, im) = (noise(seed, -1.0, 1.0), noise(seed + 1, -1.0, 1.0));
    let n = shape.iter().product();
    let z: Vec<Complex> = (0..n).map(|i| Complex::new(re(i) as f32, im(i) as f32)).collect();
    Array::from_slice(&z, shape).expect("values fill the shape")
}

/// The parts of complex numbers, in row-major order.
///
/// # Panics
/// When evaluation fails or the dtype is another one.
pub fn complex_parts(a: &Array) -> Vec<[f64; 2]> {
    let z: Vec<Complex> = a.to_vec().expect("evaluation succeeds");
    z.iter().map(|z| [z.re.into(), z.im.into()]).collect()
}

/// Every index of a shape, in row-major order.
pub fn indices(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    (0..shape.iter().product()).map(|i| unravel(i, shape))
}

/// The index of a row-major place.
pub fn unravel(mut place: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (i, &d) in index.iter_mut().zip(shape).rev() {
        (*i, place) = (place % d, place / d);
    }
    index
}

/// The row-major place of an index.
pub fn ravel(index: &[usize], shape: &[usize]) -> usize {
    index.iter().zip(shape).fold(0, |place, (&i, &d)| place * d + i)
}

/// The axes that a list of them means for `ndim` axes: negative ones count from the end, and
/// none at all means every one.
pub fn axes_of(axes: &[isize], ndim: usize) -> Vec<usize> {
    if axes.is_empty() {
        return (0..ndim).collect();
    }
    axes.iter().map(|&x| if x < 0 { (x + ndim as isize) as usize } else { x as usize }).collect()
}

/// The shape with these axes reduced to size 1, and for each element of it, in row-major order,
/// the places of the elements that it stands for.
pub fn groups(shape: &[usize], axes: &[usize]) -> (Vec<usize>, Vec<Vec<usize>>) {
    let mut kept = shape.to_vec();
    axes.iter().for_each(|&x| kept[x] = 1);
    let mut groups = vec![Vec::new(); kept.iter().product()];
    for (place, mut index) in indices(shape).enumerate() {
        axes.iter().for_each(|&x| index[x] = 0);
        groups[ravel(&index, &kept)].push(place);
    }
    (kept, groups)
}

/// Numbers on the host with their shape.
#[derive(Debug, Clone)]
pub struct Host {
    /// Size of each axis.
    pub shape: Vec<usize>,
    /// The elements, in row-major order.
    pub values: Vec<f64>,
}

impl Host {
    /// Reads an array: the real parts of complex numbers.
    ///
    /// # Panics
    /// When evaluation fails.
    pub fn of(a: &Array) -> Self {
        Host { shape: a.shape().to_vec(), values: values(a) }
    }

    /// The element at an index into an array that this one broadcasts to: leading axes may be
    /// missing here, and axes of size 1 repeat.
    pub fn at(&self, index: &[usize]) -> f64 {
        let skipped = index.len() - self.shape.len();
        let own = index[skipped..].iter().zip(&self.shape);
        self.values[own.fold(0, |place, (&i, &d)| place * d + if d == 1 { 0 } else { i })]
    }
}

/// The error function by the series `2/√π exp(-x²) Σ 2ⁿ x²ⁿ⁺¹ / (2n+1)!!` (Abramowitz and Stegun
/// 7.1.6), whose terms all have one sign: good to a few units in the last place.
pub fn series_erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= 2.0 * x * x / (2 * n + 1) as f64;
        sum += term;
    }
    let square = x * x;
    let rest = x.mul_add(x, -square);
    sum * (-square).exp() * (1.0 - rest) * std::f64::consts::FRAC_2_SQRT_PI
}

/// Numbers kept with results of upstream MLX: hashed integers over 512, exact in float32. The
/// program that made those results has the same function.
pub fn hashed(n: usize, seed: u64) -> Vec<f64> {
    let hash = |i: u64| (i + seed * 7919).wrapping_mul(2_654_435_761) as u32 >> 8;
    (0..n as u64).map(|i| ((hash(i) % 2001) as f64 - 1000.0) / 512.0).collect()
}
