//! Sets of the operations in a window, as bits.

/// Most operations in a window.
pub(crate) const CAPACITY: usize = 192;

const WORDS: usize = CAPACITY / 64;

/// A set of numbers below [`CAPACITY`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Set([u64; WORDS]);

impl Set {
    /// The set of one number.
    pub(crate) fn of(i: usize) -> Self {
        let mut set = Set::default();
        set.insert(i);
        set
    }

    pub(crate) fn insert(&mut self, i: usize) {
        self.0[i / 64] |= 1 << (i % 64);
    }

    pub(crate) fn contains(&self, i: usize) -> bool {
        self.0[i / 64] >> (i % 64) & 1 == 1
    }

    pub(crate) fn add(&mut self, other: &Set) {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a |= b);
    }

    pub(crate) fn without(mut self, other: &Set) -> Set {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a &= !b);
        self
    }

    pub(crate) fn meets(&self, other: &Set) -> bool {
        self.0.iter().zip(other.0).any(|(a, b)| a & b != 0)
    }

    pub(crate) fn is_within(&self, other: &Set) -> bool {
        self.0.iter().zip(other.0).all(|(a, b)| a & !b == 0)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// The numbers, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + use<> {
        let words = self.0;
        (0..WORDS).flat_map(move |w| {
            let mut left = words[w];
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros() as usize;
                left &= left.wrapping_sub(1);
                (bit < 64).then_some(w * 64 + bit)
            })
        })
    }

    /// The only number, if there is exactly one.
    pub(crate) fn only(&self) -> Option<usize> {
        let mut all = self.iter();
        all.next().filter(|_| all.next().is_none())
    }
}

impl FromIterator<usize> for Set {
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Self {
        let mut set = Set::default();
        numbers.into_iter().for_each(|i| set.insert(i));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_numbers_of_every_word() {
        let set: Set = [0, 63, 64, 100, 127].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 63, 64, 100, 127]);
        assert_eq!((set.len(), set.only()), (5, None));
        assert_eq!(Set::of(120).only(), Some(120));
        assert!(set.contains(64) && !set.contains(65));
        let other: Set = [64, 65].into_iter().collect();
        assert!(set.meets(&other) && !set.without(&other).meets(&other));
        assert!(Set::of(64).is_within(&set) && !other.is_within(&set));
    }
}
