//! Making calls on both devices.

use std::panic::{AssertUnwindSafe, catch_unwind};

use mlx::{Array, Device, Dtype, Error, Result};

use crate::{
    argument::Args,
    calls::{Call, Family},
    compare, exported,
    families::{Function, lookup},
    report::{self, Report},
};

/// What came of one call on one device.
enum Verdict {
    Equal,
    RefusedAlike,
    /// Vulkan has no kernel for it and says so: a row of the support table.
    Unsupported(String),
    Different(String),
}

/// Makes all calls of a family.
pub(crate) fn family(family: &Family, vulkan_every: usize, report: &mut Report) {
    let known = |call: &&Call| lookup(call.function()).is_some();
    let missing: Vec<&Call> = family.calls.iter().filter(|call| !known(call)).collect();
    missing.iter().for_each(|call| report.missing(call.function()));
    let (counts, unsupported) = report.family(&family.name);
    for (i, call) in family.calls.iter().enumerate() {
        let Some(function) = lookup(call.function()) else { continue };
        counts.calls += 1;
        let vulkan = i % vulkan_every == 0 && !uses_float64(call, family);
        let given = family.name == "export" && call.raised().is_none();
        if given && let Err(error) = exported::write(call, i, family, function) {
            counts.differences += 1;
            let what = format!("cannot be exported: {error}");
            report::print_difference(Device::CPU, &what, &call.shown(&family.arrays));
        }
        for device in if vulkan { &mlx_tests::DEVICES[..] } else { &[Device::CPU] } {
            counts.runs += 1;
            match verdict(call, family, function, *device) {
                Verdict::Equal => counts.equal += 1,
                Verdict::RefusedAlike => counts.refused_alike += 1,
                Verdict::Unsupported(what) => {
                    counts.unsupported += 1;
                    unsupported.insert(what);
                }
                Verdict::Different(what) => {
                    counts.differences += 1;
                    report::print_difference(*device, &what, &call.shown(&family.arrays));
                }
            }
        }
    }
}

/// Vulkan refuses float64, as upstream's GPUs do.
fn uses_float64(call: &Call, family: &Family) -> bool {
    let outputs = if call.raised().is_some() { Vec::new() } else { call.outputs(&family.arrays) };
    call.inputs().iter().any(|name| family.arrays[*name].dtype() == Dtype::Float64)
        || call.names_float64()
        || outputs.iter().any(|output| output.dtype == "float64")
}

fn verdict(call: &Call, family: &Family, function: Function, device: Device) -> Verdict {
    let run = || mlx::with_device(device, || made(call, family, function));
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(verdict)) => verdict,
        Ok(Err(error)) => Verdict::Different(format!("no device: {error}")),
        Err(panic) => Verdict::Different(format!("panic: {}", message(&*panic))),
    }
}

/// Makes the call and compares.
fn made(call: &Call, family: &Family, function: Function) -> Verdict {
    let (args, kwargs) = (call.args(), call.kwargs());
    let args = Args { args, kwargs, arrays: &family.arrays, values: &[] };
    let result = function(&args).and_then(evaluated);
    match (result, call.raised()) {
        (Err(_), Some(_)) => Verdict::RefusedAlike,
        (Err(Error::Unsupported { op, backend: "vulkan", dtype, .. }), None) => {
            Verdict::Unsupported(format!("{op} of {dtype}"))
        }
        (Err(error), None) => Verdict::Different(format!("refused: {error}")),
        (Ok(_), Some(raised)) => Verdict::Different(format!("not refused; upstream: {raised}")),
        (Ok(got), None) => compared(&got, call, family),
    }
}

fn evaluated(arrays: Vec<Array>) -> Result<Vec<Array>> {
    mlx::eval(&arrays.iter().collect::<Vec<_>>())?;
    Ok(arrays)
}

fn compared(got: &[Array], call: &Call, family: &Family) -> Verdict {
    let wants = call.outputs(&family.arrays);
    if got.len() != wants.len() {
        return Verdict::Different(format!("{} results, upstream {}", got.len(), wants.len()));
    }
    for (i, (got, want)) in got.iter().zip(&wants).enumerate() {
        let place = if wants.len() > 1 { format!("result {i}: ") } else { String::new() };
        match compare::difference(got, want, call.ulps()) {
            Ok(None) => {}
            Ok(Some(what)) => return Verdict::Different(place + &what),
            Err(error) => return Verdict::Different(format!("{place}{error}")),
        }
    }
    Verdict::Equal
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
