//! Complex products: one element a thread, any strides.

use mlx_vulkan_core::{Array, Result, Strides};
use smallvec::smallvec;

use super::Addend;
use crate::kernels::{
    Ctx, Operand,
    layouts::matmul_complex::{ADD_FLAG, Constants, MATMUL_COMPLEX, Push},
    strided::Walk,
};

/// Encodes the product.
pub(super) fn eval(
    ctx: &mut Ctx<'_>,
    a: &Array,
    b: &Array,
    addend: Option<Addend<'_>>,
    result: Operand,
) -> Result<()> {
    let (at_a, at_b) = (ctx.input(a)?, ctx.input(b)?);
    let at_c = addend.map(|x| ctx.input(x.c)).transpose()?;
    let (sa, sb) = (&a.evaluated().layout.strides, &b.evaluated().layout.strides);
    let last = a.ndim() - 1;
    let mut shape: mlx_vulkan_core::Shape = a.shape().into();
    shape[last] = b.dim(-1);
    let mut walk_a = sa.clone();
    walk_a[last] = 0;
    let mut walk_b = sb.clone();
    walk_b[last - 1] = 0;
    let zeros: Strides = smallvec![0; a.ndim()];
    let walk_c = addend.map_or(&zeros, |x| &x.c.evaluated().layout.strides);
    let walk = Walk::new(&shape, [&walk_a, &walk_b, walk_c]);
    let push = Push {
        a: at_a.address,
        b: at_b.address,
        c: at_c.map_or(0, |c| c.address),
        result: result.address,
        walk: ctx.args(&walk.pack())?,
        count: walk.count(),
        a_stride: sa[last] as i64,
        b_stride: sb[last - 1] as i64,
        alpha: addend.map_or(1.0, |x| x.alpha),
        beta: addend.map_or(0.0, |x| x.beta),
        ndim: walk.ndim(),
        k: a.dim(-1) as u32,
    };
    let group = ctx.capabilities().elementwise_workgroup();
    let flags = if addend.is_some() { ADD_FLAG } else { 0 };
    let constants = Constants { workgroup: group, flags };
    let pipeline = ctx.pipeline(MATMUL_COMPLEX, &constants);
    let reads = [at_a.region, at_b.region, at_c.map_or(at_a.region, |c| c.region)];
    ctx.run(&pipeline, &push, walk.count(), u64::from(group), &reads, &[result.region])
}
