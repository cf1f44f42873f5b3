//! Int8 rows: activations that are split into signed bytes, whose products with fields of four bits are
//! products of bytes.
//!
//! The elements of a group are integers times a unit of the group's own. Two bytes say a bfloat16, three a
//! float16 or a float32, so that an element is off by at most half a unit: 2^-16 and 2^-24 of the largest one
//! of its group. Two bytes for float16 would show in its results. Where bfloat16 have no products of their
//! own, a machine multiplies four bytes while it multiplies one float32.

use super::{Activations, Groups, Row, products::sums};
use crate::simd::{Isa, Kernel, LANES, Lanes, Level, dispatch_at};

/// Fields of a word.
const FIELDS: usize = 8;

/// Rows of activations.
pub(super) struct Int8Rows {
    /// The digits of sixteen words' elements: by their weight, largest first, those of the even fields and
    /// those of the odd ones.
    digits: Vec<[u32; LANES]>,
    /// Sixteens of a row in `digits`.
    per_row: usize,
    /// The units of groups, sixteen at a time.
    units: Vec<[f32; LANES]>,
    /// Sixteens of a row in `units`.
    units_per_row: usize,
}

impl Int8Rows {
    /// Rows of `columns` elements, which are those of a `T`, in groups of that size; none if one is not
    /// finite, or so small that the least float32 is no unit for it.
    pub(super) fn new<T: Lanes>(
        x: &[f32],
        columns: usize,
        group_size: usize,
        level: Level,
    ) -> Option<Self> {
        let rows = x.len() / columns;
        let per_row = columns.div_ceil(LANES * FIELDS) * 2 * T::BYTES;
        let units_per_row = (columns / group_size).div_ceil(LANES);
        let mut out = Int8Rows {
            digits: vec![[0; LANES]; rows * per_row],
            per_row,
            units: vec![[0.0; LANES]; rows * units_per_row],
            units_per_row,
        };
        for (i, x) in x.chunks_exact(columns).enumerate() {
            let digits = &mut out.digits[i * per_row..][..per_row];
            let units = out.units[i * units_per_row..][..units_per_row].as_flattened_mut();
            let row = Split { x, group_size, bytes: T::BYTES, digits, units };
            dispatch_at(level, row).then_some(())?;
        }
        Some(out)
    }

    /// The digits that meet block `b` of sixteen words.
    #[inline(always)]
    fn block<const BYTES: usize>(&self, row: usize, b: usize) -> &[[[u32; LANES]; 2]; BYTES] {
        let digits = self.digits[row * self.per_row..].as_chunks::<2>().0;
        digits[b * BYTES..].first_chunk().expect("a row has digits for all of its words")
    }

    /// Units of the sixteen groups `s`.
    #[inline(always)]
    fn units(&self, row: usize, s: usize) -> &[f32; LANES] {
        &self.units[row * self.units_per_row + s]
    }
}

/// Splits a row; false if it cannot be.
struct Split<'a> {
    x: &'a [f32],
    group_size: usize,
    bytes: usize,
    digits: &'a mut [[u32; LANES]],
    units: &'a mut [f32],
}

impl Kernel for Split<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<I: Isa>(self, isa: I) -> bool {
        // The largest number of so many signed digits whose lower ones are zero.
        let most = (127u32 << (8 * (self.bytes - 1))) as f32;
        for (g, group) in self.x.chunks_exact(self.group_size).enumerate() {
            let largest = largest(isa, group);
            let per_one = if largest == 0.0 { 0.0 } else { most / largest };
            if !per_one.is_finite() || !largest.is_finite() {
                return false;
            }
            self.units[g] = largest / most;
            for (i, x) in group.as_chunks::<LANES>().0.iter().enumerate() {
                let numbers = isa.to_integers(isa.mul(isa.load(x), isa.splat(per_one)));
                let word = (g * self.group_size + i * LANES) / FIELDS;
                for (w, numbers) in numbers.as_chunks::<FIELDS>().0.iter().enumerate() {
                    place(*numbers, word + w, self.bytes, self.digits);
                }
            }
        }
        true
    }
}

