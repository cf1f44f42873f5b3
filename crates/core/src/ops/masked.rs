//! Products of matrices whose blocks are masked.

use crate::{
    Array, Dtype, Error, Result, Shape,
    ops::{
        self, astype, broadcast_shape, broadcast_to, gathered::as_matrices,
        gathered::floating_product, matmul,
    },
};

/// `a @ b` with masks of one element per block of `block_size` rows and columns: of the result, of
/// `a` and of `b`. Bool masks clear blocks, others scale them. Masks broadcast over batch axes.
///
/// # Errors
/// When the block size is neither 32 nor 64, the inner sizes differ, the dtype is not floating, or a
/// mask does not broadcast to the blocks.
pub fn block_masked_mm(
    a: &Array,
    b: &Array,
    block_size: usize,
    mask_out: Option<&Array>,
    mask_lhs: Option<&Array>,
    mask_rhs: Option<&Array>,
) -> Result<Array> {
    if mask_out.is_none() && mask_lhs.is_none() && mask_rhs.is_none() {
        return matmul(a, b);
    }
    let op = "block_masked_mm";
    if !matches!(block_size, 32 | 64) {
        let message = format!("Only block_sizes 32, 64 are supported.Got block size {block_size}.");
        return Err(Error::invalid(op, message));
    }
    let (left, right, vectors) = as_matrices(op, a, b)?;
    let dtype = floating_product(op, a, b)?;
    let batch = |x: &Array| Shape::from(&x.shape()[..x.ndim() - 2]);
    let batch = broadcast_shape(op, &batch(&left), &batch(&right))?;
    let with_batch = |x: &Array| {
        let mut shape = batch.clone();
        shape.extend_from_slice(&x.shape()[x.ndim() - 2..]);
        broadcast_to(&astype(x, dtype)?, &shape)
    };
    let (left, right) = (with_batch(&left)?, with_batch(&right)?);
    let mut operand_masks = [mask_lhs, mask_rhs].into_iter().flatten();
    let all_bool = operand_masks.all(|m| m.dtype() == Dtype::Bool);
    let operand_mask = |mask: &Array, axes: &[isize]| {
        let mask = if all_bool { mask.clone() } else { astype(mask, dtype)? };
        ops::expand_dims(&mask, axes)
    };
    let lhs_axes = if a.ndim() == 1 { &[-2][..] } else { &[] };
    let rhs_axes = if b.ndim() == 1 { &[-1][..] } else { &[] };
    let left = match mask_lhs {
        Some(mask) => masked(&left, &operand_mask(mask, lhs_axes)?, block_size)?,
        None => left,
    };
    let right = match mask_rhs {
        Some(mask) => masked(&right, &operand_mask(mask, rhs_axes)?, block_size)?,
        None => right,
    };
    let mut out = matmul(&left, &right)?;
    if let Some(mask) = mask_out {
        out = masked(&out, &ops::expand_dims(mask, &vectors)?, block_size)?;
    }
    if vectors.is_empty() { Ok(out) } else { ops::squeeze(&out, &vectors) }
}

/// Clears or scales the blocks of the last two axes.
fn masked(x: &Array, mask: &Array, block: usize) -> Result<Array> {
    let ndim = x.ndim();
    let blocks = |axis: usize| x.shape()[axis].div_ceil(block);
    let mut shape = Shape::from(&x.shape()[..ndim - 2]);
    shape.extend([blocks(ndim - 2), blocks(ndim - 1)]);
    let mask = broadcast_to(mask, &shape)?;
    // Each element of the mask becomes a block; what reaches over the edges is cut off.
    let mask = ops::expand_dims(&mask, &[-3, -1])?;
    let mut spread = Shape::from(mask.shape());
    (spread[ndim - 1], spread[ndim + 1]) = (block, block);
    let mut whole: Vec<isize> = shape.iter().map(|&d| d as isize).collect();
    whole[ndim - 2..].iter_mut().for_each(|d| *d *= block as isize);
    let mask = ops::reshape(&broadcast_to(&mask, &spread)?, &whole)?;
    let stop: Vec<isize> = x.shape().iter().map(|&d| d as isize).collect();
    let mask = ops::slice(&mask, &vec![0; ndim], &stop, &vec![1; ndim])?;
    match mask.dtype() {
        Dtype::Bool => ops::where_(&mask, x, &Array::scalar_of(0.0, x.dtype())?),
        _ => ops::multiply(x, &astype(&mask, x.dtype())?),
    }
}
