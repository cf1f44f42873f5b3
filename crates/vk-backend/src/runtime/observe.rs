//! What the statistics say of an operation that was just encoded: its family, rows and shape, which
//! gates were closed for it, and why it was refused if it was. It sees operations as core made
//! them, so it does not depend on how kernels are planned.

use mlx_vulkan_core::{
    Array, Dtype, Error,
    primitives::{ArgReduceOp, BinaryOp, Primitive},
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
    primitive: &Primitive,
    inputs: &[Array],
    kernels: &[&'static str],
    refused: Option<&Error>,
) {
    let Some(family) = family(primitive) else { return };
    if let Some(error) = refused {
        return stats::reject(family, || format!("{error} {}", signature(inputs)));
    }
    let shape = shape(primitive, inputs);
    if let Some((rows, shape)) = &shape {
        uses::used(family, kernels, *rows, shape);
    }
    for gate in closed_gates(primitive, inputs, Config::get()) {
        stats::reject(family, || match &shape {
            // Not the exact shape: every token of a decode would be another one.
            Some((rows, shape)) => format!("{gate} for rows {}, {shape}", uses::row_bucket(*rows)),
            None => format!("{gate} {}", signature(inputs)),
        });
    }
}

/// The family in statistics and debug gates.
fn family(primitive: &Primitive) -> Option<&'static str> {
    use BinaryOp as B;
    Some(match primitive {
        Primitive::QuantizedMatmul { .. } => "qmm",
        Primitive::ScaledDotProductAttention { .. } => "sdpa",
        Primitive::Rope(_) => "rope",
        Primitive::ArgReduce { .. } => "argreduce",
        Primitive::Quantize(_) | Primitive::Dequantize(_) => "quantize",
        Primitive::Take { .. } | Primitive::TakeAlongAxis { .. } => "gather",
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
        Primitive::QuantizedMatmul { affine, transpose } => {
            let (x, scales) = (&inputs[0], &inputs[2]);
            let groups = scales.dim(-1);
            let (inner, width) = (x.dim(-1), affine.group_size);
            let outputs = if *transpose { scales.dim(-2) } else { groups * width };
            let rows = x.size() / inner.max(1);
            let (bits, dtype) = (affine.bits, x.dtype());
            // The seed's "groups per column": what its kernels were specialized by.
            let text = format!("{outputs}x{inner} b{bits} g{width} gpc{groups} {dtype}");
            Some((rows, text))
        }
        Primitive::ScaledDotProductAttention { .. } => {
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

/// The gates and caps that stand between an operation and a kernel made for its shape.
fn closed_gates(primitive: &Primitive, inputs: &[Array], c: &Config) -> Vec<&'static str> {
    let gates: Vec<(bool, &'static str)> = match primitive {
        Primitive::QuantizedMatmul { .. } => {
            qmm_gates(inputs[0].size() / inputs[0].dim(-1).max(1), c)
        }
        Primitive::ScaledDotProductAttention { .. } => {
            sdpa_gates(inputs[0].dim(2), inputs[1].dim(2), inputs[0].dim(3), c)
        }
        Primitive::Rope(_) => {
            let dense = inputs[0].data().is_none_or(|d| d.layout.flags.row_contiguous);
            vec![
                (c.enable_rope_native, "MLX_VK_ENABLE_ROPE_NATIVE=0"),
                (dense || c.enable_rope_hs_transposed, "MLX_VK_ENABLE_ROPE_HS_TRANSPOSED=0"),
            ]
        }
        Primitive::ArgReduce { op: ArgReduceOp::ArgMax, axis } => {
            let last = *axis + 1 == inputs[0].ndim();
            let open = !last || c.enable_argreduce_argmax_lastdim;
            vec![(open, "MLX_VK_ENABLE_ARGREDUCE_ARGMAX_LASTDIM=0")]
        }
        Primitive::Binary(op @ (BinaryOp::Add | BinaryOp::Multiply))
            if inputs[0].dtype() == Dtype::Bfloat16 =>
        {
            match op {
                BinaryOp::Add => vec![(c.enable_add_bf16, "MLX_VK_ENABLE_ADD_BF16=0")],
                _ => vec![(c.enable_mul_bf16, "MLX_VK_ENABLE_MUL_BF16=0")],
            }
        }
        _ => Vec::new(),
    };
    gates.into_iter().filter(|(open, _)| !open).map(|(_, gate)| gate).collect()
}

fn qmm_gates(rows: usize, c: &Config) -> Vec<(bool, &'static str)> {
    let mut gates = vec![(c.enable_qmm_native, "MLX_VK_ENABLE_QMM_NATIVE=0")];
    match rows {
        0..=1 => gates.extend([
            (c.enable_qmm_native_m1, "MLX_VK_ENABLE_QMM_NATIVE_M1=0"),
            (c.enable_qmm_native_m1_reduce, "MLX_VK_ENABLE_QMM_NATIVE_M1_REDUCE=0"),
            (
                c.enable_qmm_native_m1_reduce_subgroup,
                "MLX_VK_ENABLE_QMM_NATIVE_M1_REDUCE_SUBGROUP=0",
            ),
        ]),
        2 => gates.push((c.enable_qmm_native_m2, "MLX_VK_ENABLE_QMM_NATIVE_M2=0")),
        3..=4 => gates.push((c.enable_qmm_native_m4, "MLX_VK_ENABLE_QMM_NATIVE_M4=0")),
        5..=8 => gates.push((c.enable_qmm_native_m8, "MLX_VK_ENABLE_QMM_NATIVE_M8=0")),
        9..=16 => gates.push((c.enable_qmm_native_m16, "MLX_VK_ENABLE_QMM_NATIVE_M16=0")),
        _ => {}
    }
    gates
}

fn sdpa_gates(queries: usize, keys: usize, width: usize, c: &Config) -> Vec<(bool, &'static str)> {
    let decode = queries == 1;
    let within = |most: u64| most == 0 || keys as u64 <= most;
    let mut gates = vec![
        (c.enable_sdpa_native, "MLX_VK_ENABLE_SDPA_NATIVE=0"),
        (within(c.sdpa_max_k_len), "more keys than MLX_VK_SDPA_MAX_K_LEN"),
    ];
    if decode {
        let most = c.sdpa_max_k_len_decode;
        gates.push((within(most), "more keys than MLX_VK_SDPA_MAX_K_LEN_DECODE"));
    } else {
        let most = c.sdpa_max_k_len_prefill.unwrap_or(0);
        gates.push((within(most), "more keys than MLX_VK_SDPA_MAX_K_LEN_PREFILL"));
    }
    if decode && width == 128 {
        gates.push((c.enable_sdpa_decode_d128, "MLX_VK_ENABLE_SDPA_DECODE_D128=0"));
        match keys {
            0..=32 => {
                gates.push((c.enable_sdpa_decode_d128_k32, "MLX_VK_ENABLE_SDPA_DECODE_D128_K32=0"))
            }
            33..=64 => {
                gates.push((c.enable_sdpa_decode_d128_k64, "MLX_VK_ENABLE_SDPA_DECODE_D128_K64=0"))
            }
            65..=128 => gates
                .push((c.enable_sdpa_decode_d128_k128, "MLX_VK_ENABLE_SDPA_DECODE_D128_K128=0")),
            _ => {}
        }
    }
    gates
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(gates: Vec<(bool, &'static str)>) -> Vec<&'static str> {
        gates.into_iter().filter(|g| !g.0).map(|g| g.1).collect()
    }

    #[test]
    fn only_gates_of_the_shape_count() {
        let config = Config::parse([
            ("MLX_VK_ENABLE_QMM_NATIVE_M2", "0"),
            ("MLX_VK_ENABLE_SDPA_DECODE_D128_K64", "0"),
            ("MLX_VK_SDPA_MAX_K_LEN_PREFILL", "100"),
        ])
        .0;
        assert_eq!(closed(qmm_gates(2, &config)), ["MLX_VK_ENABLE_QMM_NATIVE_M2=0"]);
        assert!(closed(qmm_gates(1, &config)).is_empty());
        let k64 = "MLX_VK_ENABLE_SDPA_DECODE_D128_K64=0";
        assert_eq!(closed(sdpa_gates(1, 64, 128, &config)), [k64]);
        assert!(closed(sdpa_gates(1, 64, 64, &config)).is_empty());
        let cap = "more keys than MLX_VK_SDPA_MAX_K_LEN_PREFILL";
        assert_eq!(closed(sdpa_gates(7, 101, 128, &config)), [cap]);
        assert!(closed(sdpa_gates(7, 101, 128, &Config::default())).is_empty());
    }

    #[test]
    fn nothing_is_observed_by_default() {
        assert!(!is_on(&Config::default()));
        assert!(is_on(&Config::parse([("MLX_VK_DEBUG_ROPE_REJECT", "1")]).0));
    }
}
