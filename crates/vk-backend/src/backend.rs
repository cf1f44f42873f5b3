//! The backend that core calls: devices, streams and the hand-over of work.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use mlx_vulkan_core::{
    Array, Dtype, Error, Result, Stream,
    backend::{Backend, DeviceInfo, InfoValue, Output, Support},
    buffer::BufferRef,
    clock::{Clock, Tick},
    fusion::Group,
    notice,
    primitives::Primitive,
    stream::DeviceType,
    tape::Tape,
};
use once_cell::sync::{Lazy, OnceCell};
use parking_lot::RwLock;
use vulkano::device::physical::PhysicalDevice;

use crate::{
    graph::fusion,
    kernels::{self, Ctx},
    runtime::{
        capabilities::{Capabilities, DeviceKind},
        config::Config,
        device::{DeviceState, GUARD_PATIENCE},
        encoder::Encoder,
        observe, profile,
        raw::{device, instance},
        select::{self, Candidate},
        stats,
        stream::VkStream,
        trace,
    },
};

/// Vulkan streams by core's index; other backends' places stay empty. They live as long as the process.
static STREAMS: RwLock<Vec<Option<&'static Arc<VkStream>>>> = RwLock::new(Vec::new());
/// The devices in use, best first; opened when first needed.
static MACHINE: Lazy<Result<Machine>> = Lazy::new(|| Machine::find(Config::get()));

struct Machine {
    listed: Vec<Candidate>,
    used: Vec<Slot>,
}

struct Slot {
    physical: Arc<PhysicalDevice>,
    opened: OnceCell<Arc<DeviceState>>,
    streams: AtomicUsize,
}

impl Machine {
    fn find(config: &Config) -> Result<Machine> {
        let devices = instance::physical_devices(config)?;
        let listed: Vec<Candidate> =
            devices.iter().enumerate().map(|(i, d)| candidate(i, d)).collect();
        let chosen = select::choose(&listed, config.device.as_deref(), config.allow_software)
            .map_err(|message| Error::device("vulkan", message))?;
        let used = chosen
            .into_iter()
            .map(|i| Slot {
                physical: devices[i].clone(),
                opened: OnceCell::new(),
                streams: AtomicUsize::new(0),
            })
            .collect();
        Ok(Machine { listed, used })
    }
}

fn candidate(index: usize, device: &PhysicalDevice) -> Candidate {
    let p = device.properties();
    let heaps = &device.memory_properties().memory_heaps;
    Candidate {
        index,
        name: p.device_name.clone(),
        vendor_id: p.vendor_id,
        device_id: p.device_id,
        kind: instance::kind(device),
        memory: heaps.iter().map(|h| h.size).max().unwrap_or_default(),
        lacks: device::unusable(device),
    }
}

fn slot(index: u32) -> Result<&'static Slot> {
    let machine = MACHINE.as_ref().map_err(Clone::clone)?;
    machine
        .used
        .get(index as usize)
        .ok_or_else(|| Error::device("vulkan", format!("there is no device {index}")))
}

/// Device `index` of those in use.
pub(crate) fn open(index: u32) -> Result<&'static Arc<DeviceState>> {
    let slot = slot(index)?;
    slot.opened.get_or_try_init(|| DeviceState::new(&slot.physical, Config::get()))
}

/// Every Vulkan device of the machine, usable or not, in the driver's order.
///
/// # Errors
/// When there is no Vulkan loader or driver; the message says what to install.
pub fn devices() -> Result<Vec<Candidate>> {
    MACHINE.as_ref().map(|m| m.listed.clone()).map_err(Clone::clone)
}

/// What device `index` (of those in use) can do.
///
/// # Errors
/// When there is no such device or it cannot be opened.
pub fn capabilities(index: u32) -> Result<&'static Capabilities> {
    open(index).map(|d| d.capabilities())
}

/// The Vulkan stream with core's index, if it is one.
pub(crate) fn stream_of(index: u16) -> Option<&'static Arc<VkStream>> {
    STREAMS.read().get(index as usize).copied().flatten()
}

/// Whether no stream has work in flight.
pub(crate) fn is_idle() -> bool {
    STREAMS.read().iter().flatten().all(|stream| stream.is_idle())
}

