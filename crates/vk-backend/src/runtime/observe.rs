//! What the statistics say of an operation that was just encoded: its family, rows and shape, and why it
//! was refused if it was. Which gate kept it from a kernel is told where that is decided.

use mlx_vulkan_core::{
    Array, Error,
    primitives::{BinaryOp, IndexingOp, Primitive, QuantizedOp},
};

use crate::runtime::{
    config::Config,
    stats::{self, uses},
};

/// Whether anything is to be observed.
pub(crate) fn is_on(config: &Config) -> bool {
    let c = config;
    let counted = c.stats || c.qmm_stats || c.sdpa_stats;
    let rejects = c.debug_rope_reject || c.debug_sdpa_reject || c.debug_argreduce_reject;
    let refused = c.debug_binary_fallback
        || c.debug_bitwise_fallback
        || c.debug_fast_quantize_fallback
        || c.debug_gather_fallback;
    counted || rejects || refused
}

/// Notes an operation whose `kernels` were encoded, or which was refused. Only called where
/// [`is_on`].
pub(crate) fn operation(
    config: &Config,
    primitive: &Primitive,
    inputs: &[Array],
    kernels: &[&'static str],
    refused: Option<&Error>,
) {
    let Some(family) = family(primitive) else { return };
    if let Some(error) = refused {
        return stats::reject(config, family, || format!("{error} {}", signature(inputs)));
    }
    if let Some((rows, shape)) = shape(primitive, inputs) {
        uses::used(config, family, kernels, (rows, &shape));
    }
}

/// The family in statistics and debug gates.
fn family(primitive: &Primitive) -> Option<&'static str> {
    use BinaryOp as B;
    Some(match primitive {
        Primitive::Quantized(QuantizedOp::QuantizedMatmul { .. }) => "qmm",
        Primitive::Attention(_) => "sdpa",
        Primitive::Rope(_) => "rope",
        Primitive::ArgReduce(_) => "argreduce",
        Primitive::Quantized(
            QuantizedOp::Quantize(_)
            | QuantizedOp::Dequantize(_)
            | QuantizedOp::DequantizeFloats { .. },
        ) => "quantize",
        Primitive::Indexing(IndexingOp::Take { .. } | IndexingOp::TakeAlongAxis { .. }) => "gather",
        Primitive::Binary(
            B::BitwiseAnd | B::BitwiseOr | B::BitwiseXor | B::LeftShift | B::RightShift,
        ) => "bitwise",
        Primitive::Binary(_) => "binary",
        _ => return None,
    })
}

/// Rows and shape of the families whose uses are counted.
fn shape(primitive: &Primitive, inputs: &[Array]) -> Option<(usize, String)> {
    match primitive {
        Primitive::Quantized(QuantizedOp::QuantizedMatmul { packing, transpose }) => {
            let (x, scales) = (&inputs[0], &inputs[2]);
            let groups = scales.dim(-1);
            let (inner, width) = (x.dim(-1), packing.group_size());
            let outputs = if *transpose { scales.dim(-2) } else { groups * width };
            let rows = x.size() / inner.max(1);
            let (bits, dtype) = (packing.bits(), x.dtype());
            // The seed's "groups per column": what its kernels were specialized by.
            let text = format!("{outputs}x{inner} b{bits} g{width} gpc{groups} {dtype}");
            Some((rows, text))
        }
        Primitive::Attention(_) => {
            let (q, k) = (&inputs[0], &inputs[1]);
            let cap = k.dim(2).next_power_of_two();
            let heads = format!("{}/{}", q.dim(1), k.dim(1));
            let text = format!("heads {heads} width {} keys<={cap} {}", q.dim(3), q.dtype());
            Some((q.dim(2), text))
        }
        _ => None,
    }
}

/// Dtypes and shapes of all inputs.
fn signature(inputs: &[Array]) -> String {
    let each: Vec<_> = inputs.iter().map(|a| format!("{}{:?}", a.dtype(), a.shape())).collect();
    format!("for {}", each.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_observed_by_default() {
        assert!(!is_on(&Config::default()));
        assert!(is_on(&Config::parse([("MLX_VK_DEBUG_ROPE_REJECT", "1")]).0));
    }
}
