//! The walk over the elements of a chain, block by block.

use mlx_vulkan_core::Dtype;
use smallvec::SmallVec;

use super::recipe::{Lies, Recipe};
use crate::{
    elementwise::{BLOCK, CHUNK, PARALLEL, dispatch_size, spread},
    encoder::{Elements, In, Out},
    strided::Walk,
};

/// Bytes that the block buffer should have at most: the first-level cache has to hold blocks of inputs and
/// outputs as well.
const CACHE: usize = 24 << 10;
/// Elements of a block at least, where there are so many: a step's call costs as much as some of them.
const LEAST: usize = 256;

/// Neighbouring elements of each output, the same of all.
type Part<'a> = SmallVec<[&'a mut [u8]; 2]>;
/// Slots for one block: those of the outputs, which are their memory, then those of the block buffer.
type Slots<'a> = SmallVec<[&'a mut [u8]; 16]>;

/// A chain that runs.
pub(super) struct Blocks<'a> {
    recipe: &'a Recipe,
    feeds: SmallVec<[Feed<'a>; 4]>,
    outs: &'a [Out],
    /// Elements in all, and of a block.
    count: usize,
    block: usize,
}

impl<'a> Blocks<'a> {
    pub(super) fn new(recipe: &'a Recipe, inputs: &'a [In], outs: &'a [Out]) -> Self {
        let count = outs[0].size();
        let fits = CACHE / (recipe.widest * recipe.scratch.max(1));
        // A power of two, so that a chunk has whole blocks.
        let block = (1 << fits.clamp(LEAST, BLOCK).ilog2()).min(count);
        let feeds = inputs.iter().zip(&recipe.lies).map(|(input, &lies)| Feed::new(input, lies));
        Blocks { recipe, feeds: feeds.collect(), outs, count, block }
    }

    /// Runs all steps, on all cores if there is much to do.
    pub(super) fn run(&self) {
        let mut locked: SmallVec<[_; 2]> = self.outs.iter().map(Out::write_bytes).collect();
        let work = self.count.saturating_mul(self.recipe.steps.len());
        if work < PARALLEL || self.count <= CHUNK {
            return self.part(0, &mut locked.iter_mut().map(|out| &mut **out).collect());
        }
        let mut parts: Vec<Part<'_>> = Vec::new();
        parts.resize_with(self.count.div_ceil(CHUNK), Part::new);
        for (locked, out) in locked.iter_mut().zip(self.outs) {
            let chunks = locked.chunks_mut(CHUNK * out.dtype.size());
            parts.iter_mut().zip(chunks).for_each(|(part, chunk)| part.push(chunk));
        }
        spread(&mut parts, 1, &|i, parts| self.part(i * CHUNK, &mut parts[0]));
    }

    /// Runs all steps for a part of the outputs that begins with element `first`.
    fn part(&self, first: usize, outs: &mut Part<'_>) {
        let slot = self.block * self.recipe.widest;
        // Words, so that elements of any dtype are aligned.
        let mut buffer = vec![0u64; (slot * self.recipe.scratch).div_ceil(8)];
        let mut scratch: SmallVec<[&mut [u8]; 16]> =
            bytemuck::cast_slice_mut(&mut buffer).chunks_exact_mut(slot).collect();
        for (feed, place) in self.feeds.iter().zip(&self.recipe.slots) {
            if let (Lies::Once, Some(slot)) = (feed.lies, place) {
                feed.copy(0, &mut scratch[slot - outs.len()][..self.block * feed.dtype.size()]);
            }
        }
        let size = |out: usize| self.outs[out].dtype.size();
        let count = outs[0].len() / size(0);
        for at in (0..count).step_by(self.block) {
            let len = self.block.min(count - at);
            let outs = outs.iter_mut().enumerate();
            let outs = outs.map(|(i, out)| &mut out[at * size(i)..][..len * size(i)]);
            let scratch = scratch.iter_mut().map(|slot| &mut **slot);
            self.block(first + at, len, &mut outs.chain(scratch).collect());
        }
    }

    /// Runs all steps for `len` elements from number `at` on.
    fn block(&self, at: usize, len: usize, slots: &mut Slots<'_>) {
        let recipe = self.recipe;
        let bytes = |value: usize| len * recipe.sizes[value];
        let memory: SmallVec<[Option<&[u8]>; 8]> =
            self.feeds.iter().map(|feed| feed.neighbours(at, len)).collect();
        for (i, feed) in self.feeds.iter().enumerate() {
            let Some(slot) = recipe.slots[i] else { continue };
            match feed.lies {
                Lies::Overwritten(out) => {
                    let (outs, scratch) = slots.split_at_mut(self.outs.len());
                    scratch[slot - outs.len()][..bytes(i)].copy_from_slice(outs[out]);
                }
                Lies::Strided if memory[i].is_none() => feed.copy(at, &mut slots[slot][..bytes(i)]),
                Lies::Strided | Lies::Once | Lies::InOrder => {}
            }
        }
        for (i, step) in recipe.steps.iter().enumerate() {
            // Taken out of the slots while the step reads others.
            let target = std::mem::take(&mut slots[step.to]);
            let mut operands: [&[u8]; 3] = [&[]; 3];
            for (operand, &value) in operands.iter_mut().zip(&step.reads) {
                *operand = match (memory.get(value), recipe.slots[value]) {
                    (Some(Some(block)), _) => block,
                    (_, Some(slot)) => &slots[slot][..bytes(value)],
                    (_, None) => unreachable!("what has no slot lies in order"),
                };
            }
            let made = bytes(self.feeds.len() + i);
            (step.run)(&operands[..step.reads.len()], &mut target[..made]);
            slots[step.to] = target;
        }
    }
}

/// An input that is read by blocks.
struct Feed<'a> {
    /// The locked memory; none where an output has taken it over.
    elements: Option<Elements<'a, u8>>,
    lies: Lies,
    dtype: Dtype,
    walk: Walk,
}

impl<'a> Feed<'a> {
    fn new(input: &'a In, lies: Lies) -> Self {
        let is_there = !matches!(lies, Lies::Overwritten(_));
        let walk = Walk::new(&input.shape, &input.layout.strides);
        Feed { elements: is_there.then(|| input.read_bytes()), lies, dtype: input.dtype, walk }
    }

    /// The bytes of `len` elements from number `at` on, if they are neighbours.
    fn neighbours(&self, at: usize, len: usize) -> Option<&[u8]> {
        let offset = match self.lies {
            Lies::InOrder => at as isize,
            Lies::Strided => self.walk.neighbours(at, len)?,
            Lies::Once | Lies::Overwritten(_) => return None,
        };
        let (elements, size) = (self.elements.as_ref()?, self.dtype.size());
        let first = elements.first().wrapping_add_signed(offset * size as isize);
        Some(&elements.buffer()[first..][..len * size])
    }

    /// Copies the elements from number `at` on.
    fn copy(&self, at: usize, out: &mut [u8]) {
        let Some(elements) = &self.elements else { return };
        dispatch_size!(self.dtype, T => {
            let whole = elements.buffer().len() / size_of::<T>() * size_of::<T>();
            let data: &[T] = bytemuck::cast_slice(&elements.buffer()[..whole]);
            self.walk.read(data, elements.first() / size_of::<T>(), at, bytemuck::cast_slice_mut(out));
        });
    }
}
