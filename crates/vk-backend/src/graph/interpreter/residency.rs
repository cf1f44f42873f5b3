//! How many workgroups of the interpreter run at the same time: found by trying, because Vulkan does not say.

use std::time::Duration;

use bytemuck::bytes_of;
use mlx_vulkan_core::{Error, Result};
use vulkano::VulkanError;

use super::PATIENCE;
use crate::kernels::layouts::interpreter::{Push, TRIAL};
use crate::runtime::{
    device::DeviceState,
    pipelines::PipelineOf,
    raw::{
        block::{Block, Usage},
        error,
        recorder::Recorder,
        timeline::Timeline,
    },
};

/// How long a trial may take; its kernels give up within milliseconds.
const LONGEST: Duration = Duration::from_secs(10);

/// The most workgroups of `pipeline`, `wanted` or a power of two less, of which each has seen all others run.
/// The trial is a submission of its own behind everything in the queue.
///
/// # Errors
/// When memory is out or the device fails.
pub(super) fn groups(
    device: &DeviceState,
    pipeline: &PipelineOf<Push>,
    wanted: u32,
) -> Result<u32> {
    let (raw, pipeline) = (&device.raw, pipeline.any().made()?);
    let failed = |error: VulkanError| raw.fail("interpreter", &error);
    let control = Block::new(raw, Usage::Device, 256).map_err(failed)?;
    let verdict = Block::new(raw, Usage::ReadBack, 256).map_err(failed)?;
    let invalid = |e| error::validated_error("interpreter", &e);
    let mut recorder = Recorder::new(raw).map_err(invalid)?;
    let timeline = Timeline::new(&raw.device).map_err(invalid)?;
    let (mut groups, mut value) = (wanted, 0);
    while groups > 1 {
        value += 1;
        verdict.write(0, bytes_of(&0u32));
        let push = Push {
            control: control.address(),
            verdict: verdict.address(),
            mode: TRIAL,
            patience: PATIENCE,
            ..Push::default()
        };
        recorder.begin().map_err(failed)?;
        recorder.fill((control.handle(), 0), 256, 0);
        recorder.barrier();
        recorder.bind(pipeline);
        recorder.push(pipeline, bytes_of(&push));
        recorder.dispatch([groups, 1, 1]);
        recorder.end().map_err(failed)?;
        let signal = (timeline.handle(), value);
        recorder.submit(&raw.queues[0], &[], signal).map_err(failed)?;
        if !timeline.wait(value, LONGEST).map_err(failed)? {
            return Err(Error::device("interpreter", "a trial of its workgroups did not end"));
        }
        if verdict.load(0) == 0 {
            break;
        }
        groups /= 2;
    }
    Ok(groups.max(1))
}
