//! A thread's freed blocks of one size.

use std::ptr;

/// As many blocks go from thread to thread at once.
pub(crate) const HALF: usize = 64;
/// A block's lines are asked for as many allocations before its turn.
const AHEAD: usize = 6;
/// The bytes of a line of a cache.
const LINE: usize = 64;

/// A stack of freed blocks: what was freed last is given first.
pub(crate) struct Magazine {
    len: usize,
    blocks: [*mut u8; 2 * HALF],
}

impl Magazine {
    pub(crate) const EMPTY: Magazine = Magazine { len: 0, blocks: [ptr::null_mut(); 2 * HALF] };

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.len == self.blocks.len()
    }

    /// The block on top, if there is one. Blocks have `size` bytes.
    #[inline]
    pub(crate) fn take(&mut self, size: usize) -> Option<*mut u8> {
        let last = self.len.checked_sub(1)?;
        self.len = last;
        if let Some(next) = last.checked_sub(AHEAD) {
            fetch(self.blocks[next], size);
        }
        Some(self.blocks[last])
    }

    /// Adds a block to a magazine that is not full.
    #[inline]
    pub(crate) fn put(&mut self, block: *mut u8) {
        self.blocks[self.len] = block;
        self.len += 1;
    }

    /// Fills an empty magazine with at most [`HALF`] blocks of `size` bytes.
    pub(crate) fn fill(&mut self, blocks: &[*mut u8], size: usize) {
        self.blocks[..blocks.len()].copy_from_slice(blocks);
        self.len = blocks.len();
        blocks.iter().rev().take(AHEAD).for_each(|&block| fetch(block, size));
    }

    /// Takes what a full magazine has had longest.
    pub(crate) fn take_half(&mut self) -> [*mut u8; HALF] {
        let mut half = [ptr::null_mut(); HALF];
        half.copy_from_slice(&self.blocks[..HALF]);
        self.blocks.copy_within(HALF.., 0);
        self.len = HALF;
        half
    }

    /// Takes everything.
    pub(crate) fn take_all(&mut self) -> &[*mut u8] {
        &self.blocks[..std::mem::take(&mut self.len)]
    }
}

/// Asks for a block's lines, to write to them; nothing waits for that.
#[inline]
fn fetch(block: *mut u8, size: usize) {
    for offset in (0..size).step_by(LINE) {
        let line = block.wrapping_add(offset);
        // SAFETY: it is a hint, which no address makes fail. `_mm_prefetch` asks to read without the `prfchw`
        // feature, and the line would be asked for once more when it is written to.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags));
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            std::arch::asm!("prfm pstl1keep, [{}]", in(reg) line, options(nostack, preserves_flags));
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = line;
    }
}
