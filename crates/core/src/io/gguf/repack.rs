//! ggml's blocks to MLX's forms, on all cores.

use std::{ops::ControlFlow, sync::Mutex, thread};

use half::f16;

use super::directory::{BLOCK, Entry, Kind};
use crate::{
    Array, Dtype, Result, Shape,
    buffer::{Buffer, HostMemory},
    host::HostVec,
    io::context::{Context, tensor},
};

/// Blocks of one job: about a million weights.
const JOB: usize = 1 << 15;

/// A quantized tensor in MLX's form.
pub(super) struct Repacked {
    pub(super) weights: Array,
    pub(super) scales: Array,
    /// None of small floats.
    pub(super) biases: Option<Array>,
}

/// The memory of a [`Repacked`].
struct Memory {
    weights: HostVec,
    scales: HostVec,
    biases: Option<HostVec>,
}

/// Blocks to repack and where to.
struct Job<'a> {
    entry: &'a Entry,
    blocks: &'a [u8],
    weights: &'a mut [u8],
    scales: &'a mut [u8],
    biases: &'a mut [u8],
}

/// Repacks the quantized tensors of `bytes`, in which their ranges lie.
pub(super) fn repack(
    context: Context<'_>,
    bytes: &[u8],
    entries: &[Entry],
) -> Result<Vec<Repacked>> {
    let mut memory = entries.iter().map(allocate).collect::<Result<Vec<_>>>()?;
    let jobs = entries.iter().zip(&mut memory).flat_map(|(e, m)| split(bytes, e, m)).collect();
    run(jobs).map_err(|(name, what)| context.error(tensor(&name), what))?;
    entries.iter().zip(memory).map(|(entry, memory)| arrays(entry, memory)).collect()
}

fn allocate(entry: &Entry) -> Result<Memory> {
    let blocks = entry.range.len() / entry.kind.block_bytes();
    // No larger than the file's form of the same tensor, whose size was checked.
    Ok(Memory {
        weights: HostVec::new(blocks * entry.kind.bits() * BLOCK / 8)?,
        scales: HostVec::new(blocks * entry.kind.scale().size())?,
        biases: (entry.kind != Kind::Mxfp4).then(|| HostVec::new(blocks * 2)).transpose()?,
    })
}

/// The jobs of one tensor.
fn split<'a>(bytes: &'a [u8], entry: &'a Entry, memory: &'a mut Memory) -> Vec<Job<'a>> {
    let blocks = bytes.get(entry.range.clone()).unwrap_or_default();
    let weights = memory.weights.bytes_mut().unwrap_or_default();
    let scales = memory.scales.bytes_mut().unwrap_or_default();
    let biases = memory.biases.as_mut().and_then(HostMemory::bytes_mut).unwrap_or_default();
    let mut biases = biases.chunks_mut(JOB * 2);
    let parts = blocks
        .chunks(JOB * entry.kind.block_bytes())
        .zip(weights.chunks_mut(JOB * entry.kind.bits() * BLOCK / 8))
        .zip(scales.chunks_mut(JOB * entry.kind.scale().size()));
    let job = |((blocks, weights), scales)| {
        let biases = biases.next().unwrap_or_default();
        Job { entry, blocks, weights, scales, biases }
    };
    parts.map(job).collect()
}

/// Runs the jobs on all cores; the error has the tensor's name.
fn run(jobs: Vec<Job<'_>>) -> Result<(), (String, String)> {
    let cores = thread::available_parallelism().map_or(1, |n| n.get());
    let helpers = cores.min(jobs.len()).saturating_sub(1);
    let queue = Mutex::new((jobs.into_iter(), Ok(())));
    let work = || {
        let next = || queue.lock().unwrap_or_else(|e| e.into_inner()).0.next();
        while let Some(job) = next() {
            let name = job.entry.name.clone();
            if let Err(what) = job.run() {
                let mut queue = queue.lock().unwrap_or_else(|e| e.into_inner());
                queue.1 = Err((name, what));
                queue.0.by_ref().for_each(drop);
            }
        }
    };
    thread::scope(|scope| {
        // A system without more threads still has this one.
        let _ = (0..helpers).try_for_each(|_| {
            match thread::Builder::new().name("mlx-gguf".into()).spawn_scoped(scope, work) {
                Ok(_) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        });
        work();
    });
    queue.into_inner().unwrap_or_else(|e| e.into_inner()).1
}

impl Job<'_> {
    fn run(self) -> Result<(), String> {
        let kind = self.entry.kind;
        let scale_bytes = kind.scale().size();
        let mut biases = self.biases.as_chunks_mut::<2>().0.iter_mut();
        let blocks = self.blocks.chunks_exact(kind.block_bytes());
        let weights = self.weights.chunks_exact_mut(kind.bits() * BLOCK / 8);
        let scales = self.scales.chunks_exact_mut(scale_bytes);
        for ((block, weights), scale) in blocks.zip(weights).zip(scales) {
            let (own, codes) = block.split_at(scale_bytes);
            scale.copy_from_slice(own);
            let bias = unpack(kind, own, codes, weights)?;
            if let (Some(bias), Some(place)) = (bias, biases.next()) {
                *place = bias;
            }
        }
        Ok(())
    }
}

