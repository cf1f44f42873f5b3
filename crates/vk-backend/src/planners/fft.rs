//! Fourier transforms: how a length is split into passes, and passes into radices.

use smallvec::SmallVec;

/// Radices that the kernel has, besides 4 and 8.
const PRIMES: [usize; 6] = [13, 11, 7, 5, 3, 2];

/// How a transform of one length runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// Passes of these lengths, whose product is the length.
    Passes(SmallVec<[usize; 4]>),
    /// As a convolution of this length, a power of two.
    Bluestein(usize),
}

/// Chooses passes of at most `most` elements; lengths with prime factors that the kernel has no radix
/// for become convolutions.
pub fn plan(n: usize, most: usize) -> Plan {
    match is_smooth(n) {
        true => Plan::Passes(passes(n, most)),
        false => Plan::Bluestein((2 * n - 1).next_power_of_two()),
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

/// The radices of a pass, in fields of four bits from the lowest up.
pub fn radices(mut n: usize) -> u64 {
    let mut list: SmallVec<[u64; 12]> = SmallVec::new();
    for p in PRIMES.into_iter().filter(|&p| p > 2) {
        while n.is_multiple_of(p) {
            list.push(p as u64);
            n /= p;
        }
    }
    // Twos in eights, and what is left in fours or a two.
    let mut twos = n.trailing_zeros();
    while twos > 0 {
        let bits = match twos {
            2 | 4 => 2,
            1 => 1,
            _ => 3,
        };
        list.push(1 << bits);
        twos -= bits;
    }
    list.iter().rev().fold(0, |packed, r| packed << 4 | r)
}

/// Bit `r` for each radix `r` of a packed list.
pub fn radix_set(mut list: u64) -> u32 {
    let mut set = 0;
    while list != 0 {
        set |= 1 << (list & 15);
        list >>= 4;
    }
    set
}

/// The most elements of a pass: two copies and what describes the lines lie in shared memory.
pub fn most_elements(shared_memory: u32) -> usize {
    let fits = shared_memory.saturating_sub(4096) as usize / 16;
    (fits / 2 + 1).next_power_of_two().clamp(256, 2048)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_become_passes_of_what_fits() {
        let of = |n| match plan(n, 1024) {
            Plan::Passes(passes) => passes.to_vec(),
            Plan::Bluestein(m) => vec![0, m],
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
    fn radices_multiply_to_the_length() {
        for n in [1usize, 2, 4, 8, 16, 32, 64, 1024, 12, 60, 1001, 13 * 64, 720] {
            let (mut left, mut product) = (radices(n), 1);
            while left != 0 {
                product *= (left & 15) as usize;
                left >>= 4;
            }
            assert_eq!(product, n);
        }
        assert_eq!(radix_set(radices(13 * 64)), 1 << 13 | 1 << 8);
        assert_eq!(radix_set(radices(1)), 0);
    }

    #[test]
    fn shared_memory_bounds_a_pass() {
        assert_eq!(
            [16 << 10, 32 << 10, 48 << 10, 64 << 10].map(most_elements),
            [512, 1024, 2048, 2048]
        );
    }
}
