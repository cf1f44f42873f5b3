//! Products of many rows that multiply fields of 4 bits as they are (`qmm_fields.comp`), whose kernel joins
//! the splits of k itself.

use mlx_vulkan_core::{Dtype, Result, primitives::Packing};
use smallvec::SmallVec;

use crate::kernels::{
    Ctx, Dispatch, Region,
    layouts::quantized_qmm_fields as kernel,
    matmul::{self, GemmPush, matrix::MatrixTile, matrix_constants},
};

/// What such a product is, but for its operands.
#[derive(Debug, Clone, Copy)]
pub(in crate::kernels) struct Fields {
    pub(in crate::kernels) tile: MatrixTile,
    /// Of x, scales and the result.
    pub(in crate::kernels) dtype: Dtype,
    /// Of `gemm.glsl`.
    pub(in crate::kernels) flags: u32,
    /// Affine, or mxfp4 with bfloat16.
    pub(in crate::kernels) packing: Packing,
    /// Scales and biases begin where 16 bytes of them can be read at once.
    pub(in crate::kernels) is_aligned: bool,
    /// Groups of rows that tiles keep to, at most.
    pub(in crate::kernels) row_groups: usize,
}

/// Encodes the product.
///
/// # Errors
/// When memory is out, the driver refuses the pipeline, or the device fails.
pub(in crate::kernels) fn encode(
    ctx: &mut Ctx<'_>,
    fields: Fields,
    push: &GemmPush,
    reads: &[Region],
    writes: &[Region],
) -> Result<()> {
    let Fields { tile, dtype, flags, packing, is_aligned, row_groups } = fields;
    let groups = matmul::matrix_grid(&tile, push, row_groups, ctx.capabilities());
    let mut push = *push;
    let mut writes: SmallVec<[Region; 6]> = writes.into();
    if push.splits > 1 {
        let tiles = tile.count(push.m as usize, push.n as usize, push.batches as usize);
        let parts = ctx.scratch(tile.parts(tiles * u64::from(push.splits)))?;
        let counters = ctx.counters(2 * tiles)?;
        (push.parts, push.counters) = (parts.address, counters.address);
        writes.extend([parts, counters]);
    }
    let group = packing.group_size() as u32;
    let constants = matrix_constants!(
        kernel, tile, dtype, dtype, flags, group: group,
        fragments: u32::from(ctx.config().enable_known_fragments),
        whole_pages: u32::from(is_aligned && (push.k / group).is_multiple_of(kernel::PAGE))
    );
    let kernels = match packing {
        Packing::Affine(_) => [kernel::QMM_FIELDS_FLOAT16, kernel::QMM_FIELDS_BFLOAT16],
        Packing::Floats(_) => [kernel::QMM_FIELDS_MXFP4; 2],
    };
    let (pipeline, push) = (&matmul::matrix_pipeline(ctx, kernels, dtype, &constants), &push);
    ctx.dispatch(&Dispatch { pipeline, push, groups, reads, writes: &writes })
}
