//! The allocator of mlx-vulkan's programs: [`Magazines`].
//!
//! One thread builds a graph, and another, which evaluates it, frees its nodes. An allocator links freed
//! blocks through their own memory, so that the first thread waits for a line of the other core's cache for
//! each block that it gets back. Here the addresses of freed blocks are in lists, and a block's lines are
//! asked for some allocations before its turn.
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: mlx_vulkan_alloc::Magazines = mlx_vulkan_alloc::Magazines;
//!
//! assert_eq!(vec![1; 100].len(), 100);
//! ```

mod magazine;

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::Mutex;

use magazine::{HALF, Magazine};
use mimalloc::MiMalloc;

/// Blocks of a class have the same size, a multiple of this.
const STEP: usize = 16;
/// Classes begin above this size, in bytes; smaller blocks are left to mimalloc.
const SMALL: usize = 16;
/// Nodes of graphs and what they own have at most 512 bytes.
const CLASSES: usize = 31;
/// As many blocks of a class, at most, wait for whichever thread comes first: some graphs of a model.
const WAITING: usize = 4096;

/// [mimalloc](MiMalloc) behind lists of freed blocks, for `#[global_allocator]`.
///
/// Every thread has a magazine for each class of sizes from 17 to 512 bytes. Half of a full one goes to a
/// list of the process, from which an empty one is filled. No call waits for another thread. What lies in
/// magazines is not given back before its thread ends (at most 1.1 MiB each), nor what lies in the lists (at
/// most 33 MiB).
pub struct Magazines;

/// A thread's magazines. They are not in its static storage, of which an extension that a program loads has
/// few bytes.
struct Local(UnsafeCell<Option<Box<[Magazine; CLASSES]>>>);

thread_local! {
    static LOCAL: Local = const { Local(UnsafeCell::new(None)) };
}

impl Local {
    /// The magazine of a class.
    ///
    /// # Safety
    /// Nobody has a magazine of this thread already.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "a thread has its magazines for itself")]
    unsafe fn magazine(&self, class: usize) -> &mut Magazine {
        // SAFETY: as the caller promises; the array is no block of a class, so making it does not come back
        // here.
        let magazines = unsafe { &mut *self.0.get() };
        &mut magazines.get_or_insert_with(|| Box::new([const { Magazine::EMPTY }; CLASSES]))[class]
    }
}

/// Freed blocks of a class that no thread has.
struct Waiting(Vec<*mut u8>);

// SAFETY: whoever has the address of a freed block is its only owner, on whichever thread.
unsafe impl Send for Waiting {}

static WAITING_BLOCKS: [Mutex<Waiting>; CLASSES] =
    [const { Mutex::new(Waiting(Vec::new())) }; CLASSES];

impl Drop for Local {
    fn drop(&mut self) {
        let Some(magazines) = self.0.get_mut() else { return };
        for (class, magazine) in magazines.iter_mut().enumerate() {
            give_back(magazine.take_all(), class);
        }
    }
}

// SAFETY: a block comes from mimalloc or from a list of blocks of its class, and is in one list at most;
// which of both depends on the layout alone. What a class gives has its size, which is no less, and 16
// aligned bytes.
unsafe impl GlobalAlloc for Magazines {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match class_of(layout) {
            Some(class) => take(class),
            // SAFETY: as the caller promises.
            None => unsafe { MiMalloc.alloc(layout) },
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match class_of(layout) {
            Some(class) => put(block, class),
            // SAFETY: as the caller promises; no class has this layout, so mimalloc gave the block.
            None => unsafe { MiMalloc.dealloc(block, layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some(class) = class_of(layout) else {
            // SAFETY: as the caller promises.
            return unsafe { MiMalloc.alloc_zeroed(layout) };
        };
        let block = take(class);
        if !block.is_null() {
            // SAFETY: the block has at least these bytes, and nobody else has it.
            unsafe { ptr::write_bytes(block, 0, layout.size()) };
        }
        block
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the size, rounded up to the alignment, is in range.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (class_of(layout), class_of(new)) {
            // SAFETY: as the caller promises; mimalloc gave the block.
            (None, None) => unsafe { MiMalloc.realloc(block, layout, size) },
            (old, new) if old == new => block,
            _ => {
                // SAFETY: both blocks have the bytes that are copied, and the old one is freed as it was
                // allocated.
                unsafe {
                    let moved = self.alloc(new);
                    if !moved.is_null() {
                        ptr::copy_nonoverlapping(block, moved, layout.size().min(size));
                        self.dealloc(block, layout);
                    }
                    moved
                }
            }
        }
    }
}

/// The class whose blocks serve a layout, if there is one.
#[inline]
fn class_of(layout: Layout) -> Option<usize> {
    let class = layout.size().wrapping_sub(SMALL + 1) / STEP;
    (class < CLASSES && layout.align() <= STEP).then_some(class)
}

/// The size of a class's blocks.
#[inline]
const fn size_of_class(class: usize) -> usize {
    SMALL + (class + 1) * STEP
}

/// What mimalloc is asked for in a class's name.
#[inline]
fn layout_of(class: usize) -> Layout {
    // SAFETY: the alignment is a power of two, and sizes are small.
    unsafe { Layout::from_size_align_unchecked(size_of_class(class), STEP) }
}

/// A block of a class; null if there is no memory.
#[inline]
fn take(class: usize) -> *mut u8 {
    let kept = LOCAL.try_with(|local| {
        // SAFETY: nothing that is done with a magazine allocates blocks of a class.
        let magazine = unsafe { local.magazine(class) };
        if magazine.is_empty() {
            fill(magazine, class);
        }
        magazine.take(size_of_class(class))
    });
    match kept {
        Ok(Some(block)) => block,
        // The thread ends, or all blocks are in use.
        // SAFETY: the layout has a size.
        _ => unsafe { MiMalloc.alloc(layout_of(class)) },
    }
}

/// Takes a freed block back.
#[inline]
fn put(block: *mut u8, class: usize) {
    let kept = LOCAL.try_with(|local| {
        // SAFETY: as in `take`.
        let magazine = unsafe { local.magazine(class) };
        if magazine.is_full() {
            hand_over(magazine, class);
        }
        magazine.put(block);
    });
    if kept.is_err() {
        give_back(&[block], class);
    }
}

/// Fills an empty magazine with what waits, unless another thread is at it.
#[cold]
fn fill(magazine: &mut Magazine, class: usize) {
    if let Ok(mut waiting) = WAITING_BLOCKS[class].try_lock() {
        let from = waiting.0.len().saturating_sub(HALF);
        magazine.fill(&waiting.0[from..], size_of_class(class));
        waiting.0.truncate(from);
    }
}

/// Makes room in a full magazine: what it has had longest waits for another thread, or goes back to mimalloc.
#[cold]
fn hand_over(magazine: &mut Magazine, class: usize) {
    let blocks = magazine.take_half();
    let handed_over = WAITING_BLOCKS[class].try_lock().is_ok_and(|mut waiting| {
        if waiting.0.capacity() == 0 {
            // It is no block of a class, so this comes back to nothing that is held.
            waiting.0.reserve_exact(WAITING);
        }
        let fits = waiting.0.len() + blocks.len() <= WAITING;
        if fits {
            waiting.0.extend_from_slice(&blocks);
        }
        fits
    });
    if !handed_over {
        give_back(&blocks, class);
    }
}

fn give_back(blocks: &[*mut u8], class: usize) {
    for &block in blocks {
        // SAFETY: mimalloc gave it with the class's layout, and who frees it is its only owner.
        unsafe { MiMalloc.dealloc(block, layout_of(class)) };
    }
}