fn stream(stream: Stream) -> Result<&'static Arc<VkStream>> {
    stream_of(stream.index)
        .ok_or_else(|| Error::device("eval", format!("{stream} is not a Vulkan stream")))
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
        MACHINE.as_ref().map_or(0, |m| m.used.len())
    }

    fn unavailable(&self, index: u32) -> String {
        match MACHINE.as_ref() {
            Err(Error::Device { message, .. }) => message.clone(),
            Err(error) => error.to_string(),
            Ok(machine) => select::why_not(&machine.listed, machine.used.len(), index as usize),
        }
    }

    fn device_info(&self, index: u32) -> Result<DeviceInfo> {
        Ok(describe(open(index)?.capabilities()))
    }

    fn support(&self, primitive: &Primitive, dtype: Dtype) -> Support {
        kernels::support(primitive, dtype)
    }

    fn new_stream(&self, stream: Stream) -> Result<Arc<dyn Clock>> {
        let device = open(stream.device.index)?;
        let nth = slot(stream.device.index)?.streams.fetch_add(1, Relaxed);
        let made = VkStream::new(device, stream.index, nth)?;
        let mut streams = STREAMS.write();
        let index = stream.index as usize;
        if streams.len() <= index {
            streams.resize(index + 1, None);
        }
        streams[index] = Some(Box::leak(Box::new(made.clone())));
        Ok(made)
    }

    fn eval(
        &self,
        at: Stream,
        primitive: &Primitive,
        inputs: &[Array],
        outputs: &mut [Output],
    ) -> Result<()> {
        encode_operation(at, primitive.name(), 1, |ctx| {
            let result = kernels::eval(ctx, primitive, inputs, outputs);
            if let Some(kernels) = ctx.used() {
                observe::operation(primitive, inputs, kernels, result.as_ref().err());
            }
            result
        })
    }

    fn plan(&self, tape: &Tape) -> Vec<Group> {
        fusion::plan(tape)
    }

    fn tick(&self, at: Stream) -> Tick {
        stream_of(at.index).map_or(Tick::START, |s| s.tick())
    }

    fn wait(&self, at: Stream, tick: Tick) -> Result<()> {
        stream(at)?.encode(|encoder| encoder.wait_for_stream(tick))
    }

    fn finalize(&self, at: Stream) -> Result<()> {
        let stream = stream(at)?;
        stream.encode(Encoder::finalize)?;
        // Who is about to wait for work of a lost device is told before anything is encoded for it.
        stream.device().raw.check()
    }

    fn to_host(&self, buffer: &BufferRef) -> Result<Tick> {
        let writer = stream_of(buffer.written().stream).or_else(any_stream);
        let writer =
            writer.ok_or_else(|| Error::device("to_host", "no Vulkan stream was created"))?;
        writer.encode(|encoder| encoder.read_back(buffer))
    }
}

/// Encodes `count` operations that are done together, the first of them `name`.
pub(crate) fn encode_operation<T>(
    at: Stream,
    name: &'static str,
    count: u64,
    encode: impl FnOnce(&mut Ctx<'_>) -> Result<T>,
) -> Result<T> {
    let stream = stream(at)?;
    let device = stream.device();
    stream.work(|encoder| {
        trace::encoding(name, at.index, || {
            encoder.begin_op(name, count);
            let result = encode(&mut Ctx::new(device, encoder, at, name));
            let ended = encoder.end_op();
            result.and_then(|done| ended.map(|()| done))
        })
    })
}

fn any_stream() -> Option<&'static Arc<VkStream>> {
    STREAMS.read().iter().flatten().next().copied()
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
    let config = Config::get();
    for stream in STREAMS.read().iter().flatten() {
        if let Err(error) = stream.encode(|e| e.drain()) {
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

fn opened() -> impl Iterator<Item = &'static Arc<DeviceState>> {
    let machine = Lazy::get(&MACHINE).and_then(|m| m.as_ref().ok());
    machine.into_iter().flat_map(|m| &m.used).filter_map(|slot| slot.opened.get())
}

/// Waits for all streams and looks at the guards around every allocation, in use or not. Without
/// `MLX_VK_DEBUG_GUARD=1` there are none. Nothing else may be evaluated meanwhile.
///
/// # Errors
/// When an operation has written outside of its output: the error names operation and kernels. And
/// when a device fails.
pub fn check_guards() -> Result<()> {
    if opened().all(|device| device.guards.is_none()) {
        return Ok(());
    }
    let streams: Vec<_> = STREAMS.read().iter().flatten().copied().collect();
    streams.iter().try_for_each(|stream| stream.encode(Encoder::drain))?;
    let mut guards = opened().filter_map(|device| device.guards.as_ref());
    guards.try_for_each(|guards| guards.settle_all(GUARD_PATIENCE * 10))
}

/// Writes new pipelines of every open device to the cache on disk.
pub fn save_pipelines() {
    opened().for_each(|device| device.pipelines.save());
}

/// Validation errors that the Khronos layer has reported so far (with `MLX_VK_VALIDATION=1`).
pub fn validation_errors() -> u64 {
    crate::runtime::raw::debug::ERRORS.load(Relaxed)
}
