//! Loops over elements: what unary, binary, ternary and copies share.
//!
//! Dense operands in the same order run as one flat loop that the compiler vectorizes; anything
//! else runs row by row over merged axes. Large outputs are split over all cores.

use mlx_core::{
    Array, Element, Result, Shape, Strides,
    backend::Output,
    shape::{Layout, collapse_contiguous, num_elements},
};
use rayon::prelude::*;

use crate::encoder::{Encoder, In, Out};

/// Elements from which a loop is worth splitting over cores.
const PARALLEL: usize = 1 << 16;
/// Elements that one core takes at a time.
const CHUNK: usize = 1 << 14;

/// Calls `f` with chunks of `out` and the index of their first element, on all cores if large.
pub(crate) fn for_chunks<U: Send>(out: &mut [U], f: impl Fn(usize, &mut [U]) + Sync) {
    if out.len() < PARALLEL {
        return f(0, out);
    }
    out.par_chunks_mut(CHUNK).enumerate().for_each(|(i, chunk)| f(i * CHUNK, chunk));
}

/// The walk of `N` strided operands beside a dense row-major output, row by row.
pub(crate) struct Rows<const N: usize> {
    outer: Shape,
    outer_strides: [Strides; N],
    /// Elements of a row.
    len: usize,
    /// Stride of each operand within a row.
    inner: [isize; N],
}

impl<const N: usize> Rows<N> {
    pub(crate) fn new(shape: &[usize], strides: [&[isize]; N]) -> Self {
        let (mut outer, mut outer_strides) = collapse_contiguous(shape, strides);
        let len = outer.pop().expect("collapsing keeps one axis");
        let inner = outer_strides.each_mut().map(|s| s.pop().expect("one stride per axis"));
        Rows { outer, outer_strides, len, inner }
    }

    /// First elements of row `row`, relative to the operands' first elements.
    fn starts(&self, mut row: usize) -> [isize; N] {
        let mut starts = [0; N];
        for axis in (0..self.outer.len()).rev() {
            let index = (row % self.outer[axis]) as isize;
            row /= self.outer[axis];
            for (start, strides) in starts.iter_mut().zip(&self.outer_strides) {
                *start += index * strides[axis];
            }
        }
        starts
    }

    /// Calls `f` with each row of `out` and the index of every operand's first element and its
    /// stride in that row.
    pub(crate) fn for_each<U: Send>(
        &self,
        out: &mut [U],
        first: [usize; N],
        f: impl Fn(&mut [U], [usize; N], [isize; N]) + Sync,
    ) {
        if out.is_empty() {
            return;
        }
        let row = |index: usize, out: &mut [U]| {
            let mut at = first;
            at.iter_mut()
                .zip(self.starts(index))
                .for_each(|(at, start)| *at = at.wrapping_add_signed(start));
            f(out, at, self.inner);
        };
        if out.len() < PARALLEL {
            return out.chunks_mut(self.len).enumerate().for_each(|(i, out)| row(i, out));
        }
        let rows = (CHUNK / self.len).max(1);
        out.par_chunks_mut(rows * self.len).enumerate().for_each(|(i, out)| {
            out.chunks_mut(self.len).enumerate().for_each(|(j, out)| row(i * rows + j, out));
        });
    }
}

/// Element `i` of a strided row.
#[inline(always)]
fn at(first: usize, i: usize, stride: isize) -> usize {
    first.wrapping_add_signed(i as isize * stride)
}

/// The layout of a fresh output whose elements lie in the order of a dense input.
fn like(layout: &Layout) -> Layout {
    Layout { offset: 0, ..layout.clone() }
}

/// Whether a flat walk over the data visits every element once.
fn is_dense(a: &Array) -> bool {
    let layout = &a.evaluated().layout;
    layout.flags.contiguous && layout.data_size == a.size()
}

