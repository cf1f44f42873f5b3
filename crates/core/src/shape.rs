//! Shapes, strides and the layout of an array in its buffer.

use smallvec::SmallVec;

use crate::Dtype;

/// Sizes of an array's axes, outermost first. A scalar has none.
pub type Shape = SmallVec<[usize; 4]>;
/// Elements between neighbours along each axis; zero for a broadcast axis, may be negative.
pub type Strides = SmallVec<[isize; 4]>;

/// Number of elements; 1 for a scalar.
///
/// Shapes come from checked operations, which refuse products over `usize::MAX`.
pub fn num_elements(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// Product of the sizes, or `None` when it does not fit: for shapes from files and arguments.
pub fn checked_num_elements(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d))
}

/// Bytes of a dense array, or `None` when these do not fit.
pub fn checked_nbytes(shape: &[usize], dtype: Dtype) -> Option<usize> {
    checked_num_elements(shape)?.checked_mul(dtype.size())
}

/// Row-major strides of a dense array.
pub fn row_major_strides(shape: &[usize]) -> Strides {
    let mut strides: Strides = SmallVec::from_elem(1, shape.len());
    for axis in (0..shape.len().saturating_sub(1)).rev() {
        // Where an axis is empty the others may be of any size, and strides mean nothing.
        strides[axis] = strides[axis + 1].wrapping_mul(shape[axis + 1] as isize);
    }
    strides
}

/// What is known of an array's order in memory, with MLX's three flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags {
    /// The elements fill `data_size` elements of the buffer without holes, in some order.
    pub contiguous: bool,
    /// Dense with the last axis fastest.
    pub row_contiguous: bool,
    /// Dense with the first axis fastest.
    pub col_contiguous: bool,
}

/// How the elements of an array lie in its buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Elements between neighbours along each axis.
    pub strides: Strides,
    /// Bytes from the start of the buffer to the first element.
    pub offset: usize,
    /// Elements of the buffer that the array refers to; less than its size when broadcast.
    pub data_size: usize,
    /// Order in memory.
    pub flags: Flags,
}

impl Layout {
    /// A dense row-major array at the start of its buffer.
    pub fn row_major(shape: &[usize]) -> Self {
        let size = num_elements(shape);
        let strides = row_major_strides(shape);
        let col_contiguous = is_col_contiguous(shape, &strides);
        Layout {
            strides,
            offset: 0,
            data_size: size,
            flags: Flags { contiguous: true, row_contiguous: true, col_contiguous },
        }
    }

    /// A view with the given strides over `data_size` elements; finds the flags itself.
    ///
    /// `contiguous` says whether the viewed elements fill those `data_size` elements.
    pub fn view(
        shape: &[usize],
        strides: Strides,
        offset: usize,
        data_size: usize,
        contiguous: bool,
    ) -> Self {
        let flags = Flags {
            contiguous,
            row_contiguous: contiguous && is_row_contiguous(shape, &strides),
            col_contiguous: contiguous && is_col_contiguous(shape, &strides),
        };
        Layout { strides, offset, data_size, flags }
    }
}

/// Whether `strides` walk `shape` densely with the last axis fastest (axes of size 1 do not count).
pub fn is_row_contiguous(shape: &[usize], strides: &[isize]) -> bool {
    dense(shape.iter().zip(strides).rev())
}

/// Whether `strides` walk `shape` densely with the first axis fastest.
pub fn is_col_contiguous(shape: &[usize], strides: &[isize]) -> bool {
    dense(shape.iter().zip(strides))
}

fn dense<'a>(axes: impl Iterator<Item = (&'a usize, &'a isize)>) -> bool {
    let mut expected = 1isize;
    for (&dim, &stride) in axes {
        if dim != 1 && stride != expected {
            return false;
        }
        expected *= dim as isize;
    }
    true
}

/// Merges neighbouring axes that every operand walks as one, so that kernels see few axes.
///
/// Returns the merged shape and, for each operand, its merged strides. Axes of size 1 vanish;
/// a fully merged or scalar shape keeps one axis.
pub fn collapse_contiguous<const N: usize>(
    shape: &[usize],
    strides: [&[isize]; N],
) -> (Shape, [Strides; N]) {
    let mut out: [Strides; N] = std::array::from_fn(|_| Strides::new());
    let shape = collapse_into(shape, &strides, &mut out);
    (shape, out)
}

