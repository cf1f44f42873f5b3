//! Devices, streams and the thread-local defaults.
//!
//! A stream is an ordered queue of work on one device. Its index is unique among the streams that exist, over
//! all devices, so a [`crate::clock::Tick`] names a stream by its index alone. As in MLX the default device
//! is one for the process, and each thread has a default stream of its own on each device.
//!
//! Streams belong to the thread that made them and are given back when it ends, or by [`clear_streams`]. What
//! was evaluated on one stays what it is; the index, with its clock and the backend's objects behind it, is
//! the next new stream's of that device. So a tick of a stream that was given back still says the truth: the
//! clock of an index only grows.
//!
//! # Which thread may use a stream
//! Evaluating work of another thread's [`new_stream`] is an error, as in MLX: "There is no Stream(gpu, 1) in
//! current thread." Everybody may use [`new_thread_unsafe_stream`]s.
//!
//! Default streams are where we differ. In MLX they follow the same rule, so an array that one thread built
//! and did not evaluate is lost for all others: the error that is reported most, by servers that load a model
//! on one thread and run it on others. Here every thread may evaluate work of any default stream, since only
//! one evaluation encodes at a time anyway. And where that stream's thread has ended or cleared it, the work
//! runs on the default stream of who evaluates. Programs that run with MLX run alike: this only makes work
//! out of errors.

use std::{
    cell::{Cell, RefCell},
    sync::atomic::{AtomicU32, Ordering},
};

use parking_lot::{Mutex, RwLock};

use crate::{Error, Result, backend, clock, eval::detached};

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

impl std::fmt::Display for DeviceType {
    /// As MLX prints it: `gpu`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            DeviceType::Cpu => "cpu",
            DeviceType::Gpu => "gpu",
        })
    }
}

impl std::fmt::Display for Device {
    /// As MLX prints it: `Device(gpu, 0)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Device({}, {})", self.kind, self.index)
    }
}

/// An ordered queue of work on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stream {
    /// Unique among the streams of the process that exist, over all devices; fits 16 bits.
    pub index: u16,
    /// Where the work runs.
    pub device: Device,
    users: Users,
    /// How many streams had this index before.
    before: u32,
}

impl Stream {
    /// For tests: what the first stream of a process would be.
    #[cfg(test)]
    pub(crate) const fn first(device: Device) -> Self {
        Stream { index: 0, device, users: Users::Maker, before: 0 }
    }
}

/// Whose work a stream runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Users {
    /// Of the thread that made it.
    Maker,
    /// Of every thread; it is some thread's default stream.
    Default,
    /// Of every thread, for as long as the process lives.
    All,
}

impl std::fmt::Display for Stream {
    /// As MLX prints it: `Stream(Device(gpu, 0), 1)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream({}, {})", self.device, self.index)
    }
}

/// A stream for each thread that asks for it; MLX's `ThreadLocalStream`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ThreadLocalStream {
    /// Unique in the process among the thread-local streams.
    pub index: u32,
    /// Where the work runs.
    pub device: Device,
}

impl std::fmt::Display for ThreadLocalStream {
    /// As MLX prints it: `ThreadLocalStream(Device(gpu, 0), 0)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ThreadLocalStream({}, {})", self.device, self.index)
    }
}

/// All indices that were ever used.
#[derive(Default)]
struct Slots {
    /// The last stream of each index.
    streams: Vec<Stream>,
    /// Indices whose stream was given back, the last one last.
    free: Vec<u16>,
}

static SLOTS: RwLock<Slots> = RwLock::new(Slots { streams: Vec::new(), free: Vec::new() });
/// Held by who makes a stream, so that backends get indices in their order. `SLOTS` is free meanwhile: a
/// backend may wait for its own lock, whose holder looks for a stream.
static MAKING: Mutex<()> = Mutex::new(());
/// Process-wide default device, packed as kind and index; `u32::MAX` until chosen.
static DEFAULT_DEVICE: AtomicU32 = AtomicU32::new(u32::MAX);

