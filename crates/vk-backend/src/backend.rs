//! The backend that core calls: devices, streams and the hand-over of work.

use std::{
    ops::Range,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use mlx_vulkan_core::{
    Array, Dtype, Error, Result, Stream,
    backend::{Backend, DeviceInfo, Encoded, InfoValue, Output, Support},
    buffer::BufferRef,
    clock::{Clock, Tick},
    fusion::Group,
    graph::Node,
    notice,
    primitives::Primitive,
    stream::DeviceType,
    tape::Tape,
};

use crate::{
    graph::{fusion, interpreter},
    kernels::{self, encode_operation, quantized::gather_rows},
    runtime::{
        capabilities::{Capabilities, DeviceKind},
        config::Config,
        encoder::Encoder,
        machine,
        memory::guards::GUARD_PATIENCE,
        observe, profile,
        raw::debug,
        select::Candidate,
        stats,
        stream::VkStream,
        streams::{self, stream_of},
        trace,
    },
};

/// Every Vulkan device of the machine, usable or not, in the driver's order.
///
/// # Errors
/// When there is no Vulkan loader or driver; the message says what to install.
pub fn devices() -> Result<Vec<Candidate>> {
    machine::devices()
}

/// What device `index` (of those in use) can do.
///
/// # Errors
/// When there is no such device or it cannot be opened.
pub fn capabilities(index: u32) -> Result<&'static Capabilities> {
    machine::open(index).map(|d| d.capabilities())
}

/// The Vulkan backend.
#[derive(Debug, Default, Clone, Copy)]
pub struct VulkanBackend;

impl Backend for VulkanBackend {
    fn name(&self) -> &'static str {
        "vulkan"
    }

    fn device_type(&self) -> DeviceType {
        DeviceType::Gpu
    }

    fn device_count(&self) -> usize {
        machine::count()
    }

    fn unavailable(&self, index: u32) -> String {
        machine::why_not(index)
    }

    fn device_info(&self, index: u32) -> Result<DeviceInfo> {
        Ok(describe(machine::open(index)?.capabilities()))
    }

    fn support(&self, primitive: &Primitive, dtype: Dtype) -> Support {
        kernels::support(primitive, dtype)
    }

    fn new_stream(&self, stream: Stream) -> Result<Arc<dyn Clock>> {
        let device = machine::open(stream.device.index)?;
        let nth = machine::count_stream(stream.device.index)?;
        let made = VkStream::new(device, stream.index, nth, interpreter::deferred(device))?;
        streams::add(stream.index as usize, made.clone());
        Ok(made)
    }

    fn rest(&self, at: Stream) -> Result<()> {
        let stream = streams::get(at)?;
        let handed_over = stream.encode(Encoder::finalize);
        streams::rest(stream);
        handed_over
    }

    fn is_sound(&self, at: Stream) -> bool {
        stream_of(at.index).is_some_and(|stream| stream.timer().check().is_ok())
    }

    fn eval(
        &self,
        at: Stream,
        primitive: &Primitive,
        inputs: &[Array],
        outputs: &mut [Output],
    ) -> Result<Encoded> {
        let (_, encoded) = encode_operation(at, primitive.name(), 1, |ctx| {
            let result = kernels::eval(ctx, primitive, inputs, outputs);
            if let Some(kernels) = ctx.used() {
                observe::operation(ctx.config(), primitive, inputs, kernels, result.as_ref().err());
            }
            result
        })?;
        Ok(encoded)
    }

    fn plan(&self, tape: &Tape, places: Range<usize>) -> Vec<Group> {
        fusion::plan(tape, places)
    }

    fn recomputes(&self, node: &Node, result: &Array) -> bool {
        fusion::programs::recomputes(node, result)
    }

    fn tick(&self, at: Stream) -> Tick {
        stream_of(at.index).map_or(Tick::START, |s| s.tick())
    }

    fn wait(&self, at: Stream, tick: Tick) -> Result<()> {
        streams::get(at)?.encode(|encoder| encoder.wait_for_stream(tick))
    }

    fn finalize(&self, at: Stream) -> Result<()> {
        let stream = streams::get(at)?;
        stream.encode(Encoder::finalize)?;
        // Who is about to wait for work of a lost device is told before anything is encoded for it.
        stream.device().raw.check()
    }

    fn offer(&self, at: Stream, under_way: usize) -> Result<bool> {
        streams::get(at)?.encode(|encoder| encoder.offer(under_way))
    }

    fn to_host(&self, buffer: &BufferRef) -> Result<Tick> {
        let writer = stream_of(buffer.written().stream).or_else(|| streams::all().first().copied());
        let writer =
            writer.ok_or_else(|| Error::device("to_host", "no Vulkan stream was created"))?;
        writer.encode(|encoder| encoder.read_back(buffer))
    }
}

