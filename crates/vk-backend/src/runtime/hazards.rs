//! Which memory the dispatches since the last barrier have read and written.
//!
//! A pure data structure: it sees addresses only, so it is tested without a device. A dispatch
//! that overlaps earlier accesses in a way that matters (read after write, write after write,
//! write after read) needs a barrier; the barrier is global, so it forgets everything before it.

/// A range of device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Region {
    /// Address of the first byte.
    pub address: u64,
    /// Number of bytes; 0 touches nothing.
    pub bytes: u64,
}

impl Region {
    /// The address past the last byte.
    pub(crate) fn end(self) -> u64 {
        self.address.saturating_add(self.bytes)
    }

    /// Whether both ranges share a byte.
    pub(crate) fn overlaps(self, other: Region) -> bool {
        self.address < other.end() && other.address < self.end()
    }
}

/// Disjoint intervals in ascending order; neighbours that touch are merged.
#[derive(Debug, Default)]
struct Intervals(Vec<(u64, u64)>);

impl Intervals {
    fn overlaps(&self, region: Region) -> bool {
        if region.bytes == 0 {
            return false;
        }
        if self.0.last().is_none_or(|&(_, end)| end <= region.address) {
            return false;
        }
        let at = self.0.partition_point(|&(_, end)| end <= region.address);
        self.0.get(at).is_some_and(|&(start, _)| start < region.end())
    }

    fn insert(&mut self, region: Region) {
        if region.bytes == 0 {
            return;
        }
        let (mut start, mut end) = (region.address, region.end());
        // Memory is often handed out in ascending order.
        if self.0.last().is_none_or(|&(_, e)| e < start) {
            return self.0.push((start, end));
        }
        let first = self.0.partition_point(|&(_, e)| e < start);
        let mut last = first;
        while last < self.0.len() && self.0[last].0 <= end {
            start = start.min(self.0[last].0);
            end = end.max(self.0[last].1);
            last += 1;
        }
        if last == first {
            self.0.insert(first, (start, end));
        } else {
            self.0[first] = (start, end);
            self.0.drain(first + 1..last);
        }
    }
}

/// Accesses since the last barrier.
#[derive(Debug, Default)]
pub(crate) struct Hazards {
    reads: Intervals,
    writes: Intervals,
    /// Something may have touched any memory.
    all: bool,
}

impl Hazards {
    /// A tracker that has seen nothing.
    pub(crate) fn new() -> Self {
        Hazards {
            reads: Intervals(Vec::with_capacity(256)),
            writes: Intervals(Vec::with_capacity(256)),
            all: false,
        }
    }

    /// Records a dispatch and says whether a barrier must come before it.
    pub(crate) fn access(&mut self, reads: &[Region], writes: &[Region]) -> bool {
        let barrier = self.all
            || reads.iter().any(|&r| self.writes.overlaps(r))
            || writes.iter().any(|&w| self.writes.overlaps(w) || self.reads.overlaps(w));
        if barrier {
            self.clear();
        }
        reads.iter().for_each(|&r| self.reads.insert(r));
        writes.iter().for_each(|&w| self.writes.insert(w));
        barrier
    }

    /// The same for a dispatch that may touch any memory.
    pub(crate) fn access_all(&mut self) -> bool {
        let barrier = self.all || !(self.reads.0.is_empty() && self.writes.0.is_empty());
        self.clear();
        self.all = true;
        barrier
    }

    /// A barrier was recorded: nothing before it matters any more.
    pub(crate) fn clear(&mut self) {
        self.reads.0.clear();
        self.writes.0.clear();
        self.all = false;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::runtime::cases;

    fn region(address: u64, bytes: u64) -> Region {
        Region { address, bytes }
    }

    #[test]
    fn the_three_hazards_need_a_barrier_and_reads_do_not() {
        let (a, b) = (region(0, 16), region(16, 16));
        let mut hazards = Hazards::new();
        assert!(!hazards.access(&[a], &[b]));
        assert!(!hazards.access(&[a], &[region(32, 4)]), "read after read");
        assert!(hazards.access(&[b], &[region(64, 4)]), "read after write");
        assert!(hazards.access(&[], &[b]), "write after read");
        assert!(hazards.access(&[], &[region(20, 1)]), "write after write");
        assert!(!hazards.access(&[region(16, 4)], &[]), "forgotten by the barrier before");
    }

    #[test]
    fn touching_ranges_and_empty_ranges_do_not_overlap() {
        let mut hazards = Hazards::new();
        assert!(!hazards.access(&[], &[region(16, 16)]));
        assert!(!hazards.access(&[region(0, 16), region(32, 16), region(20, 0)], &[]));
    }

    /// A dispatch may read and write the same memory itself (donation).
    #[test]
    fn own_reads_do_not_conflict_with_own_writes() {
        let mut hazards = Hazards::new();
        assert!(!hazards.access(&[region(0, 8)], &[region(0, 8)]));
        assert!(hazards.access(&[region(0, 8)], &[region(0, 8)]));
    }

    /// Brute force: remember every access since the last barrier, compare all pairs.
    #[derive(Default)]
    struct Model {
        reads: Vec<Region>,
        writes: Vec<Region>,
    }

    impl Model {
        fn access(&mut self, reads: &[Region], writes: &[Region]) -> bool {
            let hit = |seen: &[Region], new: &[Region]| {
                seen.iter()
                    .any(|&s| new.iter().any(|&n| s.bytes > 0 && n.bytes > 0 && s.overlaps(n)))
            };
            let barrier =
                hit(&self.writes, reads) || hit(&self.writes, writes) || hit(&self.reads, writes);
            if barrier {
                *self = Model::default();
            }
            self.reads.extend_from_slice(reads);
            self.writes.extend_from_slice(writes);
            barrier
        }
    }

    /// Regions that overlap often, sometimes, and hardly ever; some are empty, some touch.
    fn dispatches() -> impl Strategy<Value = Vec<(Vec<Region>, Vec<Region>)>> {
        prop_oneof![Just(40u64), Just(400), Just(4000)].prop_flat_map(|span| {
            let region = (0..span, 0u64..24).prop_map(|(address, bytes)| region(address, bytes));
            let reads = prop::collection::vec(region.clone(), 0..5);
            prop::collection::vec((reads, prop::collection::vec(region, 0..3)), 1..120)
        })
    }

    proptest! {
        #![proptest_config(cases(300))]

        /// A barrier stands exactly where a dispatch overlaps what came since the last one.
        #[test]
        fn barriers_are_those_of_the_model(dispatches in dispatches()) {
            let (mut hazards, mut model) = (Hazards::new(), Model::default());
            for (step, (reads, writes)) in dispatches.iter().enumerate() {
                let (got, want) = (hazards.access(reads, writes), model.access(reads, writes));
                prop_assert_eq!(got, want, "{}: {:?} -> {:?}", step, reads, writes);
            }
        }
    }
}