/// [`collapse_contiguous`] for a number of operands that is not known beforehand; `out` has an
/// empty list for each of them. Returns the merged shape.
pub fn collapse_into(shape: &[usize], strides: &[&[isize]], out: &mut [Strides]) -> Shape {
    let mut out_shape = Shape::new();
    for axis in (0..shape.len()).filter(|&a| shape[a] != 1) {
        let dim = shape[axis];
        let mergeable = !out_shape.is_empty()
            && out
                .iter()
                .zip(strides)
                .all(|(out, strides)| out[out_shape.len() - 1] == strides[axis] * dim as isize);
        let operands = out.iter_mut().zip(strides);
        if mergeable {
            *out_shape.last_mut().expect("not empty") *= dim;
            operands.for_each(|(o, s)| *o.last_mut().expect("not empty") = s[axis]);
        } else {
            out_shape.push(dim);
            operands.for_each(|(o, s)| o.push(s[axis]));
        }
    }
    if out_shape.is_empty() {
        out_shape.push(1);
        out.iter_mut().for_each(|s| s.push(0));
    }
    out_shape
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use smallvec::smallvec;

    /// The same cases in every run.
    pub(crate) fn cases() -> ProptestConfig {
        let rng_seed = proptest::test_runner::RngSeed::Fixed(1);
        ProptestConfig { cases: 1000, failure_persistence: None, rng_seed, ..Default::default() }
    }

    /// Sizes of some axes with strides of two operands, dense or any: many axes can be merged.
    pub(crate) fn walks() -> impl Strategy<Value = (Vec<usize>, [Vec<isize>; 2])> {
        let stride = || prop_oneof![4 => Just(None), 1 => (-7isize..8).prop_map(Some)];
        let axis = (prop_oneof![1 => 0usize..1, 20 => 1usize..5], stride(), stride());
        prop::collection::vec(axis, 0..6).prop_map(|axes| {
            let shape: Vec<usize> = axes.iter().map(|a| a.0).collect();
            let dense = row_major_strides(&shape);
            let of = |own: &dyn Fn(usize) -> Option<isize>| {
                (0..shape.len()).map(|i| own(i).unwrap_or(dense[i])).collect()
            };
            let strides = [of(&|i| axes[i].1), of(&|i| axes[i].2)];
            (shape, strides)
        })
    }

    /// Offsets of all elements in row-major order.
    pub(crate) fn offsets(shape: &[usize], strides: &[isize]) -> Vec<isize> {
        shape.iter().zip(strides).fold(vec![0], |outer, (&size, &stride)| {
            let along = |first: isize| (0..size as isize).map(move |i| first + i * stride);
            outer.into_iter().flat_map(along).collect()
        })
    }

    proptest! {
        #![proptest_config(cases())]

        #[test]
        fn merged_axes_walk_the_same_elements((shape, [a, b]) in walks()) {
            let (merged, [c, d]) = collapse_contiguous(&shape, [&a, &b]);
            prop_assert!(!merged.is_empty() && merged.len() <= shape.len().max(1));
            prop_assert_eq!(offsets(&merged, &c), offsets(&shape, &a));
            prop_assert_eq!(offsets(&merged, &d), offsets(&shape, &b));
        }

        #[test]
        fn flags_say_how_elements_lie((shape, [a, _]) in walks()) {
            let dense = |offsets: Vec<isize>| offsets.iter().enumerate().all(|(i, &o)| o == i as isize);
            if num_elements(&shape) > 0 {
                prop_assert_eq!(is_row_contiguous(&shape, &a), dense(offsets(&shape, &a)));
                let sizes: Vec<usize> = shape.iter().rev().copied().collect();
                let strides: Vec<isize> = a.iter().rev().copied().collect();
                prop_assert_eq!(is_col_contiguous(&shape, &a), dense(offsets(&sizes, &strides)));
            }
        }
    }

    #[test]
    fn collapse_merges_dense_axes_and_keeps_transposes() {
        let shape = [2, 3, 4];
        let dense = row_major_strides(&shape);
        let (s, [d]) = collapse_contiguous(&shape, [&dense]);
        assert_eq!((s.as_slice(), d.as_slice()), (&[24][..], &[1][..]));

        let transposed: Strides = smallvec![1, 8, 2];
        let (s, _) = collapse_contiguous(&shape, [&dense, &transposed]);
        assert_eq!(s.as_slice(), &[2, 12]);
    }

    #[test]
    fn flags_ignore_axes_of_size_one() {
        assert!(is_row_contiguous(&[1, 5], &[77, 1]));
        assert!(is_col_contiguous(&[1, 5], &[77, 1]));
        assert!(!is_row_contiguous(&[2, 5], &[1, 2]));
        assert!(is_col_contiguous(&[2, 5], &[1, 2]));
    }
}