/// Unpacks what follows a block's scale; the bias, if the type has one.
fn unpack(
    kind: Kind,
    scale: &[u8],
    codes: &[u8],
    weights: &mut [u8],
) -> Result<Option<[u8; 2]>, String> {
    Ok(match kind {
        Kind::Q4_0 => {
            unpack_nibbles(codes, weights);
            Some(scaled(scale, -8.0)?)
        }
        Kind::Q4_1 => {
            unpack_nibbles(&codes[2..], weights);
            Some([codes[0], codes[1]])
        }
        Kind::Q8_0 => {
            for (code, q) in weights.iter_mut().zip(codes) {
                // As i8 + 128 → u8.
                *code = q ^ 0x80;
            }
            Some(scaled(scale, -128.0)?)
        }
        // ggml takes floats for twice and scales for half of what they are.
        Kind::Mxfp4 => {
            unpack_nibbles(codes, weights);
            None
        }
        Kind::Plain(_) => return Err("is not quantized".into()),
    })
}

/// `factor · scale`, which is exact for powers of two unless it overflows.
fn scaled(scale: &[u8], factor: f32) -> Result<[u8; 2], String> {
    let scale = f16::from_le_bytes([scale[0], scale[1]]);
    let bias = f16::from_f32(factor * scale.to_f32());
    if bias.is_finite() {
        Ok(bias.to_le_bytes())
    } else {
        Err(format!("a block's scale is {scale}, whose bias {factor} · scale is not a float16"))
    }
}

/// From ggml's order (byte j has code j below code j + 16) to MLX's (byte j has code 2j below 2j + 1).
fn unpack_nibbles(source: &[u8], target: &mut [u8]) {
    let (halves, _) = source.as_chunks::<8>();
    let (low, high) = target.split_at_mut(8);
    let words = low.as_chunks_mut::<4>().0.iter_mut().zip(high.as_chunks_mut::<4>().0);
    for (half, (low, high)) in halves.iter().zip(words) {
        let codes = u64::from_le_bytes(*half);
        *low = gather(codes & 0x0F0F_0F0F_0F0F_0F0F).to_le_bytes();
        *high = gather((codes >> 4) & 0x0F0F_0F0F_0F0F_0F0F).to_le_bytes();
    }
}

/// The low nibbles of eight bytes, whose high ones are zero, side by side.
fn gather(bytes: u64) -> u32 {
    let pairs = (bytes | bytes >> 4) & 0x00FF_00FF_00FF_00FF;
    let quads = (pairs | pairs >> 8) & 0x0000_FFFF_0000_FFFF;
    (quads | quads >> 16) as u32
}

fn arrays(entry: &Entry, memory: Memory) -> Result<Repacked> {
    let with_last = |last: usize| -> Shape {
        let mut shape = entry.shape.clone();
        if let Some(axis) = shape.last_mut() {
            *axis = last;
        }
        shape
    };
    let columns = entry.shape.last().copied().unwrap_or(0);
    let groups = with_last(columns / BLOCK);
    let words = with_last(columns / BLOCK * entry.kind.bits());
    let of = |memory, shape, dtype| Array::from_buffer(Buffer::from_vec(memory), shape, dtype, 0);
    let biases = memory.biases.map(|memory| of(memory, groups.clone(), Dtype::Float16));
    Ok(Repacked {
        weights: of(memory.weights, words, Dtype::Uint32)?,
        biases: biases.transpose()?,
        scales: of(memory.scales, groups, entry.kind.scale())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nibbles_come_out_in_order() {
        let codes: [u8; 32] = std::array::from_fn(|i| (i * 7 % 16) as u8);
        let ggml: [u8; 16] = std::array::from_fn(|j| codes[j] | codes[j + 16] << 4);
        let mut mlx = [0; 16];
        unpack_nibbles(&ggml, &mut mlx);
        for (j, byte) in mlx.iter().enumerate() {
            assert_eq!(*byte, codes[2 * j] | codes[2 * j + 1] << 4);
        }
    }

    #[test]
    fn biases_are_exact_or_refused() {
        for bits in 0..=u16::MAX {
            let scale = f16::from_bits(bits);
            match scaled(&scale.to_le_bytes(), -8.0) {
                Ok(bias) => assert_eq!(f16::from_le_bytes(bias).to_f64(), -8.0 * scale.to_f64()),
                Err(_) => assert!(!scale.is_finite() || scale.to_f64().abs() * 8.0 > 65504.0),
            }
        }
    }
}
