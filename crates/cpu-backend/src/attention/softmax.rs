//! The running softmax: sums that are rescaled when a larger score appears.

use crate::float::{Real, Wide};

/// Softmax-weighted sums of values over the keys so far, for some rows.
pub(super) struct Running<W> {
    /// Largest score of each row.
    max: Vec<W>,
    /// `Σ exp(score - max)` of each row.
    sum: Vec<W>,
    /// `Σ exp(score - max) * value`: rows of `width`.
    pub(super) acc: Vec<W>,
    width: usize,
}

impl<W: Wide> Running<W> {
    /// Sums over no keys.
    pub(super) fn new(rows: usize, width: usize) -> Self {
        let zero = W::from_f64(0.0);
        Running {
            max: vec![W::neg_infinity(); rows],
            sum: vec![zero; rows],
            acc: vec![zero; rows * width],
            width,
        }
    }

    /// The sums of values of each row.
    pub(super) fn rows_mut(&mut self) -> impl Iterator<Item = &mut [W]> {
        self.acc.chunks_exact_mut(self.width)
    }

    /// Largest score of each row, as the shift of its exponentials, and their sum.
    pub(super) fn maxima_and_sums(&self) -> impl Iterator<Item = (W, W)> {
        self.max.iter().map(|&max| finite(max)).zip(self.sum.iter().copied())
    }

    /// Adds a score that no value belongs to.
    pub(super) fn add_sink(&mut self, row: usize, score: W) {
        self.rescale(row, score);
        self.sum[row] = self.sum[row] + (score - finite(self.max[row])).exp();
    }

    /// Turns each row's `count` new scores into weights and rescales the sums.
    pub(super) fn weigh(&mut self, scores: &mut [W], count: usize) {
        for (row, scores) in scores.chunks_exact_mut(count).enumerate() {
            let largest = scores.iter().fold(self.max[row], |a, &b| if b > a { b } else { a });
            self.rescale(row, largest);
            self.sum[row] = self.sum[row] + W::exp_sum(scores, finite(largest));
        }
    }

    /// Makes `max` the shift of a row's sums.
    fn rescale(&mut self, row: usize, max: W) {
        if max > self.max[row] {
            let factor = (self.max[row] - finite(max)).exp();
            self.max[row] = max;
            self.sum[row] = self.sum[row] * factor;
            let acc = &mut self.acc[row * self.width..(row + 1) * self.width];
            acc.iter_mut().for_each(|x| *x = *x * factor);
        }
    }

    /// Adds the sums over other keys.
    pub(super) fn merge(&mut self, other: &Running<W>) {
        for row in 0..self.max.len() {
            self.rescale(row, other.max[row]);
            let factor = (other.max[row] - finite(self.max[row])).exp();
            self.sum[row] = self.sum[row] + other.sum[row] * factor;
            let range = row * self.width..(row + 1) * self.width;
            let acc = self.acc[range.clone()].iter_mut().zip(&other.acc[range]);
            acc.for_each(|(a, &b)| *a = *a + b * factor);
        }
    }

    /// The weighted averages.
    pub(super) fn finish<T: Real<Wide = W>>(mut self, out: &mut [T]) {
        let one = W::from_f64(1.0);
        if self.width > 0 {
            for (acc, &sum) in self.acc.chunks_exact_mut(self.width).zip(&self.sum) {
                let inverse = one / sum;
                acc.iter_mut().for_each(|x| *x = *x * inverse);
            }
        }
        T::narrow_slice(&self.acc, out);
    }
}

/// The shift for scores whose largest is `max`: none if all are -∞, whose weights are zero then.
fn finite<W: Wide>(max: W) -> W {
    if max == W::neg_infinity() { W::from_f64(0.0) } else { max }
}
