//! The operands of a product as matrices with strides.

use mlx_vulkan_core::{Array, Dtype, Result, Shape, Strides, shape};
use smallvec::{SmallVec, smallvec};

use super::{Ctx, Operand, Region, copy, layouts::matvec_strided, strided::Walk};

/// Dtypes of a product: what the kernel reads, and what the result and `c` are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dtypes {
    /// Of both operands.
    pub operands: Dtype,
    /// Of the result.
    pub result: Dtype,
}

impl From<Dtype> for Dtypes {
    fn from(dtype: Dtype) -> Self {
        Dtypes { operands: dtype, result: dtype }
    }
}

/// Which operand of a mat-vec is the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MatrixSide {
    /// `a` is the matrix, the columns of `b` are the vectors.
    Left,
    /// `b` is the matrix, the rows of `a` are the vectors.
    Right,
}

/// Factors and third operand of `addmm`.
#[derive(Clone, Copy)]
pub(super) struct Addend<'a> {
    /// `c`, of the output's shape.
    pub c: &'a Array,
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of `c`.
    pub beta: f32,
}

/// One operand: where it is and how its last two axes lie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StridedMatrix {
    pub at: Operand,
    /// Stride along the axis that is not k (rows of `a`, columns of `b`).
    pub outer: i64,
    /// Stride along k.
    pub inner: i64,
    /// Dense along k.
    pub along_k: bool,
    /// Dense along the other axis.
    pub across: bool,
}

impl StridedMatrix {
    /// Distance of neighbours along the axis that kernels do not take as dense; k is preferred.
    pub(super) fn leading(&self) -> i64 {
        if self.along_k { self.outer } else { self.inner }
    }
}

/// The third operand of `addmm`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Third {
    pub at: Operand,
    pub row: i64,
    pub column: i64,
    pub alpha: f32,
    pub beta: f32,
}

/// A product whose batch axes are merged.
#[derive(Debug, Clone)]
pub(crate) struct Operands {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub a: StridedMatrix,
    pub b: StridedMatrix,
    pub c: Option<Third>,
    /// Batch axes with the strides of `a`, `b` and `c`.
    pub batch: Walk<3>,
    /// What stands for batch axes.
    pub lists: Option<Lists>,
}

/// Which matrices a product takes, where it is not batch axes that say it.
#[derive(Debug, Clone)]
pub(crate) enum Lists {
    /// Indices of the matrices of both operands.
    Picks(Picks),
    /// Pairs of ends of segments of k, uint32.
    Segments { ends: Operand, batches: usize },
}

/// Indices of matrices of two operands, for `picks.glsl`.
#[derive(Debug, Clone)]
pub(crate) struct Picks {
    /// Dense lists of uint32 indices.
    pub lists: [Operand; 2],
    /// From matrix to matrix.
    pub strides: [i64; 2],
    /// Matrices that there are.
    pub counts: [usize; 2],
    /// Length of the lists.
    pub batches: usize,
    /// Tiles of rows that pick the same matrix on the right, if the product is made by those (`groups.rs`).
    pub tiles: Option<Region>,
}

impl Picks {
    /// Indices of the matrices of `sources`; the strides are not known yet.
    pub(crate) fn new(
        ctx: &mut Ctx<'_>,
        lists: [&Array; 2],
        sources: [&Array; 2],
    ) -> Result<Picks> {
        let count = |a: &Array| shape::num_elements(&a.shape()[..a.ndim() - 2]);
        Ok(Picks {
            lists: [copy::dense(ctx, lists[0])?, copy::dense(ctx, lists[1])?],
            strides: [0, 0],
            counts: sources.map(count),
            batches: lists[0].size(),
            tiles: None,
        })
    }

    /// Puts the lists where kernels find them; `order` says which side comes first.
    pub(crate) fn pack(&self, ctx: &mut Ctx<'_>, order: [usize; 2]) -> Result<u64> {
        ctx.args(bytemuck::bytes_of(&matvec_strided::Picks {
            lists: order.map(|i| self.lists[i].address),
            strides: order.map(|i| self.strides[i]),
            counts: order.map(|i| self.counts[i] as u64),
            tiles: self.tiles.map_or(0, |tiles| tiles.address),
        }))
    }

    /// What kernels read of it.
    pub(crate) fn reads(&self) -> impl Iterator<Item = Region> {
        self.lists.map(|list| list.region).into_iter().chain(self.tiles)
    }

