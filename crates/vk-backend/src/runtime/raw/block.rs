//! A block: one VkDeviceMemory with one VkBuffer over all of it, its address, and its mapping.

use std::{
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use ash::vk;
use vulkano::{
    Validated, VulkanError, VulkanObject,
    buffer::{Buffer, BufferCreateInfo, BufferUsage, sys::RawBuffer},
    device::Device,
    memory::{
        DeviceMemory, MemoryAllocateFlags, MemoryAllocateInfo, MemoryMapInfo,
        MemoryPropertyFlags as Flags, ResourceMemory,
    },
};

use super::{device::RawDevice, ending::InDriver, faults::Share};
use crate::runtime::stats;

/// What a block's memory is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Usage {
    /// Arrays in the device's own memory; never mapped.
    Device,
    /// Arrays in memory that host and device share.
    Shared,
    /// What the device copies back for the host to read.
    ReadBack,
    /// What the host writes and the device reads once: arguments, uploads.
    Upload,
}

impl Usage {
    /// Property sets to try, best first.
    fn preferences(self) -> &'static [Flags] {
        const LOCAL: Flags = Flags::DEVICE_LOCAL;
        const HOST: Flags = Flags::HOST_VISIBLE.union(Flags::HOST_COHERENT);
        const CACHED: Flags = HOST.union(Flags::HOST_CACHED);
        match self {
            // Every device has some. Arrays elsewhere would be read at a hundredth of the speed, while the
            // cache could have been freed for them.
            Usage::Device => const { &[LOCAL] },
            Usage::Shared => const { &[LOCAL.union(CACHED), LOCAL.union(HOST)] },
            Usage::ReadBack => const { &[CACHED, HOST] },
            Usage::Upload => const { &[LOCAL.union(HOST), HOST] },
        }
    }

    /// Whether the host maps the memory.
    pub(crate) fn is_mapped(self) -> bool {
        self != Usage::Device
    }
}

/// A large piece of memory that pools cut up.
pub(crate) struct Block {
    buffer: Buffer,
    address: u64,
    bytes: u64,
    mapped: Option<NonNull<u8>>,
    /// The driver's memory that it takes.
    _share: Share,
}

