//! Walks over strided elements in row-major order, a run of neighbours at a time.

use std::ops::Range;

use mlx_vulkan_core::{
    Element, Shape, Strides,
    shape::{collapse_contiguous, num_elements},
};

use crate::{
    elementwise::for_chunks,
    encoder::{Elements, In},
    transpose::Transpose,
};

/// Where the elements of some axes lie, in row-major order.
#[derive(Clone)]
pub(crate) struct Walk {
    pub(crate) shape: Shape,
    pub(crate) strides: Strides,
}

impl Walk {
    /// The walk with neighbouring axes merged; it has at least one axis.
    pub(crate) fn new(shape: &[usize], strides: &[isize]) -> Self {
        let (shape, [strides]) = collapse_contiguous(shape, [strides]);
        Walk { shape, strides }
    }

    /// Elements of the walk.
    pub(crate) fn len(&self) -> usize {
        num_elements(&self.shape)
    }

    /// The walk over all but the last axis, and the last axis' size and stride.
    pub(crate) fn split_last(mut self) -> (Walk, usize, isize) {
        let len = self.shape.pop().unwrap_or(1);
        let stride = self.strides.pop().unwrap_or(0);
        (self, len, stride)
    }

    /// Offsets of the elements from number `index` on; it starts anew after the last one.
    pub(crate) fn offsets(&self, index: usize) -> Offsets<'_> {
        Offsets::new(&self.shape, &self.strides, index)
    }

    /// Offset of element `at` if it and the next `len - 1` are neighbours in memory.
    pub(crate) fn neighbours(&self, at: usize, len: usize) -> Option<isize> {
        let inner = *self.shape.last()?;
        let fits = self.strides.last() == Some(&1) && at % inner.max(1) + len <= inner;
        fits.then(|| self.offsets(at).offset)
    }

    /// Copies the elements from number `at` on, where `data[first]` is the first of all.
    pub(crate) fn read<T: Copy>(&self, data: &[T], first: usize, at: usize, out: &mut [T]) {
        self.runs(at, out.len(), |range, offset, stride| {
            read_run(data, first.wrapping_add_signed(offset), stride, &mut out[range]);
        });
    }

    /// Cuts the elements `at..at + len` into runs along the last axis: calls `f` with each run's
    /// range among them, the offset of its first element, and the stride.
    pub(crate) fn runs(
        &self,
        at: usize,
        len: usize,
        mut f: impl FnMut(Range<usize>, isize, isize),
    ) {
        let (Some((&inner, outer)), Some((&stride, outer_strides))) =
            (self.shape.split_last(), self.strides.split_last())
        else {
            return f(0..len, 0, 0);
        };
        let mut rows = Offsets::new(outer, outer_strides, at / inner.max(1));
        let mut column = at % inner.max(1);
        let mut done = 0;
        while done < len {
            let count = (inner - column).min(len - done);
            f(done..done + count, rows.offset + column as isize * stride, stride);
            done += count;
            column = 0;
            rows.advance();
        }
    }
}

/// Walks of several operands over one shape, in step.
pub(crate) struct Walks<'a> {
    shape: &'a [usize],
    strides: &'a [Strides],
}

impl<'a> Walks<'a> {
    /// Walks with these strides, a list for each operand; there is at least one axis.
    pub(crate) fn new(shape: &'a [usize], strides: &'a [Strides]) -> Self {
        Walks { shape, strides }
    }

    /// Cuts the elements `at..at + len` into runs along the last axis: calls `f` with each run's
    /// range among them and the offset of its first element in each operand.
    pub(crate) fn runs(&self, at: usize, len: usize, mut f: impl FnMut(Range<usize>, &[isize])) {
        let last = self.shape.len() - 1;
        let inner = self.shape[last].max(1);
        let mut offsets = vec![0isize; self.strides.len()];
        let (mut row, mut column, mut done) = (at / inner, at % inner, 0);
        while done < len {
            for (offset, strides) in offsets.iter_mut().zip(self.strides) {
                *offset = column as isize * strides[last];
            }
            let mut left = row;
            for axis in (0..last).rev() {
                let index = (left % self.shape[axis]) as isize;
                left /= self.shape[axis];
                for (offset, strides) in offsets.iter_mut().zip(self.strides) {
                    *offset += index * strides[axis];
                }
            }
            let count = (inner - column).min(len - done);
            f(done..done + count, &offsets);
            done += count;
            (row, column) = (row + 1, 0);
        }
    }

