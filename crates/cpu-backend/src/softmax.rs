//! Softmax and its logarithm over the last axis.

use mlx_vulkan_core::{
    Array, Dtype, Element, Error, Result, backend::Output, bf16, f16, primitives::SoftmaxOp,
};

use crate::{
    elementwise::{BLOCK, for_rows},
    encoder::{Encoder, In, Out},
    halves::Half,
    math::exp_f32,
    monoid::{Accumulate, Max, Sum, total},
    number::Number,
    simd,
    strided::Source,
};

/// A type that rows are computed in.
trait Wide: Number + Accumulate<Total = f64> + num_traits::Float {
    fn exponential(self) -> Self;
}

impl Wide for f32 {
    #[inline(always)]
    fn exponential(self) -> Self {
        exp_f32(self)
    }
}

impl Wide for f64 {
    fn exponential(self) -> Self {
        self.exp()
    }
}

/// An element type, and the type that rows of it are computed in.
trait Narrow: Element {
    type Wide: Wide;
    /// Whether that is the element type itself.
    const IS_WIDE: bool = Self::DTYPE as u8 == Self::Wide::DTYPE as u8;
    fn widen_row(row: &[Self], out: &mut [Self::Wide]);
    fn narrow_row(row: &[Self::Wide], out: &mut [Self]);
}

macro_rules! narrow {
    ($($t:ty => $wide:ty, $widen:expr, $narrow:expr;)*) => {$(
        impl Narrow for $t {
            type Wide = $wide;

            fn widen_row(row: &[Self], out: &mut [$wide]) {
                $widen(row, out);
            }

            fn narrow_row(row: &[$wide], out: &mut [Self]) {
                $narrow(row, out);
            }
        }
    )*};
}

fn same<T: Copy>(row: &[T], out: &mut [T]) {
    out.copy_from_slice(row);
}

narrow! {
    f16 => f32, Half::widen, Half::narrow;
    bf16 => f32, Half::widen, Half::narrow;
    f32 => f32, same, same;
    f64 => f64, same, same;
}

/// Hands a primitive of this family to its function.
pub(crate) fn encode(
    enc: &mut Encoder<'_>,
    op: SoftmaxOp,
    inputs: &[Array; 1],
    output: &mut Output,
) -> Result<()> {
    match op {
        SoftmaxOp::Softmax { .. } => softmax(enc, inputs, output),
        SoftmaxOp::LogSumExp => logsumexp(enc, inputs, output),
    }
}

/// Encodes `exp(a) / sum(exp(a))`. The maximum is taken off first; half precision is computed in
/// float32. A row of negative infinities, or with a positive one, becomes NaN.
fn softmax(enc: &mut Encoder<'_>, [a]: &[Array; 1], output: &mut Output) -> Result<()> {
    match a.dtype() {
        Dtype::Float16 => push::<f16>(enc, a, output, softmax_row),
        Dtype::Bfloat16 => push::<bf16>(enc, a, output, softmax_row),
        Dtype::Float32 => push::<f32>(enc, a, output, softmax_row),
        Dtype::Float64 => push::<f64>(enc, a, output, softmax_row),
        other => Err(unsupported("softmax", other)),
    }
}

/// Encodes `log(sum(exp(a)))`: the maximum where that is infinite.
fn logsumexp(enc: &mut Encoder<'_>, [a]: &[Array; 1], output: &mut Output) -> Result<()> {
    match a.dtype() {
        Dtype::Float16 => push::<f16>(enc, a, output, logsumexp_row),
        Dtype::Bfloat16 => push::<bf16>(enc, a, output, logsumexp_row),
        Dtype::Float32 => push::<f32>(enc, a, output, logsumexp_row),
        Dtype::Float64 => push::<f64>(enc, a, output, logsumexp_row),
        other => Err(unsupported("logsumexp", other)),
    }
}

fn unsupported(op: &'static str, dtype: Dtype) -> Error {
    Error::invalid(op, format!("Only defined for floating point types, not {dtype}."))
}

/// A function of a row, in place; its result is the beginning of the row.
type Row<W> = fn(&mut [W]);

fn push<T: Narrow>(
    enc: &mut Encoder<'_>,
    a: &Array,
    output: &mut Output,
    f: Row<T::Wide>,
) -> Result<()> {
    let out = enc.allocate(output)?;
    let input = In::from(a);
    enc.push(move || run::<T>(&input, &out, f))
}

fn run<T: Narrow>(input: &In, out: &Out, f: Row<T::Wide>) {
    let (Some(&n), Some(&len)) = (input.shape.last(), out.shape.last()) else { return };
    let elements = input.read::<T>();
    let source = Source::row_major(&elements, input);
    for_rows(&mut out.write::<T>(), len, input.size() * 4, |i, out| {
        if len == n && T::IS_WIDE {
            source.read(i * n, out);
            return f(bytemuck::cast_slice_mut(out));
        }
        let mut wide = vec![<T::Wide as bytemuck::Zeroable>::zeroed(); n];
        let mut buffer = [T::zeroed(); BLOCK];
        for (j, block) in wide.chunks_mut(BLOCK).enumerate() {
            let values = source.block(i * n + j * BLOCK, block.len(), &mut buffer);
            T::widen_row(values, block);
        }
        f(&mut wide);
        T::narrow_row(&wide[..len], out);
    });
}

/// Replaces the row by exponentials of the distance to its maximum; returns that and their sum.
fn exponentials<W: Wide>(row: &mut [W]) -> (W, f64) {
    let max = total::<W, Max>(row);
    simd::dispatch(Exponentials { row, max });
    (max, total::<W, Sum>(row))
}

/// `row = exp(row - max)`.
struct Exponentials<'a, W> {
    row: &'a mut [W],
    max: W,
}

impl<W: Wide> simd::Kernel for Exponentials<'_, W> {
    type Output = ();

    #[inline(always)]
    fn run<I: simd::Isa>(self, _: I) {
        for x in self.row {
            *x = (*x - self.max).exponential();
        }
    }
}

fn softmax_row<W: Wide>(row: &mut [W]) {
    let (_, sum) = exponentials(row);
    simd::dispatch(Divide { row, by: <W as Accumulate>::narrow(sum) });
}

/// `row = row / by`.
struct Divide<'a, W> {
    row: &'a mut [W],
    by: W,
}

impl<W: Wide> simd::Kernel for Divide<'_, W> {
    type Output = ();

    #[inline(always)]
    fn run<I: simd::Isa>(self, _: I) {
        for x in self.row {
            *x = *x / self.by;
        }
    }
}

fn logsumexp_row<W: Wide>(row: &mut [W]) {
    let (max, sum) = exponentials(row);
    row[0] = match max.is_infinite() {
        true => max,
        false => <W as Accumulate>::narrow(sum.ln() + max.widen()),
    };
}
