//! The backend: streams, and the match that hands each primitive to its family.

use std::{ops::Range, sync::Arc};

use mlx_vulkan_core::{
    Array, DeviceType, Dtype, Error, Result, Stream,
    backend::{self, Backend, DeviceInfo, Encoded, Output, Support},
    buffer::{BufferRef, Current},
    clock::{Clock, Tick},
    foreign::Holding,
    fusion::Group,
    primitives::Primitive,
    stream,
    tape::Tape,
};
use parking_lot::Mutex;

use crate::{
    encoder::{Encoder, args},
    stream::{CpuStream, Operands},
    *,
};

/// The CPU backend.
#[derive(Default)]
pub struct CpuBackend {
    streams: Arc<Streams>,
}

/// Streams by index; other backends' indices stay empty.
#[derive(Default)]
pub(crate) struct Streams(Mutex<Vec<Option<CpuStream>>>);

/// Installs the CPU backend in core.
pub fn install() {
    backend::install(Arc::new(CpuBackend::default()));
}

impl Streams {
    /// Runs `f` with a stream's encoding side.
    fn with<R>(&self, stream: Stream, f: impl FnOnce(&mut CpuStream) -> R) -> R {
        let _holding = Holding::new();
        let mut streams = self.0.lock();
        let stream = streams[stream.index as usize].as_mut();
        f(stream.expect("core creates streams before it uses them"))
    }

    /// Encodes one operation, or several as one, with these inputs and outputs. Its inputs are in the host's
    /// memory when its tasks run.
    pub(crate) fn operation<'a>(
        &self,
        stream: Stream,
        inputs: impl Iterator<Item = &'a Array> + Clone,
        outputs: &mut [Output],
        encode: impl FnOnce(&mut Encoder<'_>, &mut [Output]) -> Result<()>,
    ) -> Result<()> {
        self.with(stream, |tasks| {
            tasks.operation(|tasks| {
                Self::bring_to_host(tasks, inputs.clone())?;
                encode(&mut Encoder { stream, tasks }, outputs)?;
                Ok(Operands::new(stream, inputs, outputs))
            })
        })
    }

    /// Makes the host copy of every input current before later tasks run. The copies are handed over at once:
    /// other streams of the device may wait for these tasks, and be before them in its queue.
    fn bring_to_host<'a>(
        tasks: &mut CpuStream,
        inputs: impl Iterator<Item = &'a Array>,
    ) -> Result<()> {
        for input in inputs {
            let buffer = &input.evaluated().buffer;
            if buffer.current() == Current::Device {
                let tick = buffer.to_host()?;
                backend::gpu()?.finalize(stream::by_index(tick.stream))?;
                tasks.push(Box::new(move || tick.wait()));
            }
        }
        Ok(())
    }
}

impl Backend for CpuBackend {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn device_type(&self) -> DeviceType {
        DeviceType::Cpu
    }

    fn device_count(&self) -> usize {
        1
    }

    fn device_info(&self, _index: u32) -> Result<DeviceInfo> {
        Ok(machine::info())
    }

    fn support(&self, _primitive: &Primitive, _dtype: Dtype) -> Support {
        Support::Native
    }

    fn new_stream(&self, stream: Stream) -> Result<Arc<dyn Clock>> {
        let cpu = CpuStream::new();
        let clock = cpu.clock.clone();
        let mut streams = self.streams.0.lock();
        streams.resize_with(stream.index as usize, || None);
        streams.push(Some(cpu));
        Ok(clock)
    }

    fn rest(&self, stream: Stream) -> Result<()> {
        self.streams.with(stream, CpuStream::rest)
    }

    fn eval(
        &self,
        stream: Stream,
        primitive: &Primitive,
        inputs: &[Array],
        outputs: &mut [Output],
    ) -> Result<Encoded> {
        self.streams.operation(stream, inputs.iter(), outputs, |enc, outputs| {
            encode(enc, primitive, inputs, outputs)
        })?;
        Ok(Encoded::Done)
    }

    fn plan(&self, tape: &Tape, places: Range<usize>) -> Vec<Group> {
        chains::plan(tape, places, &self.streams)
    }

    fn tick(&self, stream: Stream) -> Tick {
        let value = self.streams.with(stream, |s| s.pending_value());
        Tick { stream: stream.index, value }
    }

    fn wait(&self, stream: Stream, tick: Tick) -> Result<()> {
        // What failed is told by what reads it.
        self.streams.with(stream, |tasks| tasks.push(Box::new(move || tick.wait())));
        Ok(())
    }

    fn finalize(&self, stream: Stream) -> Result<()> {
        self.streams.with(stream, |s| s.commit())
    }

    fn to_host(&self, _buffer: &BufferRef) -> Result<Tick> {
        Err(Error::device("to_host", "the CPU backend has no device memory"))
    }
}

/// Hands a primitive to its family.
fn encode(
    enc: &mut Encoder<'_>,
    primitive: &Primitive,
    inputs: &[Array],
    outputs: &mut [Output],
) -> Result<()> {
    use Primitive as P;
    let [out, others @ ..] = outputs else { unreachable!("{} has an output", primitive.name()) };
    match primitive {
        P::Pass(_) => unreachable!("core passes arrays on"),
        P::Load(_) => unreachable!("core makes arrays of files"),
        P::Kernel(kernel) => {
            let message = format!("kernel \"{}\" runs on a GPU only.", kernel.name);
            Err(Error::runtime("metal_kernel", message))
        }
        P::Compiled(_) => unreachable!("core expands programs"),
        P::Unary(op) => unary::encode(enc, *op, args(inputs), out),
        P::Binary(op) => binary::encode(enc, *op, args(inputs), out),
        P::Ternary(op) => ternary::encode(enc, *op, args(inputs), out),
        P::Copy(op) => copy::encode(enc, *op, args(inputs), out),
        P::Shape(op) => shape::encode(enc, op, inputs, out),
        P::Reduce(reduce) => reduce::encode(enc, reduce, args(inputs), out),
        P::ArgReduce(reduce) => reduce::arg_reduce(enc, *reduce, args(inputs), out),
        P::Scan(scan) => scan::encode(enc, *scan, args(inputs), out),
        P::Sort(op) => sort::encode(enc, *op, inputs, out),
        P::Softmax(op) => softmax::encode(enc, *op, args(inputs), out),
        P::Indexing(op) => indexing::encode(enc, op, inputs, out),
        P::Arange(range) => arange::encode(enc, *range, out),
        P::Random(bits) => random::bits(enc, bits.width, args(inputs), out),
        P::Matmul(op) => matmul::encode(enc, *op, inputs, out),
        P::Quantized(op) => quantized::encode(enc, *op, inputs, out, others),
        P::Convolution(convolution) => convolution::encode(enc, convolution, args(inputs), out),
        P::Norm(op) => norm::encode(enc, *op, inputs, out, others),
        P::Rope(rope) => rope::encode(enc, *rope, inputs, out),
        P::Attention(attention) => attention::encode(enc, *attention, inputs, out),
        P::AttentionVjp(vjp) => attention::encode_vjp(enc, *vjp, inputs, out, others),
        P::Delta(op) => delta::encode(enc, *op, inputs, out, others),
        P::Fft(fft) => fft::encode(enc, fft, args(inputs), out),
        P::Hadamard(transform) => hadamard::encode(enc, *transform, args(inputs), out),
        P::Linalg(op) => linalg::encode(enc, *op, &inputs[0], outputs),
    }
}
