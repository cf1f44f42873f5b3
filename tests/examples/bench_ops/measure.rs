//! Timing of operations, and what the device itself reaches to hold them against.

use std::time::{Duration, Instant};

use mlx::{Array, Result};

/// Evaluations in one timed run, and timed runs of which the median counts.
const REPEATS: usize = 10;
const ROUNDS: usize = 5;

/// How long an operation runs before it is timed, at least once: an idle GPU takes a third of a second to
/// reach its clock, and whatever the operations before did, it may have been idle.
const WARM_UP: Duration = Duration::from_millis(400);

/// What an operation moves and computes, per evaluation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    /// Bytes that must be read and written at least.
    pub(crate) bytes: f64,
    /// Operations on numbers.
    pub(crate) flops: f64,
}

/// An operation that was timed.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) work: Work,
    pub(crate) seconds: f64,
    /// Percent of what the device itself reaches.
    percent: f64,
}

impl Row {
    /// An operation that took `seconds`.
    pub(crate) fn new(name: &str, work: Work, seconds: f64) -> Self {
        Row { name: name.to_owned(), work, seconds, percent: 0.0 }
    }

    /// Bytes per second.
    pub(crate) fn bandwidth(&self) -> f64 {
        self.work.bytes / self.seconds
    }

    /// Operations per second.
    pub(crate) fn rate(&self) -> f64 {
        self.work.flops / self.seconds
    }
}

/// What bounds an operation, and so what its percentage is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// Memory: the rate of a copy, the first one that was timed.
    Copy,
    /// Arithmetic: the rate of the fastest product of matrices of this run.
    Product,
}

/// The rows so far.
#[derive(Debug, Default)]
pub(crate) struct Bench {
    pub(crate) rows: Vec<Row>,
    /// Bytes per second of a copy.
    pub(crate) copy: f64,
    /// Operations per second of the fastest product.
    pub(crate) product: f64,
    /// Whether rows are kept only, not printed.
    pub(crate) quiet: bool,
}

impl Bench {
    /// Times an operation and prints its row.
    ///
    /// # Errors
    /// When it fails.
    pub(crate) fn time(
        &mut self,
        name: &str,
        work: Work,
        bound: Bound,
        make: &dyn Fn() -> Result<Array>,
    ) -> Result<()> {
        let row = Row::new(name, work, seconds(make)?);
        match bound {
            Bound::Copy if self.copy == 0.0 => self.copy = row.bandwidth(),
            Bound::Product => self.product = self.product.max(row.rate()),
            Bound::Copy => {}
        }
        self.add(row, bound);
        Ok(())
    }

    /// Prints a row that was timed and keeps it.
    pub(crate) fn add(&mut self, mut row: Row, bound: Bound) {
        let (value, unit, share) = match bound {
            Bound::Copy => (row.bandwidth() / 1e9, "GB/s", row.bandwidth() / self.copy),
            Bound::Product => (row.rate() / 1e12, "TFLOP/s", row.rate() / self.product),
        };
        row.percent = 100.0 * share;
        let of = if bound == Bound::Copy { "copy" } else { "product" };
        if !self.quiet {
            let (name, percent, micros) = (&row.name, row.percent, row.seconds * 1e6);
            println!("{name:36} {value:10.2} {unit:7} {percent:6.1} % of {of:7} {micros:11.1} us");
        }
        self.rows.push(row);
    }

    /// The rows as one JSON object, for a command as it was typed.
    pub(crate) fn json(&self, command: &str) -> serde_json::Value {
        let mut rows = serde_json::Map::new();
        for row in &self.rows {
            let value = serde_json::json!({
                "us": row.seconds * 1e6,
                "gb_per_s": row.bandwidth() / 1e9,
                "tflop_per_s": row.rate() / 1e12,
                "percent": row.percent,
            });
            rows.insert(row.name.clone(), value);
        }
        let device = mlx::default_device().to_string();
        serde_json::json!({"command": command, "device": device, "rows": rows})
    }
}

/// Seconds per evaluation, of one operation that is evaluated again and again on warm memory.
///
/// # Errors
/// When it fails.
pub(crate) fn seconds(make: &dyn Fn() -> Result<Array>) -> Result<f64> {
    let run = || -> Result<f64> {
        let start = Instant::now();
        let mut last = None;
        for _ in 0..REPEATS {
            let array = make()?;
            mlx::async_eval(&[&array])?;
            last = Some(array);
        }
        last.map_or(Ok(()), |a| a.eval())?;
        Ok(start.elapsed().as_secs_f64() / REPEATS as f64)
    };
    let begin = Instant::now();
    loop {
        run()?;
        if begin.elapsed() >= WARM_UP {
            break;
        }
    }
    let mut times = (0..ROUNDS).map(|_| run()).collect::<Result<Vec<_>>>()?;
    times.sort_by(f64::total_cmp);
    Ok(times[ROUNDS / 2])
}
