//! A file's bytes, mapped or copied into host memory, and the arrays that lie in them.

use std::{
    fs::File,
    hash::{Hash, Hasher},
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use memmap2::{Mmap, MmapMut, MmapOptions};

use super::context::Context;
use crate::{
    Array, Device, Dtype, Result, Shape,
    buffer::{Buffer, HostMemory},
    graph::Inputs,
    host::HostVec,
    memory,
    primitives::Load,
    stream,
};

/// The contents of a file, shared by the arrays that view them. Cloning is cheap.
#[derive(Clone)]
pub struct FileBytes {
    name: Arc<Path>,
    memory: Arc<Memory>,
}

enum Memory {
    Mapped {
        /// Read-only, to look at what the file says of itself.
        map: Mmap,
        /// From which each array maps its own part.
        file: File,
        /// The operation that errors name.
        op: &'static str,
    },
    Copied(HostVec),
}

/// What the largest elements need.
const ALIGNMENT: usize = 8;

impl FileBytes {
    /// Maps the file at `path`, read-only. `op` is the operation that errors name.
    ///
    /// The file must stay as it is while arrays view it: if another process truncates it, touching
    /// the missing pages kills this process (SIGBUS), as with every mapped file. Replacing the file
    /// by renaming another over it, which is what the writers of this crate do, is harmless.
    ///
    /// # Errors
    /// When there is no such regular file or it cannot be mapped.
    pub fn open(op: &'static str, path: &Path) -> Result<Self> {
        let context = Context::new(op, path);
        let file = File::open(path).map_err(|e| context.error("file", e))?;
        let kind = file.metadata().map_err(|e| context.error("file", e))?;
        if !kind.is_file() {
            return Err(context.error("file", "is not a regular file"));
        }
        // SAFETY: the mapping is private to this value, read-only and as long as the file is now.
        // What memmap2 cannot rule out is that another process changes the file meanwhile. Bytes
        // that change make numbers change: the loaders copy every length, count and offset out of
        // the mapping once, check the copy and use the copy, and text is copied before it is
        // validated, so no check is undone by a later change. Bytes that vanish (the file is
        // truncated by another process) end this process with a signal, not with undefined
        // behaviour of ours; `open` documents it.
        let mapped = unsafe { Mmap::map(&file) };
        let map = mapped.map_err(|e| context.error("file", format_args!("mmap: {e}")))?;
        Ok(Self::new(path.into(), Memory::Mapped { map, file, op }))
    }

    /// A copy of `bytes` that errors call `name`.
    ///
    /// # Errors
    /// When memory is out.
    pub fn from_bytes(name: impl Into<PathBuf>, bytes: &[u8]) -> Result<Self> {
        Ok(Self::new(name.into(), Memory::Copied(HostVec::from_bytes(bytes)?)))
    }

    fn new(name: PathBuf, memory: Memory) -> Self {
        FileBytes { name: name.into(), memory: Arc::new(memory) }
    }

    /// The file's name.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// The contents.
    pub fn as_slice(&self) -> &[u8] {
        match &*self.memory {
            Memory::Mapped { map, .. } => map,
            Memory::Copied(vec) => vec.bytes(),
        }
    }

    /// The row-major array in `range`, whose length is the shape's. It is lazy: what is evaluated takes
    /// memory, what is not only keeps the file open.
    pub(crate) fn array(
        &self,
        context: Context<'_>,
        field: &str,
        range: Range<usize>,
        shape: Shape,
        dtype: Dtype,
    ) -> Result<Array> {
        if self.as_slice().get(range.clone()).is_none() {
            let what = format!("bytes {range:?} are past the end {}", self.as_slice().len());
            return Err(context.error(field, what));
        }
        let part = Part { file: self.clone(), range };
        // As upstream's, it is an operation of the CPU, whatever the default device is.
        match stream::default_stream(Device::CPU) {
            Ok(stream) => {
                let load = Load::new(part, shape.clone(), dtype);
                Ok(Array::lazy(shape, dtype, load.into(), stream, Inputs::new()))
            }
            // No backend is there, which nothing here needs.
            Err(_) => Array::from_buffer(part.buffer(dtype)?, shape, dtype, 0),
        }
    }
}

impl std::fmt::Debug for FileBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileBytes({:?}, {} bytes)", self.name, self.as_slice().len())
    }
}

