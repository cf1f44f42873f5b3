//! How rows of elements are shared out among threads and workgroups.

use mlx_vulkan_core::{Shape, Strides};

use crate::kernels::{Capabilities, layouts::reduce, strided::Walk};

/// Rows and what each is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rows {
    /// Over the first elements of the rows.
    pub(crate) rows: Walk<1>,
    /// Over the elements of a row.
    pub(crate) row: Walk<1>,
    /// From the array's first element to that of the first row, in elements.
    pub(crate) first: isize,
}

impl Rows {
    /// Splits an array into rows over `axes`. Elements of a row may come in any order, so the axes
    /// are sorted and turned around for long runs of neighbours.
    pub(crate) fn new(shape: &[usize], strides: &[isize], axes: &[usize]) -> Rows {
        let pick = |axes: &[usize]| {
            let shape: Shape = axes.iter().map(|&x| shape[x]).collect();
            let strides: Strides = axes.iter().map(|&x| strides[x]).collect();
            (shape, strides)
        };
        let kept: Vec<usize> = (0..shape.len()).filter(|x| !axes.contains(x)).collect();
        let mut reduced = axes.to_vec();
        reduced.sort_by_key(|&x| std::cmp::Reverse(strides[x].unsigned_abs()));
        let (kept_shape, kept_strides) = pick(&kept);
        let (row_shape, mut row_strides) = pick(&reduced);
        let mut first = 0;
        for (stride, &dim) in row_strides.iter_mut().zip(&row_shape) {
            if *stride < 0 {
                first += (dim.max(1) - 1) as isize * *stride;
                *stride = -*stride;
            }
        }
        Rows {
            rows: Walk::new(&kept_shape, [&kept_strides]),
            row: Walk::new(&row_shape, [&row_strides]),
            first,
        }
    }

    /// Elements of a row.
    pub(crate) fn length(&self) -> u64 {
        self.row.count()
    }

    /// Number of rows.
    pub(crate) fn count(&self) -> u64 {
        self.rows.count()
    }

    /// How the elements of a row lie.
    pub(crate) fn mode(&self) -> Mode {
        match (self.row.ndim(), self.row.strides[0][0]) {
            (1, 1) => Mode::Contiguous,
            (1, _) if self.length() <= 1 => Mode::Contiguous,
            (1, _) => Mode::OneStride,
            _ => Mode::Walk,
        }
    }

    /// Rows whose elements lie beside each other in one word of 16 bytes, wherever in a row: 1 if not all do.
    pub(crate) fn columns(&self, size: usize, aligned: bool) -> u64 {
        let word = (16 / size) as isize;
        let whole = |&stride: &isize| stride % word == 0;
        let (rows, row) = (&self.rows, &self.row);
        let Some((&1, outer)) = rows.strides[0].split_last() else { return 1 };
        let fits = aligned
            && self.lie_side_by_side()
            && matches!(size, 2 | 4)
            && rows.shape.last().is_some_and(|&last| last as isize % word == 0)
            && outer.iter().chain(&row.strides[0]).all(whole);
        if fits { word as u64 } else { 1 }
    }

    /// Whether neighbours in memory belong to different rows.
    pub(crate) fn lie_side_by_side(&self) -> bool {
        let last = |walk: &Walk<1>| walk.strides[0].last().map_or(0, |s| s.unsigned_abs());
        self.count() > 1 && last(&self.rows) != 0 && last(&self.rows) < last(&self.row)
    }
}

/// How the elements of a row lie: the `MODE` constant of `reduce.comp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Mode {
    /// Neighbours in memory.
    Contiguous = reduce::CONTIGUOUS,
    /// All one stride apart.
    OneStride = reduce::ONE_STRIDE,
    /// Over several axes.
    Walk = reduce::WALK,
}

/// How many threads and workgroups share a row; see `rows.glsl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReducePlan {
    /// Threads of a workgroup.
    pub(crate) group: u32,
    /// Threads that share a row: a power of two.
    pub(crate) team: u32,
    /// Neighbouring threads belong to neighbouring rows.
    pub(crate) across: bool,
    /// Parts of a row.
    pub(crate) splits: u64,
    /// Elements of a part, or words, but for the last.
    pub(crate) chunk: u64,
    /// Neighbouring rows that a thread takes together and that count as one.
    pub(crate) columns: u64,
}

