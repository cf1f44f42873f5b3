//! `mlx-vulkan devices`.

use std::time::Instant;

use mlx::{
    Device, DeviceType,
    backend::{DeviceInfo, InfoValue, backend_for},
};
use mlx_vulkan_lm::Result;
use serde_json::{Value, json};

use super::print_line;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print a JSON array
    #[arg(long)]
    json: bool,
    /// Measure what tiles of matrix products take on each GPU, once, for all later processes
    #[arg(long, conflicts_with = "json")]
    tune: bool,
    /// Let each GPU's driver compile every kernel once; fails if one refuses any
    #[arg(long, conflicts_with_all = ["json", "tune"])]
    check: bool,
}

pub(crate) fn run(args: Args) -> Result<()> {
    if args.tune {
        return tune();
    }
    if args.check {
        return check();
    }
    let devices = all()?;
    if args.json {
        let list: Vec<Value> =
            devices.iter().map(|(device, info)| as_json(*device, info)).collect();
        return print_line(&Value::from(list).to_string());
    }
    if !devices.iter().any(|(device, _)| device.kind == DeviceType::Gpu) {
        let missing = backend_for(Device::GPU).err().map(|error| error.to_string());
        eprintln!("{}", missing.unwrap_or_default());
    }
    for (device, info) in &devices {
        let default = if *device == mlx::default_device() { " (default)" } else { "" };
        print_line(&format!("{device}{default}"))?;
        for (key, value) in info {
            print_line(&format!("  {key}: {}", text(value)))?;
        }
    }
    Ok(())
}

fn tune() -> Result<()> {
    for (index, name) in gpus()? {
        let costs = match mlx::vulkan::tune(index)? {
            Some(costs) => format!("tiles take {:?}", costs.numbers()),
            None => "no matrix units that products use".to_owned(),
        };
        print_line(&format!("{name}: {costs}"))?;
    }
    Ok(())
}

fn check() -> Result<()> {
    let mut refused = 0;
    for (index, name) in gpus()? {
        let start = Instant::now();
        let checked = mlx::vulkan::check(index)?;
        let seconds = start.elapsed().as_secs_f64();
        let mut line = format!("{name}: {} kernels compiled in {seconds:.1} s", checked.compiled);
        for (lacked, kernels) in &checked.lacking {
            line += &format!(", {kernels} left out for want of {lacked}");
        }
        print_line(&line)?;
        for (kernel, error) in &checked.refused {
            print_line(&format!("  refused {kernel}: {error}"))?;
        }
        refused += checked.refused.len();
    }
    match refused {
        0 => Ok(()),
        _ => Err(mlx::Error::device("pipeline", format!("{refused} kernels were refused")).into()),
    }
}

/// Index and name of every GPU.
///
/// # Errors
/// When there is none.
fn gpus() -> Result<Vec<(u32, String)>> {
    backend_for(Device::GPU)?;
    let gpus = all()?.into_iter().filter(|(device, _)| device.kind == DeviceType::Gpu);
    let named = |info: &DeviceInfo| info.get("device_name").map(text).unwrap_or_default();
    Ok(gpus.map(|(device, info)| (device.index, named(&info))).collect())
}

/// One line about a device, such as `gpu: NVIDIA H200`.
pub(crate) fn describe(device: Device) -> Result<String> {
    let info = backend_for(device)?.device_info(device.index)?;
    let kind = match device.kind {
        DeviceType::Cpu => "cpu",
        DeviceType::Gpu => "gpu",
    };
    Ok(match info.get("device_name") {
        Some(name) => format!("{kind}: {}", text(name)),
        None => kind.to_owned(),
    })
}

/// All usable devices, GPUs first.
fn all() -> Result<Vec<(Device, DeviceInfo)>> {
    let mut devices = Vec::new();
    for kind in [DeviceType::Gpu, DeviceType::Cpu] {
        let Ok(backend) = backend_for(Device { kind, index: 0 }) else { continue };
        for index in 0..backend.device_count() as u32 {
            devices.push((Device { kind, index }, backend.device_info(index)?));
        }
    }
    Ok(devices)
}

fn text(value: &InfoValue) -> String {
    match value {
        InfoValue::Text(text) => text.clone(),
        InfoValue::Number(number) => number.to_string(),
    }
}

fn as_json(device: Device, info: &DeviceInfo) -> Value {
    let kind = match device.kind {
        DeviceType::Cpu => "cpu",
        DeviceType::Gpu => "gpu",
    };
    let info: serde_json::Map<String, Value> = info
        .iter()
        .map(|(key, value)| {
            let value = match value {
                InfoValue::Text(text) => json!(text),
                InfoValue::Number(number) => json!(number),
            };
            ((*key).to_owned(), value)
        })
        .collect();
    let default = device == mlx::default_device();
    json!({"type": kind, "index": device.index, "default": default, "info": info})
}
