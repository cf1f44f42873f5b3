//! Who depends on whom in a window, found from the memory that each operation reads and writes.
//!
//! A pure data structure over addresses, like the hazard tracker, and tested like it. Memory that
//! nobody in the window writes (weights) makes no dependency and costs one search.

use smallvec::SmallVec;

use super::set::{CAPACITY, Set};
use crate::hazards::Region;

/// What an operation touches.
pub(crate) trait Accesses {
    fn reads(&self) -> &[Region];
    fn writes(&self) -> &[Region];
}

const NOBODY: u16 = u16::MAX;

/// A piece of memory that every write of the window covers whole or not at all.
struct Segment {
    start: u64,
    end: u64,
    writer: u16,
    readers: Set,
}

/// One operation's place in the window.
#[derive(Clone, Default)]
struct Node {
    /// Everything that must run before, directly or not. Members of a group are in each other's.
    before: Set,
    /// What must run right before.
    after: Set,
    /// Operations that read what it wrote.
    readers: Set,
    /// For every read: the operation that wrote all of it, if one did.
    sources: SmallVec<[u16; 6]>,
    /// Something that it wrote is still there at the end of the window.
    remains: bool,
}

/// The dependencies of a window's operations.
pub(crate) struct Graph {
    nodes: Vec<Node>,
    /// The group of an operation: its first member.
    leaders: Vec<u16>,
}

impl Graph {
    /// Reads the dependencies off `operations`, which are at most [`CAPACITY`] and in an order
    /// that would be right one by one.
    pub(crate) fn new<A: Accesses>(operations: &[A]) -> Self {
        debug_assert!(operations.len() <= CAPACITY);
        let mut segments = segments(operations);
        let mut nodes = vec![Node::default(); operations.len()];
        for (i, operation) in operations.iter().enumerate() {
            let mut direct = Set::default();
            for read in operation.reads() {
                let source = note_read(&mut segments, *read, i, &mut direct, &mut nodes);
                nodes[i].sources.push(source);
            }
            for write in operation.writes() {
                for segment in overlapping(&mut segments, *write) {
                    direct.add(&segment.readers);
                    if segment.writer != NOBODY {
                        direct.insert(segment.writer.into());
                    }
                    segment.writer = i as u16;
                    segment.readers = Set::default();
                }
            }
            direct = direct.without(&Set::of(i));
            let mut before = direct;
            direct.iter().for_each(|d| before.add(&nodes[d].before));
            (nodes[i].before, nodes[i].after) = (before, direct);
        }
        for segment in segments.iter().filter(|s| s.writer != NOBODY) {
            nodes[usize::from(segment.writer)].remains = true;
        }
        Graph { leaders: (0..operations.len() as u16).collect(), nodes }
    }

    /// The operation that wrote all of what `i` reads as its `read`-th operand.
    pub(crate) fn source(&self, i: usize, read: usize) -> Option<usize> {
        let found = *self.nodes[i].sources.get(read)?;
        (found != NOBODY).then_some(found.into())
    }

    /// The operations that read what `i` wrote.
    pub(crate) fn readers(&self, i: usize) -> &Set {
        &self.nodes[i].readers
    }

    /// Whether something that `i` wrote is there when the window ends.
    pub(crate) fn remains(&self, i: usize) -> bool {
        self.nodes[i].remains
    }

    /// Makes one operation of several, unless something outside would have to run between them.
    pub(crate) fn join(&mut self, group: &Set) -> bool {
        let mut all = *group;
        group.iter().for_each(|g| all.add(&self.nodes[g].before));
        let between = |n: usize| self.nodes[n].before.meets(group);
        if all.without(group).iter().any(between) {
            return false;
        }
        let Some(leader) = group.iter().next() else { return true };
        for n in 0..self.nodes.len() {
            if group.contains(n) {
                self.leaders[n] = leader as u16;
                self.nodes[n].before = all;
            } else if self.nodes[n].before.meets(group) {
                self.nodes[n].before.add(&all);
            }
        }
        true
    }

    /// The operations from `first` on, and those that must run after one of them or belong to the
    /// same group.
    pub(crate) fn needs(&self, first: usize) -> Set {
        let tail: Set = (first..self.nodes.len()).collect();
        let stays = |i: &usize| *i >= first || self.nodes[*i].before.meets(&tail);
        (0..self.nodes.len()).filter(stays).collect()
    }

    /// An order with as few barriers as there are links in the longest chain: the first members of
    /// the groups, by their distance from the start.
    pub(crate) fn order(&self) -> Vec<usize> {
        let mut sorted: Vec<(usize, usize)> =
            (0..self.nodes.len()).map(|i| (self.nodes[i].before.len(), i)).collect();
        sorted.sort_unstable();
        let mut levels = vec![0usize; self.nodes.len()];
        // Ancestors have fewer ancestors; members of a group have the same number.
        for run in sorted.chunk_by(|a, b| a.0 == b.0) {
            for &(_, i) in run {
                let leader = usize::from(self.leaders[i]);
                let own = self.nodes[i].after.iter();
                let others = own.map(|d| usize::from(self.leaders[d])).filter(|&d| d != leader);
                let level = others.map(|d| levels[d] + 1).max().unwrap_or(0);
                levels[leader] = levels[leader].max(level);
            }
        }
        let leads = |i: &usize| usize::from(self.leaders[*i]) == *i;
        let mut order: Vec<usize> = (0..self.nodes.len()).filter(leads).collect();
        order.sort_by_key(|&i| levels[i]);
        order
    }
}

