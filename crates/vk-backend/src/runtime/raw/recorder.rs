//! One reusable command buffer and what is recorded into it.
//!
//! The pool and its buffer are vulkano's; the commands are called through `device.fns()`, because
//! vulkano's `RecordingCommandBuffer` cannot move between threads and builds every barrier anew,
//! which shows at 0.2 µs per dispatch.

use std::sync::Arc;

use ash::vk;
use vulkano::{
    Validated, VulkanError, VulkanObject,
    command_buffer::{
        CommandBufferLevel,
        pool::{
            CommandBufferAllocateInfo, CommandPool, CommandPoolAlloc, CommandPoolCreateFlags,
            CommandPoolCreateInfo, CommandPoolResetFlags,
        },
    },
    device::{Device, DeviceOwned, Queue},
};

use super::{device::RawDevice, faults::Faults, pipeline::Pipeline, queries::Queries};

/// Bytes of push constants that every pipeline's layout has.
pub(crate) const PUSH_BYTES: usize = 128;

const WORK: vk::PipelineStageFlags = vk::PipelineStageFlags::from_raw(
    vk::PipelineStageFlags::COMPUTE_SHADER.as_raw() | vk::PipelineStageFlags::TRANSFER.as_raw(),
);
const READ: vk::AccessFlags = vk::AccessFlags::from_raw(
    vk::AccessFlags::SHADER_READ.as_raw() | vk::AccessFlags::TRANSFER_READ.as_raw(),
);
const WRITE: vk::AccessFlags = vk::AccessFlags::from_raw(
    vk::AccessFlags::SHADER_WRITE.as_raw() | vk::AccessFlags::TRANSFER_WRITE.as_raw(),
);

/// A command buffer with a pool of its own, so that it can be recorded on any thread.
pub(crate) struct Recorder {
    device: Arc<Device>,
    pool: CommandPool,
    /// Freed with the pool.
    commands: CommandPoolAlloc,
    /// Whether it was recorded before and must be reset.
    used: bool,
    faults: Arc<Faults>,
}

impl Recorder {
    /// A command buffer for the device's queues.
    pub(crate) fn new(raw: &RawDevice) -> Result<Self, Validated<VulkanError>> {
        let device = &raw.device;
        let info = CommandPoolCreateInfo {
            flags: CommandPoolCreateFlags::TRANSIENT,
            queue_family_index: raw.family,
            ..CommandPoolCreateInfo::default()
        };
        let pool = CommandPool::new(device.clone(), info)?;
        let one = CommandBufferAllocateInfo {
            level: CommandBufferLevel::Primary,
            command_buffer_count: 1,
            ..CommandBufferAllocateInfo::default()
        };
        let commands = pool.allocate_command_buffers(one)?.next().ok_or(VulkanError::Unknown)?;
        let faults = raw.faults.clone();
        Ok(Recorder { device: device.clone(), pool, commands, used: false, faults })
    }

    fn handle(&self) -> vk::CommandBuffer {
        self.commands.handle()
    }

    /// Starts recording; the device has finished with what was recorded before.
    pub(crate) fn begin(&mut self) -> Result<(), VulkanError> {
        if self.used {
            // SAFETY: the device has finished with the pool's only command buffer (the caller's
            // promise) and `&mut self` keeps other threads out.
            unsafe { self.pool.reset_unchecked(CommandPoolResetFlags::empty()) }?;
        }
        self.used = true;
        let info = vk::CommandBufferBeginInfo::default()
            .flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the command buffer is in the initial state.
        unsafe { (self.device.fns().v1_0.begin_command_buffer)(self.handle(), &info) }.result()?;
        // Everything earlier on this queue, and host writes made after the submission but before
        // a gate opened, come before everything in here.
        let stages = vk::PipelineStageFlags::ALL_COMMANDS | vk::PipelineStageFlags::HOST;
        self.barrier_between(stages, WRITE | vk::AccessFlags::HOST_WRITE, WORK, READ | WRITE);
        Ok(())
    }

    /// Ends recording; what was written becomes visible to the host.
    pub(crate) fn end(&mut self) -> Result<(), VulkanError> {
        self.barrier_between(WORK, WRITE, vk::PipelineStageFlags::HOST, vk::AccessFlags::HOST_READ);
        // SAFETY: the command buffer is recording.
        unsafe { (self.device.fns().v1_0.end_command_buffer)(self.handle()) }.result()?;
        Ok(())
    }

    /// Binds a pipeline.
    pub(crate) fn bind(&mut self, pipeline: &Pipeline) {
        let fns = &self.device.fns().v1_0;
        // SAFETY: recording; pipelines live as long as their device's cache, longer than streams.
        unsafe {
            (fns.cmd_bind_pipeline)(
                self.handle(),
                vk::PipelineBindPoint::COMPUTE,
                pipeline.handle(),
            )
        }
    }

    /// Pushes the first bytes of the push constants.
    ///
    /// # Panics
    /// When they are more than the layout has, or not whole words.
    pub(crate) fn push(&mut self, pipeline: &Pipeline, bytes: &[u8]) {
        assert!(
            bytes.len() <= PUSH_BYTES && bytes.len().is_multiple_of(4),
            "push constants: {} bytes",
            bytes.len()
        );
        if bytes.is_empty() {
            return;
        }
        let fns = &self.device.fns().v1_0;
        // SAFETY: recording; the bytes lie in the layout's only range, which all stages share.
        unsafe {
            (fns.cmd_push_constants)(
                self.handle(),
                pipeline.layout(),
                vk::ShaderStageFlags::COMPUTE,
                0,
                bytes.len() as u32,
                bytes.as_ptr().cast(),
            );
        }
    }

