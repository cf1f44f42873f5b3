//! The memory behind arrays: a host copy, a device copy, or both, and who last touched them.
//!
//! A [`Buffer`] counts its owners apart from those who only keep its memory alive
//! ([`BufferRef`]): work in flight must not look like an owner, or nothing would ever be donated.
//! What protects memory that work in flight still uses is not a reference but the buffer's
//! [`Tick`]s: the last write and the last read of every stream.

use std::{
    any::Any,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::*},
    },
};

use parking_lot::{
    MappedRwLockReadGuard, MappedRwLockWriteGuard, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
use smallvec::SmallVec;

use crate::{
    Error, Result, Stream, backend,
    clock::{AtomicTick, Tick},
    foreign,
    host::HostVec,
    outcome::Outcome,
};

/// Bytes that the host can reach.
pub trait HostMemory: Send + Sync {
    /// The bytes.
    fn bytes(&self) -> &[u8];
    /// The bytes for writing; `None` for read-only memory.
    fn bytes_mut(&mut self) -> Option<&mut [u8]>;
    /// From now on the bytes count as active memory, or do not: for memory that the system can have back
    /// while a device has a copy.
    fn count(&self, _active: bool) {}
}

/// A device's copy of a buffer. Dropping it gives the memory back to the device's pool.
pub trait DeviceMemory: Send + Sync {
    /// Where kernels find the first byte.
    fn address(&self) -> u64;
    /// The concrete type, for the backend that made it.
    fn as_any(&self) -> &dyn Any;
    /// Tells the memory, before it is dropped, which ticks its users still run towards.
    fn retire(&mut self, ticks: &[Tick]);
}

/// Which copies of a buffer hold its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Current {
    /// Only the host copy.
    Host = 1,
    /// Only the device copy.
    Device = 2,
    /// Both copies, or the one that host and device share.
    Both = 3,
}

/// Memory of a user's: dropping it runs code of theirs, which must not hold others up.
struct Foreign(Option<Box<dyn HostMemory>>);

impl HostMemory for Foreign {
    fn bytes(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |memory| memory.bytes())
    }

    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        self.0.as_mut()?.bytes_mut()
    }

    fn count(&self, active: bool) {
        self.0.iter().for_each(|memory| memory.count(active));
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(foreign::release);
    }
}

struct Inner {
    nbytes: usize,
    owners: AtomicUsize,
    host: RwLock<Option<Box<dyn HostMemory>>>,
    /// Whether the host copy may be written: known without its lock, which running work holds.
    writable: AtomicBool,
    device: OnceLock<Box<dyn DeviceMemory>>,
    /// Host and device address the same memory: there is nothing to copy, ever.
    shared: bool,
    current: AtomicU8,
    /// The host copy may go at any time while the device's is current: it was made to read that back, or is
    /// a part of a file.
    spare: AtomicBool,
    written: AtomicTick,
    reads: Reads,
    /// Somebody outside may write to the host copy, now or later.
    shown: AtomicBool,
    /// Only where something went wrong, or may.
    outcome: OnceLock<Arc<Outcome>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(device) = self.device.get_mut() {
            let mut ticks = self.reads.take();
            ticks.push(self.written.load());
            device.retire(&ticks);
        }
    }
}

/// The last read of each stream. The first one has a slot that takes no lock: mostly it is
/// the only one, and weights are read by every evaluation. A stream's reads are noted by one
/// thread at a time, who encodes on it.
#[derive(Default)]
struct Reads {
    first: AtomicTick,
    others: Mutex<SmallVec<[Tick; 2]>>,
}

impl Reads {
    #[inline]
    fn note(&self, tick: Tick) {
        // The slot is nobody's yet, or somebody's for good.
        let first = self.first.load();
        if first != Tick::START && first.stream == tick.stream {
            self.first.store(tick);
        } else if first != Tick::START || !self.first.claim(tick) {
            self.note_other(tick);
        }
    }