// SAFETY: the pointer is to mapped device memory, which stays mapped and in place as long as the
// block lives; who may access which bytes when is the pools' and ticks' business.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    /// Allocates a block from the driver.
    pub(crate) fn new(raw: &RawDevice, usage: Usage, bytes: u64) -> Result<Self, VulkanError> {
        let _in_driver = InDriver::new();
        stats::DRIVER_ALLOCATIONS.add(1);
        let info = BufferCreateInfo {
            size: bytes,
            usage: BufferUsage::STORAGE_BUFFER
                | BufferUsage::TRANSFER_SRC
                | BufferUsage::TRANSFER_DST
                | BufferUsage::SHADER_DEVICE_ADDRESS,
            ..BufferCreateInfo::default()
        };
        let device = &raw.device;
        let buffer = RawBuffer::new(device.clone(), info).map_err(too_large)?;
        let requirements = *buffer.memory_requirements();
        let share = raw.faults.take(requirements.layout.size())?;
        let mut last = VulkanError::OutOfDeviceMemory;
        for &flags in usage.preferences() {
            let Some(index) = memory_type(device, requirements.memory_type_bits, flags) else {
                continue;
            };
            match allocate(device, requirements.layout.size(), index, usage) {
                Ok(memory) => return Self::bind(buffer, memory, bytes, share),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn bind(
        buffer: RawBuffer,
        memory: DeviceMemory,
        bytes: u64,
        share: Share,
    ) -> Result<Self, VulkanError> {
        let mapped = memory.mapping_state().map(|m| m.ptr().cast::<u8>());
        let buffer = buffer
            .bind_memory(ResourceMemory::new_dedicated(memory))
            .map_err(|(error, ..)| too_large(error))?;
        let address = buffer.device_address().map_err(|_| VulkanError::Unknown)?.get();
        Ok(Block { buffer, address, bytes, mapped, _share: share })
    }

    /// Address of the first byte on the device.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Bytes of the block.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the host reaches it.
    pub(crate) fn is_mapped(&self) -> bool {
        self.mapped.is_some()
    }

    /// The buffer, for copies.
    pub(crate) fn handle(&self) -> vk::Buffer {
        self.buffer.handle()
    }

    /// Copies `data` into the mapped block at `offset`.
    ///
    /// # Panics
    /// When the block is not mapped or the bytes do not lie in it.
    pub(crate) fn write(&self, offset: u64, data: &[u8]) {
        let at = self.pointer(offset, data.len());
        // SAFETY: `pointer` checked that the bytes lie in the mapping; `data` cannot overlap it,
        // for no reference to these bytes exists while their owner (a ring or pool) writes them.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), at, data.len()) }
    }

    /// The word at `offset` of the mapped block, which the device may be writing.
    ///
    /// # Panics
    /// When the block is not mapped or the word does not lie in it.
    pub(crate) fn load(&self, offset: u64) -> u32 {
        let at = self.pointer(offset, 4).cast::<AtomicU32>();
        // SAFETY: `pointer` checked that the word lies in the mapping, which is aligned; the device stores
        // words whole, and no Rust reference to it exists.
        unsafe { (*at).load(Relaxed) }
    }

    fn pointer(&self, offset: u64, len: usize) -> *mut u8 {
        let mapped = self.mapped.expect("only mapped blocks are touched by the host");
        assert!(offset.checked_add(len as u64).is_some_and(|end| end <= self.bytes));
        // SAFETY: the offset lies in the mapping, as just checked.
        unsafe { mapped.as_ptr().add(offset as usize) }
    }
}

/// Host access to a range of a mapped block.
pub(crate) struct MappedRange {
    block: Arc<Block>,
    offset: u64,
    len: usize,
}

impl MappedRange {
    /// The range `offset..offset + len` of a mapped block, of which the caller is the only user.
    ///
    /// # Panics
    /// When the block is not mapped or the range does not lie in it.
    pub(crate) fn new(block: Arc<Block>, offset: u64, len: usize) -> Self {
        block.pointer(offset, len);
        MappedRange { block, offset, len }
    }

    /// The bytes. The caller has waited for the device's last write to them.
    pub(crate) fn bytes(&self) -> &[u8] {
        let at = self.block.pointer(self.offset, self.len);
        // SAFETY: the range is in the mapping, initialized as far as Rust is concerned (device
        // memory holds some byte everywhere), and the ticks of the buffer over it keep device and
        // host from accessing it at once.
        unsafe { std::slice::from_raw_parts(at, self.len) }
    }

    /// The bytes for writing, under the same condition for reads and writes of the device.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let at = self.block.pointer(self.offset, self.len);
        // SAFETY: as above; `&mut self` makes this the only host reference.
        unsafe { std::slice::from_raw_parts_mut(at, self.len) }
    }
}

fn allocate(
    device: &Arc<Device>,
    bytes: u64,
    index: u32,
    usage: Usage,
) -> Result<DeviceMemory, VulkanError> {
    let info = MemoryAllocateInfo {
        allocation_size: bytes,
        memory_type_index: index,
        flags: MemoryAllocateFlags::DEVICE_ADDRESS,
        ..MemoryAllocateInfo::default()
    };
    // SAFETY: the index is one of the device's and buffer device addresses are enabled. The call
    // is unchecked because vulkano refuses sizes over a heap or over the promised maximum, which
    // drivers may well serve; the driver answers with an error otherwise.
    let mut memory = unsafe { DeviceMemory::allocate_unchecked(device.clone(), info, None) }?;
    if usage.is_mapped() {
        let map = MemoryMapInfo { offset: 0, size: bytes, ..MemoryMapInfo::default() };
        memory.map(map).map_err(too_large)?;
    }
    Ok(memory)
}

/// The first memory type with all `flags` among those that `bits` allow.
fn memory_type(device: &Device, bits: u32, flags: Flags) -> Option<u32> {
    let types = &device.physical_device().memory_properties().memory_types;
    (0..types.len() as u32)
        .find(|&i| bits & (1 << i) != 0 && types[i as usize].property_flags.contains(flags))
}

/// vulkano's validation refuses only sizes here: the device cannot give so much.
fn too_large(error: Validated<VulkanError>) -> VulkanError {
    match error {
        Validated::Error(error) => error,
        Validated::ValidationError(error) => {
            tracing::debug!("block refused: {error}");
            VulkanError::OutOfDeviceMemory
        }
    }
}
