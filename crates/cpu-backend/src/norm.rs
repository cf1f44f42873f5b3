//! Normalization over the last axis, accumulated in float32.

use mlx_vulkan_core::{Array, Result, backend::Output, primitives::NormOp};
use rayon::prelude::*;

use crate::{
    encoder::{Encoder, In, Out, args},
    float::{Real, Wide, dispatch_real},
    rows::{RowStarts, widen_row, widened},
};

/// Elements from which the rows are split over cores.
const PARALLEL: usize = 1 << 15;

/// How a row is normalized.
#[derive(Clone, Copy)]
enum Kind {
    /// By its root mean square.
    Rms,
    /// By mean and variance.
    Layer,
}

impl Kind {
    /// Brings a row to a mean square of one, and returns what its elements were multiplied by.
    fn unit<W: Wide>(self, eps: f32, row: &mut [W]) -> W {
        let count = W::from_f64(row.len() as f64);
        let mean = match self {
            Kind::Rms => W::from_f64(0.0),
            Kind::Layer => W::sum(row) / count,
        };
        let variance = W::sum_of_squares(row, mean) / count;
        let inverse = W::from_f64(1.0) / (variance + W::from_f64(f64::from(eps))).sqrt();
        row.iter_mut().for_each(|x| *x = (*x - mean) * inverse);
        inverse
    }
}

/// Hands a primitive of this family to its function.
pub(crate) fn encode(
    enc: &mut Encoder<'_>,
    op: NormOp,
    inputs: &[Array],
    output: &mut Output,
    others: &mut [Output],
) -> Result<()> {
    match op {
        NormOp::RmsNorm { eps } => {
            let [x, weight] = args(inputs);
            normalize(enc, Kind::Rms, eps.0, x, [Some(weight), None], output)
        }
        NormOp::LayerNorm { eps } => {
            let [x, weight, bias] = args(inputs);
            normalize(enc, Kind::Layer, eps.0, x, [Some(weight), Some(bias)], output)
        }
        NormOp::RmsNormVjp { eps, .. } => {
            let [x, weight, cotangent] = args(inputs);
            differentiate(enc, Kind::Rms, eps.0, [x, weight, cotangent], output, others)
        }
        NormOp::LayerNormVjp { eps, .. } => {
            let [x, weight, _, cotangent] = args(inputs);
            differentiate(enc, Kind::Layer, eps.0, [x, weight, cotangent], output, others)
        }
    }
}

fn normalize(
    enc: &mut Encoder<'_>,
    kind: Kind,
    eps: f32,
    x: &Array,
    parameters: [Option<&Array>; 2],
    output: &mut Output,
) -> Result<()> {
    let dense = x.evaluated().layout.flags.row_contiguous;
    let donated = if dense { enc.donate(output, x) } else { None };
    let out = match donated {
        Some(out) => out,
        None => enc.allocate(output)?,
    };
    let parameters = parameters.map(|p| p.map(In::from));
    let norm = Norm { kind, eps, x: In::from(x), parameters, out };
    dispatch_real!(x.dtype(), T => enc.push(move || norm.run::<T>()))
}

struct Norm {
    kind: Kind,
    eps: f32,
    x: In,
    /// Weight and bias, each a vector or a scalar.
    parameters: [Option<In>; 2],
    out: Out,
}

impl Norm {
    fn run<T: Real>(&self) {
        let length = *self.x.shape.last().expect("at least one axis");
        if self.out.size() == 0 {
            return;
        }
        let parameters = self.parameters.each_ref().map(|p| p.as_ref().map(|p| widened::<T>(p)));
        let in_place = self.out.aliases(&self.x);
        let mut out = self.out.write::<T>();
        let source = (!in_place).then(|| self.x.read::<T>());
        let starts = RowStarts::new(&self.x, 1);
        let stride = self.x.layout.strides[self.x.shape.len() - 1];
        let normalize = |row: &mut [T::Wide], index: usize, out: &mut [T]| {
            match &source {
                Some(source) => widen_row(source.buffer(), starts.at(index), stride, row),
                None => T::widen_slice(out, row),
            }
            self.row::<T>(row, &parameters);
            T::narrow_slice(row, out);
        };
        let scratch = || vec![T::Wide::default(); length];
        if out.len() < PARALLEL {
            let mut row = scratch();
            out.chunks_mut(length).enumerate().for_each(|(i, out)| normalize(&mut row, i, out));
        } else {
            let rows = out.par_chunks_mut(length).with_min_len((PARALLEL / 4).div_ceil(length));
            rows.enumerate().for_each_init(scratch, |row, (i, out)| normalize(row, i, out));
        }
    }

    /// Normalizes a widened row in place.
    fn row<T: Real>(&self, row: &mut [T::Wide], [weight, bias]: &[Option<Vec<T::Wide>>; 2]) {
        self.kind.unit(self.eps, row);
        if let Some(weight) = weight {
            apply(row, weight, |x, w| x * w);
        }
        if let Some(bias) = bias {
            apply(row, bias, |x, b| x + b);
        }
    }
}

/// Parts that the rows are in at most, each with sums of its own over its rows. They depend on sizes only, so
/// the sums are the same on any machine.
const PARTS: usize = 64;