/// The streams of a thread.
struct Own {
    made: Vec<Stream>,
    defaults: Vec<Stream>,
    /// Of thread-local streams, by their index.
    locals: Vec<(u32, Stream)>,
}

impl Own {
    const NONE: Own = Own { made: Vec::new(), defaults: Vec::new(), locals: Vec::new() };
}

impl Drop for Own {
    fn drop(&mut self) {
        self.made.drain(..).for_each(give_back);
    }
}

thread_local! {
    static OWN: RefCell<Own> = const { RefCell::new(Own::NONE) };
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

/// Makes a stream on `device` that this thread alone may use, until it ends or calls [`clear_streams`].
///
/// # Errors
/// When the device does not exist, or 65,536 streams do.
pub fn new_stream(device: Device) -> Result<Stream> {
    make_own(device, Users::Maker)
}

/// Makes a stream on `device` that every thread may use. It is never given back.
///
/// # Errors
/// As of [`new_stream`].
pub fn new_thread_unsafe_stream(device: Device) -> Result<Stream> {
    make(device, Users::All)
}

/// Names a stream on `device` of which each thread has its own: [`ThreadLocalStream::stream`].
///
/// # Errors
/// When the device does not exist.
pub fn new_thread_local_stream(device: Device) -> Result<ThreadLocalStream> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    backend::backend_for(device)?;
    Ok(ThreadLocalStream { index: NEXT.fetch_add(1, Ordering::Relaxed), device })
}

impl ThreadLocalStream {
    /// This thread's stream of that name; made on first use.
    ///
    /// # Errors
    /// As of [`new_stream`].
    pub fn stream(&self) -> Result<Stream> {
        let find = |own: &Own| own.locals.iter().find(|(index, _)| *index == self.index).copied();
        if let Some((_, stream)) = OWN.with_borrow(find) {
            return Ok(stream);
        }
        let stream = new_stream(self.device)?;
        OWN.with_borrow_mut(|own| own.locals.push((self.index, stream)));
        Ok(stream)
    }
}

/// Makes a stream that goes with this thread.
fn make_own(device: Device, users: Users) -> Result<Stream> {
    let stream = make(device, users)?;
    OWN.with_borrow_mut(|own| own.made.push(stream));
    Ok(stream)
}

/// Makes a stream, of what a given back one has left if there is one.
fn make(device: Device, users: Users) -> Result<Stream> {
    let backend = backend::backend_for(device)?;
    let _making = MAKING.lock();
    while let Some(stream) = taken_over(device, users) {
        // A stream that failed as a whole fails whoever has it.
        if backend.is_sound(stream) {
            // Its failures were others' affair.
            drop(clock::clock(stream.index).untold());
            return Ok(stream);
        }
    }
    let index = u16::try_from(SLOTS.read().streams.len())
        .map_err(|_| Error::device("new_stream", "there are 65536 streams"))?;
    let stream = Stream { index, device, users, before: 0 };
    let clock = backend.new_stream(stream)?;
    clock::register(stream, clock);
    SLOTS.write().streams.push(stream);
    Ok(stream)
}

/// A stream with the index of one of a device that was given back, the last one first.
fn taken_over(device: Device, users: Users) -> Option<Stream> {
    let Slots { streams, free } = &mut *SLOTS.write();
    let at = free.iter().rposition(|&index| streams[index as usize].device == device)?;
    let stream = &mut streams[free.remove(at) as usize];
    *stream = Stream { users, before: stream.before.wrapping_add(1), ..*stream };
    Some(*stream)
}

/// The streams of a thread, for another one that evaluates for it.
pub(crate) struct Lent {
    made: Vec<Stream>,
    defaults: Vec<Stream>,
}

/// Lends the streams of this thread, which are given back when that evaluation has ended.
pub(crate) fn lend() -> Lent {
    OWN.with_borrow(|own| Lent { made: own.made.clone(), defaults: own.defaults.clone() })
}