    /// Strides along the last axis.
    pub(crate) fn last(&self) -> impl Iterator<Item = isize> {
        self.strides.iter().map(|s| s[s.len() - 1])
    }
}

/// An odometer over strided axes.
pub(crate) struct Offsets<'a> {
    shape: &'a [usize],
    strides: &'a [isize],
    index: Shape,
    /// Offset of the current element from the first one.
    pub(crate) offset: isize,
}

impl<'a> Offsets<'a> {
    fn new(shape: &'a [usize], strides: &'a [isize], mut number: usize) -> Self {
        let mut index = Shape::from_elem(0, shape.len());
        let mut offset = 0;
        for axis in (0..shape.len()).rev() {
            index[axis] = number % shape[axis].max(1);
            number /= shape[axis].max(1);
            offset += index[axis] as isize * strides[axis];
        }
        Offsets { shape, strides, index, offset }
    }

    /// Goes to the next element.
    pub(crate) fn advance(&mut self) {
        for axis in (0..self.shape.len()).rev() {
            self.index[axis] += 1;
            self.offset += self.strides[axis];
            if self.index[axis] < self.shape[axis] {
                return;
            }
            self.offset -= self.strides[axis] * self.shape[axis] as isize;
            self.index[axis] = 0;
        }
    }
}

/// Reads `out.len()` elements from `data[first]` on, `stride` apart.
pub(crate) fn read_run<T: Copy>(data: &[T], first: usize, stride: isize, out: &mut [T]) {
    let step = stride.unsigned_abs();
    match stride {
        0 => out.fill(data[first]),
        1 => out.copy_from_slice(&data[first..first + out.len()]),
        2.. => {
            let source = data[first..].iter().step_by(step);
            out.iter_mut().zip(source).for_each(|(x, &a)| *x = a);
        }
        _ => {
            let source = data[..=first].iter().rev().step_by(step);
            out.iter_mut().zip(source).for_each(|(x, &a)| *x = a);
        }
    }
}

/// Writes `values` to `data[first]` and on, `stride` apart.
pub(crate) fn write_run<T: Copy>(data: &mut [T], first: usize, stride: isize, values: &[T]) {
    let step = stride.unsigned_abs();
    match stride {
        1 => data[first..first + values.len()].copy_from_slice(values),
        2.. => {
            let target = data[first..].iter_mut().step_by(step);
            target.zip(values).for_each(|(x, &a)| *x = a);
        }
        0 => values.iter().for_each(|&a| data[first] = a),
        _ => {
            let target = data[..=first].iter_mut().rev().step_by(step);
            target.zip(values).for_each(|(x, &a)| *x = a);
        }
    }
}

/// The elements of an input in a fixed order.
pub(crate) struct Source<'a, T> {
    data: &'a [T],
    first: usize,
    /// How to walk; `None` for neighbours in memory.
    walk: Option<Walk>,
}

impl<'a, T: Element> Source<'a, T> {
    /// The elements in the order of the buffer.
    pub(crate) fn flat(elements: &'a Elements<'_, T>) -> Self {
        Source { data: elements.buffer(), first: elements.first(), walk: None }
    }

    /// The elements in row-major order.
    pub(crate) fn row_major(elements: &'a Elements<'_, T>, input: &In) -> Self {
        Self::strided(elements, &input.shape, &input.layout.strides)
    }

    /// The elements of a view of the input with other axes from the same first element.
    pub(crate) fn strided(
        elements: &'a Elements<'_, T>,
        shape: &[usize],
        strides: &[isize],
    ) -> Self {
        let walk = Walk::new(shape, strides);
        let walk = (walk.strides.as_slice() != [1]).then_some(walk);
        Source { walk, ..Self::flat(elements) }
    }

    /// The elements of a slice in a strided order from its first one.
    pub(crate) fn of_slice(data: &'a [T], shape: &[usize], strides: &[isize]) -> Self {
        Source { data, first: 0, walk: Some(Walk::new(shape, strides)) }
    }

    /// Whether the elements are neighbours in memory.
    pub(crate) fn is_flat(&self) -> bool {
        self.walk.is_none()
    }

    /// Copies all elements.
    pub(crate) fn read_all(&self, out: &mut [T]) {
        match self.walk.as_ref().and_then(Transpose::of) {
            Some(transpose) => transpose.copy(self.data, self.first, out),
            None => for_chunks(out, |at, chunk| self.read(at, chunk)),
        }
    }

    /// Copies the elements from number `at` on.
    pub(crate) fn read(&self, at: usize, out: &mut [T]) {
        match &self.walk {
            Some(walk) => walk.read(self.data, self.first, at, out),
            None => out.copy_from_slice(&self.data[self.first + at..][..out.len()]),
        }
    }

