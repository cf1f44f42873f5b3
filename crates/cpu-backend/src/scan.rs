//! Cumulative reductions.

use mlx_vulkan_core::{
    Array, Complex, Dtype, Element, Error, Result,
    backend::Output,
    bf16, f16,
    primitives::{Scan, ScanOp},
};

use crate::{
    along_axis::along_axis,
    encoder::{Encoder, In, Out},
    monoid::{LogAddExp, Max, Min, Monoid, Prod, Sum, dispatch_arithmetic},
};

/// Encodes the scan of `a`. Floating point sums and products run in float64 and are rounded at
/// each output.
pub(crate) fn encode(
    enc: &mut Encoder<'_>,
    scan: Scan,
    [a]: &[Array; 1],
    output: &mut Output,
) -> Result<()> {
    use Dtype::*;
    match scan.op {
        ScanOp::Max | ScanOp::Min => {
            mlx_vulkan_core::dispatch_dtype!(a.dtype(), T => match scan.op {
                ScanOp::Max => push::<T, Max>(enc, scan, a, output),
                _ => push::<T, Min>(enc, scan, a, output),
            })
        }
        ScanOp::LogAddExp => match a.dtype() {
            Float16 => push::<f16, LogAddExp>(enc, scan, a, output),
            Bfloat16 => push::<bf16, LogAddExp>(enc, scan, a, output),
            Float32 => push::<f32, LogAddExp>(enc, scan, a, output),
            Float64 => push::<f64, LogAddExp>(enc, scan, a, output),
            Complex64 => push::<Complex, LogAddExp>(enc, scan, a, output),
            other => Err(Error::invalid("logcumsumexp", format!("Not supported for {other}."))),
        },
        ScanOp::Sum => dispatch_arithmetic!(a.dtype(), Sum or Max, T, M => {
            push::<T, M>(enc, scan, a, output)
        }),
        ScanOp::Prod => dispatch_arithmetic!(a.dtype(), Prod or Min, T, M => {
            push::<T, M>(enc, scan, a, output)
        }),
    }
}

fn push<T: Element, M: Monoid<T>>(
    enc: &mut Encoder<'_>,
    scan: Scan,
    a: &Array,
    output: &mut Output,
) -> Result<()> {
    let out = enc.allocate(output)?;
    let input = In::from(a);
    enc.push(move || run::<T, M>(scan, &input, &out))
}

fn run<T: Element, M: Monoid<T>>(scan: Scan, input: &In, out: &Out) {
    along_axis::<T, T>(scan.axis, input, out, |row, out| {
        let pairs = row.iter().zip(out);
        match scan.reverse {
            false => fold::<T, M>(pairs, scan.inclusive),
            true => fold::<T, M>(pairs.rev(), scan.inclusive),
        }
    });
}

fn fold<'a, T: Element, M: Monoid<T>>(
    pairs: impl Iterator<Item = (&'a T, &'a mut T)>,
    inclusive: bool,
) {
    let mut total = M::IDENTITY;
    for (&value, out) in pairs {
        let next = M::push(total, value);
        *out = M::finish(if inclusive { next } else { total });
        total = next;
    }
}