/// Whether every byte of a bool is 0 or 1; other dtypes have no other values.
fn is_canonical(bytes: &[u8], dtype: Dtype) -> bool {
    dtype != Dtype::Bool || bytes.iter().all(|&b| b <= 1)
}

/// Makes every true of a bool array 1, as NumPy reads it.
pub(super) fn make_canonical(memory: &mut HostVec, dtype: Dtype) {
    if let (Dtype::Bool, Some(bytes)) = (dtype, memory.bytes_mut()) {
        bytes.iter_mut().for_each(|b| *b = (*b != 0) as u8);
    }
}

/// A part of a file, which lies in it; equal to the same part of the same opened file alone.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    file: FileBytes,
    range: Range<usize>,
}

impl Part {
    /// So many zeros, of no file.
    pub(crate) fn zeros(nbytes: usize) -> Self {
        let memory = HostVec::from_bytes(&vec![0; nbytes]).expect("a few bytes");
        Part { file: FileBytes::new(PathBuf::new(), Memory::Copied(memory)), range: 0..nbytes }
    }

    /// Memory with the bytes, which are elements of `dtype`: a mapping of their own, so that it can be taken
    /// over by a result without changing the file, and a device gets what it needs of it and no more. They
    /// are copied when they are not aligned for every dtype, as any of them may view them later, or not the
    /// dtype's canonical values.
    ///
    /// # Errors
    /// When memory is out, or the file cannot be mapped.
    pub(crate) fn buffer(&self, dtype: Dtype) -> Result<Buffer> {
        let bytes = self.bytes();
        let aligned = bytes.as_ptr().addr().is_multiple_of(ALIGNMENT);
        if !aligned || !is_canonical(bytes, dtype) || bytes.is_empty() {
            let mut copy = HostVec::from_bytes(bytes)?;
            make_canonical(&mut copy, dtype);
            return Ok(Buffer::from_file(copy));
        }
        match &*self.file.memory {
            Memory::Mapped { file, op, .. } => {
                Private::map(Context::new(op, &self.file.name), file, &self.range)
                    .map(Buffer::from_file)
            }
            Memory::Copied(_) => Ok(Buffer::from_file(self.clone())),
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.file.as_slice()[self.range.clone()]
    }

    fn identity(&self) -> (*const Memory, &Range<usize>) {
        (Arc::as_ptr(&self.file.memory), &self.range)
    }
}

impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Part {}

impl Hash for Part {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

/// A part of a copied file, which others view, too.
impl HostMemory for Part {
    fn bytes(&self) -> &[u8] {
        self.bytes()
    }

    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        None
    }
}

/// A part of a file that is mapped for one array. What is written to it the file does not see.
struct Private {
    map: MmapMut,
    /// Whether it counts as active memory: not where a device has a copy, because the system can have these
    /// pages back then.
    counted: AtomicBool,
}

impl Private {
    fn map(context: Context<'_>, file: &File, range: &Range<usize>) -> Result<Self> {
        let mut options = MmapOptions::new();
        options.offset(range.start as u64).len(range.len());
        // SAFETY: as in `FileBytes::open`, and nobody else has this mapping.
        let map = unsafe { options.map_copy(file) };
        let map = map.map_err(|e| context.error("file", format_args!("mmap: {e}")))?;
        let mapped = Private { map, counted: AtomicBool::new(false) };
        mapped.count(true);
        Ok(mapped)
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        self.count(false);
    }
}

impl HostMemory for Private {
    fn bytes(&self) -> &[u8] {
        &self.map
    }

    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        Some(&mut self.map)
    }

    fn count(&self, active: bool) {
        if self.counted.swap(active, Relaxed) != active {
            let note = if active { memory::note_allocated } else { memory::note_freed };
            note(self.map.len());
        }
    }
}
