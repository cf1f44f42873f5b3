//! From a device's timestamps to the trace's time axis.
//!
//! With VK_EXT_calibrated_timestamps both clocks are read together now and then; between two
//! readings time runs linearly, so that the device's clock may drift. Without it the offset is
//! estimated from what must be true of every submission: it cannot begin before it was handed
//! over, and it has ended when the host sees its end. The smallest offset that the first allows is
//! taken, as a device that was idle begins at once; how far the second would let it grow is
//! reported as the deviation.

/// How the axis came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// Both clocks were read together.
    Calibrated,
    /// From submissions.
    Estimated,
}

/// Both clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Point {
    /// Ticks of the device.
    device: u64,
    /// Nanoseconds of the trace.
    host: f64,
}

/// The time axis of one device.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    /// Nanoseconds per tick, as the device says.
    period: f64,
    /// Calibrations, in the order of their device times.
    points: Vec<Point>,
    /// Largest uncertainty of a calibration, in nanoseconds.
    deviation: f64,
    /// Bounds of the offset between both clocks, from submissions.
    bounds: (f64, f64),
}

impl Axis {
    /// An axis that knows nothing yet.
    pub(super) fn new(period: f64) -> Self {
        let bounds = (f64::NEG_INFINITY, f64::INFINITY);
        Axis { period, points: Vec::new(), deviation: 0.0, bounds }
    }

    /// Adds a calibration: device time `device` is `host` nanoseconds, give or take `deviation`.
    pub(super) fn calibrate(&mut self, device: u64, host: f64, deviation: f64) {
        let at = self.points.partition_point(|p| p.device < device);
        self.points.insert(at, Point { device, host });
        self.deviation = self.deviation.max(deviation);
    }

    /// Adds a submission: handed over at `submitted` and seen to have ended at `seen` nanoseconds,
    /// its first and last timestamps being `first` and `last`.
    pub(super) fn submission(&mut self, submitted: f64, first: u64, last: u64, seen: f64) {
        self.bounds.0 = self.bounds.0.max(submitted - first as f64 * self.period);
        self.bounds.1 = self.bounds.1.min(seen - last as f64 * self.period);
    }

    /// Where the axis comes from.
    pub(super) fn source(&self) -> Source {
        if self.points.is_empty() { Source::Estimated } else { Source::Calibrated }
    }

    /// Nanoseconds by which times may be off.
    pub(super) fn deviation(&self) -> f64 {
        match self.source() {
            Source::Calibrated => self.deviation,
            Source::Estimated => {
                let slack = self.bounds.1 - self.bounds.0;
                if slack.is_finite() { slack.abs() } else { 0.0 }
            }
        }
    }

    /// The trace's time of a timestamp, in nanoseconds.
    pub(super) fn host(&self, device: u64) -> f64 {
        let after = self.points.partition_point(|p| p.device <= device);
        match (after.checked_sub(1).map(|i| self.points[i]), self.points.get(after)) {
            (Some(a), Some(b)) => {
                let share = (device - a.device) as f64 / (b.device - a.device) as f64;
                a.host + (b.host - a.host) * share
            }
            (Some(a), None) => a.host + (device - a.device) as f64 * self.period,
            (None, Some(b)) => b.host - (b.device - device) as f64 * self.period,
            (None, None) => {
                let offset = if self.bounds.0.is_finite() { self.bounds.0 } else { 0.0 };
                offset + device as f64 * self.period
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calibrations_are_interpolated_and_continued() {
        let mut axis = Axis::new(2.0);
        // The device's clock runs at 2.2 ns per tick between the calibrations.
        axis.calibrate(2000, 10_200.0, 30.0);
        axis.calibrate(1000, 8_000.0, 50.0);
        assert_eq!((axis.source(), axis.deviation()), (Source::Calibrated, 50.0));
        assert_eq!(axis.host(1500), 9_100.0);
        assert_eq!(axis.host(900), 7_800.0);
        assert_eq!(axis.host(2100), 10_400.0);
        assert_eq!(axis.host(1000), 8_000.0);
    }

    #[test]
    fn without_calibration_no_submission_begins_before_it_was_handed_over() {
        let mut axis = Axis::new(1.0);
        // The true offset is 500; the second submission began as soon as it was handed over.
        axis.submission(1_000.0, 600, 700, 1_300.0);
        axis.submission(2_000.0, 1_500, 1_900, 2_450.0);
        assert_eq!((axis.source(), axis.host(600)), (Source::Estimated, 1_100.0));
        assert_eq!(axis.host(1_500), 2_000.0);
        assert_eq!(axis.deviation(), 50.0);
    }
}