/// MLX's keys and ours.
fn describe(c: &Capabilities) -> DeviceInfo {
    let text = |s: &str| InfoValue::Text(s.to_owned());
    let kind = match c.kind {
        DeviceKind::Discrete => "discrete",
        DeviceKind::Integrated => "integrated",
        DeviceKind::Virtual => "virtual",
        DeviceKind::Software => "software",
        DeviceKind::Other => "other",
    };
    // Picks of matrices of 4 bits, and of one of them on average, that need not be sorted (lm asks).
    let together = gather_rows::runs_on(Dtype::Bfloat16, c, Config::get());
    let unsorted = |most: usize| if together { most as u64 } else { 0 };
    DeviceInfo::from([
        ("device_name", text(&c.name)),
        ("architecture", text(&format!("{:04x}:{:04x}", c.vendor_id, c.device_id))),
        ("memory_size", InfoValue::Number(c.device_memory)),
        ("max_buffer_length", InfoValue::Number(c.max_buffer)),
        ("max_recommended_working_set_size", InfoValue::Number(c.device_memory / 100 * 95)),
        ("resource_limit", InfoValue::Number(1 << 20)),
        ("driver", text(c.driver.trim())),
        ("api_version", text(&c.api_version)),
        ("kind", text(kind)),
        ("software", InfoValue::Number(u64::from(c.is_software()))),
        ("unified_memory", InfoValue::Number(u64::from(c.unified))),
        ("unsorted_picks", InfoValue::Number(unsorted(gather_rows::MOST_PICKS))),
        ("unsorted_picks_each", InfoValue::Number(unsorted(gather_rows::MOST_EACH))),
        ("subgroup_size", InfoValue::Number(u64::from(c.subgroup_size))),
    ])
}

/// Installs the backend in core. Vulkan itself is loaded when a device is first asked for.
pub fn install() {
    mlx_vulkan_core::backend::install(Arc::new(VulkanBackend));
}

/// What a process does at its end: waits for the streams, saves the pipeline cache, and prints what
/// was asked for. Programs call it once before they return from `main`.
pub fn shutdown() {
    end(Config::get());
}

fn end(config: &Config) {
    for stream in streams::all() {
        if let Err(error) = stream.drain() {
            tracing::warn!("{error}");
        }
    }
    if let Err(error) = check_guards() {
        tracing::error!("{error}");
    }
    save_pipelines();
    notice::write(&stats::report(config));
    if config.profile {
        notice::write(&profile::report());
    }
    if let Some(path) = &config.trace
        && let Err(error) = trace::write(path)
    {
        tracing::warn!("trace {path}: {error}");
    }
}

/// Waits for all streams and looks at the guards around every allocation, in use or not. Without
/// `MLX_VK_DEBUG_GUARD=1` there are none. Nothing else may be evaluated meanwhile.
///
/// # Errors
/// When an operation has written outside of its output: the error names operation and kernels. And
/// when a device fails.
pub fn check_guards() -> Result<()> {
    if machine::opened().all(|device| device.guards.is_none()) {
        return Ok(());
    }
    streams::all().iter().try_for_each(|stream| stream.drain())?;
    let mut guards = machine::opened().filter_map(|device| device.guards.as_ref());
    guards.try_for_each(|guards| guards.settle_all(GUARD_PATIENCE * 10))
}

/// Writes new pipelines of every open device to the cache on disk.
pub fn save_pipelines() {
    machine::opened().for_each(|device| device.pipelines.save());
}

/// Validation errors that the Khronos layer has reported so far (with `MLX_VK_VALIDATION=1`).
pub fn validation_errors() -> u64 {
    debug::ERRORS.load(Relaxed)
}
