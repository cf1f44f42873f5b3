//! `MLX_VK_TRACE`: host and device on one time axis, as Perfetto reads it.

use std::{collections::BTreeMap, path::Path};

use mlx::{Device, Dtype, ops};
use mlx_tests::{array, in_child, init, values};
use serde_json::Value;

/// Work on two streams, with waits between them.
fn work() {
    init();
    let streams = [Device::GPU; 2].map(|device| mlx::new_stream(device).unwrap());
    let mut x = array(&[1.0; 4096], &[4096], Dtype::Float32);
    for i in 0..24 {
        x = mlx::with_stream(streams[i / 3 % 2], || {
            let y = ops::exp(&ops::negative(&x).unwrap()).unwrap();
            ops::add(&y, 1.0f32).unwrap()
        });
        if i % 8 == 7 {
            values(&x);
        }
    }
    // More than a command buffer holds, so that operations submit.
    let long = mlx::with_stream(streams[0], || {
        (0..250).fold(x.clone(), |x, _| ops::add(&x, 1.0f32).unwrap())
    });
    values(&long);
    mlx::shutdown();
}

/// A slice: track, category, name, start and end in nanoseconds, arguments.
#[derive(Debug)]
struct Slice {
    track: (u64, u64),
    category: String,
    name: String,
    start: i64,
    end: i64,
    args: Value,
}

fn nanoseconds(event: &Value, key: &str) -> i64 {
    (event[key].as_f64().unwrap_or_else(|| panic!("no {key} in {event}")) * 1e3).round() as i64
}

fn track(event: &Value) -> (u64, u64) {
    (event["pid"].as_u64().expect("a process"), event["tid"].as_u64().expect("a thread"))
}

fn slices(events: &[Value]) -> Vec<Slice> {
    let complete = events.iter().filter(|e| e["ph"] == "X");
    let slice = |e: &Value| Slice {
        track: track(e),
        category: e["cat"].as_str().expect("a category").into(),
        name: e["name"].as_str().expect("a name").into(),
        start: nanoseconds(e, "ts"),
        end: nanoseconds(e, "ts") + nanoseconds(e, "dur"),
        args: e["args"].clone(),
    };
    complete.map(slice).collect()
}

/// Every event is one that the format knows, and has what it must have.
fn check_events(events: &[Value]) {
    for event in events {
        track(event);
        assert!(event["name"].is_string(), "{event}");
        match event["ph"].as_str().expect("a phase") {
            "M" => assert!(event["args"]["name"].is_string(), "{event}"),
            "X" => assert!(event["ts"].is_number() && event["dur"].as_f64() >= Some(0.0)),
            "s" => assert!(event["id"].is_u64() && event["ts"].is_number(), "{event}"),
            "f" => assert!(event["id"].is_u64() && event["bp"] == "e", "{event}"),
            other => panic!("phase {other}: {event}"),
        }
    }
}

/// On each track a slice lies inside of another one or beside it. Whether two touch is no matter.
fn check_nesting(slices: &[Slice]) {
    let mut tracks: BTreeMap<(u64, u64), Vec<&Slice>> = BTreeMap::new();
    slices.iter().for_each(|s| tracks.entry(s.track).or_default().push(s));
    for (_, mut slices) in tracks {
        slices.sort_by_key(|s| (s.start, -s.end));
        let mut open: Vec<&Slice> = Vec::new();
        for slice in slices {
            while open.last().is_some_and(|o| o.end <= slice.start) {
                open.pop();
            }
            let fits = open.last().is_none_or(|o| slice.end <= o.end);
            assert!(fits, "{slice:?} reaches out of {:?}", open.last());
            open.push(slice);
        }
    }
}

/// Stream and number of a submission.
fn submission(slice: &Slice) -> (u64, u64) {
    let number = |key: &str| slice.args[key].as_u64().unwrap_or_else(|| panic!("{slice:?}"));
    (number("stream"), number("submission"))
}

fn by_submission<'a>(slices: &'a [Slice], category: &str) -> BTreeMap<(u64, u64), &'a Slice> {
    slices.iter().filter(|s| s.category == category).map(|s| (submission(s), s)).collect()
}

/// What runs on the device began after it was handed over and ended before the host saw its end.
fn check_order(slices: &[Slice], tolerance: i64) {
    let submits = by_submission(slices, "submit");
    let batches = by_submission(slices, "gpu_submission");
    assert!(batches.len() >= 8, "{} submissions", batches.len());
    for (id, batch) in &batches {
        let submit = submits.get(id).unwrap_or_else(|| panic!("{id:?} was never submitted"));
        let early = submit.start - batch.start;
        assert!(early <= tolerance, "{id:?} ran {early} ns too early, tolerance {tolerance}");
    }
    for slice in slices.iter().filter(|s| s.category == "kernel") {
        let batch = batches[&submission(slice)];
        assert!(batch.start <= slice.start && slice.end <= batch.end, "{slice:?} in {batch:?}");
    }
    for wait in slices.iter().filter(|s| s.category == "wait") {
        let Some(batch) = batches.get(&submission(wait)) else { continue };
        let late = batch.end - wait.end;
        assert!(late <= tolerance, "waited for {batch:?} but it ran {late} ns longer");
    }
}

