//! Mistakes made on purpose, for the tests of what finds them.

use mlx_vulkan_core::{Device, Error, Result, Stream, default_stream};

use crate::{
    runtime::{
        builders::Pipeline,
        encoder::{Dispatch, Region},
        pipelines::PipelineOf,
        streams,
    },
    shaders::layouts::copy_move::{self, Constants, MOVE_BYTES, Push},
};

/// The operation that errors name.
const OP: &str = "provoke";

/// Encodes, beside what is evaluated next on the GPU's default stream, a kernel that writes one word at
/// byte `at` of an allocation of `bytes` bytes: outside of it when `at` is negative or `bytes` or more,
/// while it claims to write inside. Only with
/// `MLX_VK_DEBUG_GUARD=1`, whose guards (1 KiB on either side) take the blow.
///
/// # Errors
/// When there are no guards, `at` is beyond them, or the device fails.
pub fn write_outside(bytes: u64, at: i64) -> Result<()> {
    let stream = default_stream(Device::GPU)?;
    let stream = streams::stream_of(stream.index)
        .ok_or_else(|| Error::device(OP, "the backend was not installed"))?;
    let guarded = -1024..=bytes as i64 + 1020;
    if stream.device().guards.is_none() || !guarded.contains(&at) {
        return Err(Error::device(OP, "nothing guards that memory: set MLX_VK_DEBUG_GUARD=1"));
    }
    let constants = Constants { workgroup: 64, bytes: 4, mode: copy_move::DENSE };
    let pipeline = stream.device().pipelines.get(MOVE_BYTES, &constants, 0);
    let (_, encoded) = stream.work(|encoder| {
        encoder.begin_op(OP, 1);
        let from = encoder.scratch(4)?;
        let memory = encoder.scratch(bytes)?;
        let destination = memory.address.wrapping_add_signed(at);
        let push = Push { source: from.address, destination, count: 1, walk: 0, ndim: 0 };
        encoder.dispatch(&Dispatch {
            pipeline: &pipeline,
            push: &push,
            groups: [1, 1, 1],
            reads: &[from],
            writes: &[Region { address: memory.address, bytes }],
        })
    })?;
    encoded.finish()
}

/// Encodes, beside what is evaluated next on a stream, a kernel that the driver's compiler refuses once it
/// has done `work`. That is found when the kernel is recorded.
///
/// # Errors
/// When it is not a Vulkan stream, or the device fails.
pub fn refuse_kernel(stream: Stream, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let refused = || {
        work();
        Err(Error::device(OP, "the driver refused a kernel"))
    };
    // Nobody orders it: who needs it makes it.
    let pipeline = PipelineOf::<Push>::new(Pipeline::new(OP, refused));
    let (_, encoded) = streams::get(stream)?.work(|encoder| {
        encoder.begin_op(OP, 1);
        let (pipeline, push, groups) = (&pipeline, &Push::default(), [1, 1, 1]);
        encoder.dispatch(&Dispatch { pipeline, push, groups, reads: &[], writes: &[] })
    })?;
    encoded.finish()
}

/// Lets a stream's next command buffer be none that can be begun, as when memory is out.
///
/// # Errors
/// When it is not a Vulkan stream.
pub fn refuse_command_buffer(stream: Stream) -> Result<()> {
    streams::get(stream)?.device().raw.refuse_command_buffer(stream.index);
    Ok(())
}

/// Lets what was encoded last on a stream have failed on its way to the device, as when there is no memory
/// for a command buffer; later work may run all the same.
///
/// # Errors
/// When it is not a Vulkan stream.
pub fn fail_last(stream: Stream) -> Result<()> {
    let timer = streams::get(stream)?.timer();
    timer.fail(timer.tick().value, Error::device(OP, "the last batch failed"));
    Ok(())
}
