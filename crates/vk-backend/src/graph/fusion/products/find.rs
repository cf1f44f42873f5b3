//! Which products fused kernels serve, and by which way.

use mlx_vulkan_core::{
    primitives::{MatmulOp, Primitive, QuantizedOp},
    tape::Tape,
};
use smallvec::smallvec;

use super::{Biased, Products, Then, Way};
use crate::{
    graph::fusion::device,
    kernels::{
        fragment::fragment,
        matmul::{
            matrix::{Right, takes_fields},
            planner as matmul,
        },
        matvec::{
            self, Format,
            planner::{self, MatvecSizes},
        },
        quantized::planner as quantized,
    },
    runtime::device::DeviceState,
};

/// The product at `place`, if a fused kernel serves it.
pub(super) fn product_at(tape: &Tape, place: usize, device: &DeviceState) -> Option<Products> {
    let (node, out) = (tape.node(place), tape.array(place));
    let (x, caps, config) = (&node.inputs[0], device.capabilities(), device.config);
    let (inner, outputs) = (x.dim(-1), out.dim(-1));
    if inner == 0 || out.size() == 0 {
        return None;
    }
    let (rows, dtype) = (x.size() / inner, out.dtype());
    let leading = [inner as i64, inner.max(outputs) as i64];
    let fragment = fragment(dtype, leading, caps, config);
    let many = |gemm: matmul::Gemm| match (gemm, fragment) {
        (matmul::Gemm::Matrix(..), Some(fragment)) => Some(Way::Many(fragment, dtype)),
        _ => None,
    };
    let several = |format: Format| {
        let outputs = [outputs as u32, 0, 0];
        let p = MatvecSizes { rows: u32::try_from(rows).ok()?, outputs, sets: 1 };
        matvec::plan_rows(&p, inner as u32, format, caps, config).map(|_| Way::Several)
    };
    let mut bias = None;
    let (format, way) = match &node.primitive {
        Primitive::Quantized(QuantizedOp::QuantizedMatmul { packing, transpose: true })
            if node.inputs[1].ndim() == 2 =>
        {
            let format = Format::packed(dtype, *packing);
            let fragment = fragment.filter(|_| quantized::holds(*packing, dtype));
            let product = quantized::QuantizedProduct {
                rows,
                outputs,
                inner,
                batches: 1,
                transpose: true,
                packing: *packing,
                fragment,
                right: quantized::right_of(*packing, true, inner, fragment, caps)
                    .fields_if(takes_fields([rows, outputs, inner])),
            };
            let way = match quantized::plan(&product, caps, config) {
                quantized::QuantizedPlan::MatVec { team, .. } => team.subgroups.then_some(Way::Few),
                quantized::QuantizedPlan::Gemm(gemm) | quantized::QuantizedPlan::Dense(gemm) => {
                    // Tiles of siblings are of affine matrices alone.
                    many(gemm).filter(|_| !format.floats)
                }
                quantized::QuantizedPlan::VecMat { .. } => None,
            };
            (format, several(format).or(way))
        }
        Primitive::Matmul(op) => {
            let format = Format::dense(dtype);
            let few = matmul::is_few(rows, outputs).then_some(Way::Few);
            let few = several(format).or(few);
            let way = match op {
                MatmulOp::Matmul => few.or_else(|| {
                    many(matmul::gemm(rows, outputs, inner, 1, fragment, Right::Dense, caps))
                }),
                MatmulOp::AddMm { .. } if few.is_some() => {
                    bias =
                        Some(Biased::of_addmm(tape, place).filter(|_| config.enable_fused_bias)?);
                    few
                }
                _ => return None,
            };
            (format, way)
        }
        _ => return None,
    };
    let way = way?;
    let serves = rows * outputs == out.size()
        && dtype.is_floating()
        && dtype.size() <= 4
        && rows.max(outputs).max(inner) < 1 << 28
        && match way {
            Way::Few => {
                planner::serves(rows, inner, format.bits as usize, dtype.size(), caps, config)
            }
            Way::Several => true,
            Way::Many(..) => config.enable_fused_tiles && inner.is_multiple_of(8),
        };
    let (places, biases) = (smallvec![place], smallvec![bias]);
    let (sum, norm, then) = (None, None, Then::Store);
    serves.then_some(Products { places, biases, way, rows, inner, format, sum, norm, then, config })
}

/// How the packed matrix of the product at `place` is stored, if rows of it are outputs.
pub(in crate::graph::fusion) fn packed(tape: &Tape, place: usize) -> Option<Format> {
    let node = tape.node(place);
    let Primitive::Quantized(QuantizedOp::QuantizedMatmul { packing, transpose: true }) =
        node.primitive
    else {
        return None;
    };
    let single = node.inputs[1].ndim() == 2;
    single.then(|| Format::packed(tape.array(place).dtype(), packing))
}

/// How the matrix of the product at `place` is stored, if kernels of few rows serve it.
pub(in crate::graph::fusion) fn few_rows(tape: &Tape, place: usize) -> Option<Format> {
    let product = product_at(tape, place, device(tape.node(place))?)?;
    matches!(product.way, Way::Few | Way::Several).then_some(product.format)
}