impl Lent {
    /// Runs `f` as if this thread had made them. What it makes besides stays this thread's.
    pub(crate) fn with<T>(self, f: impl FnOnce() -> T) -> T {
        struct Restore {
            own: Own,
            lent: usize,
        }
        impl Drop for Restore {
            fn drop(&mut self) {
                let mut lent = OWN.replace(std::mem::replace(&mut self.own, Own::NONE));
                let made = lent.made.split_off(self.lent);
                lent.made.clear();
                OWN.with_borrow_mut(|own| own.made.extend(made));
            }
        }
        let Lent { made, defaults } = self;
        let lent = made.len();
        let _restore =
            Restore { own: OWN.replace(Own { made, defaults, locals: Vec::new() }), lent };
        f()
    }
}

/// Gives the streams back that this thread has made, its default streams among them: what is encoded on them
/// still runs, and then what they hold is free for others. Arrays keep their contents. Evaluating work that
/// was to run on one of these streams is an error from now on, but for default streams.
pub fn clear_streams() {
    drop(OWN.replace(Own::NONE));
}

fn give_back(stream: Stream) {
    // What fails is told to who waits for it.
    let _ = detached::settle(|touched| touched == stream);
    let _ = backend::backend_for(stream.device).and_then(|backend| backend.rest(stream));
    SLOTS.write().free.push(stream.index);
}

/// All streams that exist, in the order of their indices.
pub fn streams() -> Vec<Stream> {
    let slots = SLOTS.read();
    slots.streams.iter().filter(|stream| slots.has(**stream)).copied().collect()
}

impl Slots {
    /// Whether a stream was not given back.
    fn has(&self, stream: Stream) -> bool {
        let last = self.streams.get(stream.index as usize);
        last == Some(&stream) && (stream.users == Users::All || !self.free.contains(&stream.index))
    }
}

/// Whether a stream was not given back.
pub(crate) fn exists(stream: Stream) -> bool {
    SLOTS.read().has(stream)
}

/// The last stream with this index.
pub fn by_index(index: u16) -> Stream {
    SLOTS.read().streams[index as usize]
}

/// The stream on which this thread runs work of `stream`: the same, or its default stream where that was a
/// default stream of a thread that has none any more.
///
/// # Errors
/// When this thread may not use it; see the module.
pub(crate) fn usable(stream: Stream) -> Result<Stream> {
    // A thread's own streams exist.
    if OWN.with_borrow(|own| own.made.contains(&stream)) {
        return Ok(stream);
    }
    match stream.users {
        Users::All => Ok(stream),
        Users::Default if exists(stream) => Ok(stream),
        Users::Default => default_stream(stream.device),
        Users::Maker => {
            let kind = stream.device.kind;
            let message =
                format!("There is no Stream({kind}, {}) in current thread.", stream.index);
            Err(Error::runtime("eval", message))
        }
    }
}

/// This thread's default stream of `device`; made on first use.
///
/// # Errors
/// When the device does not exist.
pub fn default_stream(device: Device) -> Result<Stream> {
    let of = |own: &Own| own.defaults.iter().find(|s| s.device == device).copied();
    if let Some(stream) = OWN.with_borrow(of) {
        return Ok(stream);
    }
    let stream = make_own(device, Users::Default)?;
    OWN.with_borrow_mut(|own| own.defaults.push(stream));
    Ok(stream)
}

/// Makes `stream` this thread's default stream of its device.
pub fn set_default_stream(stream: Stream) {
    OWN.with_borrow_mut(|own| {
        own.defaults.retain(|s| s.device != stream.device);
        own.defaults.push(stream);
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

/// Lets operations of this thread go to `scope` from now on, or to the default stream of the default device;
/// returns where they went. For callers who have no closure: others use [`with_stream`].
pub fn replace_scope(scope: Option<Stream>) -> Option<Stream> {
    SCOPE.replace(scope)
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
