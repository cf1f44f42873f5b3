//! Loops over elements: what unary, binary, ternary and copies share.
//!
//! A kernel is a loop over dense slices that the compiler vectorizes. The driver hands it blocks
//! that fit the first-level cache: straight from memory where operands are dense, gathered or
//! repeated into a buffer where they are not. Large outputs are split over all cores.
//!
//! The driver knows elements only by their size ([`Typed::Word`]), so there are few copies of it.

use mlx_vulkan_core::{
    Array, Complex, Element, Result, backend::Output, bf16, dtype::Bool8, f16, shape::Layout,
};
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

/// An element type, and the unsigned integer of its size.
pub(crate) trait Typed: Element {
    type Word: Element;
}

macro_rules! typed {
    ($($word:ty: $($t:ty),*;)*) => {$($(
        impl Typed for $t {
            type Word = $word;
        }
    )*)*};
}

typed! {
    u8: Bool8, u8, i8;
    u16: u16, i16, f16, bf16;
    u32: u32, i32, f32;
    u64: u64, i64, f64, Complex;
}

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
/// A loop over operands that are known by their size.
type Kernel<const N: usize, T, U> = Box<dyn Fn([&[T]; N], &mut [U]) + Send + Sync>;

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

/// Encodes `out = kernel(a)`.
pub(crate) fn map1<T: Typed, U: Typed>(
    enc: &mut Encoder<'_>,
    a: &Array,
    output: &mut Output,
    kernel: Kernel1<T, U>,
) -> Result<()> {
    let kernel: Kernel<1, T::Word, U::Word> = Box::new(move |[a], out| {
        kernel(bytemuck::cast_slice(a), bytemuck::cast_slice_mut(out));
    });
    encode(enc, [a], output, kernel)
}

/// Encodes `out = kernel(a, b)`; both have the output's shape.
pub(crate) fn map2<T: Typed, U: Typed>(
    enc: &mut Encoder<'_>,
    inputs: [&Array; 2],
    output: &mut Output,
    kernel: Kernel2<T, U>,
) -> Result<()> {
    let kernel: Kernel<2, T::Word, U::Word> = Box::new(move |[a, b], out| {
        kernel(bytemuck::cast_slice(a), bytemuck::cast_slice(b), bytemuck::cast_slice_mut(out));
    });
    encode(enc, inputs, output, kernel)
}

/// Encodes `out = kernel(a)` in float32 for a half precision type.
pub(crate) fn map1_half<H: Half>(
    enc: &mut Encoder<'_>,
    a: &Array,
    output: &mut Output,
    kernel: Kernel1<f32>,
) -> Result<()> {
    let kernel: Kernel<1, u16, u16> = Box::new(move |[a], out| {
        let (mut wide, mut result) = ([0f32; BLOCK], [0f32; BLOCK]);
        let wide = H::widened(bytemuck::cast_slice(a), &mut wide);
        kernel(wide, &mut result[..out.len()]);
        H::narrow(&result[..out.len()], bytemuck::cast_slice_mut(out));
    });
    encode(enc, [a], output, kernel)
}

/// Encodes `out = kernel(a, b)` in float32 for a half precision type.
pub(crate) fn map2_half<H: Half>(
    enc: &mut Encoder<'_>,
    inputs: [&Array; 2],
    output: &mut Output,
    kernel: Kernel2<f32>,
) -> Result<()> {
    let kernel: Kernel<2, u16, u16> = Box::new(move |[a, b], out| {
        let mut buffers = [[0f32; BLOCK]; 3];
        let [left, right, result] = &mut buffers;
        let left = H::widened(bytemuck::cast_slice(a), left);
        let right = H::widened(bytemuck::cast_slice(b), right);
        kernel(left, right, &mut result[..out.len()]);
        H::narrow(&result[..out.len()], bytemuck::cast_slice_mut(out));
    });
    encode(enc, inputs, output, kernel)
}

