//! How many workgroups of the interpreter run at the same time: found by trying, because Vulkan does not say.

use std::time::{Duration, Instant};

use bytemuck::bytes_of;
use mlx_vulkan_core::Result;
use vulkano::{Validated, VulkanError};

use super::PATIENCE;
use crate::kernels::layouts::interpreter::{Push, TRIAL};
use crate::runtime::{
    device::DeviceState,
    pipelines::PipelineOf,
    raw::{
        block::{Block, Usage},
        ending::InDriver,
        error,
        pipeline::Pipeline,
        recorder::Recorder,
        timeline::Timeline,
    },
    timer::NAP,
};

/// How long a trial is waited for. Its kernels give up within milliseconds, but it is behind everything in
/// the queue.
const LONGEST: Duration = Duration::from_secs(10);

/// The trials of a pipeline, each a submission of its own behind everything in the queue. The device uses
/// what this has until the last one has ended, so who makes trials keeps it as long as [`Trials::groups`]
/// does not tell.
pub(super) struct Trials {
    control: Block,
    verdict: Block,
    recorder: Recorder,
    timeline: Timeline,
    /// Workgroups of the next trial, or of the one that runs.
    groups: u32,
    /// What the last submission raises the timeline to.
    value: u64,
    /// The last submission is not known to have ended.
    runs: bool,
    /// One was waited for long enough: none is waited for any more, only looked at.
    late: bool,
}

impl Trials {
    /// Trials of `wanted` workgroups first; none where memory is out.
    ///
    /// # Errors
    /// When the device fails.
    pub(super) fn new(device: &DeviceState, wanted: u32) -> Result<Option<Trials>> {
        let raw = &device.raw;
        let _in_driver = InDriver::new();
        let made = || -> Result<_, Validated<VulkanError>> {
            let control = Block::new(raw, Usage::Device, 256)?;
            let verdict = Block::new(raw, Usage::ReadBack, 256)?;
            let (recorder, timeline) = (Recorder::new(raw)?, Timeline::new(&raw.device)?);
            Ok((control, verdict, recorder, timeline))
        };
        match made() {
            Ok((control, verdict, recorder, timeline)) => Ok(Some(Trials {
                control,
                verdict,
                recorder,
                timeline,
                groups: wanted,
                value: 0,
                runs: false,
                late: false,
            })),
            Err(Validated::Error(error)) if error::is_lack(&error) => Ok(None),
            Err(error) => Err(error::validated_error("interpreter", &error)),
        }
    }

    /// The most workgroups of `pipeline`, those wanted or a power of two less, of which each has seen all
    /// others run; none as long as a trial runs for long, or memory for one is out.
    ///
    /// # Errors
    /// When the device fails.
    pub(super) fn groups(
        &mut self,
        device: &DeviceState,
        pipeline: &PipelineOf<Push>,
    ) -> Result<Option<u32>> {
        let pipeline = pipeline.any().made()?;
        match self.go_on(device, pipeline) {
            Err(error) if error::is_lack(&error) => Ok(None),
            result => result.map_err(|error| device.raw.fail("interpreter", &error)),
        }
    }

    fn go_on(
        &mut self,
        device: &DeviceState,
        pipeline: &Pipeline,
    ) -> Result<Option<u32>, VulkanError> {
        while self.groups > 1 {
            if !self.runs {
                self.begin(device, pipeline)?;
            }
            if !self.has_ended()? {
                return Ok(None);
            }
            self.runs = false;
            if self.verdict.load(0) == 0 {
                break;
            }
            self.groups /= 2;
        }
        Ok(Some(self.groups.max(1)))
    }

    fn begin(&mut self, device: &DeviceState, pipeline: &Pipeline) -> Result<(), VulkanError> {
        let _in_driver = InDriver::new();
        self.verdict.write(0, bytes_of(&0u32));
        let push = Push {
            control: self.control.address(),
            verdict: self.verdict.address(),
            mode: TRIAL,
            patience: PATIENCE,
            ..Push::default()
        };
        let recorder = &mut self.recorder;
        recorder.begin()?;
        recorder.fill((self.control.handle(), 0), 256, 0);
        recorder.barrier();
        recorder.bind(pipeline);
        recorder.push(pipeline, bytes_of(&push));
        recorder.dispatch([self.groups, 1, 1]);
        recorder.end()?;
        let signal = (self.timeline.handle(), self.value + 1);
        recorder.submit(&device.raw.queues[0], &[], signal)?;
        self.value += 1;
        self.runs = true;
        Ok(())
    }

    /// Whether the last trial has ended. Waits for it if none was late.
    fn has_ended(&mut self) -> Result<bool, VulkanError> {
        let (start, longest) = (Instant::now(), if self.late { Duration::ZERO } else { LONGEST });
        loop {
            let left = longest.saturating_sub(start.elapsed());
            // In naps: at the end of the process nobody may be in the driver for long.
            if self.timeline.wait(self.value, left.min(NAP))? {
                return Ok(true);
            }
            if left.is_zero() {
                break;
            }
        }
        if !self.late {
            tracing::warn!(
                "[interpreter] a trial of its workgroups takes long; going on without it"
            );
        }
        self.late = true;
        Ok(false)
    }
}
