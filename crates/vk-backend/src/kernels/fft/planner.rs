//! Fourier transforms: how a length is split into passes, and passes into radices.

use smallvec::SmallVec;

use crate::runtime::capabilities::Capabilities;

/// Radices that the kernel has, besides 4 and 8.
const PRIMES: [usize; 6] = [13, 11, 7, 5, 3, 2];

/// How a transform of one length runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FftPlan {
    /// Passes of these lengths, whose product is the length.
    Passes(SmallVec<[usize; 4]>),
    /// As a convolution of this length, a power of two.
    Bluestein(usize),
}

/// Chooses passes of at most `most` elements; lengths with prime factors that the kernel has no radix
/// for become convolutions.
pub(crate) fn plan(n: usize, most: usize) -> FftPlan {
    match is_smooth(n) {
        true if n <= most => FftPlan::Passes(SmallVec::from_slice(&[n])),
        // Several lines at a time, since what is written is strided.
        true => FftPlan::Passes(passes(n, most.min(2048))),
        false => FftPlan::Bluestein((2 * n - 1).next_power_of_two()),
    }
}

fn is_smooth(mut n: usize) -> bool {
    for p in PRIMES {
        while n.is_multiple_of(p) {
            n /= p;
        }
    }
    n == 1
}

/// Factors of at most `most`, about equally large.
fn passes(n: usize, most: usize) -> SmallVec<[usize; 4]> {
    let mut out = SmallVec::new();
    let mut left = n;
    while left > most {
        let count = (left as f64).log(most as f64).ceil().max(2.0);
        let even = (left as f64).powf(1.0 / count) as usize;
        // The smallest divisor that is at least an equal share; else the largest that fits.
        let divides = |d: &usize| left.is_multiple_of(*d);
        let factor = (even..=most).find(divides).or_else(|| (1..=most).rev().find(divides));
        let factor = factor.expect("one divides every number");
        out.push(factor);
        left /= factor;
    }
    out.push(left);
    out
}

/// The radices of a pass as the kernel's constant: fields of four bits from the lowest up, 15 for 16.
pub(crate) fn radices(size: u32) -> u32 {
    let list = stages(size);
    list.iter().rev().fold(0, |packed, &r| packed << 4 | r.min(15))
}

/// The radices of a pass: at most seven, as the kernel has it, up to 4096 elements.
fn stages(mut n: u32) -> SmallVec<[u32; 8]> {
    if n == 1 {
        return SmallVec::from_slice(&[1]);
    }
    let twos = n.trailing_zeros();
    let mut list = even_twos(twos);
    n >>= twos;
    for p in PRIMES.map(|p| p as u32).into_iter().filter(|&p| p > 2) {
        while n.is_multiple_of(p) {
            list.push(p);
            n /= p;
        }
    }
    list
}

/// A power of two as few radices of about equal size, the largest first: all its stages keep as many
/// elements in registers.
fn even_twos(bits: u32) -> SmallVec<[u32; 8]> {
    let count = bits.div_ceil(4);
    (0..count).map(|i| 1 << ((bits + count - 1 - i) / count)).collect()
}

/// What of a pass a workgroup does at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    /// Threads.
    pub group: u32,
    /// Lines, a power of two.
    pub lines: u32,
}

/// Elements that a thread keeps in registers: a transform of radix 16, or several smaller ones. Drivers that
/// compile for the CPU take long for several, and longer for several stages of them.
fn items(caps: &Capabilities, size: u32) -> u32 {
    let radices = stages(size);
    match (caps.is_software(), radices.len()) {
        (false, _) => 16,
        (true, ..=2) => radices.into_iter().fold(2, u32::max),
        (true, _) => radices.into_iter().fold(16, u32::min),
    }
}

impl Block {
    /// Lines of `size` elements, neighbours in memory if `across`.
    pub(crate) fn new(caps: &Capabilities, size: u32, across: bool) -> Block {
        let wanted: u32 = if caps.is_software() { 256 } else { 4096 };
        // Side by side, four lines are a sector of 32 bytes at least.
        let least = if across { 4 } else { 1 };
        let mut lines = 1 << (wanted / size).clamp(least, 128).ilog2();
        while lines > 1 && shared_bytes(size, lines) > caps.shared_memory {
            lines /= 2;
        }
        let group = (size * lines).div_ceil(items(caps, size)).next_multiple_of(32);
        Block { group: group.min(caps.max_workgroup), lines }
    }
}