    fn note_other(&self, tick: Tick) {
        let mut others = self.others.lock();
        match others.iter_mut().find(|t| t.stream == tick.stream) {
            Some(last) => *last = tick,
            None => {
                others.retain(|t| !t.reached());
                others.push(tick);
            }
        }
    }

    fn all(&self) -> SmallVec<[Tick; 4]> {
        let mut all: SmallVec<[Tick; 4]> = self.others.lock().iter().copied().collect();
        all.push(self.first.load());
        all
    }

    /// Without a lock, because nobody else is left.
    fn take(&mut self) -> SmallVec<[Tick; 4]> {
        let mut all: SmallVec<[Tick; 4]> = self.others.get_mut().drain(..).collect();
        all.push(self.first.load());
        all
    }
}

/// An owner of memory: what an array holds.
pub struct Buffer(BufferRef);

/// Keeps a buffer's memory alive without owning it: what work in flight holds.
#[derive(Clone)]
pub struct BufferRef(Arc<Inner>);

impl Clone for Buffer {
    fn clone(&self) -> Self {
        self.0.0.owners.fetch_add(1, Relaxed);
        Buffer(self.0.clone())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.0.0.owners.fetch_sub(1, Release);
    }
}

impl std::ops::Deref for Buffer {
    type Target = BufferRef;

    fn deref(&self) -> &BufferRef {
        &self.0
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", &**self)
    }
}

impl std::fmt::Debug for BufferRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes, {:?})", self.nbytes(), self.current())
    }
}

impl Buffer {
    fn new(
        nbytes: usize,
        mut host: Option<Box<dyn HostMemory>>,
        device: Option<Box<dyn DeviceMemory>>,
        current: Current,
        shared: bool,
    ) -> Self {
        let writable = host.as_mut().is_some_and(|host| host.bytes_mut().is_some());
        Buffer(BufferRef(Arc::new(Inner {
            nbytes,
            writable: AtomicBool::new(writable),
            owners: AtomicUsize::new(1),
            host: RwLock::new(host),
            device: device.map_or_else(OnceLock::new, OnceLock::from),
            shared,
            current: AtomicU8::new(current as u8),
            spare: AtomicBool::new(false),
            shown: AtomicBool::new(false),
            written: AtomicTick::default(),
            outcome: OnceLock::new(),
            reads: Reads::default(),
        })))
    }

    /// A buffer in host memory of the caller's. It may be dropped on another thread: what its `drop` does
    /// never runs while an evaluation or a stream is held up by it.
    pub fn from_host(memory: impl HostMemory + 'static) -> Self {
        let nbytes = memory.bytes().len();
        let memory = Foreign(Some(Box::new(memory)));
        let buffer = Self::new(nbytes, Some(Box::new(memory)), None, Current::Host, false);
        buffer.0.0.shown.store(true, Release);
        buffer
    }

    /// A buffer in host memory from the cache.
    pub(crate) fn from_vec(memory: HostVec) -> Self {
        Self::from_own(memory)
    }

    /// A buffer in host memory that no code of a user's comes with.
    pub(crate) fn from_own(memory: impl HostMemory + 'static) -> Self {
        let nbytes = memory.bytes().len();
        Self::new(nbytes, Some(Box::new(memory)), None, Current::Host, false)
    }

    /// A buffer in host memory that has a part of a file, which is not needed once a device has a copy.
    pub(crate) fn from_file(memory: impl HostMemory + 'static) -> Self {
        let buffer = Self::from_own(memory);
        buffer.0.0.spare.store(true, Relaxed);
        buffer
    }

    /// A buffer in device memory that the host cannot reach.
    pub fn from_device(nbytes: usize, memory: Box<dyn DeviceMemory>) -> Self {
        Self::new(nbytes, None, Some(memory), Current::Device, false)
    }

    /// A buffer whose memory host and device share: `host` and `device` are the same bytes.
    pub fn from_shared(
        nbytes: usize,
        host: Box<dyn HostMemory>,
        device: Box<dyn DeviceMemory>,
    ) -> Self {
        Self::new(nbytes, Some(host), Some(device), Current::Both, true)
    }