    /// Matrices on the right that tiles of rows have to themselves; none if the product is made row by row.
    pub(crate) fn groups(&self) -> usize {
        if self.tiles.is_some() { self.counts[1].min(self.batches) } else { 0 }
    }
}

/// An array whose batch axes are one, and the distance of its matrices.
fn stack(ctx: &mut Ctx<'_>, array: &Array) -> Result<(Strided, i64)> {
    let axes = array.ndim() - 2;
    let strides = &array.evaluated().layout.strides;
    let (merged, [between]) =
        shape::collapse_contiguous(&array.shape()[..axes], [&strides[..axes]]);
    if merged.len() == 1 && strides[axes..].contains(&1) {
        return Ok((dense_axis(ctx, array)?, between[0] as i64));
    }
    let matrix = shape::num_elements(&array.shape()[axes..]) as i64;
    let strides = shape::row_major_strides(array.shape());
    Ok((Strided { at: copy::dense(ctx, array)?, strides }, matrix))
}

/// Where an array is, and its strides, perhaps of a dense copy.
struct Strided {
    at: Operand,
    strides: Strides,
}

impl Operands {
    /// Finds the operands' strides; copies those that have no axis of stride 1, and moves batch
    /// axes into the rows where all rows are multiplied by the same `b`.
    pub(super) fn new(
        ctx: &mut Ctx<'_>,
        a: &Array,
        b: &Array,
        addend: Option<Addend<'_>>,
    ) -> Result<Operands> {
        let left = dense_axis(ctx, a)?;
        let right = dense_axis(ctx, b)?;
        let third = addend.map(|c| ctx.input(c.c)).transpose()?;
        let ndim = a.ndim();
        let (mut m, n, k) = (a.dim(-2), b.dim(-1), a.dim(-1));
        let none: Strides = shape::row_major_strides(a.shape()).iter().map(|_| 0).collect();
        let c_strides = addend.map_or(&none, |c| &c.c.evaluated().layout.strides);
        let mut batch: Shape = a.shape()[..ndim - 2].into();
        let mut a_row = left.strides[ndim - 2];
        let mut c_row = c_strides[ndim - 2];
        let merged = rows_of_one_matrix(a.shape(), &left.strides, &right.strides, c_strides);
        // A single row may be dense along neither axis; many rows must be along one.
        if let Some((rows, a_stride, c_stride)) =
            merged.filter(|r| left.strides[ndim - 1] == 1 || k == 1 || r.1 == 1)
        {
            (m, a_row, c_row) = (rows, a_stride, c_stride);
            batch.clear();
        }
        let axes = batch.len();
        let batch =
            Walk::new(&batch, [&left.strides[..axes], &right.strides[..axes], &c_strides[..axes]]);
        Ok(Operands {
            m,
            n,
            k,
            a: matrix(left.at, a_row, left.strides[ndim - 1], m, k),
            b: matrix(right.at, right.strides[ndim - 1], right.strides[ndim - 2], n, k),
            c: addend.zip(third).map(|(addend, at)| Third {
                at,
                row: c_row as i64,
                column: c_strides[ndim - 1] as i64,
                alpha: addend.alpha,
                beta: addend.beta,
            }),
            batch,
            lists: None,
        })
    }

    /// Operands whose matrices `lists` picks, or segments of k of two matrices.
    pub(super) fn listed(ctx: &mut Ctx<'_>, a: &Array, b: &Array, lists: Lists) -> Result<Self> {
        let (left, a_stride) = stack(ctx, a)?;
        let (right, b_stride) = stack(ctx, b)?;
        let lists = match lists {
            Lists::Picks(picks) => Lists::Picks(Picks { strides: [a_stride, b_stride], ..picks }),
            segments => segments,
        };
        let (m, n, k) = (a.dim(-2), b.dim(-1), a.dim(-1));
        let [.., a_row, a_k] = left.strides[..] else { unreachable!("matrices have two axes") };
        let [.., b_k, b_column] = right.strides[..] else { unreachable!("as above") };
        Ok(Operands {
            m,
            n,
            k,
            a: matrix(left.at, a_row, a_k, m, k),
            b: matrix(right.at, b_column, b_k, n, k),
            c: None,
            batch: Walk::new(&[], [&[], &[], &[]]),
            lists: Some(lists),
        })
    }

    /// Rows, which may be those of several batches, columns, the inner axis, and products.
    pub(super) fn sizes(&self) -> [usize; 4] {
        [self.m, self.n, self.k, self.batches()]
    }

