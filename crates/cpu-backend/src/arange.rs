//! Ranges of numbers.

use mlx_vulkan_core::{
    Complex, Dtype, Element, Result, backend::Output, bf16, dispatch_dtype, dtype::Bool8,
    dtype::FromF64, f16, primitives::Arange,
};

use crate::{
    cast::Cast,
    elementwise::for_chunks,
    encoder::{Encoder, Out},
};

/// Element `i` of a range.
trait Range: Element {
    /// `start + i * step`.
    fn at(start: f64, step: f64, i: usize) -> Self;
}

/// Integers step by the difference of the first two, each truncated, as in MLX.
macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Range for $t {
            fn at(start: f64, step: f64, i: usize) -> Self {
                let first = <$t>::from_f64(start);
                let step = <$t>::from_f64(start + step).wrapping_sub(first);
                first.wrapping_add(step.wrapping_mul(i as $t))
            }
        }
    )*};
}

/// Floats are computed in float64 and rounded once.
macro_rules! floats {
    ($($t:ty),*) => {$(
        impl Range for $t {
            fn at(start: f64, step: f64, i: usize) -> Self {
                (start + i as f64 * step).cast()
            }
        }
    )*};
}

integers!(u8, u16, u32, u64, i8, i16, i32, i64);
floats!(Bool8, f16, bf16, f32, f64, Complex);

/// Encodes `out[i] = start + i * step`.
pub(crate) fn encode(enc: &mut Encoder<'_>, range: Arange, output: &mut Output) -> Result<()> {
    let (start, step) = (range.start.0, range.step.0);
    let out = enc.allocate(output)?;
    let dtype: Dtype = out.dtype;
    dispatch_dtype!(dtype, T => enc.push(move || fill::<T>(start, step, &out)))
}

fn fill<T: Range>(start: f64, step: f64, out: &Out) {
    for_chunks(&mut out.write::<T>(), |first, chunk| {
        chunk.iter_mut().enumerate().for_each(|(i, x)| *x = T::at(start, step, first + i));
    });
}