    /// Whether a result of `nbytes` on `stream` may take this memory over: nobody else owns it,
    /// it is not much larger (MLX's rule: 16 KiB), no other stream still uses it, and no result
    /// that was computed from it still looks here for its errors.
    pub fn is_donatable(&self, nbytes: usize, stream: Stream) -> bool {
        let inner = &*self.0.0;
        inner.owners.load(Acquire) == 1
            && inner.nbytes >= nbytes
            && inner.nbytes <= nbytes + 16384
            && self.used_only_by(stream)
            && !self.is_source()
    }

    /// Number of owners.
    pub fn owners(&self) -> usize {
        self.0.0.owners.load(Acquire)
    }

    /// Whether results remember what becomes of these contents. Only who evaluates adds one.
    fn is_source(&self) -> bool {
        self.known_outcome().is_some_and(|outcome| Arc::strong_count(outcome) > 1)
    }

    fn used_only_by(&self, stream: Stream) -> bool {
        let own = |tick: &Tick| tick.stream == stream.index || tick.reached();
        own(&self.written()) && self.0.0.reads.all().iter().all(own)
    }
}

impl BufferRef {
    /// Bytes of the buffer.
    pub fn nbytes(&self) -> usize {
        self.0.nbytes
    }

    /// Whether anybody owns it: without owners nobody can ask for its contents any more.
    pub fn is_owned(&self) -> bool {
        self.0.owners.load(Acquire) > 0
    }

    /// Which copies hold the contents, once the last write is done.
    pub fn current(&self) -> Current {
        match self.0.current.load(Acquire) {
            1 => Current::Host,
            2 => Current::Device,
            _ => Current::Both,
        }
    }

    /// For backends: says which copies hold the contents from the work on that is encoded now.
    /// Without effect where host and device share the memory.
    pub fn set_current(&self, current: Current) {
        if !self.0.shared {
            self.0.current.store(current as u8, Release);
        }
    }

    /// The device copy, if there is one.
    pub fn device(&self) -> Option<&dyn DeviceMemory> {
        self.0.device.get().map(|d| &**d)
    }

    /// For backends: adds a device copy; its contents are not current until said so.
    /// Returns the device copy, which is another's if two threads added one at once.
    pub fn add_device(&self, memory: Box<dyn DeviceMemory>) -> &dyn DeviceMemory {
        &**self.0.device.get_or_init(|| memory)
    }

    /// For backends: whether the host copy counts as active memory, if it is one that the system can have
    /// back: not from the moment on at which memory for a device's copy is asked for.
    pub fn count_host(&self, active: bool) {
        // Who writes the host copy has taken it over: it is no part of a file any more.
        if let Some(host) = self.0.host.try_read().as_deref().and_then(Option::as_ref) {
            host.count(active);
        }
    }

    /// Whether host and device address the same memory.
    pub fn is_shared(&self) -> bool {
        self.0.shared
    }

    /// Whether there is a host copy, current or not.
    pub fn has_host(&self) -> bool {
        self.0.host.read().is_some()
    }

    /// For backends: adds host memory to a buffer that has none (to read a device copy back).
    pub fn add_host(&self, mut memory: impl HostMemory + 'static) {
        let mut host = self.0.host.write();
        if host.is_none() {
            self.0.writable.store(memory.bytes_mut().is_some(), Release);
            *host = Some(Box::new(memory));
            self.0.spare.store(true, Release);
        }
    }

    /// Whether the host copy is not needed beside the device's: [`BufferRef::add_host`] made it, or it is a
    /// part of a file.
    pub fn is_spare(&self) -> bool {
        self.0.spare.load(Acquire)
    }

    /// For backends: gives up a host copy that is not needed beside the device's current one, so that the
    /// device copy may change; whether there is no host copy now. It stays while somebody reads it.
    pub fn remove_spare(&self) -> bool {
        let Some(mut host) = self.0.host.try_write() else { return false };
        if self.0.spare.swap(false, AcqRel) {
            *host = None;
            self.0.writable.store(false, Release);
        }
        host.is_none()
    }

