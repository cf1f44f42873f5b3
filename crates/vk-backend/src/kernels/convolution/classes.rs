//! Convolutions along an axis of an input that is spread by a dilation, as several along the input as it is:
//! each makes the outputs that meet the same taps with elements instead of the zeros between them.

/// Sizes of a convolution along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Axis {
    /// Taps of the weight.
    pub kernel: usize,
    /// Outputs.
    pub output: usize,
    /// Distance of windows.
    pub stride: usize,
    /// Zeros before the input.
    pub padding: usize,
    /// Distance of taps.
    pub kernel_dilation: usize,
    /// Distance that the input's elements are spread to.
    pub input_dilation: usize,
}

/// Outputs along an axis that meet the same taps with elements of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Class {
    /// Outputs.
    pub outputs: usize,
    /// The first of them.
    pub first: usize,
    /// Their distance.
    pub apart: usize,
    /// Taps; there may be none.
    pub taps: usize,
    /// The first of them.
    pub first_tap: usize,
    /// Their distance.
    pub taps_apart: usize,
    /// The element of the input that the first output meets with the first tap; less than zero in the
    /// padding.
    pub element: i64,
    /// Elements of the input from output to output.
    pub step: usize,
    /// Elements of the input from tap to tap.
    pub tap_step: usize,
}

impl Axis {
    /// Outputs of each class: one class where the input is not spread.
    pub(crate) fn period(&self) -> usize {
        self.input_dilation / gcd(self.stride, self.input_dilation)
    }

    /// The classes of all outputs.
    pub(crate) fn classes(&self) -> Vec<Class> {
        (0..self.period().min(self.output)).map(|first| self.class(first)).collect()
    }

    /// The class that begins with an output.
    fn class(&self, first: usize) -> Class {
        let spread = self.input_dilation as i64;
        let begin = (first * self.stride) as i64 - self.padding as i64;
        let shared = gcd(self.kernel_dilation, self.input_dilation);
        let taps_apart = self.input_dilation / shared;
        let place = |tap: usize| begin + (tap * self.kernel_dilation) as i64;
        let first_tap = (0..taps_apart.min(self.kernel)).find(|&tap| place(tap) % spread == 0);
        let apart = self.period();
        Class {
            outputs: (self.output - first).div_ceil(apart),
            first,
            apart,
            taps: first_tap.map_or(0, |tap| (self.kernel - tap).div_ceil(taps_apart)),
            first_tap: first_tap.unwrap_or(0),
            taps_apart,
            element: first_tap.map_or(0, |tap| place(tap) / spread),
            step: apart * self.stride / self.input_dilation,
            tap_step: self.kernel_dilation / shared,
        }
    }
}

const fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::runtime::cases;

    /// Outputs, taps and elements of a long input that meet.
    fn meetings(a: &Axis) -> BTreeSet<(usize, usize, i64)> {
        let all = (0..a.output).flat_map(|o| (0..a.kernel).map(move |t| (o, t)));
        let spread = a.input_dilation as i64;
        let place = |&(o, t): &(usize, usize)| {
            (o * a.stride + t * a.kernel_dilation) as i64 - a.padding as i64
        };
        let real = all.filter(|meeting| place(meeting) % spread == 0);
        real.map(|(o, t)| (o, t, place(&(o, t)) / spread)).collect()
    }

    proptest! {
        #![proptest_config(cases(1000))]

        #[test]
        fn classes_have_every_meeting_once(
            (kernel, output) in (1usize..9, 1usize..20),
            (stride, padding) in (1usize..5, 0usize..9),
            (kernel_dilation, input_dilation) in (1usize..5, 1usize..7),
        ) {
            let axis = Axis { kernel, output, stride, padding, kernel_dilation, input_dilation };
            let classes = axis.classes();
            prop_assert_eq!(classes.iter().map(|c| c.outputs).sum::<usize>(), output);
            let of_class = |c: &Class| {
                let c = *c;
                (0..c.outputs).flat_map(move |o| (0..c.taps).map(move |t| {
                    let element = c.element + (o * c.step + t * c.tap_step) as i64;
                    (c.first + o * c.apart, c.first_tap + t * c.taps_apart, element)
                }))
            };
            let met: Vec<_> = classes.iter().flat_map(of_class).collect();
            prop_assert_eq!(met.len(), meetings(&axis).len());
            prop_assert_eq!(met.into_iter().collect::<BTreeSet<_>>(), meetings(&axis));
        }
    }
}
