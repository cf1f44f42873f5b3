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
    use super::*;

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

    #[test]
    fn random_use_never_overlaps_and_ends_whole() {
        let mut r = Ranges::new(1 << 16);
        let mut held: Vec<(u64, u64)> = Vec::new();
        let mut state = 12345u64;
        for _ in 0..4000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            let x = state >> 33;
            if x.is_multiple_of(3) && !held.is_empty() {
                let (o, s) = held.swap_remove((x / 3) as usize % held.len());
                r.give(o, s);
            } else if let Some(o) = r.take(1 + x % 700) {
                let s = 1 + x % 700;
                assert!(o + s <= 1 << 16 && held.iter().all(|&(p, t)| o + s <= p || p + t <= o));
                held.push((o, s));
            }
        }
        held.into_iter().for_each(|(o, s)| r.give(o, s));
        assert!(r.is_unused());
    }
}