/// `out = f(a)`.
pub(crate) fn map1<T: Element, U: Element>(
    enc: &mut Encoder<'_>,
    a: &Array,
    output: &mut Output,
    f: impl Fn(T) -> U + Copy + Send + Sync + 'static,
) -> Result<()> {
    let input = In::from(a);
    if !is_dense(a) {
        let out = enc.allocate(output)?;
        return enc.push(move || map1_strided(&input, &out, f));
    }
    let out = donate_or_like(enc, output, a, &input)?;
    enc.push(move || map_dense(&input, &out, f))
}

fn map1_strided<T: Element, U: Element>(input: &In, out: &Out, f: impl Fn(T) -> U + Sync) {
    let source = input.read::<T>();
    let data = source.buffer();
    let rows = Rows::new(&input.shape, [&input.layout.strides]);
    rows.for_each(&mut out.write::<U>(), [source.first()], |out, [first], [stride]| {
        if stride == 1 {
            out.iter_mut().zip(&data[first..]).for_each(|(x, &a)| *x = f(a));
        } else {
            out.iter_mut().enumerate().for_each(|(i, x)| *x = f(data[at(first, i, stride)]));
        }
    });
}

/// How two operands are walked.
enum Pair {
    /// Both dense in the same order.
    Dense,
    /// The first is one element, the second dense.
    ScalarDense,
    /// The first is dense, the second one element.
    DenseScalar,
    /// Anything else.
    Strided,
}

impl Pair {
    fn of(a: &Array, b: &Array) -> Pair {
        let (la, lb) = (&a.evaluated().layout, &b.evaluated().layout);
        match (is_dense(a), is_dense(b)) {
            (true, true) if la.strides == lb.strides || a.size() <= 1 => Pair::Dense,
            (true, true) if la.flags.row_contiguous && lb.flags.row_contiguous => Pair::Dense,
            (_, true) if la.data_size == 1 => Pair::ScalarDense,
            (true, _) if lb.data_size == 1 => Pair::DenseScalar,
            _ => Pair::Strided,
        }
    }
}

/// `out = f(a, b)`; both have the output's shape.
pub(crate) fn map2<T: Element, U: Element>(
    enc: &mut Encoder<'_>,
    [a, b]: [&Array; 2],
    output: &mut Output,
    f: impl Fn(T, T) -> U + Copy + Send + Sync + 'static,
) -> Result<()> {
    let (left, right) = (In::from(a), In::from(b));
    match Pair::of(a, b) {
        Pair::Dense => {
            let donated = enc.donate(output, a).or_else(|| enc.donate(output, b));
            let out = match donated {
                Some(out) => out,
                None => enc.allocate_as(output, like(&left.layout))?,
            };
            enc.push(move || map2_dense(&left, &right, &out, f))
        }
        Pair::ScalarDense => {
            let out = donate_or_like(enc, output, b, &right)?;
            enc.push(move || {
                let scalar = left.read::<T>().dense()[0];
                map_dense(&right, &out, |b| f(scalar, b));
            })
        }
        Pair::DenseScalar => {
            let out = donate_or_like(enc, output, a, &left)?;
            enc.push(move || {
                let scalar = right.read::<T>().dense()[0];
                map_dense(&left, &out, |a| f(a, scalar));
            })
        }
        Pair::Strided => {
            let out = enc.allocate(output)?;
            enc.push(move || map2_strided(&left, &right, &out, f))
        }
    }
}

fn donate_or_like(
    enc: &Encoder<'_>,
    output: &mut Output,
    array: &Array,
    input: &In,
) -> Result<Out> {
    match enc.donate(output, array) {
        Some(out) => Ok(out),
        None => enc.allocate_as(output, like(&input.layout)),
    }
}

/// `out = f(a)` for a dense input that the output may have taken over.
fn map_dense<T: Element, U: Element>(input: &In, out: &Out, f: impl Fn(T) -> U + Sync) {
    let mut out_data = out.write::<U>();
    if out.aliases(input) {
        return for_chunks(&mut out_data, |_, chunk| {
            chunk.iter_mut().for_each(|x| *x = f(bytemuck::cast::<U, T>(*x)));
        });
    }
    let source = input.read::<T>();
    let source = source.dense();
    for_chunks(&mut out_data, |first, chunk| {
        let source = &source[first..first + chunk.len()];
        chunk.iter_mut().zip(source).for_each(|(x, &a)| *x = f(a));
    });
}

