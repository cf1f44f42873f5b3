//! The trace's file: the JSON object format of Chrome's trace events.

use std::{
    collections::BTreeSet,
    io::{self, BufWriter, Write},
};

use super::{
    Batch, HostSlice, Kind, LOG, Log, Track,
    axis::{Axis, Source},
};

/// Process numbers: the host, and the first device. Perfetto knows threads by their numbers alone and
/// takes a process for its own main thread, so all numbers of threads and processes are different.
const HOST: usize = 1 << 24;
const FIRST_DEVICE: usize = HOST + 1;
/// Tracks of evaluations come after those of threads, those of devices after these.
const EVALS: u32 = 1 << 16;

/// Writes what was traced so far.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn write(path: &str) -> io::Result<()> {
    let mut file = BufWriter::new(std::fs::File::create(path)?);
    LOG.lock().write(&mut file)?;
    file.flush()
}

/// Events, separated by commas.
struct Events<'a> {
    to: &'a mut dyn Write,
    any: bool,
}

impl Events<'_> {
    fn add(&mut self, event: &str) -> io::Result<()> {
        let comma = if self.any { "," } else { "" };
        self.any = true;
        write!(self.to, "{comma}\n{{{event}}}")
    }

    /// A slice from `start` to `end`, in nanoseconds.
    fn slice(
        &mut self,
        (pid, tid): (usize, u32),
        (name, category): (&str, &str),
        (start, end): (f64, f64),
        args: &str,
    ) -> io::Result<()> {
        // Whole nanoseconds, so that rounding does not push a slice out of the one around it.
        let (start, end) = (start.round(), end.round());
        let (at, length) = (start / 1e3, (end - start).max(0.0) / 1e3);
        let what = format!(r#""pid":{pid},"tid":{tid},"name":"{name}","cat":"{category}""#);
        let when = format!(r#""ts":{at:.3},"dur":{length:.3}"#);
        self.add(&format!(r#""ph":"X",{what},{when},"args":{{{args}}}"#))
    }

    /// One end of an arrow: it starts or ends in the slice around `at`.
    fn arrow(&mut self, start: bool, to: (usize, u32), id: u64, at: f64) -> io::Result<()> {
        let ((pid, tid), at) = (to, at.round() / 1e3);
        let phase = if start { r#""ph":"s""# } else { r#""ph":"f","bp":"e""# };
        self.add(&format!(
            r#"{phase},"pid":{pid},"tid":{tid},"name":"submission","cat":"submission","id":{id},"ts":{at:.3}"#
        ))
    }

    fn name(&mut self, what: &str, (pid, tid): (usize, u32), name: &str) -> io::Result<()> {
        let name = escape(name);
        self.add(&format!(
            r#""ph":"M","pid":{pid},"tid":{tid},"name":"{what}","args":{{"name":"{name}"}}"#
        ))
    }
}

/// Names an arrow.
fn arrow_id(stream: u16, value: u64) -> u64 {
    (value << 16) | u64::from(stream)
}

impl Log {
    fn write(&self, to: &mut dyn Write) -> io::Result<()> {
        let axes: Vec<Axis> = self.devices.iter().map(|d| d.axis()).collect();
        write!(to, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{{}}},", self.about(&axes))?;
        to.write_all(b"\"traceEvents\":[")?;
        let mut events = Events { to: &mut *to, any: false };
        self.names(&mut events)?;
        // Readers open slices of one moment in the order of the file: the outer one comes first,
        // and an arrow after the slice that it is bound to.
        let mut slices: Vec<&HostSlice> = self.host.iter().collect();
        slices.sort_by_key(|slice| (slice.start, std::cmp::Reverse(slice.end)));
        let ran: BTreeSet<u64> = self.batches.iter().map(|b| arrow_id(b.stream, b.value)).collect();
        slices.into_iter().try_for_each(|slice| host(&mut events, slice, &ran))?;
        self.batches.iter().try_for_each(|b| batch(&mut events, b, &axes[b.device]))?;
        to.write_all(b"\n]}\n")
    }

    /// What the file says of itself.
    fn about(&self, axes: &[Axis]) -> String {
        let source = match axes.iter().all(|a| a.source() == Source::Calibrated) {
            true => "calibrated",
            false => "estimated",
        };
        let deviation = axes.iter().map(Axis::deviation).fold(0.0, f64::max);
        let dropped = self.dropped;
        format!(r#""clock":"{source}","deviation_ns":{deviation:.0},"dropped_slices":{dropped}"#)
    }

    fn names(&self, events: &mut Events<'_>) -> io::Result<()> {
        events.name("process_name", (HOST, HOST as u32), "CPU")?;
        for (number, name) in &self.threads {
            events.name("thread_name", (HOST, *number), &format!("encode: {name}"))?;
        }
        let evals: BTreeSet<Track> = self.host.iter().map(|s| s.track).collect();
        for track in evals {
            if let Track::Evals(stream) = track {
                let name = format!("evaluations of stream {stream}");
                events.name("thread_name", (HOST, tid(track)), &name)?;
            }
        }
        for device in &self.devices {
            let name = format!("GPU: {}", device.name);
            let pid = FIRST_DEVICE + device.index;
            events.name("process_name", (pid, pid as u32), &name)?;
        }
        let streams: BTreeSet<(usize, u16)> =
            self.batches.iter().map(|b| (b.device, b.stream)).collect();
        for (device, stream) in streams {
            let track = device_track(device, stream);
            events.name("thread_name", track, &format!("stream {stream}"))?;
        }
        Ok(())
    }
}

fn tid(track: Track) -> u32 {
    match track {
        Track::Thread(number) => number,
        Track::Evals(stream) => EVALS + u32::from(stream),
    }
}

/// Where a stream of a device is drawn.
fn device_track(device: usize, stream: u16) -> (usize, u32) {
    (FIRST_DEVICE + device, ((device as u32 + 2) << 16) + u32::from(stream))
}

/// Writes a slice of the host, with an arrow if it is a submission that the device `ran` kernels of.
fn host(events: &mut Events<'_>, slice: &HostSlice, ran: &BTreeSet<u64>) -> io::Result<()> {
    let (track, stream) = ((HOST, tid(slice.track)), slice.stream);
    let (category, args) = match slice.kind {
        Kind::Build => ("pipeline", String::new()),
        Kind::Encode => ("encode", format!(r#""stream":{stream}"#)),
        Kind::Eval(operations) => {
            ("eval", format!(r#""stream":{stream},"operations":{operations}"#))
        }
        Kind::Wait(value) => ("wait", format!(r#""stream":{stream},"submission":{value}"#)),
        Kind::Submit(value, dispatches, barriers) => {
            let counts = format!(r#""dispatches":{dispatches},"barriers":{barriers}"#);
            ("submit", format!(r#""stream":{stream},"submission":{value},{counts}"#))
        }
    };
    let times = (slice.start as f64, slice.end as f64);
    events.slice(track, (slice.name, category), times, &args)?;
    match slice.kind {
        Kind::Submit(value, ..) if ran.contains(&arrow_id(stream, value)) => {
            events.arrow(true, track, arrow_id(stream, value), times.0)
        }
        _ => Ok(()),
    }
}

fn batch(events: &mut Events<'_>, batch: &Batch, axis: &Axis) -> io::Result<()> {
    let (Some(first), Some(last)) = (batch.kernels.first(), batch.kernels.last()) else {
        return Ok(());
    };
    let (stream, value) = (batch.stream, batch.value);
    let track = device_track(batch.device, stream);
    let args = format!(r#""stream":{stream},"submission":{value}"#);
    let times = (axis.host(first.1), axis.host(last.2));
    events.slice(track, ("submission", "gpu_submission"), times, &args)?;
    events.arrow(false, track, arrow_id(stream, value), times.0)?;
    for (name, start, end) in &batch.kernels {
        let times = (axis.host(*start), axis.host(*end));
        events.slice(track, (name, "kernel"), times, &args)?;
    }
    Ok(())
}

/// A text inside of JSON's quotes.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => out += "\\\"",
            '\\' => out += "\\\\",
            c if (c as u32) < 0x20 => out += &format!("\\u{:04x}", c as u32),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        assert_eq!(escape("a \"b\"\\\n"), "a \\\"b\\\"\\\\\\u000a");
    }

    #[test]
    fn an_empty_trace_is_an_object() {
        let mut text = Vec::new();
        Log::default().write(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with('{') && text.trim_end().ends_with("]}"), "{text}");
        assert!(text.contains(r#""name":"process_name","args":{"name":"CPU"}"#));
    }
}
