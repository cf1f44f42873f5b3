//! Normalization over the last axis, accumulated in float32.

use mlx_vulkan_core::{Array, Result, backend::Output, primitives::NormOp};
use rayon::prelude::*;

use crate::{
    encoder::{Encoder, In, Out, args},
    float::{Real, Wide, dispatch_real},
    rows::{RowStarts, widen_row},
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

/// Hands a primitive of this family to its function.
pub(crate) fn encode(
    enc: &mut Encoder<'_>,
    op: NormOp,
    inputs: &[Array],
    output: &mut Output,
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
        let parameters = self.parameters.each_ref().map(|p| p.as_ref().map(|p| widen::<T>(p)));
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

    /// Normalizes one widened row in place.
    fn row<T: Real>(&self, row: &mut [T::Wide], [weight, bias]: &[Option<Vec<T::Wide>>; 2]) {
        let count = T::Wide::from_f64(row.len() as f64);
        let mean = match self.kind {
            Kind::Rms => T::Wide::from_f64(0.0),
            Kind::Layer => T::Wide::sum(row) / count,
        };
        let variance = T::Wide::sum_of_squares(row, mean) / count;
        let one = T::Wide::from_f64(1.0);
        let inverse = one / num_traits::Float::sqrt(variance + T::Wide::from_f64(self.eps as f64));
        row.iter_mut().for_each(|x| *x = (*x - mean) * inverse);
        if let Some(weight) = weight {
            apply(row, weight, |x, w| x * w);
        }
        if let Some(bias) = bias {
            apply(row, bias, |x, b| x + b);
        }
    }
}

/// Combines a row with a vector of its length or with one number.
fn apply<W: Wide>(row: &mut [W], parameter: &[W], f: impl Fn(W, W) -> W) {
    match parameter {
        [scalar] => row.iter_mut().for_each(|x| *x = f(*x, *scalar)),
        vector => row.iter_mut().zip(vector).for_each(|(x, p)| *x = f(*x, *p)),
    }
}

/// A weight or bias as wide elements.
fn widen<T: Real>(parameter: &In) -> Vec<T::Wide> {
    let mut out = vec![T::Wide::default(); parameter.size()];
    let data = parameter.read::<T>();
    let stride = parameter.layout.strides.last().copied().unwrap_or(1);
    widen_row(data.buffer(), data.first(), stride, &mut out);
    out
}