/// Encodes the predicate `out = kernel(a, b)` in float32 for a half precision type.
pub(crate) fn test2_half<H: Half>(
    enc: &mut Encoder<'_>,
    inputs: [&Array; 2],
    output: &mut Output,
    kernel: Kernel2<f32, Bool8>,
) -> Result<()> {
    let kernel: Kernel<2, u16, u8> = Box::new(move |[a, b], out| {
        let mut buffers = [[0f32; BLOCK]; 2];
        let [left, right] = &mut buffers;
        let left = H::widened(bytemuck::cast_slice(a), left);
        let right = H::widened(bytemuck::cast_slice(b), right);
        kernel(left, right, bytemuck::cast_slice_mut(out));
    });
    encode(enc, inputs, output, kernel)
}

/// Whether a flat walk over the data visits every element once.
pub(crate) fn is_dense(a: &Array) -> bool {
    let layout = &a.evaluated().layout;
    layout.flags.contiguous && layout.data_size == a.size()
}

/// The layout in which a flat walk meets the elements of all inputs in the same order, where
/// inputs of one repeated element do not count; `None` if there is none.
fn common_layout(inputs: &[&Array]) -> Option<Layout> {
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

/// Takes over an input whose elements lie in the order of the walk, or allocates.
fn result(
    enc: &Encoder<'_>,
    inputs: &[&Array],
    output: &mut Output,
    common: Option<Layout>,
) -> Result<Out> {
    for a in inputs.iter().filter(|a| is_dense(a)) {
        if (common.is_some() || a.evaluated().layout.flags.row_contiguous)
            && let Some(out) = enc.donate(output, a)
        {
            return Ok(out);
        }
    }
    match common {
        Some(layout) => enc.allocate_as(output, layout),
        None => enc.allocate(output),
    }
}

fn encode<const N: usize, T: Element, U: Element>(
    enc: &mut Encoder<'_>,
    inputs: [&Array; N],
    output: &mut Output,
    kernel: Kernel<N, T, U>,
) -> Result<()> {
    let common = common_layout(&inputs);
    let flat = common.is_some();
    let out = result(enc, &inputs, output, common)?;
    let inputs = inputs.map(In::from);
    enc.push(move || run(&inputs, flat, &out, &kernel))
}

/// Runs the kernel over all blocks. An input that the output took over cannot be locked: its
/// elements are copied out of the output's block before the block is overwritten.
fn run<const N: usize, T: Element, U: Element>(
    inputs: &[In; N],
    flat: bool,
    out: &Out,
    kernel: &Kernel<N, T, U>,
) {
    let elements = inputs.each_ref().map(|a| (!out.aliases(a)).then(|| a.read::<T>()));
    let sources: [Option<Source<'_, T>>; N] =
        std::array::from_fn(|i| elements[i].as_ref().map(|e| source(e, &inputs[i], flat)));
    for_chunks(&mut out.write::<U>(), |first, chunk| {
        let mut buffers = [[T::zeroed(); BLOCK]; N];
        for (i, block) in chunk.chunks_mut(BLOCK).enumerate() {
            let at = first + i * BLOCK;
            let mut buffers = buffers.iter_mut();
            let operands = sources.each_ref().map(|source| {
                let buffer = buffers.next().expect("one buffer per operand");
                operand(source.as_ref(), at, block, buffer)
            });
            kernel(operands, block);
        }
    });
}

fn source<'a, T: Element>(elements: &'a Elements<'_, T>, input: &In, flat: bool) -> Source<'a, T> {
    match flat && input.layout.data_size != 1 {
        true => Source::flat(elements),
        false => Source::row_major(elements, input),
    }
}

/// The operand's elements for one block of the output.
fn operand<'a, T: Element, U: Element>(
    source: Option<&'a Source<'_, T>>,
    at: usize,
    block: &[U],
    buffer: &'a mut [T; BLOCK],
) -> &'a [T] {
    match source {
        Some(source) => source.block(at, block.len(), buffer),
        None => {
            let buffer = &mut buffer[..block.len()];
            buffer.copy_from_slice(bytemuck::cast_slice(block));
            buffer
        }
    }
}
