//! What a backend is to core: one small trait, and the registry of the two backends.

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{Arc, Once},
};

use once_cell::sync::OnceCell;

use crate::{
    Array, Dtype, Error, Result, Shape,
    array::Data,
    buffer::BufferRef,
    clock::{Clock, Tick},
    fusion::Group,
    graph::Node,
    notice,
    primitives::Primitive,
    stream::{Device, DeviceType, Stream},
    tape::Tape,
};

/// One output of a primitive, to be filled by the backend.
pub struct Output {
    /// Its shape.
    pub shape: Shape,
    /// Its dtype.
    pub dtype: Dtype,
    /// Buffer and layout; the backend sets it while encoding, before the work has run.
    pub data: Option<Data>,
}

impl Output {
    /// Elements of the output.
    pub fn size(&self) -> usize {
        crate::shape::num_elements(&self.shape)
    }

    /// Bytes of the output when dense.
    pub fn nbytes(&self) -> usize {
        self.size() * self.dtype.size()
    }
}

/// A value of a device's description.
#[derive(Debug, Clone, PartialEq)]
pub enum InfoValue {
    /// Text, such as a name.
    Text(String),
    /// A number, such as bytes.
    Number(u64),
}

/// Description of a device, by key; MLX's `device_info`.
pub type DeviceInfo = BTreeMap<&'static str, InfoValue>;

/// Whether a backend runs a primitive itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// A kernel of its own.
    Native,
    /// Refused, for this reason.
    Refused(&'static str),
}

/// What an evaluation waits for. It holds neither the turn nor a lock meanwhile.
pub type Pause = Box<dyn FnOnce() -> Result<()>>;

/// How far the encoding of an operation came.
#[must_use]
pub enum Encoded {
    /// It is encoded.
    Done,
    /// It is encoded, and nothing else should be before this wait is over: too much is in flight.
    Full(Pause),
    /// It is not, and nobody can tell that it was tried. To be tried again after this wait.
    Later(Pause),
    /// The same because memory is out. This wait frees what can be freed. The error tells of a second time.
    NoMemory(Pause, Box<Error>),
}

impl Encoded {
    /// Whether the operation is encoded.
    pub fn is_encoded(&self) -> bool {
        matches!(self, Encoded::Done | Encoded::Full(_))
    }

    /// For who encodes without an evaluation: waits as it is asked to.
    ///
    /// # Errors
    /// When the operation is not encoded.
    pub fn finish(self) -> Result<()> {
        match self {
            Encoded::Done => Ok(()),
            Encoded::Full(pause) => pause(),
            Encoded::Later(_) => Err(Error::device("encode", "too much is in flight")),
            Encoded::NoMemory(_, error) => Err(*error),
        }
    }
}

/// A device family that evaluates primitives.
///
/// `eval` encodes and returns; the work runs later, in the order of its stream. None of these
/// functions waits: what has to be waited for is returned. Core has made
/// every input's data known before, has waited (on the stream, not on the thread) for inputs of
/// other streams, and notes the ticks of inputs and outputs afterwards.
pub trait Backend: Send + Sync {
    /// Short name: `cpu`, `vulkan`.
    fn name(&self) -> &'static str;

    /// Which devices this backend serves.
    fn device_type(&self) -> DeviceType;

    /// Number of usable devices.
    fn device_count(&self) -> usize;

    /// Why there is no device `index`: what is missing, and the remedy.
    fn unavailable(&self, index: u32) -> String {
        format!("the {} backend counts its devices from 0 and has no number {index}", self.name())
    }

    /// Description of a device.
    ///
    /// # Errors
    /// When there is no such device.
    fn device_info(&self, index: u32) -> Result<DeviceInfo>;

    /// Whether this backend runs `primitive` on arrays of `dtype`.
    fn support(&self, primitive: &Primitive, dtype: Dtype) -> Support;

    /// Prepares a stream and returns its clock.
    ///
    /// # Errors
    /// When the device fails.
    fn new_stream(&self, stream: Stream) -> Result<Arc<dyn Clock>>;

    /// A stream was given back: hands over what is encoded on it, and frees what it holds once that has run.
    /// Another stream may go on with its index, and late work may still come: both find the clock as it is.
    ///
    /// # Errors
    /// When the device fails.
    fn rest(&self, stream: Stream) -> Result<()>;

    /// Whether another stream may go on where this one rests: it has not failed as a whole.
    fn is_sound(&self, _stream: Stream) -> bool {
        true
    }

    /// Encodes `primitive` on `stream` and sets the outputs' data. If it has to be tried again, the
    /// inputs are what they were.
    ///
    /// # Errors
    /// When the backend refuses the operation, or memory or the device fails.
    fn eval(
        &self,
        stream: Stream,
        primitive: &Primitive,
        inputs: &[Array],
        outputs: &mut [Output],
    ) -> Result<Encoded>;