    /// The `len` elements from number `at` on; in `buffer` if they are no neighbours.
    pub(crate) fn block<'b>(&'b self, at: usize, len: usize, buffer: &'b mut [T]) -> &'b [T] {
        let offset = match &self.walk {
            None => Some(at as isize),
            Some(walk) => walk.neighbours(at, len),
        };
        if let Some(offset) = offset {
            return &self.data[self.first.wrapping_add_signed(offset)..][..len];
        }
        self.read(at, &mut buffer[..len]);
        &buffer[..len]
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, test_runner::RngSeed};

    use super::*;

    /// Sizes of some axes, strides of two operands, and a part of the elements.
    fn walks() -> impl Strategy<Value = (Vec<usize>, [Vec<isize>; 2], Range<usize>)> {
        let axes = prop::collection::vec((1usize..6, -9isize..10, -9isize..10), 1..5);
        (axes, any::<(prop::sample::Index, prop::sample::Index)>()).prop_map(
            |(axes, (from, to))| {
                let shape: Vec<usize> = axes.iter().map(|a| a.0).collect();
                let end = 1 + to.index(num_elements(&shape));
                let strides =
                    [axes.iter().map(|a| a.1).collect(), axes.iter().map(|a| a.2).collect()];
                (shape, strides, from.index(end)..end)
            },
        )
    }

    /// Offset of element `i` of a row-major walk.
    fn offset(mut i: usize, shape: &[usize], strides: &[isize]) -> isize {
        let axes = shape.iter().zip(strides).rev();
        axes.map(|(&size, &stride)| {
            let index = i % size;
            i /= size;
            index as isize * stride
        })
        .sum()
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 1000,
            failure_persistence: None,
            rng_seed: RngSeed::Fixed(1),
            ..Default::default()
        })]

        #[test]
        fn runs_and_offsets_are_those_of_index_arithmetic((shape, [a, b], part) in walks()) {
            let want = |strides: &[isize]| -> Vec<isize> {
                part.clone().map(|i| offset(i, &shape, strides)).collect()
            };
            let walk = Walk::new(&shape, &a);
            prop_assert_eq!(walk.len(), num_elements(&shape));
            let mut seen = Vec::new();
            walk.runs(part.start, part.len(), |range, first, stride| {
                assert_eq!(range.start, seen.len());
                seen.extend(range.enumerate().map(|(k, _)| first + k as isize * stride));
            });
            prop_assert_eq!(&seen, &want(&a));
            let mut steps = walk.offsets(part.start);
            for want in want(&a) {
                prop_assert_eq!(steps.offset, want);
                steps.advance();
            }
            if let Some(first) = walk.neighbours(part.start, part.len()) {
                let neighbours: Vec<isize> = (first..).take(part.len()).collect();
                prop_assert_eq!(want(&a), neighbours);
            }
            let (merged, strides) = collapse_contiguous(&shape, [&a, &b]);
            let walks = Walks::new(&merged, &strides);
            let steps: Vec<isize> = walks.last().collect();
            let mut seen = [Vec::new(), Vec::new()];
            walks.runs(part.start, part.len(), |range, first| {
                for (k, seen) in seen.iter_mut().enumerate() {
                    seen.extend((0..range.len() as isize).map(|i| first[k] + i * steps[k]));
                }
            });
            prop_assert_eq!(seen, [want(&a), want(&b)]);
        }
    }

    #[test]
    fn runs_cross_rows_and_go_backwards() {
        // A 3 x 2 view of 0..6 with both axes reversed.
        let walk = Walk { shape: [3, 2].as_slice().into(), strides: [-2, -1].as_slice().into() };
        let data: Vec<u32> = (0..6).collect();
        let mut out = [0; 4];
        walk.runs(1, 4, |range, offset, stride| {
            read_run(&data, 5usize.wrapping_add_signed(offset), stride, &mut out[range]);
        });
        assert_eq!(out, [4, 3, 2, 1]);
    }

    #[test]
    fn write_run_undoes_read_run() {
        for stride in [1isize, 2, 3, -1, -2] {
            let first = if stride < 0 { 9 } else { 0 };
            let mut data = [0u8; 10];
            write_run(&mut data, first, stride, &[1, 2, 3]);
            let mut back = [0; 3];
            read_run(&data, first, stride, &mut back);
            assert_eq!(back, [1, 2, 3], "stride {stride}");
        }
    }
}
