//! Chains of elementwise operations by blocks: every step of a chain runs on a block of elements before the
//! next block is looked at, so that what lies between the steps stays in the first-level cache. Memory is
//! read once for each input and written once for each result that is kept.
//!
//! Steps are the loops of single operations, and give their bits.

mod blocks;
mod recipe;

use std::{ops::Range, sync::Arc};

use mlx_vulkan_core::{
    Array, DeviceType, Result, Stream,
    backend::{Encoded, Output},
    chains::{self, Chain},
    fusion::{Fusion, Group},
    tape::Tape,
};
use smallvec::SmallVec;

use crate::{
    elementwise::{common_layout, result},
    encoder::{Encoder, In, Out},
    eval::Streams,
};
use blocks::Blocks;
use recipe::{Lies, Recipe};

/// The groups of a tape's chains.
pub(crate) fn plan(tape: &Tape, places: Range<usize>, streams: &Arc<Streams>) -> Vec<Group> {
    let may = |place: usize| {
        tape.node(place).stream.device.kind == DeviceType::Cpu && tape.array(place).size() > 0
    };
    let group = |chain: Chain| Group {
        members: chain.members.clone(),
        kept: chain.kept.clone(),
        fusion: Box::new(Grouped { chain, streams: streams.clone() }),
    };
    chains::find(tape, places, may, |_| false).into_iter().map(group).collect()
}

/// A chain as core evaluates it.
struct Grouped {
    chain: Chain,
    streams: Arc<Streams>,
}

impl Fusion for Grouped {
    fn eval(&self, at: Stream, tape: &Tape, kept: &mut [Output]) -> Result<Option<Encoded>> {
        // The single operation says what is wrong with it.
        let Some(loops) = recipe::loops(&self.chain) else { return Ok(None) };
        let input = |&(place, nth, _): &(usize, usize, usize)| &tape.node(place).inputs[nth];
        let inputs: SmallVec<[&Array; 8]> = self.chain.inputs.iter().map(input).collect();
        self.streams.operation(at, inputs.iter().copied(), kept, |enc, kept| {
            let (outs, flat) = outputs(enc, &self.chain, &inputs, kept)?;
            let inputs: SmallVec<[In; 4]> = inputs.iter().map(|&input| In::from(input)).collect();
            let lies = inputs.iter().map(|input| lies(input, flat, &outs)).collect();
            let recipe = Recipe::new(&self.chain, loops, lies);
            enc.push(move || Blocks::new(&recipe, &inputs, &outs).run())
        })?;
        Ok(Some(Encoded::Done))
    }
}

/// Memory of the outputs: of inputs that nobody needs any more, or new; and whether all operands are walked
/// in the order that they lie in.
fn outputs(
    enc: &Encoder<'_>,
    chain: &Chain,
    inputs: &[&Array],
    kept: &mut [Output],
) -> Result<(SmallVec<[Out; 2]>, bool)> {
    let common = common_layout(inputs);
    let references = chain.inputs.iter().map(|&(_, _, references)| references);
    let donors = inputs.iter().copied().zip(references);
    let outs = kept.iter_mut().map(|out| result(enc, donors.clone(), out, common.as_ref()));
    Ok((outs.collect::<Result<_>>()?, common.is_some()))
}

/// How the walk over the outputs meets an input.
fn lies(input: &In, flat: bool, outs: &[Out]) -> Lies {
    if let Some(out) = outs.iter().position(|out| out.aliases(input)) {
        Lies::Overwritten(out)
    } else if input.layout.data_size == 1 {
        Lies::Once
    } else if flat || input.layout.flags.row_contiguous {
        Lies::InOrder
    } else {
        Lies::Strided
    }
}
