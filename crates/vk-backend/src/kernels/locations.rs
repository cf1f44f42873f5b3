//! Gathers and scatters: the walk over their locations as `locations.glsl` takes it.

use mlx_vulkan_core::{Array, Result, locations::Locations};

use super::{
    Ctx, Operand, Region,
    layouts::indexing_gather::{IndexArray, Push},
    reduce::View,
    strided,
};
use crate::shaders::{KernelOf, SpecConstants};

/// Arrays of indices as kernels see them.
pub(super) fn indices(ctx: &mut Ctx<'_>, arrays: &[Array]) -> Result<Vec<View>> {
    arrays.iter().map(|a| View::of(ctx, a)).collect()
}

/// The strides of views.
pub(super) fn strides(views: &[View]) -> Vec<&[isize]> {
    views.iter().map(|v| &v.strides[..]).collect()
}

/// The walk in the widest words that alignment and strides allow, and their bytes.
pub(super) fn widest(locations: Locations, size: u64, ends: [Operand; 2]) -> (Locations, u64) {
    let fits = |bytes: &u64| *bytes > size && ends.iter().all(|end| end.is_aligned(*bytes));
    let mut wide = [16, 8, 4].into_iter().filter(fits);
    let found = wide.find_map(|bytes| Some((locations.in_words((bytes / size) as usize)?, bytes)));
    found.unwrap_or((locations, size))
}

/// The dtype of arrays of indices as the constant that kernels take.
pub(super) fn index(indices: &[View]) -> u32 {
    indices.first().map_or(0, |i| i.dtype as u32)
}

/// One dispatch over all locations, by workgroups of the size of elementwise kernels.
pub(super) struct LocationDispatch<'a, C> {
    pub(super) kernel: KernelOf<C, Push>,
    pub(super) constants: C,
    pub(super) locations: &'a Locations,
    pub(super) indices: &'a [View],
    pub(super) source: Operand,
    pub(super) destination: Operand,
    /// Whether some of what lies at the destination stays, so that it counts as read.
    pub(super) keeps: bool,
}

impl<C: SpecConstants> LocationDispatch<'_, C> {
    /// Encodes it.
    pub(super) fn run(&self, ctx: &mut Ctx<'_>) -> Result<()> {
        let locations = self.locations;
        let push = Push {
            source: self.source.address,
            destination: self.destination.address,
            count: locations.count() as u64,
            walk: ctx.args(&strided::pack(&locations.shape, &locations.strides))?,
            table: if self.indices.is_empty() {
                0
            } else {
                ctx.args(bytemuck::cast_slice(&self.table()))?
            },
            ndim: locations.shape.len() as u32,
        };
        let group = ctx.capabilities().elementwise_workgroup();
        let pipeline = ctx.pipeline(self.kernel, &self.constants);
        let mut reads: Vec<Region> = self.indices.iter().map(|i| i.at.region).collect();
        reads.push(self.source.region);
        if self.keeps {
            reads.push(self.destination.region);
        }
        let writes = [self.destination.region];
        ctx.run(&pipeline, &push, push.count, u64::from(group), &reads, &writes)
    }

    /// The arrays of indices as the shader reads them.
    fn table(&self) -> Vec<IndexArray> {
        let rows = self.indices.iter().zip(&self.locations.picks);
        rows.map(|(view, pick)| IndexArray {
            address: view.at.address,
            size: pick.size as i64,
            stride: pick.stride as i64,
            last: pick.last as i64,
        })
        .collect()
    }
}
