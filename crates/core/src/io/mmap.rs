//! A file's bytes: mapped read-only, or copied into host memory.

use std::{
    fs::File,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use memmap2::Mmap;

use super::context::Context;
use crate::{
    Array, Dtype, Result, Shape,
    buffer::{Buffer, HostMemory},
    host::HostVec,
};

/// The contents of a file, shared by the arrays that view them. Cloning is cheap.
#[derive(Clone)]
pub struct FileBytes {
    name: Arc<Path>,
    memory: Arc<Memory>,
}

enum Memory {
    Mapped(Mmap),
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
        let mapped = mapped.map_err(|e| context.error("file", format_args!("mmap: {e}")))?;
        Ok(Self::new(path.into(), Memory::Mapped(mapped)))
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
            Memory::Mapped(map) => map,
            Memory::Copied(vec) => vec.bytes(),
        }
    }

    /// The row-major array in `range`, whose length is the shape's: a view of this memory in a
    /// buffer of its own (so that a device gets what it needs of a file and no more), or a copy
    /// when the bytes are not aligned for every dtype, as any of them may view them later, or not the
    /// dtype's canonical values.
    pub(crate) fn array(
        &self,
        context: Context<'_>,
        field: &str,
        range: Range<usize>,
        shape: Shape,
        dtype: Dtype,
    ) -> Result<Array> {
        let Some(bytes) = self.as_slice().get(range.clone()) else {
            let what = format!("bytes {range:?} are past the end {}", self.as_slice().len());
            return Err(context.error(field, what));
        };
        let aligned = bytes.as_ptr().addr().is_multiple_of(ALIGNMENT);
        let buffer = if aligned && is_canonical(bytes, dtype) {
            Buffer::from_host(View { file: self.clone(), range })
        } else {
            let mut copy = HostVec::from_bytes(bytes)?;
            make_canonical(&mut copy, dtype);
            Buffer::from_vec(copy)
        };
        Array::from_buffer(buffer, shape, dtype, 0)
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

/// A part of a file as the memory of a buffer. `range` lies in the file.
struct View {
    file: FileBytes,
    range: Range<usize>,
}

impl HostMemory for View {
    fn bytes(&self) -> &[u8] {
        &self.file.as_slice()[self.range.clone()]
    }

    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        None
    }
}