    /// Groups that this backend evaluates at once, of nodes at `places` of the tape; what stands before them
    /// is evaluated. Of groups that share a node, the first one is taken.
    fn plan(&self, _tape: &Tape, _places: Range<usize>) -> Vec<Group> {
        Vec::new()
    }

    /// Whether kernels that read the result of an elementwise operation should rather compute it again from
    /// what it reads. Always no for other operations.
    fn recomputes(&self, _node: &Node, _result: &Array) -> bool {
        false
    }

    /// The tick that will be reached when everything encoded on `stream` so far has run.
    fn tick(&self, stream: Stream) -> Tick;

    /// Encodes that later work of `stream` starts only after `tick`, a point of another stream
    /// whose work was already handed over.
    ///
    /// # Errors
    /// When the device fails.
    fn wait(&self, stream: Stream, tick: Tick) -> Result<()>;

    /// Hands what is encoded on `stream` over to the device. Does not wait.
    ///
    /// # Errors
    /// When the device fails.
    fn finalize(&self, stream: Stream) -> Result<()>;

    /// The same where the device has at most `under_way` submissions of the stream, and what is encoded can
    /// end here as well as later: somebody waits for an evaluation that goes on. Whether it was handed over.
    ///
    /// # Errors
    /// When the device fails.
    fn offer(&self, _stream: Stream, _under_way: usize) -> Result<bool> {
        Ok(false)
    }

    /// Encodes a copy of a buffer's device contents to its host copy; see [`BufferRef::to_host`].
    /// The backend adds the host copy where there is none, notes the copy as the buffer's last
    /// write, says that both copies are current, and hands the work over.
    ///
    /// # Errors
    /// When the device fails.
    fn to_host(&self, buffer: &BufferRef) -> Result<Tick>;
}

static CPU: OnceCell<Arc<dyn Backend>> = OnceCell::new();
static GPU: OnceCell<Arc<dyn Backend>> = OnceCell::new();

/// Installs a backend for its device type. The first one stays.
pub fn install(backend: Arc<dyn Backend>) {
    let slot = match backend.device_type() {
        DeviceType::Cpu => &CPU,
        DeviceType::Gpu => &GPU,
    };
    let _ = slot.set(backend);
}

/// The backend that serves `device`.
///
/// # Errors
/// When there is none, or it has no device of that index.
pub fn backend_for(device: Device) -> Result<&'static Arc<dyn Backend>> {
    let backend = match device.kind {
        DeviceType::Cpu => CPU.get(),
        DeviceType::Gpu => GPU.get(),
    };
    match backend {
        Some(b) if (device.index as usize) < b.device_count() => Ok(b),
        Some(b) => {
            let why = b.unavailable(device.index);
            Err(Error::device("device", format!("{device} is not available: {why}")))
        }
        None => {
            let why = "no backend is installed for it";
            Err(Error::device("device", format!("{device} is not available: {why}")))
        }
    }
}

/// What the installed backends evaluate at once of the nodes at `places`.
pub(crate) fn plan(tape: &Tape, places: Range<usize>) -> Vec<Group> {
    let of = |backend: &Arc<dyn Backend>| backend.plan(tape, places.clone());
    let mut groups = GPU.get().map(of).unwrap_or_default();
    groups.extend(CPU.get().map(of).unwrap_or_default());
    groups
}

/// Whether the node's backend computes its result again where it is read.
pub(crate) fn recomputes(node: &Node, result: &Array) -> bool {
    let backend = match node.stream.device.kind {
        DeviceType::Cpu => &CPU,
        DeviceType::Gpu => &GPU,
    };
    backend.get().is_some_and(|backend| backend.recomputes(node, result))
}

/// The GPU backend.
///
/// # Errors
/// When none is installed.
pub fn gpu() -> Result<&'static Arc<dyn Backend>> {
    backend_for(Device::GPU)
}

/// Whether any device of this kind is usable.
pub fn is_available(kind: DeviceType) -> bool {
    backend_for(Device { kind, index: 0 }).is_ok()
}

/// The GPU if there is a usable one, else the CPU; then one warning says why.
pub(crate) fn preferred_device() -> Device {
    static WARNED: Once = Once::new();
    match GPU.get() {
        Some(gpu) if gpu.device_count() == 0 => {
            let why = gpu.unavailable(0);
            WARNED.call_once(|| notice::warn(format_args!("everything runs on the CPU: {why}")));
            Device::CPU
        }
        Some(_) => Device::GPU,
        None => Device::CPU,
    }
}