/// Each track has a name, each process too, and what they are called says what they show.
fn check_names(events: &[Value], slices: &[Slice]) {
    let names = |what: &str| -> BTreeMap<(u64, u64), String> {
        let of = events.iter().filter(|e| e["ph"] == "M" && e["name"] == what);
        of.map(|e| (track(e), e["args"]["name"].as_str().expect("a name").into())).collect()
    };
    let (threads, processes) = (names("thread_name"), names("process_name"));
    for slice in slices {
        assert!(threads.contains_key(&slice.track), "no name for the track of {slice:?}");
        let process = &processes[&(slice.track.0, slice.track.0)];
        let device = ["kernel", "gpu_submission"].contains(&slice.category.as_str());
        assert_eq!(process.starts_with("GPU: "), device, "{slice:?} in {process}");
    }
    // Perfetto knows threads by their numbers alone.
    let mut numbers: Vec<u64> = threads.keys().chain(processes.keys()).map(|t| t.1).collect();
    numbers.sort_unstable();
    assert!(numbers.windows(2).all(|w| w[0] != w[1]), "{numbers:?}");
    let tracks = |category: &str| {
        let mut tracks: Vec<_> =
            slices.iter().filter(|s| s.category == category).map(|s| s.track).collect();
        tracks.sort_unstable();
        tracks.dedup();
        tracks.len()
    };
    assert_eq!((tracks("kernel"), tracks("eval")), (2, 2), "one track per stream");
}

/// Perfetto binds an arrow's end to the innermost slice that is open on its track, reading events in
/// the order of their times and then of the file: from the submission to what the device ran.
fn check_arrows(events: &[Value]) {
    let mut ordered: Vec<&Value> = events.iter().filter(|e| e["ph"] != "M").collect();
    ordered.sort_by_key(|e| nanoseconds(e, "ts"));
    let mut open: BTreeMap<(u64, u64), Vec<(i64, &Value)>> = BTreeMap::new();
    let mut ends: BTreeMap<u64, [Option<&Value>; 2]> = BTreeMap::new();
    for event in ordered {
        let now = nanoseconds(event, "ts");
        let stack = open.entry(track(event)).or_default();
        stack.retain(|(end, slice)| *end > now || nanoseconds(slice, "ts") == now);
        if event["ph"] == "X" {
            stack.push((now + nanoseconds(event, "dur"), event));
            continue;
        }
        let at = usize::from(event["ph"] == "f");
        let id = event["id"].as_u64().expect("arrows have ids");
        ends.entry(id).or_default()[at] = Some(stack.last().expect("in a slice").1);
    }
    for (id, ends) in ends {
        let [Some(from), Some(to)] = ends else { panic!("arrow {id}: {ends:?}") };
        assert_eq!((&from["name"], &to["name"]), (&"submit".into(), &"submission".into()));
        assert_eq!(from["args"]["submission"], to["args"]["submission"]);
        assert_eq!(from["args"]["stream"], to["args"]["stream"]);
    }
}

fn check(path: &Path) {
    let text = std::fs::read_to_string(path).unwrap();
    let trace: Value = serde_json::from_str(&text).unwrap();
    let events = trace["traceEvents"].as_array().expect("the JSON object format");
    let about = &trace["otherData"];
    assert!(["calibrated", "estimated"].contains(&about["clock"].as_str().unwrap()), "{about}");
    assert_eq!(about["dropped_slices"], 0);
    let tolerance = about["deviation_ns"].as_i64().expect("a deviation") + 1;
    check_events(events);
    let slices = slices(events);
    check_names(events, &slices);
    check_nesting(&slices);
    check_order(&slices, tolerance);
    for name in ["Exp", "Negative", "Add", "submit", "wait", "eval", "submission"] {
        assert!(slices.iter().any(|s| s.name == name), "no slice {name}");
    }
    // They may come from the driver's cache: made they are all the same.
    assert!(slices.iter().any(|s| s.category == "pipeline"), "no pipeline was made");
    check_arrows(events);
}

#[test]
fn a_trace_has_host_and_device_on_one_axis() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let test = "trace::a_trace_has_host_and_device_on_one_axis";
    let variables = [("MLX_VK_TRACE", path.to_str().expect("a name in UTF-8"))];
    if in_child(test, &variables, work).is_some() {
        check(&path);
    }
}
