//! Loops over elements: what unary, binary, ternary and copies share.
//!
//! A kernel is a loop over dense slices that the compiler vectorizes. The driver hands it blocks
//! that fit the first-level cache: straight from memory where operands are dense, gathered or
//! repeated into a buffer where they are not. Large outputs are split over all cores.
//!
//! The driver knows elements only by their size, so there are few copies of it. A family finds the
//! loop of an operation at some dtypes in its function `kernel`, for this driver and for chains.

use mlx_vulkan_core::{Array, Element, Result, backend::Output, dtype::Bool8, shape::Layout};
use rayon::prelude::*;

use crate::{
    encoder::{Elements, Encoder, In, Out},
    halves::Half,
    simd,
    strided::Source,
};

/// Elements from which a loop is worth splitting over cores.
pub(crate) const PARALLEL: usize = 1 << 16;
/// Elements that one core takes at a time; whole blocks.
pub(crate) const CHUNK: usize = 1 << 14;
/// Elements that a kernel sees at a time at most.
pub(crate) const BLOCK: usize = 1 << 10;

/// Runs `$body` with `$t` bound to the unsigned integer of the dtype's size.
macro_rules! dispatch_size {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype.size() {
            1 => {
                type $t = u8;
                $body
            }
            2 => {
                type $t = u16;
                $body
            }
            4 => {
                type $t = u32;
                $body
            }
            _ => {
                type $t = u64;
                $body
            }
        }
    };
}
pub(crate) use dispatch_size;

/// A loop over one operand.
pub(crate) type Kernel1<T, U = T> = fn(&[T], &mut [U]);
/// A loop over two operands.
pub(crate) type Kernel2<T, U = T> = fn(&[T], &[T], &mut [U]);
/// A loop over the bytes of operands and of a result, at most [`BLOCK`] elements: what a kernel is to the
/// drivers, single operations and chains.
pub(crate) type Loop = Box<dyn Fn(&[&[u8]], &mut [u8]) + Send + Sync>;

/// `out = f(a)`.
#[inline(always)]
pub(crate) fn zip1<T: Copy, U>(a: &[T], out: &mut [U], f: impl Fn(T) -> U) {
    out.iter_mut().zip(a).for_each(|(x, &a)| *x = f(a));
}

/// `out = f(a, b)`.
#[inline(always)]
pub(crate) fn zip2<T: Copy, U>(a: &[T], b: &[T], out: &mut [U], f: impl Fn(T, T) -> U) {
    out.iter_mut().zip(a.iter().zip(b)).for_each(|(x, (&a, &b))| *x = f(a, b));
}

/// `out = f(a)` in the widest instructions of the machine. `f` must be `#[inline(always)]`, and
/// gives the same bits whatever they are: products and sums are never fused on their own.
pub(crate) fn wide1<T: Copy, U>(a: &[T], out: &mut [U], f: impl Fn(T) -> U) {
    simd::dispatch(Map1 { a, out, f });
}

struct Map1<'a, T, U, F> {
    a: &'a [T],
    out: &'a mut [U],
    f: F,
}

impl<T: Copy, U, F: Fn(T) -> U> simd::Kernel for Map1<'_, T, U, F> {
    type Output = ();

    #[inline(always)]
    fn run<I: simd::Isa>(self, _: I) {
        for (x, &a) in self.out.iter_mut().zip(self.a) {
            *x = (self.f)(a);
        }
    }
}

/// Calls `f` with chunks of `out` and the index of their first element, on all cores if large.
///
/// The loop is compiled once per element type, not once per caller: rayon's machinery is large.
pub(crate) fn for_chunks<U: Send>(out: &mut [U], f: impl Fn(usize, &mut [U]) + Sync) {
    if out.len() < PARALLEL {
        return f(0, out);
    }
    spread(out, CHUNK, &|i, chunk| f(i * CHUNK, chunk));
}

/// [`for_chunks`] of the bytes of elements of `size` bytes, for who knows no more of them.
fn for_parts(out: &mut [u8], size: usize, f: impl Fn(usize, &mut [u8]) + Sync) {
    if out.len() < PARALLEL * size {
        return f(0, out);
    }
    spread(out, CHUNK * size, &|i, chunk| f(i * CHUNK, chunk));
}