fn differentiate(
    enc: &mut Encoder<'_>,
    kind: Kind,
    eps: f32,
    [x, weight, cotangent]: [&Array; 3],
    output: &mut Output,
    others: &mut [Output],
) -> Result<()> {
    let by_x = enc.allocate(output)?;
    let by_parameters =
        others.iter_mut().map(|other| enc.allocate(other)).collect::<Result<_>>()?;
    let [x, weight, cotangent] = [x, weight, cotangent].map(In::from);
    let derivatives = Derivatives { kind, eps, x, weight, cotangent, by_x, by_parameters };
    dispatch_real!(output.dtype, T => enc.push(move || derivatives.run::<T>()))
}

/// The derivatives of a norm along a cotangent.
struct Derivatives {
    kind: Kind,
    eps: f32,
    x: In,
    /// A vector or a scalar.
    weight: In,
    cotangent: In,
    by_x: Out,
    /// By weight and bias, as many as are asked for.
    by_parameters: Vec<Out>,
}

impl Derivatives {
    fn run<T: Real>(&self) {
        let sums = self.rows::<T>();
        for (i, out) in self.by_parameters.iter().enumerate() {
            let sums = &sums[i];
            let scalar = [T::Wide::sum(sums)];
            let sums = if out.shape.is_empty() { &scalar } else { sums.as_slice() };
            T::narrow_slice(sums, &mut out.write::<T>());
        }
    }

    /// Computes the derivatives of all rows; returns the sums for each parameter.
    fn rows<T: Real>(&self) -> [Vec<T::Wide>; 2] {
        let length = *self.x.shape.last().expect("at least one axis");
        let mut by_x = self.by_x.write::<T>();
        let mut sums = self.no_sums::<T>(length);
        if by_x.is_empty() {
            return sums;
        }
        let weight = widened::<T>(&self.weight);
        let some = (by_x.len() / length).div_ceil(PARTS).max((PARALLEL / 4).div_ceil(length));
        let parts = by_x.par_chunks_mut(some * length).enumerate();
        let parts = parts.map(|(i, out)| self.part::<T>(&weight, length, i * some, out));
        for part in parts.collect::<Vec<_>>() {
            sums.iter_mut().zip(part).for_each(|(sums, part)| add(sums, &part));
        }
        sums
    }

    /// The same for the rows from `first` on whose derivatives `out` takes.
    fn part<T: Real>(
        &self,
        weight: &[T::Wide],
        length: usize,
        first: usize,
        out: &mut [T],
    ) -> [Vec<T::Wide>; 2] {
        let (x, cotangent) = (self.x.read::<T>(), self.cotangent.read::<T>());
        let stride = |input: &In| input.layout.strides[input.shape.len() - 1];
        let (starts, cotangents) = (RowStarts::new(&self.x, 1), RowStarts::new(&self.cotangent, 1));
        let mut sums = self.no_sums::<T>(length);
        let (mut unit, mut along) =
            (vec![T::Wide::default(); length], vec![T::Wide::default(); length]);
        for (i, out) in (first..).zip(out.chunks_mut(length)) {
            widen_row(x.buffer(), starts.at(i), stride(&self.x), &mut unit);
            widen_row(cotangent.buffer(), cotangents.at(i), stride(&self.cotangent), &mut along);
            let scale = self.kind.unit(self.eps, &mut unit);
            let [of_weight, of_bias] = &mut sums;
            // There are no places where a sum is not asked for.
            of_weight.iter_mut().zip(&along).zip(&unit).for_each(|((s, &g), &u)| *s = *s + g * u);
            add(of_bias, &along);
            apply(&mut along, weight, |g, w| g * w);
            self.by_row(&unit, &mut along, scale);
            T::narrow_slice(&along, out);
        }
        sums
    }

    /// Zeros for each parameter that is asked for.
    fn no_sums<T: Real>(&self, length: usize) -> [Vec<T::Wide>; 2] {
        let of = |i| if i < self.by_parameters.len() { length } else { 0 };
        [0, 1].map(|i| vec![T::Wide::from_f64(0.0); of(i)])
    }

    /// Makes of a weighted cotangent the derivative by its row, which was multiplied by `scale`.
    fn by_row<W: Wide>(&self, unit: &[W], along: &mut [W], scale: W) {
        let count = W::from_f64(unit.len() as f64);
        let shift = match self.kind {
            Kind::Rms => W::from_f64(0.0),
            Kind::Layer => W::sum(along) / count,
        };
        // Along what is centred itself, an error of the row's mean counts for nothing.
        along.iter_mut().for_each(|v| *v = *v - shift);
        let mut radial = [W::from_f64(0.0)];
        W::dots(unit, along, 0, &mut radial);
        let radial = radial[0] / count;
        along.iter_mut().zip(unit).for_each(|(v, &u)| *v = (*v - u * radial) * scale);
    }
}

/// Adds elements to others, as many as there are of both.
fn add<W: Wide>(sums: &mut [W], terms: &[W]) {
    sums.iter_mut().zip(terms).for_each(|(sum, &term)| *sum = *sum + term);
}

/// Combines a row with a vector of its length or with one number.
fn apply<W: Wide>(row: &mut [W], parameter: &[W], f: impl Fn(W, W) -> W) {
    match parameter {
        [scalar] => row.iter_mut().for_each(|x| *x = f(*x, *scalar)),
        vector => row.iter_mut().zip(vector).for_each(|(x, p)| *x = f(*x, *p)),
    }
}
