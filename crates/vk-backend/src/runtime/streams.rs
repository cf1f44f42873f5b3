//! All Vulkan streams of the process, by core's index.

use std::sync::Arc;

use mlx_vulkan_core::{Error, Result, Stream};
use parking_lot::{Mutex, RwLock};

use crate::runtime::{stream::VkStream, timer};

/// Other backends' indices stay empty. Streams live as long as the process: those that are given back rest,
/// until another one of core's goes on with them.
static STREAMS: RwLock<Vec<Option<&'static Arc<VkStream>>>> = RwLock::new(Vec::new());

/// Adds a stream at core's index.
pub(crate) fn add(index: usize, stream: Arc<VkStream>) {
    timer::add(stream.timer().clone());
    let mut streams = STREAMS.write();
    if streams.len() <= index {
        streams.resize(index + 1, None);
    }
    streams[index] = Some(Box::leak(Box::new(stream)));
}

/// The Vulkan stream with core's index, if it is one.
pub(crate) fn stream_of(index: u16) -> Option<&'static Arc<VkStream>> {
    STREAMS.read().get(index as usize).copied().flatten()
}

/// The Vulkan stream that is core's `stream`.
///
/// # Errors
/// When it is another backend's.
pub(crate) fn get(stream: Stream) -> Result<&'static Arc<VkStream>> {
    stream_of(stream.index)
        .ok_or_else(|| Error::device("eval", format!("{stream} is not a Vulkan stream")))
}

/// All streams so far.
pub(crate) fn all() -> Vec<&'static Arc<VkStream>> {
    STREAMS.read().iter().flatten().copied().collect()
}

/// Streams that were given back and still keep what they had, the last one last.
static RESTING: Mutex<Vec<&'static Arc<VkStream>>> = Mutex::new(Vec::new());

/// Streams that keep what they have after they were given back: threads that come and go go on with these,
/// and command buffers, rings of memory and threads need not be made anew.
const READY: usize = 4;

/// A stream was given back: what it has goes when others come to rest after it.
pub(crate) fn rest(stream: &'static Arc<VkStream>) {
    let mut resting = RESTING.lock();
    resting.retain(|other| !Arc::ptr_eq(other, stream));
    resting.push(stream);
    let over = resting.len().saturating_sub(READY);
    let due: Vec<_> = resting.drain(..over).collect();
    drop(resting);
    // Those that still have work to do stay, until they are looked at again.
    let busy: Vec<_> = due.into_iter().filter(|stream| !stream.rest()).collect();
    RESTING.lock().splice(0..0, busy);
}