/// Calls `f` with each row of `len` elements of `out` (the last may be shorter) and its number, on
/// all cores if `work` elements have to be touched in all and that is many.
pub(crate) fn for_rows<U: Send>(
    out: &mut [U],
    len: usize,
    work: usize,
    f: impl Fn(usize, &mut [U]) + Sync,
) {
    if out.is_empty() {
        return;
    }
    let rows = out.len().div_ceil(len);
    if work < PARALLEL || rows == 1 {
        return out.chunks_mut(len).enumerate().for_each(|(i, row)| f(i, row));
    }
    // Rows per task, so that a task touches about a chunk.
    let some = (CHUNK * rows / work).clamp(1, rows);
    spread(out, some * len, &|i, rows| {
        rows.chunks_mut(len).enumerate().for_each(|(j, row)| f(i * some + j, row));
    });
}

/// Calls `f` with the parts of `len` elements and their numbers, on all cores.
pub(crate) fn spread<U: Send>(out: &mut [U], len: usize, f: &(dyn Fn(usize, &mut [U]) + Sync)) {
    out.par_chunks_mut(len).enumerate().for_each(|(i, part)| f(i, part));
}

/// `f(0), f(1), …`, computed on all cores; compiled once per result type.
pub(crate) fn collect<T: Send>(n: usize, f: &(dyn Fn(usize) -> T + Sync)) -> Vec<T> {
    (0..n).into_par_iter().map(f).collect()
}

/// The loop `out = kernel(a)`.
pub(crate) fn loop1<T: Element, U: Element>(kernel: Kernel1<T, U>) -> Loop {
    Box::new(move |operands, out| {
        kernel(bytemuck::cast_slice(operands[0]), bytemuck::cast_slice_mut(out));
    })
}

/// The loop `out = kernel(a, b)`.
pub(crate) fn loop2<T: Element, U: Element>(kernel: Kernel2<T, U>) -> Loop {
    Box::new(move |operands, out| {
        let [a, b] = [0, 1].map(|i| bytemuck::cast_slice(operands[i]));
        kernel(a, b, bytemuck::cast_slice_mut(out));
    })
}

/// The loop `out = kernel(a)` in float32 for a half precision type.
pub(crate) fn loop1_half<H: Half>(kernel: Kernel1<f32>) -> Loop {
    Box::new(move |operands, out| {
        let (mut wide, mut result) = ([0f32; BLOCK], [0f32; BLOCK]);
        let wide = H::widened(bytemuck::cast_slice(operands[0]), &mut wide);
        kernel(wide, &mut result[..wide.len()]);
        H::narrow(&result[..wide.len()], bytemuck::cast_slice_mut(out));
    })
}

/// The loop `out = kernel(a, b)` in float32 for a half precision type.
pub(crate) fn loop2_half<H: Half>(kernel: Kernel2<f32>) -> Loop {
    Box::new(move |operands, out| {
        let mut buffers = [[0f32; BLOCK]; 3];
        let [left, right, result] = &mut buffers;
        let left = H::widened(bytemuck::cast_slice(operands[0]), left);
        let right = H::widened(bytemuck::cast_slice(operands[1]), right);
        kernel(left, right, &mut result[..left.len()]);
        H::narrow(&result[..left.len()], bytemuck::cast_slice_mut(out));
    })
}

/// The loop of the predicate `out = kernel(a, b)` in float32 for a half precision type.
pub(crate) fn test2_half<H: Half>(kernel: Kernel2<f32, Bool8>) -> Loop {
    Box::new(move |operands, out| {
        let mut buffers = [[0f32; BLOCK]; 2];
        let [left, right] = &mut buffers;
        let left = H::widened(bytemuck::cast_slice(operands[0]), left);
        let right = H::widened(bytemuck::cast_slice(operands[1]), right);
        kernel(left, right, bytemuck::cast_slice_mut(out));
    })
}

/// Whether a flat walk over the data visits every element once.
pub(crate) fn is_dense(a: &Array) -> bool {
    let layout = &a.evaluated().layout;
    layout.flags.contiguous && layout.data_size == a.size()
}