/// Elements of a row, and of all rows, up to which one pass takes rows that lie side by side, such as parts
/// of longer ones.
const SHORT: u64 = 1056;
const FEW: u64 = 1 << 17;

/// Words side by side that a thread takes at least, before rows have parts that their own kernel joins.
const WORDS: u64 = 8;

impl ReducePlan {
    /// Rows (or parts of rows) that a workgroup works on at a time.
    pub(crate) fn teams(&self) -> u64 {
        u64::from(self.group / self.team)
    }

    /// Chooses for `count` rows of `length` elements of which `word` are loaded at once.
    pub(crate) fn new(
        caps: &Capabilities,
        count: u64,
        length: u64,
        word: u64,
        across: bool,
    ) -> ReducePlan {
        let group = group(caps);
        let wanted = wanted_groups(caps);
        // Side by side, as many rows as a cache line has words, but of short ones as many as a quarter has,
        // so that they need no second pass; otherwise a row may have all.
        let short = across && length <= SHORT && count * length <= FEW;
        let beside = u64::from(group.min(if short { 8 } else { 32 }));
        let most = match across {
            true => group / (count.next_power_of_two().min(beside) as u32),
            false => group,
        };
        // Four words of a row are loaded at a time.
        let per_thread = if across { 16 } else { 4 * word };
        let lanes = length.div_ceil(per_thread).max(1).next_power_of_two();
        let mut team = lanes.min(u64::from(most)) as u32;
        while team < most
            && count * u64::from(team) < wanted * u64::from(group)
            && u64::from(team) * word < length
        {
            team *= 2;
        }
        let groups = count.div_ceil(u64::from(group / team)).max(1);
        // A second pass is worth its dispatch only if every thread has some words to read. If there is one,
        // more of them fill the device sooner (argmax of 151,936 elements on an H200).
        let splits_of =
            |words: u64| (wanted / groups).min(length / (u64::from(team) * word * words));
        let splits = if splits_of(8) > 1 && !short { splits_of(2) } else { 1 };
        let chunk = length.div_ceil(splits).next_multiple_of(64);
        let splits = length.div_ceil(chunk.max(1)).max(1);
        ReducePlan { group, team, across, splits, chunk, columns: 1 }
    }

    /// Chooses for `count` rows of `length` words of so many elements, which lie side by side and whose parts
    /// are joined by whichever workgroup ends last.
    pub(crate) fn of_words(
        caps: &Capabilities,
        count: u64,
        length: u64,
        elements: usize,
    ) -> ReducePlan {
        let group = group(caps);
        // As many rows side by side as a cache line has words.
        let beside = if elements > 1 { 8 } else { 32 };
        let most = group / count.next_power_of_two().min(beside).min(u64::from(group)) as u32;
        let lanes = length.div_ceil(WORDS).max(1).next_power_of_two();
        let mut team = lanes.min(u64::from(most)) as u32;
        let wanted = wanted_groups(caps);
        while team < most
            && count * u64::from(team) < wanted * u64::from(group)
            && u64::from(team) < length
        {
            team *= 2;
        }
        // Workgroups that are at work at once: each that comes later has to begin and to end.
        let at_once = if caps.quirks.few_workgroups { wanted } else { wanted * 3 / 8 };
        let groups = count.div_ceil(u64::from(group / team)).max(1);
        let splits = (at_once / groups).min(length / (u64::from(team) * WORDS)).max(1);
        let chunk = length.div_ceil(splits).next_multiple_of(u64::from(team));
        let splits = length.div_ceil(chunk.max(1)).max(1);
        ReducePlan { group, team, across: true, splits, chunk, columns: 1 }
    }
}

/// Threads of a workgroup for kernels over rows.
pub(crate) fn group(caps: &Capabilities) -> u32 {
    let wanted = if caps.quirks.few_workgroups { 64 } else { 256 };
    wanted.min(1 << caps.max_workgroup.ilog2())
}

