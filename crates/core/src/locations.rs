//! Where gathers read and scatters write: the walk that every backend takes.

use smallvec::SmallVec;

use crate::{Shape, Strides, shape::collapse_into};

/// An array of indices beside the array that it indexes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pick {
    /// Size of the axis that is indexed: added to negative indices.
    pub size: usize,
    /// Elements between neighbours along that axis.
    pub stride: isize,
    /// The largest index from which a slice still lies inside; -1 if there is none.
    pub last: isize,
}

/// One walk over the elements that are read or written, with a stride of each operand for each
/// axis. The location of an element is its offset in the walk and, for each array of indices, the
/// index at the array's offset in the walk times [`Pick::stride`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locations {
    /// Sizes of the axes; at least one.
    pub shape: Shape,
    /// Strides in elements: of the operands that the caller named, then of the indexed array at
    /// index 0 of its indexed axes, then of each array of indices.
    pub strides: SmallVec<[Strides; 4]>,
    /// The arrays of indices.
    pub picks: SmallVec<[Pick; 2]>,
}

/// An array by its shape and strides.
pub type Strided<'a> = (&'a [usize], &'a [isize]);

impl Locations {
    /// The locations of slices of `sizes` at indices into `axes`, as [`crate::ops::gather`] has them.
    /// `others` are strides over the indices' axes and then the slices'.
    pub fn of_slices(
        (shape, strides): Strided<'_>,
        index_shape: &[usize],
        indices: &[&[isize]],
        axes: &[usize],
        sizes: &[usize],
        others: &[&[isize]],
    ) -> Locations {
        let walked = [index_shape, sizes].concat();
        let source = [&vec![0; index_shape.len()], strides].concat();
        let still = vec![0; sizes.len()];
        let indices: Vec<Vec<isize>> = indices.iter().map(|&s| [s, &still].concat()).collect();
        let picks = axes.iter().map(|&x| Pick {
            size: shape[x],
            stride: strides[x],
            last: shape[x] as isize - sizes[x] as isize,
        });
        Self::new(&walked, others, &source, &indices, picks.collect())
    }

    /// The locations of elements at indices along an axis, as [`crate::ops::take_along_axis`] has
    /// them. `others` are strides over the indices' axes.
    pub fn along_axis(
        (shape, strides): Strided<'_>,
        (index_shape, indices): Strided<'_>,
        axis: usize,
        others: &[&[isize]],
    ) -> Locations {
        let mut source = strides.to_vec();
        source[axis] = 0;
        let pick =
            Pick { size: shape[axis], stride: strides[axis], last: shape[axis] as isize - 1 };
        let picks = SmallVec::from_iter([pick]);
        Self::new(index_shape, others, &source, &[indices.to_vec()], picks)
    }

    fn new(
        shape: &[usize],
        others: &[&[isize]],
        source: &[isize],
        indices: &[Vec<isize>],
        picks: SmallVec<[Pick; 2]>,
    ) -> Locations {
        let mut operands: SmallVec<[&[isize]; 6]> = others.into();
        operands.push(source);
        operands.extend(indices.iter().map(Vec::as_slice));
        let mut strides: SmallVec<[Strides; 4]> = operands.iter().map(|_| Strides::new()).collect();
        let shape = collapse_into(shape, &operands, &mut strides);
        Locations { shape, strides, picks }
    }

    /// Elements of the walk.
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// How many operands stand before the indexed array.
    pub fn others(&self) -> usize {
        self.strides.len() - 1 - self.picks.len()
    }

    /// Number of neighbours that every operand but the indices has along the last axis, while the
    /// indices stand still; 1 if there are none.
    pub fn run(&self) -> usize {
        let last = self.shape.len() - 1;
        let (moving, still) = self.strides.split_at(self.others() + 1);
        let dense = moving.iter().all(|s| s[last] == 1) && still.iter().all(|s| s[last] == 0);
        if dense { self.shape[last] } else { 1 }
    }

    /// The same walk in words of `ratio` neighbours along the last axis, which
    /// [`Locations::run`] says there are; `None` if something is not a multiple of it.
    pub fn in_words(&self, ratio: usize) -> Option<Locations> {
        let whole = |stride: isize| stride % ratio as isize == 0;
        let last = self.shape.len() - 1;
        let (moving, _) = self.strides.split_at(self.others() + 1);
        let fits = self.run().is_multiple_of(ratio)
            && moving.iter().all(|s| s[..last].iter().all(|&s| whole(s)))
            && self.picks.iter().all(|p| whole(p.stride));
        if !fits {
            return None;
        }
        let mut words = self.clone();
        words.shape[last] /= ratio;
        for strides in &mut words.strides[..self.others() + 1] {
            strides[..last].iter_mut().for_each(|s| *s /= ratio as isize);
        }
        words.picks.iter_mut().for_each(|p| p.stride /= ratio as isize);
        Some(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_walk_indices_then_rows() {
        // Rows of a (10, 8) array at 4 indices into a dense (4, 8).
        let locations =
            Locations::of_slices((&[10, 8], &[8, 1]), &[4], &[&[1]], &[0], &[1, 8], &[&[8, 8, 1]]);
        assert_eq!(locations.shape.as_slice(), [4, 8]);
        assert_eq!(locations.strides[0].as_slice(), [8, 1]);
        assert_eq!(locations.strides[1].as_slice(), [0, 1]);
        assert_eq!(locations.strides[2].as_slice(), [1, 0]);
        assert_eq!(locations.picks[0], Pick { size: 10, stride: 8, last: 9 });
        assert_eq!((locations.count(), locations.others(), locations.run()), (32, 1, 8));
        let words = locations.in_words(4).expect("everything is a multiple of 4");
        assert_eq!((words.shape.as_slice(), words.picks[0].stride), (&[4, 2][..], 2));
        assert!(locations.in_words(16).is_none());
    }

    #[test]
    fn single_elements_are_one_axis() {
        let locations =
            Locations::of_slices((&[9], &[1]), &[2, 3], &[&[3, 1]], &[0], &[1], &[&[3, 1, 1]]);
        assert_eq!((locations.shape.as_slice(), locations.run()), (&[6][..], 1));
        let along = Locations::along_axis((&[3, 5], &[5, 1]), (&[3, 2], &[2, 1]), 1, &[]);
        assert_eq!(along.strides[0].as_slice(), [5, 0]);
    }
}