fn map2_dense<T: Element, U: Element>(a: &In, b: &In, out: &Out, f: impl Fn(T, T) -> U + Sync) {
    let mut out_data = out.write::<U>();
    if out.aliases(a) {
        let right = b.read::<T>();
        let right = right.dense();
        return for_chunks(&mut out_data, |first, chunk| {
            let right = &right[first..first + chunk.len()];
            chunk.iter_mut().zip(right).for_each(|(x, &b)| *x = f(bytemuck::cast(*x), b));
        });
    }
    let left = a.read::<T>();
    let left = left.dense();
    if out.aliases(b) {
        return for_chunks(&mut out_data, |first, chunk| {
            let left = &left[first..first + chunk.len()];
            chunk.iter_mut().zip(left).for_each(|(x, &a)| *x = f(a, bytemuck::cast(*x)));
        });
    }
    let right = b.read::<T>();
    let right = right.dense();
    for_chunks(&mut out_data, |first, chunk| {
        let end = first + chunk.len();
        let pairs = left[first..end].iter().zip(&right[first..end]);
        chunk.iter_mut().zip(pairs).for_each(|(x, (&a, &b))| *x = f(a, b));
    });
}

fn map2_strided<T: Element, U: Element>(a: &In, b: &In, out: &Out, f: impl Fn(T, T) -> U + Sync) {
    let (left, right) = (a.read::<T>(), b.read::<T>());
    let (ld, rd) = (left.buffer(), right.buffer());
    let rows = Rows::new(&a.shape, [&a.layout.strides, &b.layout.strides]);
    let first = [left.first(), right.first()];
    rows.for_each(&mut out.write::<U>(), first, |out, [i, j], strides| match strides {
        [1, 1] => {
            let pairs = ld[i..].iter().zip(&rd[j..]);
            out.iter_mut().zip(pairs).for_each(|(x, (&a, &b))| *x = f(a, b));
        }
        [1, 0] => {
            let b = rd[j];
            out.iter_mut().zip(&ld[i..]).for_each(|(x, &a)| *x = f(a, b));
        }
        [0, 1] => {
            let a = ld[i];
            out.iter_mut().zip(&rd[j..]).for_each(|(x, &b)| *x = f(a, b));
        }
        [s, t] => out
            .iter_mut()
            .enumerate()
            .for_each(|(n, x)| *x = f(ld[at(i, n, s)], rd[at(j, n, t)])),
    });
}

/// `out = f(c, a, b)`; all have the output's shape. Never in place.
pub(crate) fn map3<C: Element, T: Element, U: Element>(
    enc: &mut Encoder<'_>,
    [c, a, b]: [&Array; 3],
    output: &mut Output,
    f: impl Fn(C, T, T) -> U + Copy + Send + Sync + 'static,
) -> Result<()> {
    let out = enc.allocate(output)?;
    let (c, a, b) = (In::from(c), In::from(a), In::from(b));
    enc.push(move || {
        let (cs, ls, rs) = (c.read::<C>(), a.read::<T>(), b.read::<T>());
        let (cd, ld, rd) = (cs.buffer(), ls.buffer(), rs.buffer());
        let strides: [&[isize]; 3] = [&c.layout.strides, &a.layout.strides, &b.layout.strides];
        let first = [cs.first(), ls.first(), rs.first()];
        let rows = Rows::new(&c.shape, strides);
        rows.for_each(&mut out.write::<U>(), first, |out, [h, i, j], [r, s, t]| {
            out.iter_mut().enumerate().for_each(|(n, x)| {
                *x = f(cd[at(h, n, r)], ld[at(i, n, s)], rd[at(j, n, t)]);
            });
        });
    })
}

/// Number of rows and their length when the axes from `axis` on are one row.
pub(crate) fn rows_of(shape: &[usize], axis: usize) -> (usize, usize) {
    (num_elements(&shape[..axis]), num_elements(&shape[axis..]))
}