/// Workgroups that keep the whole device busy.
pub(crate) fn wanted_groups(caps: &Capabilities) -> u64 {
    let units = u64::from(caps.compute_units.max(1));
    if caps.quirks.few_workgroups { units * 2 } else { units * 8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_find_runs_of_neighbours() {
        let all = Rows::new(&[4, 8, 16], &[128, 16, 1], &[0, 1, 2]);
        assert_eq!((all.count(), all.length(), all.mode()), (1, 512, Mode::Contiguous));
        let outer = Rows::new(&[4, 8, 16], &[128, 16, 1], &[0, 2]);
        assert_eq!((outer.count(), outer.mode()), (8, Mode::Walk));
        assert!(!outer.lie_side_by_side());
        let columns = Rows::new(&[64, 16], &[16, 1], &[0]);
        assert_eq!(columns.mode(), Mode::OneStride);
        assert!(columns.lie_side_by_side());
        let reversed = Rows::new(&[2, 5], &[-5, -1], &[0, 1]);
        assert_eq!((reversed.mode(), reversed.first), (Mode::Contiguous, -9));
        let transposed = Rows::new(&[8, 4], &[1, 8], &[0, 1]);
        assert_eq!(transposed.mode(), Mode::Contiguous);
    }

    #[test]
    fn columns_of_a_word_go_together() {
        let columns = |shape: &[usize], strides: &[isize], axes: &[usize], size| {
            Rows::new(shape, strides, axes).columns(size, true)
        };
        assert_eq!(columns(&[64, 16], &[16, 1], &[0], 2), 8);
        assert_eq!(columns(&[64, 16], &[16, 1], &[0], 4), 4);
        assert_eq!(columns(&[64, 16], &[16, 1], &[0], 8), 1);
        assert_eq!(columns(&[64, 12], &[12, 1], &[0], 2), 1);
        assert_eq!(columns(&[64, 16], &[20, 1], &[0], 2), 1);
        assert_eq!(columns(&[4, 64, 16], &[1024, 16, 1], &[1], 2), 8);
        assert_eq!(columns(&[4, 64, 16], &[1024, 16, 1], &[2], 2), 1);
        assert_eq!(Rows::new(&[64, 16], &[16, 1], &[0]).columns(2, false), 1);
    }

    #[test]
    fn plans_fill_the_device() {
        let gpu = Capabilities { compute_units: 132, ..Capabilities::default() };
        let all = ReducePlan::new(&gpu, 1, 1 << 28, 4, false);
        assert_eq!((all.team, all.splits), (256, 1056));
        assert!(all.splits * all.chunk >= 1 << 28);
        let rows = ReducePlan::new(&gpu, 8192, 8192, 4, false);
        assert_eq!((rows.team, rows.splits), (256, 1));
        let short = ReducePlan::new(&gpu, 1 << 20, 3, 4, false);
        assert_eq!((short.team, short.splits), (1, 1));
        let columns = ReducePlan::new(&gpu, 8192, 8192, 1, true);
        assert_eq!((columns.team, columns.splits), (8, 4));
        let few = ReducePlan::new(&gpu, 3, 1 << 24, 1, true);
        assert!(few.team == 64 && few.splits > 500);
        let nothing = ReducePlan::new(&gpu, 5, 0, 4, false);
        assert_eq!((nothing.team, nothing.splits), (1, 1));
    }

    #[test]
    fn words_side_by_side_are_a_cache_line() {
        let gpu = Capabilities { compute_units: 132, ..Capabilities::default() };
        let plan = |count, length| {
            let plan = ReducePlan::of_words(&gpu, count, length, 8);
            assert!(plan.splits * plan.chunk >= length && (plan.splits - 1) * plan.chunk < length);
            (plan.team, plan.splits)
        };
        assert_eq!(plan(8, 1 << 18), (32, 391));
        assert_eq!(plan(64, 1 << 12), (32, 16));
        assert_eq!(plan(1, 1 << 20), (256, 373));
        assert_eq!(plan(1 << 20, 24), (4, 1));
        assert_eq!(plan(3, 2), (2, 1));
    }

    #[test]
    fn plans_for_software_use_few_groups() {
        let mut cpu = Capabilities { compute_units: 2, ..Capabilities::default() };
        cpu.quirks.few_workgroups = true;
        let all = ReducePlan::new(&cpu, 1, 1 << 20, 4, false);
        assert_eq!((all.group, all.splits), (64, 4));
    }
}
