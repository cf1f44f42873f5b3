//! Memory for what a stream encodes: taken from the device's pool with one more try when it is out,
//! poisoned and guarded where that was asked for.

use std::sync::Arc;

use mlx_vulkan_core::{Error, Result};
use vulkano::VulkanError;

use super::{Blocked, Encoder, Region};
use crate::runtime::{
    commit::{Command, Transfer},
    memory::{allocation::Allocation, guard::GUARD, pool::User},
};

impl Encoder {
    /// Temporary memory for the operation that is being encoded; later work of the stream reuses
    /// it, with a barrier.
    ///
    /// # Errors
    /// When memory is out.
    pub(crate) fn scratch(&mut self, bytes: u64) -> Result<Region> {
        let allocation = self.allocate(bytes)?;
        let region = Region { address: allocation.span().address(), bytes };
        self.scratch.push(allocation);
        Ok(region)
    }

    /// Memory for this stream's work; poisoned if asked for.
    pub(crate) fn allocate(&mut self, bytes: u64) -> Result<Arc<Allocation>> {
        let allocation = self.allocate_for(bytes, User::Stream(self.timer.stream))?;
        allocation.touch(self.open_tick());
        if self.device.config.poison {
            self.poison(&allocation)?;
        }
        self.arm(&allocation)?;
        Ok(allocation)
    }

    /// The same where work can do without: none where memory is out, and nothing is to be tried again.
    pub(crate) fn allocate_if_any(&mut self, bytes: u64) -> Result<Option<Arc<Allocation>>> {
        let blocked = self.blocked.take();
        let allocated = self.allocate(bytes);
        self.blocked = blocked;
        match allocated {
            Err(Error::OutOfMemory { .. }) => Ok(None),
            allocated => allocated.map(Some),
        }
    }

    /// Words that are zero whenever no kernel runs that counts in them: whoever counts them up resets
    /// them.
    ///
    /// # Errors
    /// When memory is out.
    pub(crate) fn counters(&mut self, words: u64) -> Result<Region> {
        let bytes = (words * 4).next_power_of_two().max(1024);
        if let Some(counters) = self.counters.last().filter(|c| c.span().bytes >= bytes) {
            return Ok(Region { address: counters.span().address(), bytes: words * 4 });
        }
        let made = self.allocate(bytes)?;
        let (start, region) =
            (made.span().buffer_offset(0), Region { address: made.span().address(), bytes });
        self.fill(start, region, 0)?;
        self.counters.push(made);
        Ok(Region { bytes: words * 4, ..region })
    }

    /// Memory from the device's pool. When it is out, the operation can be tried again once work in flight
    /// has finished.
    pub(crate) fn allocate_for(&mut self, bytes: u64, user: User) -> Result<Arc<Allocation>> {
        let allocated = self.device.allocate(bytes, user);
        allocated.inspect_err(|error| self.note_lack(error))
    }

    /// The error for `bytes` that a driver did not give; the same holds as for [`Encoder::allocate_for`].
    pub(super) fn no_memory(&mut self, bytes: u64, error: &VulkanError) -> Error {
        let error = self.device.raw.no_memory(bytes, error);
        self.note_lack(&error);
        error
    }

    /// Where memory is out, what is being encoded can be tried again.
    fn note_lack(&mut self, error: &Error) {
        if let Error::OutOfMemory { .. } = error {
            self.blocked = Some(Blocked::Memory);
        }
    }

    /// Writes the guards around memory that the host does not reach.
    pub(crate) fn arm(&mut self, allocation: &Allocation) -> Result<()> {
        let device = self.device.clone();
        let (Some(guard), Some(guards)) = (allocation.guard(), &device.guards) else {
            return Ok(());
        };
        guard.set_op(self.op);
        if guard.is_mapped() {
            return Ok(());
        }
        allocation.touch(self.open_tick());
        guard.buffer_offsets().into_iter().try_for_each(|to| {
            let command = Command::Copy { from: guards.source(), to, bytes: GUARD };
            // What was put off holds its memory, so none of it is new, and it stays whole.
            self.transfer_first(Transfer { command, read: None, write: guard.region() })
        })
    }
}
