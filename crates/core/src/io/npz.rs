//! NumPy's `.npz`: a zip archive of `.npy` files.

mod latch;

use std::{
    cell::RefCell,
    io::{Cursor, Read, Seek, Write},
    path::Path,
};

use zip::{CompressionMethod, ZipArchive, ZipWriter, read::ZipFile, write::SimpleFileOptions};

use self::latch::Latch;
use super::{
    Arrays, FileBytes, atomic, context::Context, npy, npy::header::Header, with_extension,
};
use crate::{Array, Result, buffer::HostMemory, host::HostVec};

const LOAD: &str = "load";
const SAVE: &str = "savez";

/// Deflate codes at most 258 bytes in 2 bits: nothing honest inflates further.
const MAX_INFLATION: u64 = 1032;

/// Loads the arrays of a `.npz` file by name (without `.npy`).
///
/// # Errors
/// When the file cannot be read, is not an archive, or an entry is not a `.npy` file whose header
/// and checksum agree with its bytes.
pub fn load(path: impl AsRef<Path>) -> Result<Arrays> {
    parse(&FileBytes::open(LOAD, path.as_ref())?)
}

/// [`load`] of bytes that are already here.
///
/// # Errors
/// When the bytes are not a `.npz` file.
pub fn parse(file: &FileBytes) -> Result<Arrays> {
    let context = Context::new(LOAD, file.name());
    let on_error = |e| context.error("archive", e);
    let mut archive = ZipArchive::new(Cursor::new(file.as_slice())).map_err(on_error)?;
    if archive.has_duplicate_names() {
        return Err(context.error("archive", "two entries have the same name"));
    }
    // Entries that share their bytes multiply a small file as often as they please.
    if archive.has_overlapping_entries().map_err(on_error)? {
        return Err(context.error("archive", "entries overlap"));
    }
    let mut arrays = Arrays::new();
    for index in 0..archive.len() {
        let mut entry =
            archive.by_index(index).map_err(|e| context.error(format_args!("entry {index}"), e))?;
        if entry.is_dir() {
            continue;
        }
        let path = entry.name().map_err(on_error)?.into_owned();
        let field = format!("entry {path:?}");
        let array = read_entry(context, &field, &mut entry)?;
        let name = path.strip_suffix(".npy").unwrap_or(&path);
        if arrays.insert(name.into(), array).is_some() {
            return Err(context.error(field, "another entry has the same name"));
        }
    }
    Ok(arrays)
}

fn read_entry<R: Read>(
    context: Context<'_>,
    field: &str,
    entry: &mut ZipFile<'_, R>,
) -> Result<Array> {
    let error = |what: String| context.error(field, what);
    let (size, stored) = (entry.size(), entry.compressed_size());
    let possible = match entry.compression() {
        _ if entry.encrypted() => return Err(error("is encrypted".into())),
        CompressionMethod::Stored => size == stored,
        CompressionMethod::Deflated => size / MAX_INFLATION <= stored,
        other => return Err(error(format!("compression {other} is not supported"))),
    };
    if !possible {
        return Err(error(format!("{stored} bytes cannot unpack to {size}")));
    }
    let header = Header::read(entry).map_err(error)?;
    let (_, nbytes) = context.shape(field, &header.shape, header.dtype.size())?;
    if (nbytes as u64).checked_add(header.nbytes as u64) != Some(size) {
        let what = format!("header and data need {} + {nbytes} bytes, not {size}", header.nbytes);
        return Err(error(what));
    }
    let mut data = HostVec::new(nbytes)?;
    let on_read = |e: std::io::Error| error(format!("data: {e}"));
    entry.read_exact(data.bytes_mut().unwrap_or_default()).map_err(on_read)?;
    // Reading the end is what checks the checksum.
    if entry.read(&mut [0]).map_err(on_read)? != 0 {
        return Err(error("more bytes than the archive says".into()));
    }
    npy::array_of(&header, &mut data)
}

/// Saves arrays as an uncompressed `.npz`, atomically; adds the extension if the name lacks it.
///
/// # Errors
/// When an array cannot be evaluated or the file cannot be written; nothing is left behind then.
pub fn savez(path: impl AsRef<Path>, arrays: &Arrays) -> Result<()> {
    save_with(path.as_ref(), arrays, CompressionMethod::Stored)
}

/// [`savez`] with deflate.
///
/// # Errors
/// As [`savez`].
pub fn savez_compressed(path: impl AsRef<Path>, arrays: &Arrays) -> Result<()> {
    save_with(path.as_ref(), arrays, CompressionMethod::Deflated)
}

fn save_with(path: &Path, arrays: &Arrays, method: CompressionMethod) -> Result<()> {
    let path = with_extension(path, ".npz");
    atomic::write_file(SAVE, &path, |out, context| write_to(out, context, arrays, method))
}

/// [`savez`] or, when `compressed`, [`savez_compressed`] to a writer that errors call `name`.
///
/// # Errors
/// When an array cannot be evaluated or the writer fails.
pub fn write<W: Write + Seek>(
    out: &mut W,
    name: &Path,
    arrays: &Arrays,
    compressed: bool,
) -> Result<()> {
    let method = if compressed { CompressionMethod::Deflated } else { CompressionMethod::Stored };
    write_to(out, Context::new(SAVE, name), arrays, method)
}

fn write_to<W: Write + Seek>(
    out: &mut W,
    context: Context<'_>,
    arrays: &Arrays,
    method: CompressionMethod,
) -> Result<()> {
    crate::eval(&arrays.values().collect::<Vec<_>>())?;
    let failure = RefCell::new(None);
    let latch = Latch::new(out, &failure).map_err(context.on_write("archive"))?;
    let check = |field: &str| match failure.take() {
        Some(error) => Err(context.on_write(field)(error)),
        None => Ok(()),
    };
    let mut archive = ZipWriter::new(latch);
    for (name, array) in arrays {
        let field = format!("entry {name:?}");
        // Deflate can make incompressible data a little larger.
        let large = npy::file_size(array) > u64::from(u32::MAX) / 64 * 63;
        let options = SimpleFileOptions::default().compression_method(method).large_file(large);
        archive
            .start_file(format!("{name}.npy"), options)
            .map_err(|e| context.on_write(&field)(e.into()))?;
        npy::write_to(&mut archive, context, &field, array)?;
        check(&field)?;
    }
    archive.finish().map_err(|e| context.on_write("archive")(e.into()))?;
    check("archive")
}