    /// Runs the bound pipeline.
    pub(crate) fn dispatch(&mut self, groups: [u32; 3]) {
        let fns = &self.device.fns().v1_0;
        // SAFETY: recording, a pipeline is bound and its push constants are set; the encoder
        // checked the grid against the device's limits.
        unsafe { (fns.cmd_dispatch)(self.handle(), groups[0], groups[1], groups[2]) }
    }

    /// Orders all work before against all work after.
    pub(crate) fn barrier(&mut self) {
        self.barrier_between(WORK, READ | WRITE, WORK, READ | WRITE);
    }

    fn barrier_between(
        &mut self,
        before: vk::PipelineStageFlags,
        writes: vk::AccessFlags,
        after: vk::PipelineStageFlags,
        reads: vk::AccessFlags,
    ) {
        let barrier = vk::MemoryBarrier::default().src_access_mask(writes).dst_access_mask(reads);
        let fns = &self.device.fns().v1_0;
        // SAFETY: recording, outside of a render pass; the pointers are to one barrier and to
        // nothing, as the counts say.
        unsafe {
            (fns.cmd_pipeline_barrier)(
                self.handle(),
                before,
                after,
                vk::DependencyFlags::empty(),
                1,
                &barrier,
                0,
                std::ptr::null(),
                0,
                std::ptr::null(),
            );
        }
    }

    /// Copies bytes between buffers: staging transfers only (kernels copy five times as fast).
    pub(crate) fn copy(&mut self, from: (vk::Buffer, u64), to: (vk::Buffer, u64), bytes: u64) {
        let region = vk::BufferCopy { src_offset: from.1, dst_offset: to.1, size: bytes };
        let fns = &self.device.fns().v1_0;
        // SAFETY: recording; both ranges lie in live buffers with transfer usage, which the pool
        // spans that they come from guarantee, and they do not overlap.
        unsafe { (fns.cmd_copy_buffer)(self.handle(), from.0, to.0, 1, &region) }
    }

    /// Fills bytes (a multiple of four) with a repeated word.
    pub(crate) fn fill(&mut self, to: (vk::Buffer, u64), bytes: u64, word: u32) {
        let fns = &self.device.fns().v1_0;
        // SAFETY: as for copies; pool spans are aligned to and multiples of 256 bytes.
        unsafe { (fns.cmd_fill_buffer)(self.handle(), to.0, to.1, bytes, word) }
    }

    /// Resets queries before they are written.
    pub(crate) fn reset_queries(&mut self, queries: &Queries) {
        let fns = &self.device.fns().v1_0;
        // SAFETY: recording; the pool lives in the same slot of the ring as this recorder.
        unsafe { (fns.cmd_reset_query_pool)(self.handle(), queries.handle(), 0, queries.count()) }
    }

    /// Writes the time at which all earlier work is done.
    pub(crate) fn timestamp(&mut self, queries: &Queries, index: u32) {
        let fns = &self.device.fns().v1_0;
        // SAFETY: recording; the query was reset in this command buffer and `index` is in range.
        unsafe {
            (fns.cmd_write_timestamp)(
                self.handle(),
                vk::PipelineStageFlags::BOTTOM_OF_PIPE,
                queries.handle(),
                index,
            );
        }
    }

    /// Submits what was recorded: starts after `waits`, then raises `signal`.
    pub(crate) fn submit(
        &self,
        queue: &Arc<Queue>,
        waits: &[(vk::Semaphore, u64)],
        signal: (vk::Semaphore, u64),
    ) -> Result<(), VulkanError> {
        submit((&self.device, &self.faults), queue, &[self.handle()], waits, signal)
    }

    /// The device, for errors.
    #[expect(dead_code, reason = "used by tests of the ring")]
    pub(crate) fn device(&self) -> &Arc<Device> {
        self.pool.device()
    }
}

/// Submits nothing but that `signal` is raised after `waits`, behind what is in the queue.
pub(crate) fn signal_after(
    raw: &RawDevice,
    queue: &Arc<Queue>,
    waits: &[(vk::Semaphore, u64)],
    signal: (vk::Semaphore, u64),
) -> Result<(), VulkanError> {
    submit((&raw.device, &raw.faults), queue, &[], waits, signal)
}

fn submit(
    (device, faults): (&Device, &Faults),
    queue: &Arc<Queue>,
    commands: &[vk::CommandBuffer],
    waits: &[(vk::Semaphore, u64)],
    signal: (vk::Semaphore, u64),
) -> Result<(), VulkanError> {
    let semaphores: smallvec::SmallVec<[vk::Semaphore; 4]> = waits.iter().map(|w| w.0).collect();
    let values: smallvec::SmallVec<[u64; 4]> = waits.iter().map(|w| w.1).collect();
    let stages: smallvec::SmallVec<[vk::PipelineStageFlags; 4]> =
        waits.iter().map(|_| vk::PipelineStageFlags::ALL_COMMANDS).collect();
    let (signals, signal_values) = ([signal.0], [signal.1]);
    let mut timeline = vk::TimelineSemaphoreSubmitInfo::default()
        .wait_semaphore_values(&values)
        .signal_semaphore_values(&signal_values);
    let info = vk::SubmitInfo::default()
        .wait_semaphores(&semaphores)
        .wait_dst_stage_mask(&stages)
        .command_buffers(commands)
        .signal_semaphores(&signals)
        .push_next(&mut timeline);
    let fns = &device.fns().v1_0;
    // SAFETY: the guard synchronizes the queue; a command buffer has ended and is not in flight;
    // semaphores live in streams and gates that outlast the submission.
    let submit = || unsafe { (fns.queue_submit)(queue.handle(), 1, &info, vk::Fence::null()) };
    let result = queue.with(|_guard| faults.submission().unwrap_or_else(submit));
    result.result()?;
    Ok(())
}
