//! The gated delta rule: heads side by side, each with its state in the cache of a core.

use mlx_vulkan_core::{Array, Result, backend::Output, primitives::GatedDelta};
use rayon::prelude::*;

use crate::{
    encoder::{Encoder, In, Out, args},
    float::{Real, Wide, dispatch_real},
    rows::{widen_rows, widened},
};

/// Encodes the steps of all heads.
pub(crate) fn encode(
    enc: &mut Encoder<'_>,
    GatedDelta: GatedDelta,
    inputs: &[Array],
    output: &mut Output,
    others: &mut [Output],
) -> Result<()> {
    let [_, _, _, _, _, state] = args(inputs);
    let [last] = others else { unreachable!("there are two outputs") };
    let dense = state.evaluated().layout.flags.row_contiguous;
    let donated = if dense { enc.donate(last, state) } else { None };
    let last = match donated {
        Some(last) => last,
        None => enc.allocate(last)?,
    };
    let inputs = args(inputs).each_ref().map(In::from);
    let delta = Delta { inputs, y: enc.allocate(output)?, last };
    dispatch_real!(output.dtype, T => enc.push(move || delta.run::<T>()))
}

/// The inputs are the primitive's.
struct Delta {
    inputs: [In; 6],
    y: Out,
    last: Out,
}

/// One step of a head: its query, key and value, its decays (one, or one for each key feature) and its rate.
struct Step<'a, W> {
    q: &'a [W],
    k: &'a [W],
    v: &'a [W],
    gamma: &'a [W],
    beta: W,
}

impl Delta {
    fn run<T: Real>(&self) {
        let [q, k, v, gamma, beta, state] = &self.inputs;
        let [_, heads, values, width] = state.shape[..] else { unreachable!("four axes") };
        let (time, key_heads) = (v.shape[1], q.shape[2]);
        let decays = if gamma.shape.len() == 4 { width } else { 1 };
        let [q, k, v] = [q, k, v].map(widened::<T>);
        let [gamma, beta] = [gamma, beta].map(gate::<T>);
        let steps_of = |head: usize, state: &mut [T::Wide]| {
            let (b, h) = (head / heads, head % heads);
            let mut outputs = vec![T::Wide::default(); time * values];
            for (t, y) in outputs.chunks_mut(values).enumerate() {
                let token = b * time + t;
                let (at, key) = (token * heads + h, token * key_heads + h * key_heads / heads);
                let step = Step {
                    q: &q[key * width..][..width],
                    k: &k[key * width..][..width],
                    v: &v[at * values..][..values],
                    gamma: &gamma[at * decays..][..decays],
                    beta: beta[at],
                };
                step.apply(state, y);
            }
            outputs
        };
        let mut last = self.last.write::<T::Wide>();
        if !self.last.aliases(state) {
            widen_rows::<T::Wide>(state, &mut last);
        }
        let states = last.par_chunks_mut(values * width).enumerate();
        let outputs: Vec<_> = states.map(|(head, state)| steps_of(head, state)).collect();
        let mut y = self.y.write::<T>();
        for (head, outputs) in outputs.iter().enumerate() {
            for (t, row) in outputs.chunks(values).enumerate() {
                let at = ((head / heads * time + t) * heads + head % heads) * values;
                T::narrow_slice(row, &mut y[at..][..values]);
            }
        }
    }
}

impl<W: Wide> Step<'_, W> {
    /// Brings a state to the next step, and reads it.
    fn apply(&self, state: &mut [W], y: &mut [W]) {
        let width = self.k.len();
        for row in state.chunks_mut(width) {
            match self.gamma {
                &[gamma] => row.iter_mut().for_each(|s| *s = *s * gamma),
                gamma => row.iter_mut().zip(gamma).for_each(|(s, &gamma)| *s = *s * gamma),
            }
        }
        // What is held for the key.
        W::dots(self.k, state, width, y);
        for ((row, held), &v) in state.chunks_mut(width).zip(&*y).zip(self.v) {
            W::combine(&[(v - *held) * self.beta], self.k, width, row);
        }
        W::dots(self.q, state, width, y);
    }
}

/// The elements of a gate, which may be as wide as the state.
fn gate<T: Real>(input: &In) -> Vec<T::Wide> {
    if input.dtype == T::DTYPE { widened::<T>(input) } else { widened::<T::Wide>(input) }
}