    /// Products to make.
    pub(super) fn batches(&self) -> usize {
        match &self.lists {
            Some(Lists::Picks(picks)) if picks.tiles.is_some() => 1,
            Some(Lists::Picks(picks)) => picks.batches,
            Some(Lists::Segments { batches, .. }) => *batches,
            None => self.batch.count() as usize,
        }
    }

    /// What kernels read.
    pub(super) fn reads(&self) -> SmallVec<[Region; 4]> {
        let mut reads = smallvec![self.a.at.region, self.b.at.region];
        reads.extend(self.c.as_ref().map(|c| c.at.region));
        match &self.lists {
            Some(Lists::Picks(picks)) => reads.extend(picks.reads()),
            Some(Lists::Segments { ends, .. }) => reads.push(ends.region),
            None => {}
        }
        reads
    }

    /// The batch strides for `strided_offset`: number of axes, and the packed walk's address (none
    /// for a single product). `order` says which operand stands where.
    pub(super) fn walk(&self, ctx: &mut Ctx<'_>, order: [usize; 3]) -> Result<(u32, u64)> {
        match &self.lists {
            Some(Lists::Picks(picks)) => return Ok((0, picks.pack(ctx, [order[0], order[1]])?)),
            Some(Lists::Segments { ends, .. }) => return Ok((0, ends.address)),
            None => {}
        }
        if self.batches() == 1 {
            return Ok((0, 0));
        }
        let walk = Walk {
            shape: self.batch.shape.clone(),
            strides: order.map(|i| self.batch.strides[i].clone()),
        };
        Ok((walk.ndim(), ctx.args(&walk.pack())?))
    }

    /// Whether all batch strides of an operand are multiples of `elements`.
    pub(super) fn batches_aligned(&self, operand: usize, elements: isize) -> bool {
        if let Some(Lists::Picks(picks)) = &self.lists {
            let rows = picks.tiles.is_some() && operand == 0;
            return rows || picks.strides[operand] % elements as i64 == 0;
        }
        self.batch.strides[operand].iter().all(|s| s % elements == 0)
    }
}

fn matrix(at: Operand, outer: isize, inner: isize, outer_size: usize, k: usize) -> StridedMatrix {
    StridedMatrix {
        at,
        outer: outer as i64,
        inner: inner as i64,
        along_k: inner == 1 || k == 1,
        across: outer == 1 || outer_size == 1,
    }
}

/// The array itself if one of its last two axes is dense, else a row-major copy.
fn dense_axis(ctx: &mut Ctx<'_>, array: &Array) -> Result<Strided> {
    let strides = &array.evaluated().layout.strides;
    let last = array.ndim() - 1;
    let dense = (last - 1..=last).any(|axis| strides[axis] == 1 || array.shape()[axis] == 1);
    Ok(match dense {
        true => Strided { at: ctx.input(array)?, strides: strides.clone() },
        false => Strided {
            at: copy::dense(ctx, array)?,
            strides: shape::row_major_strides(array.shape()),
        },
    })
}

/// Rows, row stride of `a` and row stride of `c` when the batch axes only repeat `b` and the rows
/// of `a` and `c` follow one another through them.
fn rows_of_one_matrix(
    shape: &[usize],
    a: &[isize],
    b: &[isize],
    c: &[isize],
) -> Option<(usize, isize, isize)> {
    let rows = shape.len() - 1; // batch axes and the rows
    let repeated = (0..rows - 1).all(|i| shape[i] == 1 || b[i] == 0);
    if !repeated || rows == 1 {
        return None;
    }
    let (merged, [a, c]) = shape::collapse_contiguous(&shape[..rows], [&a[..rows], &c[..rows]]);
    (merged.len() == 1).then(|| (merged[0], a[0], c[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_of_one_matrix_become_rows() {
        let found = rows_of_one_matrix(&[2, 3, 5], &[15, 5, 1], &[0, 1, 7], &[0, 0, 0]);
        assert_eq!(found, Some((6, 5, 0)));
        // Another matrix per batch, rows that do not follow one another, no batch at all.
        assert_eq!(rows_of_one_matrix(&[2, 3, 5], &[15, 5, 1], &[35, 1, 7], &[0, 0, 0]), None);
        assert_eq!(rows_of_one_matrix(&[2, 3, 5], &[20, 5, 1], &[0, 1, 7], &[0, 0, 0]), None);
        assert_eq!(rows_of_one_matrix(&[3, 5], &[5, 1], &[1, 7], &[0, 0]), None);
    }
}
