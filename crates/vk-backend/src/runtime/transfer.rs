//! Moving arrays between host and device: uploads of inputs that only the host has, and copies
//! back for the host to read.

use mlx_vulkan_core::{
    Error, Result,
    buffer::{BufferRef, Current},
    clock::{self, Tick},
};

use crate::runtime::{
    commit::Wait,
    encoder::{Encoder, Region, STAGING_CHUNK},
    memory::{
        allocation::{MappedMemory, VkMemory},
        pool::User,
        ring::Slot,
    },
    stats, streams, timer,
};

/// Inputs up to this size travel as arguments each time instead of getting a device copy.
pub(crate) const INLINE: usize = 64;
/// Results of the CPU up to this size are staged while they are still being computed; larger ones
/// are waited for, so that staging memory stays bounded.
const LARGEST_PENDING: usize = 64 << 20;

/// A buffer's device copy, as this crate's type.
pub(crate) fn memory(buffer: &BufferRef) -> Result<&VkMemory> {
    buffer
        .device()
        .and_then(|d| d.as_any().downcast_ref())
        .ok_or_else(|| Error::device("eval", "an input has no copy on a Vulkan device"))
}

impl Encoder {
    /// The device copy of `buffer` with its contents current for the work encoded next.
    ///
    /// # Errors
    /// When memory or the device fails, or the batch of this stream that was to write the contents did.
    pub(crate) fn resident<'b>(&mut self, buffer: &'b BufferRef) -> Result<&'b VkMemory> {
        let written = buffer.written();
        // Of other streams core knows.
        if written.stream == self.stream()
            && let Some(failure) = self.timer().lacks.failure(written.value)
        {
            return Err(failure.tell());
        }
        if buffer.current() == Current::Host {
            let device = self.device().clone();
            let _one_at_a_time = device.transfers.lock();
            if buffer.current() == Current::Host {
                self.upload(buffer)?;
            }
        }
        let memory = self.own_memory(buffer)?;
        let filled = memory.filled();
        if filled.stream != self.stream() && filled != Tick::START {
            // Of copies to the device core does not know.
            let failure = timer::of(filled.stream).and_then(|other| other.failure(filled.value));
            failure.map_or(Ok(()), Err)?;
            self.wait_for_stream(filled)?;
        }
        Ok(memory)
    }

    /// The device copy of `buffer`, which must be on this stream's device.
    fn own_memory<'b>(&self, buffer: &'b BufferRef) -> Result<&'b VkMemory> {
        let memory = memory(buffer)?;
        if memory.allocation().is_on(&self.device().raw) {
            return Ok(memory);
        }
        let message = format!(
            "An array lies in another Vulkan device's memory, which {} cannot read.",
            self.capabilities().name
        );
        Err(Error::invalid("eval", message))
    }

    /// Lets later work start after a point of another stream, whatever its backend.
    pub(crate) fn wait_for_stream(&mut self, tick: Tick) -> Result<()> {
        if tick.stream == self.stream() || tick.reached() {
            return Ok(());
        }
        match streams::stream_of(tick.stream) {
            Some(other) => {
                other.commit_up_to(tick.value)?;
                self.wait_for(Wait::stream(other.timer().clone(), tick.value))
            }
            None => {
                let gate = self.device().gate()?;
                self.wait_for(Wait::gate(&gate, self.stream()))?;
                clock::clock(tick.stream).on_reach(tick.value, Box::new(move || drop(gate)));
                Ok(())
            }
        }
    }

    /// Gives a host-only buffer a device copy.
    fn upload(&mut self, buffer: &BufferRef) -> Result<()> {
        let nbytes = buffer.nbytes();
        let shared = self.capabilities().unified;
        if buffer.device().is_none() {
            let user = if shared { User::Host } else { User::Stream(self.stream()) };
            buffer.count_host(false);
            let made = self.allocate_for(nbytes as u64, user);
            let begun = made.and_then(|made| {
                self.arm(&made)?;
                // Work of this stream may still use it, which other streams wait for.
                if !shared {
                    self.open()?;
                }
                Ok(made)
            });
            let memory = VkMemory::new(begun.inspect_err(|_| buffer.count_host(true))?);
            if !shared {
                memory.allocation().touch(self.open_tick());
                memory.set_filled(self.open_tick());
            }
            buffer.add_device(Box::new(memory));
        }
        let memory = self.own_memory(buffer)?;
        let filled = memory.filled();
        if filled.stream != self.stream() && !filled.reached() {
            // Another stream has begun. Its encoder must not be asked for while this holds the lock of
            // transfers.
            return Err(self.block_until(filled));
        }
        let written = buffer.written();
        if !written.reached() && !shared && nbytes > LARGEST_PENDING {
            return Err(self.block_until(written));
        }
        match (written.reached(), shared) {
            (true, true) => {
                let span = memory.allocation().span();
                span.block.write(span.offset, &buffer.read());
            }
            (true, false) => self.upload_staged(buffer, memory)?,
            (false, true) => self.upload_later(buffer, memory, None)?,
            (false, false) => {
                let slot = self.stage(nbytes as u64)?;
                self.upload_later(buffer, memory, Some(slot))?;
            }
        }
        stats::BYTES_UPLOADED.add(nbytes as u64);
        buffer.set_current(Current::Both);
        Ok(())
    }

    /// Copies through the staging ring, chunk by chunk; goes on where an earlier try found no room.
    fn upload_staged(&mut self, buffer: &BufferRef, memory: &VkMemory) -> Result<()> {
        let span = memory.allocation().span();
        let (bytes, contents) = (buffer.read(), buffer.written());
        let chunks = bytes.chunks(STAGING_CHUNK as usize).enumerate();
        for (i, chunk) in chunks.skip(memory.staged(contents)) {
            let slot = self.stage(chunk.len() as u64)?;
            slot.write(chunk);
            let read = Region { address: slot.address, bytes: chunk.len() as u64 };
            self.copy(slot.buffer, read, span, i as u64 * STAGING_CHUNK)?;
            memory.set_staged(i + 1, contents);
            memory.set_filled(self.open_tick());
        }
        memory.set_staged(0, Tick::START);
        Ok(())
    }

    /// Copies once a CPU stream has computed the contents: a callback fills the shared memory or
    /// the staging `slot`, then opens the gate that the work encoded next waits for.
    fn upload_later(
        &mut self,
        buffer: &BufferRef,
        memory: &VkMemory,
        slot: Option<Slot>,
    ) -> Result<()> {
        let written = buffer.written();
        let span = memory.allocation().span().clone();
        let gate = self.device().gate()?;
        self.wait_for(Wait::gate(&gate, self.stream()))?;
        // Others wait for the tick of this upload, so there must be a submission.
        self.open()?;
        if let Some(slot) = &slot {
            let read = Region { address: slot.address, bytes: buffer.nbytes() as u64 };
            self.copy(slot.buffer, read, &span, 0)?;
        }
        memory.set_filled(self.open_tick());
        let waiting = memory.await_host();
        let buffer = buffer.clone();
        let fill = move || {
            match slot {
                Some(slot) => slot.write(&buffer.read()),
                None => span.block.write(span.offset, &buffer.read()),
            }
            drop(waiting);
            drop(gate);
        };
        clock::clock(written.stream).on_reach(written.value, Box::new(fill));
        Ok(())
    }

    /// Copies a device-only buffer into memory that the host reads; returns when it has arrived.
    pub(crate) fn read_back(&mut self, buffer: &BufferRef) -> Result<Tick> {
        let device = self.device().clone();
        let _one_at_a_time = device.transfers.lock();
        if buffer.current() != Current::Device {
            return Ok(self.tick());
        }
        let nbytes = buffer.nbytes();
        let memory = memory(buffer)?;
        let target = device.read_back.allocate(nbytes as u64, User::Stream(self.stream()))?;
        target.touch(self.open_tick());
        self.copy_span(memory.allocation().span(), target.span(), nbytes as u64)?;
        let tick = self.tick();
        memory.allocation().touch(tick);
        target.touch(tick);
        buffer.add_host(MappedMemory::new(target, nbytes));
        // Whoever reads the host copy later waits for the copying.
        buffer.note_write(tick);
        buffer.set_current(Current::Both);
        stats::BYTES_READ_BACK.add(nbytes as u64);
        Ok(tick)
    }
}