/// Bytes of shared memory: a number per element, padded as in `pass.comp`, and where the lines are.
fn shared_bytes(size: u32, lines: u32) -> u32 {
    let pitch = (size + size / 16).next_multiple_of(32) + (32 / lines).max(1);
    lines * (4 * pitch + 36)
}

/// The most elements of a pass: a line of them fits into shared memory.
pub(crate) fn longest_pass(shared_memory: u32) -> usize {
    let fits = |size: &usize| shared_bytes(*size as u32, 1) <= shared_memory;
    [4096, 2048, 1024].into_iter().find(fits).unwrap_or(512)
}

/// 2^64 / n, by which the kernel turns n-ths of a turn into a binary fraction; 0 for whole turns.
pub(crate) fn part_of_turn(n: u64) -> u64 {
    ((1u128 << 64) / u128::from(n)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_become_passes_of_what_fits() {
        let of = |n| match plan(n, 1024) {
            FftPlan::Passes(passes) => passes.to_vec(),
            FftPlan::Bluestein(m) => vec![0, m],
        };
        assert_eq!(of(1), [1]);
        assert_eq!(of(1024), [1024]);
        assert_eq!(of(4096), [64, 64]);
        assert_eq!(of(1 << 21), [128, 128, 128]);
        assert_eq!(of(17), [0, 64]);
        assert_eq!(of(2 * 4099), [0, 16384 * 2]);
        for n in [2002, 5000, 65536 * 3, 7 * 11 * 13 * 1000, 1 << 25] {
            let passes = of(n);
            assert_eq!(passes.iter().product::<usize>(), n);
            assert!(passes.iter().all(|&p| p <= 1024), "{n}: {passes:?}");
        }
    }

    #[test]
    fn what_fits_is_one_pass() {
        let of = |n| match plan(n, 4096) {
            FftPlan::Passes(passes) => passes.to_vec(),
            FftPlan::Bluestein(_) => vec![],
        };
        assert_eq!(of(4096), [4096]);
        assert_eq!(of(8192), [128, 64]);
        assert_eq!(of(1 << 20), [1024, 1024]);
        assert_eq!(of(1 << 22), [2048, 2048]);
    }

    #[test]
    fn radices_multiply_to_the_length() {
        for n in (1..=4096).filter(|&n| is_smooth(n as usize)) {
            let list = stages(n);
            assert_eq!(list.iter().product::<u32>(), n);
            assert!((1..=7).contains(&list.len()), "{n}: {list:?}");
        }
        assert_eq!(stages(1024)[..], [16, 8, 8]);
        assert_eq!(stages(13 * 64)[..], [8, 8, 13]);
        assert_eq!((radices(4096), radices(1), radices(1000)), (0xfff, 1, 0x5558));
    }

    #[test]
    fn blocks_fit_into_shared_memory_and_registers() {
        let gpu = Capabilities { shared_memory: 48 << 10, ..Capabilities::default() };
        assert_eq!(Block::new(&gpu, 1024, false), Block { group: 256, lines: 4 });
        assert_eq!(Block::new(&gpu, 2048, true), Block { group: 512, lines: 4 });
        assert_eq!(Block::new(&gpu, 1000, false), Block { group: 256, lines: 4 });
        assert_eq!(Block::new(&gpu, 1, true), Block { group: 32, lines: 128 });
        let small = Capabilities { shared_memory: 16 << 10, max_workgroup: 128, ..gpu };
        assert_eq!(Block::new(&small, 2048, true), Block { group: 128, lines: 1 });
        assert_eq!([16, 32, 48].map(|kib| longest_pass(kib << 10)), [2048, 4096, 4096]);
    }

    #[test]
    fn parts_of_turns_wrap_around() {
        assert_eq!(
            (part_of_turn(1), part_of_turn(2), part_of_turn(1 << 32)),
            (0, 1 << 63, 1 << 32)
        );
    }
}
