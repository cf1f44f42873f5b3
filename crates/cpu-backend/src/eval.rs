//! The backend: streams, and the match that hands each primitive to its family.

use std::sync::Arc;

use mlx_vulkan_core::{
    Array, DeviceType, Dtype, Error, Result, Stream,
    backend::{Backend, DeviceInfo, InfoValue, Output, Support},
    buffer::{BufferRef, Current},
    clock::{Clock, Tick},
    primitives::Primitive,
};
use parking_lot::Mutex;

use crate::{encoder::Encoder, stream::CpuStream, *};

/// The CPU backend.
#[derive(Default)]
pub struct CpuBackend {
    /// Streams by index; other backends' indices stay empty.
    streams: Mutex<Vec<Option<CpuStream>>>,
}

/// Installs the CPU backend in core.
pub fn install() {
    mlx_vulkan_core::backend::install(Arc::new(CpuBackend::default()));
}

impl CpuBackend {
    /// Runs `f` with a stream's encoding side.
    fn with_stream<R>(&self, stream: Stream, f: impl FnOnce(&mut CpuStream) -> R) -> R {
        let mut streams = self.streams.lock();
        let stream = streams[stream.index as usize].as_mut();
        f(stream.expect("core creates streams before it uses them"))
    }

    /// Makes the host copy of every input current before later tasks run.
    fn bring_to_host(&self, tasks: &mut CpuStream, inputs: &[Array]) -> Result<()> {
        for input in inputs {
            let buffer = &input.evaluated().buffer;
            if buffer.current() == Current::Device {
                let tick = buffer.to_host()?;
                tasks.push(Box::new(move || tick.wait()))?;
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
        let threads = rayon::current_num_threads() as u64;
        Ok(DeviceInfo::from([
            ("device_name", InfoValue::Text("CPU".into())),
            ("architecture", InfoValue::Text(std::env::consts::ARCH.into())),
            ("threads", InfoValue::Number(threads)),
        ]))
    }

    fn support(&self, _primitive: &Primitive, _dtype: Dtype) -> Support {
        Support::Native
    }

    fn new_stream(&self, stream: Stream) -> Result<Arc<dyn Clock>> {
        let cpu = CpuStream::new(stream)?;
        let clock = cpu.clock.clone();
        let mut streams = self.streams.lock();
        streams.resize_with(stream.index as usize, || None);
        streams.push(Some(cpu));
        Ok(clock)
    }

    fn eval(
        &self,
        stream: Stream,
        primitive: &Primitive,
        inputs: &[Array],
        outputs: &mut [Output],
    ) -> Result<()> {
        self.with_stream(stream, |tasks| {
            self.bring_to_host(tasks, inputs)?;
            encode(&mut Encoder { stream, tasks }, primitive, inputs, outputs)
        })
    }

    fn tick(&self, stream: Stream) -> Tick {
        let value = self.with_stream(stream, |s| s.pending_value());
        Tick { stream: stream.index, value }
    }

    fn wait(&self, stream: Stream, tick: Tick) -> Result<()> {
        self.with_stream(stream, |tasks| tasks.push(Box::new(move || tick.wait())))
    }

    fn finalize(&self, stream: Stream) -> Result<()> {
        self.with_stream(stream, |s| s.commit())
    }

    fn to_host(&self, _buffer: &BufferRef) -> Result<Tick> {
        Err(Error::device("to_host", "the CPU backend has no device memory"))
    }
}

/// The inputs of a node, whose number its operation fixed.
fn args<const N: usize>(inputs: &[Array]) -> &[Array; N] {
    inputs.try_into().expect("operations build nodes with this number of inputs")
}

/// Hands a primitive to its family.
fn encode(
    enc: &mut Encoder<'_>,
    primitive: &Primitive,
    inputs: &[Array],
    outputs: &mut [Output],
) -> Result<()> {
    if let Primitive::Quantize(affine) = primitive {
        let outputs = outputs.try_into().expect("quantize has three outputs");
        return quantized::quantize(enc, *affine, &args::<1>(inputs)[0], outputs);
    }
    if let Primitive::Linalg(op) = primitive {
        return linalg::encode(enc, *op, &args::<1>(inputs)[0], outputs);
    }
    let [out] = outputs else { unreachable!("{} has one output", primitive.name()) };
    match primitive {
        Primitive::Unary(op) => unary::encode(enc, *op, args(inputs), out),
        Primitive::Binary(op) => binary::encode(enc, *op, args(inputs), out),
        Primitive::Select => ternary::select(enc, args(inputs), out),
        Primitive::AsType | Primitive::Full => copy::astype(enc, args(inputs), out),
        Primitive::Contiguous { .. } | Primitive::Reshape | Primitive::View => {
            copy::contiguous(enc, args(inputs), out)
        }
        Primitive::Arange { start, step } => arange::encode(enc, *start, *step, out),
        Primitive::SliceUpdate { start, strides } => {
            shape::slice_update(enc, start, strides, args(inputs), out)
        }
        Primitive::Concatenate { axis } => shape::concatenate(enc, *axis, inputs, out),
        Primitive::Reduce { op, axes } => reduce::encode(enc, *op, axes, args(inputs), out),
        Primitive::ArgReduce { op, axis } => reduce::arg_reduce(enc, *op, *axis, args(inputs), out),
        Primitive::Scan { op, axis, reverse, inclusive } => {
            let scan =
                scan::Scan { op: *op, axis: *axis, reverse: *reverse, inclusive: *inclusive };
            scan::encode(enc, scan, args(inputs), out)
        }
        Primitive::Sort { axis } => sort::sort(enc, *axis, None, args(inputs), out),
        Primitive::Partition { kth, axis } => sort::sort(enc, *axis, Some(*kth), args(inputs), out),
        Primitive::ArgSort { axis } => sort::argsort(enc, *axis, None, args(inputs), out),
        Primitive::ArgPartition { kth, axis } => {
            sort::argsort(enc, *axis, Some(*kth), args(inputs), out)
        }
        Primitive::Softmax { .. } => softmax::softmax(enc, args(inputs), out),
        Primitive::LogSumExp => softmax::logsumexp(enc, args(inputs), out),
        Primitive::Take { axis } => indexing::take(enc, *axis, args(inputs), out),
        Primitive::TakeAlongAxis { axis } => {
            indexing::take_along_axis(enc, *axis, args(inputs), out)
        }
        Primitive::Gather { axes, slice_sizes } => {
            indexing::gather(enc, axes, slice_sizes, inputs, out)
        }
        Primitive::Scatter { op, axes } => scatter::scatter(enc, *op, axes, inputs, out),
        Primitive::ScatterAxis { op, axis } => {
            scatter::scatter_axis(enc, *op, *axis, args(inputs), out)
        }
        Primitive::SearchSorted { right } => sort::search(enc, *right, args(inputs), out),
        Primitive::Matmul => {
            let [a, b] = args(inputs);
            matmul::encode(enc, [a, b], None, out)
        }
        Primitive::AddMm { alpha, beta } => {
            let [a, b, c] = args(inputs);
            matmul::encode(enc, [a, b], Some(matmul::Addend { c, alpha: *alpha, beta: *beta }), out)
        }
        Primitive::GatherMm { .. } => gathered::gather_mm(enc, args(inputs), out),
        Primitive::SegmentedMm => gathered::segmented_mm(enc, args(inputs), out),
        Primitive::Convolution(c) => convolution::encode(enc, c, args(inputs), out),
        Primitive::Fft(fft) => fft::encode(enc, fft, args(inputs), out),
        Primitive::Hadamard(transform) => hadamard::encode(enc, *transform, args(inputs), out),
        Primitive::GatherQmm { affine, transpose, .. } => {
            quantized::gather_matmul(enc, *affine, *transpose, args(inputs), out)
        }
        Primitive::Quantize(_) => unreachable!("has three outputs"),
        Primitive::Linalg(_) => unreachable!("may have several outputs"),
        Primitive::Dequantize(affine) => quantized::dequantize(enc, *affine, args(inputs), out),
        Primitive::QuantizedMatmul { affine, transpose } => {
            quantized::matmul(enc, *affine, *transpose, args(inputs), out)
        }
        Primitive::RmsNorm { eps } => norm::rms_norm(enc, *eps, args(inputs), out),
        Primitive::LayerNorm { eps } => norm::layer_norm(enc, *eps, args(inputs), out),
        Primitive::Rope(rope) => rope::encode(enc, *rope, inputs, out),
        Primitive::ScaledDotProductAttention { scale, mask } => {
            attention::encode(enc, *scale, *mask, inputs, out)
        }
        Primitive::RandomBits { width } => random::bits(enc, *width, args(inputs), out),
        Primitive::Transpose { .. }
        | Primitive::Broadcast
        | Primitive::ExpandDims { .. }
        | Primitive::Squeeze { .. }
        | Primitive::AsStrided { .. }
        | Primitive::Slice { .. } => unreachable!("core evaluates views"),
    }
}