/// The pieces of memory that the operations write.
fn segments<A: Accesses>(operations: &[A]) -> Vec<Segment> {
    let writes = operations.iter().flat_map(|o| o.writes()).filter(|w| w.bytes > 0);
    let mut ends: Vec<(u64, i32)> = writes.flat_map(|w| [(w.address, 1), (w.end(), -1)]).collect();
    ends.sort_unstable();
    let mut open = 0;
    let mut found = Vec::with_capacity(ends.len());
    for pair in ends.windows(2) {
        open += pair[0].1;
        if open > 0 && pair[0].0 < pair[1].0 {
            let (start, end) = (pair[0].0, pair[1].0);
            found.push(Segment { start, end, writer: NOBODY, readers: Set::default() });
        }
    }
    found
}

fn overlapping(segments: &mut [Segment], region: Region) -> impl Iterator<Item = &mut Segment> {
    let first = segments.partition_point(|s| s.end <= region.address);
    let touched = move |s: &&mut Segment| s.start < region.end() && region.bytes > 0;
    segments[first..].iter_mut().take_while(touched)
}

/// Notes a read by `i`; returns the operation that wrote all of it.
fn note_read(
    segments: &mut [Segment],
    region: Region,
    i: usize,
    direct: &mut Set,
    nodes: &mut [Node],
) -> u16 {
    let (mut covered, mut source) = (region.address, None);
    for segment in overlapping(segments, region) {
        segment.readers.insert(i);
        if segment.writer != NOBODY {
            direct.insert(segment.writer.into());
            nodes[usize::from(segment.writer)].readers.insert(i);
        }
        let whole = segment.start <= covered && source.is_none_or(|s| s == segment.writer);
        source = Some(if whole { segment.writer } else { NOBODY });
        covered = if whole { segment.end } else { u64::MAX };
    }
    source.filter(|_| covered != u64::MAX && covered >= region.end()).unwrap_or(NOBODY)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Op(Vec<Region>, Vec<Region>);

    impl Accesses for Op {
        fn reads(&self) -> &[Region] {
            &self.0
        }
        fn writes(&self) -> &[Region] {
            &self.1
        }
    }

    fn op(reads: &[(u64, u64)], writes: &[(u64, u64)]) -> Op {
        let regions = |list: &[(u64, u64)]| {
            list.iter().map(|&(address, bytes)| Region { address, bytes }).collect()
        };
        Op(regions(reads), regions(writes))
    }

    #[test]
    fn values_know_their_source_and_readers() {
        let ops = [
            op(&[(0, 8)], &[(100, 8)]),
            op(&[(100, 8), (500, 8)], &[(200, 8)]),
            op(&[(100, 4)], &[(300, 8)]),
            op(&[(200, 8), (300, 8)], &[(100, 8)]),
        ];
        let graph = Graph::new(&ops);
        assert_eq!((graph.source(1, 0), graph.source(1, 1)), (Some(0), None));
        assert_eq!(graph.readers(0).iter().collect::<Vec<_>>(), [1, 2]);
        assert!(!graph.remains(0) && graph.remains(3), "the first value is overwritten");
        assert_eq!(graph.order(), [0, 1, 2, 3]);
    }

    #[test]
    fn a_read_of_two_values_has_no_single_source() {
        let ops = [op(&[], &[(0, 8)]), op(&[], &[(8, 8)]), op(&[(0, 16)], &[(100, 8)])];
        assert_eq!(Graph::new(&ops).source(2, 0), None);
        let ops = [op(&[], &[(0, 16)]), op(&[], &[(4, 4)]), op(&[(0, 16)], &[(100, 8)])];
        assert_eq!(Graph::new(&ops).source(2, 0), None);
        let ops = [op(&[], &[(4, 4)]), op(&[(0, 16)], &[(100, 8)])];
        assert_eq!(Graph::new(&ops).source(1, 0), None, "the rest is older than the window");
    }

    #[test]
    fn joining_needs_nothing_between_and_keeps_the_order() {
        // 0 -> 1 -> 2, 0 -> 2
        let ops = || {
            [
                op(&[], &[(0, 8)]),
                op(&[(0, 8)], &[(8, 8)]),
                op(&[(0, 8), (8, 8)], &[(16, 8)]),
                op(&[(24, 8)], &[(32, 8)]),
            ]
        };
        let mut graph = Graph::new(&ops());
        assert!(!graph.join(&[0, 2].into_iter().collect()), "1 would have to run inside");
        assert!(graph.join(&[1, 2].into_iter().collect()));
        assert_eq!(graph.order(), [0, 3, 1]);
        let mut graph = Graph::new(&ops());
        assert!(graph.join(&[0, 3].into_iter().collect()));
        assert_eq!(graph.order(), [0, 1, 2]);
    }

    #[test]
    fn two_groups_may_not_wait_for_each_other() {
        // 0 -> 3 and 1 -> 2: joining 0 with 2 leaves 1 before and 3 after; then 1 with 3 is a cycle.
        let ops = [
            op(&[], &[(0, 8)]),
            op(&[], &[(8, 8)]),
            op(&[(8, 8)], &[(16, 8)]),
            op(&[(0, 8)], &[(24, 8)]),
        ];
        let mut graph = Graph::new(&ops);
        assert!(graph.join(&[0, 2].into_iter().collect()));
        assert!(!graph.join(&[1, 3].into_iter().collect()));
        assert_eq!(graph.order(), [1, 0, 3]);
    }

    /// Independent work comes together: levels are as many as the longest chain has links.
    #[test]
    fn independent_work_shares_a_level() {
        let chain =
            |base: u64| (0..3).map(move |i| op(&[(base + i * 8, 8)], &[(base + (i + 1) * 8, 8)]));
        let ops: Vec<Op> = chain(0).chain(chain(1000)).collect();
        assert_eq!(Graph::new(&ops).order(), [0, 3, 1, 4, 2, 5]);
    }
}
