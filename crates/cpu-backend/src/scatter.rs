//! Writing elements at indices. What lies outside is left out; of several updates of one location the
//! last one stays, or all are joined in order.

use mlx_vulkan_core::{
    Array, Element, Result, backend::Output, dispatch_dtype, locations::Locations,
    primitives::ScatterOp, shape::row_major_strides,
};

use crate::{
    elementwise::{dispatch_size, for_chunks},
    encoder::{Encoder, In, Out},
    indexing::{inside, resolve, slice_locations},
    monoid::{Max, Min, Monoid, Prod, Sum, dispatch_arithmetic},
    strided::{Source, Walks},
};

/// Encodes a copy of the first input with the slices of the last one at the indices between them:
/// in place where the first input's memory can be taken over.
pub(crate) fn scatter(
    enc: &mut Encoder<'_>,
    op: ScatterOp,
    axes: &[usize],
    inputs: &[Array],
    output: &mut Output,
) -> Result<()> {
    let [a, indices @ .., updates] = inputs else { unreachable!("an array and its updates") };
    let out = target(enc, a, output)?;
    let indices: Vec<In> = indices.iter().map(In::from).collect();
    let updates = In::from(updates);
    let sizes = &updates.shape[updates.shape.len() - a.ndim()..];
    let array = (&out.shape[..], &out.layout.strides[..]);
    let locations = slice_locations(array, &indices, axes, sizes, &[&updates.layout.strides]);
    push(enc, op, Task { a: In::from(a), indices, updates, locations, out })
}

/// Encodes a copy of the first input with the third one's elements at the second one's indices
/// along `axis`; the other axes agree.
pub(crate) fn scatter_axis(
    enc: &mut Encoder<'_>,
    op: ScatterOp,
    axis: usize,
    [a, indices, updates]: &[Array; 3],
    output: &mut Output,
) -> Result<()> {
    let out = target(enc, a, output)?;
    let (indices, updates) = (In::from(indices), In::from(updates));
    let dense = row_major_strides(&indices.shape);
    let locations = Locations::along_axis(
        (&out.shape, &out.layout.strides),
        (&indices.shape, &dense),
        axis,
        &[&updates.layout.strides],
    );
    push(enc, op, Task { a: In::from(a), indices: vec![indices], updates, locations, out })
}

fn target(enc: &Encoder<'_>, a: &Array, output: &mut Output) -> Result<Out> {
    match enc.donate(output, a) {
        Some(out) => Ok(out),
        None => enc.allocate(output),
    }
}

/// One scatter: what it reads, and where it writes.
struct Task {
    a: In,
    indices: Vec<In>,
    updates: In,
    /// Of the updates, the output and the indices.
    locations: Locations,
    out: Out,
}

fn push(enc: &mut Encoder<'_>, op: ScatterOp, task: Task) -> Result<()> {
    let dtype = task.out.dtype;
    match op {
        ScatterOp::Assign => dispatch_size!(dtype, T => {
            enc.push(move || task.run::<T>(|element, value| *element = value))
        }),
        ScatterOp::Sum => dispatch_arithmetic!(dtype, Sum or Max, T, M => fold::<T, M>(enc, task)),
        ScatterOp::Prod => {
            dispatch_arithmetic!(dtype, Prod or Min, T, M => fold::<T, M>(enc, task))
        }
        ScatterOp::Max => dispatch_dtype!(dtype, T => fold::<T, Max>(enc, task)),
        ScatterOp::Min => dispatch_dtype!(dtype, T => fold::<T, Min>(enc, task)),
    }
}

fn fold<T: Element, M: Monoid<T>>(enc: &mut Encoder<'_>, task: Task) -> Result<()> {
    enc.push(move || {
        task.run::<T>(|element, value| {
            *element = M::finish(M::push(M::push(M::IDENTITY, *element), value));
        });
    })
}

impl Task {
    fn run<T: Element>(&self, join: impl Fn(&mut T, T)) {
        if !self.out.aliases(&self.a) {
            let elements = self.a.read::<T>();
            let source = Source::row_major(&elements, &self.a);
            for_chunks(&mut self.out.write::<T>(), |first, chunk| source.read(first, chunk));
        }
        let lists = self.indices.iter().zip(&self.locations.picks);
        // -1 for what is left out.
        let picks: Vec<Vec<isize>> = lists
            .map(|(i, pick)| {
                let valid = |i: isize| if (0..=pick.last).contains(&i) { i } else { -1 };
                resolve(i, |i| valid(inside(i, pick)))
            })
            .collect();
        let elements = self.updates.read::<T>();
        let (data, origin) = (elements.buffer(), elements.first());
        let mut target = self.out.write::<T>();
        let walks = Walks::new(&self.locations.shape, &self.locations.strides);
        let strides: Vec<isize> = walks.last().collect();
        walks.runs(0, self.locations.count(), |run, offsets| {
            for j in 0..run.len() as isize {
                let at = |k: usize| offsets[k] + j * strides[k];
                if let Some(picked) = self.picked(&picks, |k| at(2 + k)) {
                    let value = data[origin.wrapping_add_signed(at(0))];
                    join(&mut target[(at(1) + picked) as usize], value);
                }
            }
        });
    }

    /// How far the indices move an element; `None` if one of them leaves it out.
    #[inline(always)]
    fn picked(&self, picks: &[Vec<isize>], at: impl Fn(usize) -> isize) -> Option<isize> {
        let mut sum = 0;
        for (k, (list, pick)) in picks.iter().zip(&self.locations.picks).enumerate() {
            let index = list[at(k) as usize];
            if index < 0 {
                return None;
            }
            sum += index * pick.stride;
        }
        Some(sum)
    }
}