    /// The first byte of the host copy, which stays where it is as long as the buffer has an owner: for those
    /// who read and write it from outside, after they waited for [`BufferRef::written`]. `None` when there is
    /// no host copy, or it is read-only.
    pub fn pin(&self) -> Option<*mut u8> {
        let mut host = self.0.host.write();
        let first = host.as_mut()?.bytes_mut()?.as_mut_ptr();
        self.0.spare.store(false, Release);
        self.0.shown.store(true, Release);
        Some(first)
    }

    /// Whether somebody outside may write to the host copy, or could: it was pinned, or is a user's memory.
    pub(crate) fn is_shown(&self) -> bool {
        self.0.shown.load(Acquire)
    }

    /// The host copy's bytes. The caller has waited for [`BufferRef::written`]. A task may read one
    /// buffer twice (`x * x`) also while somebody waits to write.
    ///
    /// # Panics
    /// When there is no host copy: [`BufferRef::to_host`] was not called.
    pub fn read(&self) -> MappedRwLockReadGuard<'_, [u8]> {
        RwLockReadGuard::map(self.0.host.read_recursive(), |host| {
            host.as_ref().expect("buffer was made host-current").bytes()
        })
    }

    /// The host copy's bytes for writing.
    ///
    /// # Panics
    /// When there is no host copy or it is read-only; outputs of operations never are.
    pub fn write(&self) -> MappedRwLockWriteGuard<'_, [u8]> {
        RwLockWriteGuard::map(self.0.host.write(), |host| {
            host.as_mut().and_then(|h| h.bytes_mut()).expect("buffer has writable host memory")
        })
    }

    /// Whether the host copy exists and may be written.
    pub fn is_host_writable(&self) -> bool {
        self.0.writable.load(Acquire)
    }

    /// Makes sure that the host copy is current once the returned tick is reached, by asking the
    /// device that holds the contents to copy them back. Encodes only; does not wait.
    ///
    /// # Errors
    /// When the device fails.
    pub fn to_host(&self) -> Result<Tick> {
        match self.current() {
            Current::Host | Current::Both => Ok(self.written()),
            Current::Device => backend::gpu()?.to_host(self),
        }
    }

    /// The last write.
    pub fn written(&self) -> Tick {
        self.0.written.load()
    }

    /// Records that work up to `tick` writes the buffer.
    pub fn note_write(&self, tick: Tick) {
        self.0.written.store(tick);
    }

    /// Records that work up to `tick` reads the buffer: of a stream's reads, one thread at a time.
    #[inline]
    pub fn note_read(&self, tick: Tick) {
        self.0.reads.note(tick);
    }

    /// The last read of each stream that may still run.
    pub fn reads(&self) -> SmallVec<[Tick; 4]> {
        self.0.reads.all()
    }

    /// What has gone wrong or may, if anything.
    pub(crate) fn known_outcome(&self) -> Option<&Arc<Outcome>> {
        self.0.outcome.get()
    }

    /// The same, to be filled.
    pub(crate) fn outcome(&self) -> &Arc<Outcome> {
        self.0.outcome.get_or_init(Arc::default)
    }

    /// Whether both refer to the same buffer.
    pub fn same(&self, other: &BufferRef) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// A number that names the buffer while it lives.
    pub fn id(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
}

/// Allocates `nbytes` of host memory from the host cache. The contents are unspecified bytes.
///
/// # Errors
/// When the system has no memory left.
pub fn host_buffer(nbytes: usize) -> Result<Buffer> {
    Ok(Buffer::from_vec(HostVec::new(nbytes)?))
}

/// Checks that a byte range lies in a buffer; loaders and views use it.
///
/// # Errors
/// When it does not.
pub fn check_range(op: &'static str, nbytes: usize, offset: usize, len: usize) -> Result<()> {
    match offset.checked_add(len) {
        Some(end) if end <= nbytes => Ok(()),
        _ => Err(Error::invalid(op, format!("bytes {offset}+{len} are past the end {nbytes}"))),
    }
}
