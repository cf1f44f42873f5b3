//! Devices, streams and the thread-local defaults.
//!
//! A stream is an ordered queue of work on one device. Its index is unique in the process over
//! all devices, so a [`crate::clock::Tick`] names a stream by its index alone. As in MLX the
//! default device is one for the process and the default stream of a device is thread-local.

use std::{
    cell::{Cell, RefCell},
    sync::atomic::{AtomicU32, Ordering},
};

use once_cell::sync::OnceCell;
use parking_lot::RwLock;

use crate::{Error, Result, backend};

/// Kind of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeviceType {
    /// The CPU backend.
    Cpu,
    /// The GPU backend: Vulkan.
    Gpu,
}

/// A device: a type and an index among the devices of that type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Device {
    /// CPU or GPU.
    pub kind: DeviceType,
    /// Index among the devices of this kind.
    pub index: u32,
}

impl Device {
    /// The CPU.
    pub const CPU: Device = Device { kind: DeviceType::Cpu, index: 0 };
    /// The first GPU.
    pub const GPU: Device = Device { kind: DeviceType::Gpu, index: 0 };
}

impl std::fmt::Display for Device {
    /// As MLX prints it: `Device(gpu, 0)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self.kind {
            DeviceType::Cpu => "cpu",
            DeviceType::Gpu => "gpu",
        };
        write!(f, "Device({kind}, {})", self.index)
    }
}

/// An ordered queue of work on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stream {
    /// Unique in the process, over all devices; fits 16 bits.
    pub index: u16,
    /// Where the work runs.
    pub device: Device,
}

impl std::fmt::Display for Stream {
    /// As MLX prints it: `Stream(Device(gpu, 0), 1)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream({}, {})", self.device, self.index)
    }
}

static STREAMS: RwLock<Vec<Stream>> = RwLock::new(Vec::new());
/// Process-wide default device, packed as kind and index; `u32::MAX` until chosen.
static DEFAULT_DEVICE: AtomicU32 = AtomicU32::new(u32::MAX);

thread_local! {
    static DEFAULT_STREAMS: RefCell<Vec<Stream>> = const { RefCell::new(Vec::new()) };
    static SCOPE: Cell<Option<Stream>> = const { Cell::new(None) };
}

fn pack(device: Device) -> u32 {
    (device.index << 1) | (device.kind == DeviceType::Gpu) as u32
}

fn unpack(bits: u32) -> Device {
    let kind = if bits & 1 == 1 { DeviceType::Gpu } else { DeviceType::Cpu };
    Device { kind, index: bits >> 1 }
}

/// The process's default device: the GPU where one is usable, else the CPU.
pub fn default_device() -> Device {
    match DEFAULT_DEVICE.load(Ordering::Acquire) {
        u32::MAX => {
            let device = backend::preferred_device();
            DEFAULT_DEVICE.store(pack(device), Ordering::Release);
            device
        }
        bits => unpack(bits),
    }
}

/// Makes `device` the process's default.
///
/// # Errors
/// When no backend offers that device.
pub fn set_default_device(device: Device) -> Result<()> {
    backend::backend_for(device)?;
    DEFAULT_DEVICE.store(pack(device), Ordering::Release);
    Ok(())
}

/// Creates a stream on `device`.
///
/// # Errors
/// When the device does not exist, or 65,536 streams were created.
pub fn new_stream(device: Device) -> Result<Stream> {
    let backend = backend::backend_for(device)?;
    let mut streams = STREAMS.write();
    let index = u16::try_from(streams.len())
        .map_err(|_| Error::device("new_stream", "more than 65535 streams were created"))?;
    let stream = Stream { index, device };
    let clock = backend.new_stream(stream)?;
    crate::clock::register(stream, clock);
    streams.push(stream);
    Ok(stream)
}

/// All streams of the process, oldest first.
pub fn streams() -> Vec<Stream> {
    STREAMS.read().clone()
}

/// The stream with this index.
pub(crate) fn by_index(index: u16) -> Stream {
    STREAMS.read()[index as usize]
}

/// This thread's default stream of `device`; created on first use.
///
/// # Errors
/// When the device does not exist.
pub fn default_stream(device: Device) -> Result<Stream> {
    let known = DEFAULT_STREAMS.with_borrow(|all| all.iter().find(|s| s.device == device).copied());
    match known {
        Some(stream) => Ok(stream),
        None => {
            let stream = first_stream(device)?;
            DEFAULT_STREAMS.with_borrow_mut(|all| all.push(stream));
            Ok(stream)
        }
    }
}

/// The first default stream of each device is shared by all threads that never asked for another,
/// as in MLX, so that arrays made on one thread need no fence on the next.
fn first_stream(device: Device) -> Result<Stream> {
    static FIRST: OnceCell<RwLock<Vec<Stream>>> = OnceCell::new();
    let mut first = FIRST.get_or_init(Default::default).write();
    if let Some(stream) = first.iter().find(|s| s.device == device) {
        return Ok(*stream);
    }
    let stream = new_stream(device)?;
    first.push(stream);
    Ok(stream)
}

/// Makes `stream` this thread's default stream of its device.
pub fn set_default_stream(stream: Stream) {
    DEFAULT_STREAMS.with_borrow_mut(|all| {
        all.retain(|s| s.device != stream.device);
        all.push(stream);
    });
}

/// The stream on which operations of this thread run now: the innermost [`with_stream`] scope,
/// else the default stream of the default device.
///
/// # Errors
/// When the default device cannot make a stream.
pub fn current_stream() -> Result<Stream> {
    match SCOPE.get() {
        Some(stream) => Ok(stream),
        None => default_stream(default_device()),
    }
}

/// Runs `f` with operations going to `stream`; MLX's `with mx.stream(s):`.
pub fn with_stream<T>(stream: Stream, f: impl FnOnce() -> T) -> T {
    struct Restore(Option<Stream>);
    impl Drop for Restore {
        fn drop(&mut self) {
            SCOPE.set(self.0);
        }
    }
    let _restore = Restore(SCOPE.replace(Some(stream)));
    f()
}

/// Runs `f` on this thread's default stream of `device`.
///
/// # Errors
/// When the device does not exist.
pub fn with_device<T>(device: Device, f: impl FnOnce() -> T) -> Result<T> {
    Ok(with_stream(default_stream(device)?, f))
}
