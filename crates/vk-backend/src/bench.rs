//! What encoding costs: the encoder beside the bare Vulkan calls it makes, in one run.

use std::time::{Duration, Instant};

use mlx_vulkan_core::{Device, Result, new_stream};

use crate::{
    runtime::{
        encoder::{Dispatch, Encoder},
        hazards::Region,
        pipelines::PipelineOf,
        streams,
    },
    shaders::layouts::copy_move::{self, Constants, MOVE_BYTES, Push},
};

/// Time per dispatch, in nanoseconds, of the same commands: push constants, barrier, dispatch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EncodeFigures {
    /// Dependent dispatches through the encoder.
    pub encoder_dependent: f64,
    /// The bare calls: push constants, barrier, dispatch.
    pub plain_dependent: f64,
    /// Independent dispatches through the encoder.
    pub encoder_independent: f64,
    /// The bare calls: push constants, dispatch.
    pub plain_independent: f64,
    /// GPU time of a dependent dispatch: longer runs less shorter ones, so that submission and
    /// waiting cancel out.
    pub gpu_dependent: f64,
    /// GPU time of an independent dispatch.
    pub gpu_independent: f64,
}

/// Dispatches per command buffer, as the default commit knob has it.
const BATCH: usize = 100;

/// Times something on an encoder: the median in nanoseconds per dispatch of one command buffer.
type Time<'a> =
    dyn FnMut(&dyn Fn(&mut Encoder, &PipelineOf<Push>) -> Result<Duration>) -> Result<f64> + 'a;

/// Measures encoding on the first device; medians of `rounds` command buffers.
///
/// # Errors
/// When there is no device or it fails.
pub fn encode(rounds: usize) -> Result<EncodeFigures> {
    let stream = new_stream(Device::GPU)?;
    let stream = streams::stream_of(stream.index)
        .ok_or_else(|| mlx_vulkan_core::Error::device("bench", "the backend was not installed"))?;
    let pipeline = stream.device().pipelines.get(MOVE_BYTES, &ONE_WORD, 0);
    stream.encode(|encoder| {
        let mut time = |f: &dyn Fn(&mut Encoder, &PipelineOf<Push>) -> Result<Duration>| {
            let mut times =
                (0..rounds.max(1)).map(|_| f(encoder, &pipeline)).collect::<Result<Vec<_>>>()?;
            times.sort_unstable();
            Ok(times[times.len() / 2].as_nanos() as f64 / BATCH as f64)
        };
        Ok(EncodeFigures {
            encoder_dependent: time(&|e, p| through_encoder(e, p, true))?,
            plain_dependent: time(&|e, p| plain(e, p, true))?,
            encoder_independent: time(&|e, p| through_encoder(e, p, false))?,
            plain_independent: time(&|e, p| plain(e, p, false))?,
            gpu_dependent: gpu_time(&mut time, true)?,
            gpu_independent: gpu_time(&mut time, false)?,
        })
    })
}

/// Copies of words of four bytes.
const ONE_WORD: Constants = Constants { workgroup: 64, bytes: 4, mode: copy_move::DENSE };

/// Push constants of a copy of one element.
fn push(source: u64, destination: u64) -> Push {
    Push { source, destination, count: 1, walk: 0, ndim: 0 }
}

fn record(encoder: &mut Encoder, pipeline: &PipelineOf<Push>, dependent: bool) -> Result<Duration> {
    let memory = encoder.scratch(256 * (BATCH as u64 + 1))?;
    let cell = |i: usize| Region { address: memory.address + 256 * i as u64, bytes: 4 };
    encoder.open()?;
    let start = Instant::now();
    for i in 0..BATCH {
        let (from, to) = if dependent { (cell(i), cell(i + 1)) } else { (cell(0), cell(i + 1)) };
        encoder.dispatch(&Dispatch {
            pipeline,
            push: &push(from.address, to.address),
            groups: [1, 1, 1],
            reads: &[from],
            writes: &[to],
        })?;
    }
    encoder.record()?;
    Ok(start.elapsed())
}

fn through_encoder(
    encoder: &mut Encoder,
    pipeline: &PipelineOf<Push>,
    dependent: bool,
) -> Result<Duration> {
    let time = record(encoder, pipeline, dependent)?;
    finish(encoder)?;
    Ok(time)
}

fn plain(encoder: &mut Encoder, pipeline: &PipelineOf<Push>, dependent: bool) -> Result<Duration> {
    let memory = encoder.scratch(256 * (BATCH as u64 + 1))?;
    let mut recorder = encoder.plain()?;
    let pipeline = pipeline.any().made()?;
    let start = Instant::now();
    recorder.bind(pipeline);
    for i in 0..BATCH as u64 {
        let from = memory.address + if dependent { 256 * i } else { 0 };
        if dependent {
            recorder.barrier();
        }
        let push = push(from, memory.address + 256 * (i + 1));
        recorder.push(pipeline, bytemuck::bytes_of(&push));
        recorder.dispatch([1, 1, 1]);
    }
    let time = start.elapsed();
    drop(recorder);
    finish(encoder)?;
    Ok(time)
}

/// Command buffers of the longer and the shorter run; both fit into the in-flight window.
const RUNS: [usize; 2] = [7, 2];

/// What the GPU needs per dispatch while it always has the next command buffer waiting.
fn gpu_time(time: &mut Time<'_>, dependent: bool) -> Result<f64> {
    let [long, short] = RUNS.map(|batches| time(&|e, p| run(e, p, batches, dependent)));
    Ok((long? - short?) / (RUNS[0] - RUNS[1]) as f64)
}

fn run(
    encoder: &mut Encoder,
    pipeline: &PipelineOf<Push>,
    batches: usize,
    dependent: bool,
) -> Result<Duration> {
    let start = Instant::now();
    for _ in 0..batches {
        record(encoder, pipeline, dependent)?;
        encoder.end_op()?;
    }
    encoder.drain()?;
    Ok(start.elapsed())
}

fn finish(encoder: &mut Encoder) -> Result<()> {
    encoder.end_op()?;
    encoder.drain()
}
