//! Rotary position embedding.

use mlx_vulkan_core::{
    Array, Dtype, Result, backend::Output, primitives::Rope, shape::num_elements,
};
use rayon::prelude::*;

use crate::{
    encoder::{Encoder, In, Out},
    float::{Real, Wide, dispatch_real},
    rows::{RowStarts, widen_row},
};

/// Elements from which the rows are split over cores.
const PARALLEL: usize = 1 << 15;

/// Encodes the rotation of `x` (batch, …, positions, features) with inputs `x`, offset and, if
/// there is no base, frequencies.
pub(crate) fn encode(
    enc: &mut Encoder<'_>,
    rope: Rope,
    inputs: &[Array],
    output: &mut Output,
) -> Result<()> {
    let x = &inputs[0];
    let dense = x.evaluated().layout.flags.row_contiguous;
    let donated = if dense { enc.donate(output, x) } else { None };
    let out = match donated {
        Some(out) => out,
        None => enc.allocate(output)?,
    };
    let task = RopeTask {
        rope,
        x: In::from(x),
        offset: In::from(&inputs[1]),
        freqs: inputs.get(2).map(In::from),
        out,
    };
    dispatch_real!(x.dtype(), T => enc.push(move || task.run::<T>()))
}

struct RopeTask {
    rope: Rope,
    x: In,
    offset: In,
    freqs: Option<In>,
    out: Out,
}

/// Cosine and sine of each angle of each position.
struct Angles<W> {
    cos: Vec<W>,
    sin: Vec<W>,
}

impl RopeTask {
    fn run<T: Real>(&self) {
        let axes = self.x.shape.len();
        let (positions, features) = (self.x.shape[axes - 2], self.x.shape[axes - 1]);
        if self.out.size() == 0 {
            return;
        }
        let rows_per_batch = num_elements(&self.x.shape[1..axes - 1]);
        let offsets = self.offsets();
        let tables: Vec<Angles<T::Wide>> =
            offsets.iter().map(|&o| self.angles(o, positions)).collect();
        let in_place = self.out.aliases(&self.x);
        let mut out = self.out.write::<T>();
        let source = (!in_place).then(|| self.x.read::<T>());
        let starts = RowStarts::new(&self.x, 1);
        let stride = self.x.layout.strides[axes - 1];
        let rotate = |row: &mut [T::Wide], index: usize, out: &mut [T]| {
            match &source {
                Some(source) => widen_row(source.buffer(), starts.at(index), stride, row),
                None => T::widen_slice(out, row),
            }
            let table = &tables[if tables.len() == 1 { 0 } else { index / rows_per_batch }];
            self.rotate(row, table, index % positions);
            T::narrow_slice(row, out);
        };
        let scratch = || vec![T::Wide::default(); features];
        if out.len() < PARALLEL {
            let mut row = scratch();
            out.chunks_mut(features).enumerate().for_each(|(i, out)| rotate(&mut row, i, out));
        } else {
            let rows = out.par_chunks_mut(features).with_min_len((PARALLEL / 8).div_ceil(features));
            rows.enumerate().for_each_init(scratch, |row, (i, out)| rotate(row, i, out));
        }
    }

    /// The offset of all batches, or one of each.
    fn offsets(&self) -> Vec<i32> {
        debug_assert_eq!(self.offset.dtype, Dtype::Int32);
        let data = self.offset.read::<i32>();
        let starts = RowStarts::new(&self.offset, 0);
        (0..starts.count).map(|i| data.buffer()[starts.at(i)]).collect()
    }

    /// Angles of consecutive positions, computed in float64: a float32 angle of a far position
    /// has few digits left for its place in the circle.
    fn angles<W: Wide>(&self, offset: i32, positions: usize) -> Angles<W> {
        let frequencies = self.frequencies();
        let angle = |i: usize| {
            let position = (i / frequencies.len()) as f64 + offset as f64;
            position * self.rope.scale.0 as f64 * frequencies[i % frequencies.len()]
        };
        let pair = |i: usize| {
            let (sin, cos) = angle(i).sin_cos();
            (W::from_f64(cos), W::from_f64(sin))
        };
        let count = positions * frequencies.len();
        let (cos, sin) = match count < 1 << 12 {
            true => (0..count).map(pair).unzip(),
            false => (0..count).into_par_iter().with_min_len(512).map(pair).unzip(),
        };
        Angles { cos, sin }
    }

    /// Radians per position of each pair.
    fn frequencies(&self) -> Vec<f64> {
        let half = self.rope.dims / 2;
        if let Some(freqs) = &self.freqs {
            let data = freqs.read::<f32>();
            let starts = RowStarts::new(freqs, 0);
            return (0..half).map(|i| 1.0 / data.buffer()[starts.at(i)] as f64).collect();
        }
        let base = self.rope.base.expect("rope has a base or frequencies").0 as f64;
        (0..half).map(|i| base.powf(-(i as f64) / half as f64)).collect()
    }

    /// Rotates the first features of a row; the others stay.
    fn rotate<W: Wide>(&self, row: &mut [W], angles: &Angles<W>, position: usize) {
        let half = self.rope.dims / 2;
        let range = position * half..(position + 1) * half;
        let angles = angles.cos[range.clone()].iter().zip(&angles.sin[range]);
        let turn = |a: &mut W, b: &mut W, (&cos, &sin): (&W, &W)| {
            (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
        };
        let row = &mut row[..self.rope.dims];
        if self.rope.traditional {
            row.as_chunks_mut::<2>().0.iter_mut().zip(angles).for_each(|([a, b], t)| turn(a, b, t));
        } else {
            let (low, high) = row.split_at_mut(half);
            low.iter_mut().zip(high).zip(angles).for_each(|((a, b), t)| turn(a, b, t));
        }
    }
}