/// The layout in which a flat walk meets the elements of all inputs in the same order, where
/// inputs of one repeated element do not count; `None` if there is none.
pub(crate) fn common_layout(inputs: &[&Array]) -> Option<Layout> {
    let layout = |a: &Array| a.evaluated().layout.clone();
    let mut spread = inputs.iter().filter(|a| layout(a).data_size != 1);
    let first = layout(spread.next().filter(|a| is_dense(a))?);
    let agrees = |a: &&&Array| {
        let other = layout(a);
        let both_rows = first.flags.row_contiguous && other.flags.row_contiguous;
        is_dense(a) && (other.strides == first.strides || both_rows)
    };
    spread.all(|a| agrees(&a)).then(|| Layout { offset: 0, ..first.clone() })
}

/// Takes over an input whose elements lie in the order of the walk, or allocates. What is evaluated at once
/// refers to each input as often as the number with it says.
pub(crate) fn result<'a>(
    enc: &Encoder<'_>,
    mut inputs: impl Iterator<Item = (&'a Array, usize)>,
    output: &mut Output,
    common: Option<&Layout>,
) -> Result<Out> {
    let donated = inputs.find_map(|(a, references)| {
        let in_order = common.is_some() || a.evaluated().layout.flags.row_contiguous;
        (is_dense(a) && in_order).then(|| enc.donate_among(output, a, references))?
    });
    match (donated, common) {
        (Some(out), _) => Ok(out),
        (None, Some(layout)) => enc.allocate_as(output, layout.clone()),
        (None, None) => enc.allocate(output),
    }
}

/// Encodes `out = kernel(inputs)`; the inputs have elements of one size, and the output's shape.
pub(crate) fn encode<const N: usize>(
    enc: &mut Encoder<'_>,
    inputs: [&Array; N],
    output: &mut Output,
    kernel: Loop,
) -> Result<()> {
    let common = common_layout(&inputs);
    let out = result(enc, inputs.into_iter().map(|a| (a, 1)), output, common.as_ref())?;
    let (inputs, flat) = (inputs.map(In::from), common.is_some());
    dispatch_size!(inputs[0].dtype, T => enc.push(move || run::<N, T>(&inputs, flat, &out, &kernel)))
}

/// Runs the kernel over all blocks. An input that the output took over cannot be locked: its
/// elements are copied out of the output's block before the block is overwritten.
fn run<const N: usize, T: Element>(inputs: &[In; N], flat: bool, out: &Out, kernel: &Loop) {
    let elements = inputs.each_ref().map(|a| (!out.aliases(a)).then(|| a.read::<T>()));
    let sources: [Option<Source<'_, T>>; N] =
        std::array::from_fn(|i| elements[i].as_ref().map(|e| source(e, &inputs[i], flat)));
    let size = out.dtype.size();
    for_parts(&mut out.write_bytes(), size, |first, chunk| {
        let mut buffers = [[T::zeroed(); BLOCK]; N];
        for (i, block) in chunk.chunks_mut(BLOCK * size).enumerate() {
            let (at, len) = (first + i * BLOCK, block.len() / size);
            let mut buffers = buffers.iter_mut();
            let operands = sources.each_ref().map(|source| {
                let buffer = &mut buffers.next().expect("one buffer per operand")[..len];
                bytemuck::cast_slice(operand(source.as_ref(), at, block, buffer))
            });
            kernel(&operands, block);
        }
    });
}

fn source<'a, T: Element>(elements: &'a Elements<'_, T>, input: &In, flat: bool) -> Source<'a, T> {
    match flat && input.layout.data_size != 1 {
        true => Source::flat(elements),
        false => Source::row_major(elements, input),
    }
}

/// The operand's elements for one block of the output, which `buffer` has room for.
fn operand<'a, T: Element>(
    source: Option<&'a Source<'_, T>>,
    at: usize,
    block: &[u8],
    buffer: &'a mut [T],
) -> &'a [T] {
    match source {
        Some(source) => source.block(at, buffer.len(), buffer),
        None => {
            buffer.copy_from_slice(bytemuck::cast_slice(block));
            buffer
        }
    }
}
