//! Free ranges of one block: best fit, merged with their neighbours when freed. Pure data.

use std::collections::{BTreeMap, BTreeSet};

/// The free ranges of a block.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    total: u64,
    by_offset: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
}

impl Ranges {
    /// A block of `total` free bytes.
    pub(super) fn new(total: u64) -> Self {
        let mut ranges = Ranges { total, ..Ranges::default() };
        ranges.insert(0, total);
        ranges
    }

    /// Takes `bytes` from the smallest range that has them.
    pub(super) fn take(&mut self, bytes: u64) -> Option<u64> {
        let &(size, offset) = self.by_size.range((bytes, 0)..).next()?;
        self.remove(offset, size);
        if size > bytes {
            self.insert(offset + bytes, size - bytes);
        }
        Some(offset)
    }

    /// Gives back a range that was taken.
    pub(super) fn give(&mut self, offset: u64, bytes: u64) {
        let (mut start, mut size) = (offset, bytes);
        if let Some((&before, &len)) = self.by_offset.range(..offset).next_back() {
            debug_assert!(before + len <= offset, "freed twice");
            if before + len == offset {
                self.remove(before, len);
                (start, size) = (before, size + len);
            }
        }
        if let Some(&len) = self.by_offset.get(&(offset + bytes)) {
            self.remove(offset + bytes, len);
            size += len;
        }
        self.insert(start, size);
    }

    /// Whether nothing is taken.
    pub(super) fn is_unused(&self) -> bool {
        self.by_offset.get(&0) == Some(&self.total)
    }

    fn insert(&mut self, offset: u64, bytes: u64) {
        self.by_offset.insert(offset, bytes);
        self.by_size.insert((bytes, offset));
    }

    fn remove(&mut self, offset: u64, bytes: u64) {
        self.by_offset.remove(&offset);
        self.by_size.remove(&(bytes, offset));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::runtime::cases;

    #[test]
    fn takes_best_fit_and_merges() {
        let mut r = Ranges::new(1000);
        let (a, b, c) = (r.take(100).unwrap(), r.take(300).unwrap(), r.take(100).unwrap());
        assert_eq!((a, b, c), (0, 100, 400));
        r.give(a, 100);
        assert_eq!(r.take(60), Some(0), "the hole of 100 fits better than the tail of 500");
        r.give(0, 60);
        r.give(c, 100);
        assert!(!r.is_unused());
        r.give(b, 300);
        assert!(r.is_unused());
        assert_eq!(r.take(1001), None);
        assert_eq!(r.take(1000), Some(0));
    }

    const TOTAL: u64 = 1 << 14;

    proptest! {
        #![proptest_config(cases(200))]

        /// Against the list of what is held: nothing overlaps, what fits is given, and neighbours merge.
        #[test]
        fn ranges_that_are_held_never_overlap(
            steps in prop::collection::vec((any::<bool>(), 1u64..700, any::<prop::sample::Index>()), 1..200),
        ) {
            let mut ranges = Ranges::new(TOTAL);
            let mut held: Vec<(u64, u64)> = Vec::new();
            for (take, bytes, which) in steps {
                if !take && !held.is_empty() {
                    let (offset, bytes) = held.swap_remove(which.index(held.len()));
                    ranges.give(offset, bytes);
                } else {
                    let fits = holes(&held).any(|hole| hole >= bytes);
                    let offset = ranges.take(bytes);
                    prop_assert_eq!(offset.is_some(), fits, "{} bytes beside {:?}", bytes, held);
                    held.extend(offset.map(|offset| (offset, bytes)));
                }
                let mut ordered = held.clone();
                ordered.sort_unstable();
                prop_assert!(ordered.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0), "{:?}", ordered);
                prop_assert!(ordered.last().is_none_or(|&(offset, bytes)| offset + bytes <= TOTAL));
                prop_assert_eq!(ranges.is_unused(), held.is_empty());
            }
        }
    }

    /// Sizes of what lies between the ranges that are held.
    fn holes(held: &[(u64, u64)]) -> impl Iterator<Item = u64> {
        let mut edges: Vec<(u64, u64)> = held.to_vec();
        edges.push((TOTAL, 0));
        edges.sort_unstable();
        let mut end = 0;
        edges.into_iter().map(move |(offset, bytes)| {
            let hole = offset - end;
            end = offset + bytes;
            hole
        })
    }
}
