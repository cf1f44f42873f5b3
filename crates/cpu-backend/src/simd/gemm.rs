//! The seam to the `gemm` crate: matrices as slices with strides, checked before pointers are made.

use num_complex::Complex32;

/// Element types that the `gemm` crate multiplies with accumulation in their own precision.
pub(crate) trait Gemm:
    Copy + num_traits::Zero + num_traits::One + PartialEq + Send + Sync + 'static
{
}

impl Gemm for f32 {}
impl Gemm for f64 {}
impl Gemm for Complex32 {}

/// A matrix to read: element `(i, j)` is `data[first + i * row_stride + j * col_stride]`.
#[derive(Clone, Copy)]
pub(crate) struct MatRef<'a, T> {
    pub(crate) data: &'a [T],
    pub(crate) first: usize,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) row_stride: isize,
    pub(crate) col_stride: isize,
}

impl<'a, T> MatRef<'a, T> {
    /// A row-major matrix without holes.
    pub(crate) fn dense(data: &'a [T], rows: usize, cols: usize) -> Self {
        Self { data, first: 0, rows, cols, row_stride: cols as isize, col_stride: 1 }
    }

    /// The transposed view.
    pub(crate) fn t(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }

    /// Columns `from` to `from + n`.
    pub(crate) fn columns(self, from: usize, n: usize) -> Self {
        let first = self.first.wrapping_add_signed(from as isize * self.col_stride);
        Self { first, cols: n, ..self }
    }

    fn is_in_bounds(&self) -> bool {
        let reach = |n: usize, stride: isize| (n as isize - 1).checked_mul(stride);
        let (Some(down), Some(right)) =
            (reach(self.rows, self.row_stride), reach(self.cols, self.col_stride))
        else {
            return false;
        };
        let first = self.first as isize;
        let lowest = first + down.min(0) + right.min(0);
        let highest = first + down.max(0) + right.max(0);
        lowest >= 0 && highest < self.data.len() as isize
    }
}

/// A row-major matrix without holes, to write.
pub(crate) struct MatMut<'a, T> {
    pub(crate) data: &'a mut [T],
    pub(crate) rows: usize,
    pub(crate) cols: usize,
}

impl<'a, T> MatMut<'a, T> {
    /// One that begins with the slice.
    pub(crate) fn dense(data: &'a mut [T], rows: usize, cols: usize) -> Self {
        Self { data, rows, cols }
    }

    fn elements(&mut self) -> Option<&mut [T]> {
        self.data.get_mut(..self.rows * self.cols)
    }
}

/// `out = keep * out + alpha * a @ b`; with `keep` zero the old contents do not matter. Uses
/// Rayon's threads if `parallel`.
///
/// # Panics
/// When the shapes do not fit or a matrix reaches past its slice.
pub(crate) fn gemm<T: Gemm>(
    mut out: MatMut<'_, T>,
    keep: T,
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    alpha: T,
    parallel: bool,
) {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    assert!(b.rows == k && out.rows == m && out.cols == n, "shapes of a product fit");
    if m == 0 || n == 0 {
        return;
    }
    let out = out.elements().expect("the result lies in its slice");
    if k == 0 {
        return scale(out, keep);
    }
    assert!(a.is_in_bounds() && b.is_in_bounds(), "operands lie in their slices");
    let parallelism =
        if parallel { ::gemm::Parallelism::Rayon(0) } else { ::gemm::Parallelism::None };
    // SAFETY: every element that the strides reach lies in the operands' slices, as asserted; the
    // result is borrowed mutably, so it overlaps no operand, and its elements are distinct.
    unsafe {
        ::gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            n as isize,
            !keep.is_zero(),
            a.data.as_ptr().add(a.first),
            a.col_stride,
            a.row_stride,
            b.data.as_ptr().add(b.first),
            b.col_stride,
            b.row_stride,
            keep,
            alpha,
            false,
            false,
            false,
            parallelism,
        );
    }
}

/// An empty sum leaves `keep * out`.
fn scale<T: Gemm>(out: &mut [T], keep: T) {
    out.iter_mut().for_each(|x| *x = if keep.is_zero() { T::zero() } else { *x * keep });
}