/// The largest size of an element; no number if one is not finite.
#[inline(always)]
fn largest<I: Isa>(isa: I, group: &[f32]) -> f32 {
    let zero = isa.splat(0.0);
    let (mut sizes, mut zeros) = (zero, zero);
    for x in group.as_chunks::<LANES>().0 {
        let x = isa.load(x);
        sizes = isa.max(sizes, isa.max(x, isa.sub(zero, x)));
        // Infinity times zero is no number.
        zeros = isa.fma(x, zero, zeros);
    }
    let mut all = [0.0; LANES];
    isa.store(sizes, &mut all);
    all.iter().fold(0.0, |a, &b| if b > a { b } else { a }) + isa.sum(zeros)
}

/// Puts the digits of a word's elements where products look for them.
#[inline(always)]
fn place(mut numbers: [i32; FIELDS], word: usize, bytes: usize, digits: &mut [[u32; LANES]]) {
    let (block, lane) = (word / LANES, word % LANES);
    let digits = &mut digits[block * 2 * bytes..][..2 * bytes];
    for at in (0..bytes).rev() {
        let mut digit = [0u8; FIELDS];
        for (digit, number) in digit.iter_mut().zip(&mut numbers) {
            let low = *number as i8;
            *digit = low as u8;
            *number = (*number - i32::from(low)) >> 8;
        }
        let [a, b, c, d, e, f, g, h] = digit;
        digits[2 * at][lane] = u32::from_le_bytes([a, c, e, g]);
        digits[2 * at + 1][lane] = u32::from_le_bytes([b, d, f, h]);
    }
}

/// Products of rows `at` to `at + R` of `x` with a row of 4-bit weights, of which `PER` words hold a group.
#[inline(always)]
pub(super) fn dot<I: Isa, G: Groups, const BYTES: usize, const PER: usize, const R: usize>(
    isa: I,
    x: &Activations,
    rows: &Int8Rows,
    at: usize,
    w: Row<'_, G>,
) -> [f32; R] {
    let mut acc = [isa.splat(0.0); R];
    let zeros = isa.words(&[0; LANES]);
    for (s, words) in w.words.chunks(LANES * PER).enumerate() {
        let scales = w.groups.scales(isa, s * LANES);
        let scales = isa.load(scales.first_chunk().expect("there are sixteen and more"));
        let mut units = [[0.0; LANES + 8]; R];
        for (r, units) in units.iter_mut().enumerate() {
            let scales = isa.mul(scales, isa.load(rows.units(at + r, s)));
            isa.store(scales, units.first_chunk_mut().expect("there is room for more"));
        }
        for (b, words) in words.chunks(LANES).enumerate() {
            let words = match words.first_chunk() {
                Some(words) => {
                    isa.prefetch(words);
                    isa.words(words)
                }
                None => isa.words_upto(words),
            };
            let q = isa.nibbles(words);
            for (r, units) in units.iter().enumerate() {
                let digits = rows.block::<BYTES>(at + r, s * PER + b);
                let upper = digit::<I, 256>(isa, q, &digits[0], zeros);
                let mut sum = digit::<I, 1>(isa, q, &digits[1], upper);
                for digits in &digits[2..] {
                    sum = digit::<I, 1>(isa, q, digits, isa.shl::<8>(sum));
                }
                let units = units[b * LANES / PER..].first_chunk().expect("there are eight more");
                acc[r] = isa.fma(isa.to_floats(sum), isa.repeat::<PER>(units), acc[r]);
            }
        }
    }
    w.groups.add_biases(isa, x, at, &mut acc);
    sums(isa, acc)
}

/// Adds the products with one digit of each element, which counts `TIMES`.
#[inline(always)]
fn digit<I: Isa, const TIMES: i16>(
    isa: I,
    q: [I::W; 2],
    [even, odd]: &[[u32; LANES]; 2],
    sum: I::W,
) -> I::W {
    isa.dot_nibbles::<TIMES>(q, [isa.words(even), isa.words(odd)], sum)
}
