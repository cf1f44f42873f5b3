//! NumPy's `.npy`: one array.
//!
//! Format: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>.

pub(super) mod header;

use std::{io::Write, path::Path};

use super::{FileBytes, atomic, context::Context, mmap::make_canonical, with_extension};
use crate::{
    Array, Dtype, Result,
    buffer::{Buffer, HostMemory},
    host::HostVec,
};
use header::Header;

const LOAD: &str = "load";
const SAVE: &str = "save";

/// Loads a `.npy` file. A little-endian array in C order maps it when it is evaluated; see
/// [`FileBytes::open`]. Others are turned while they are loaded. As in MLX, that elements are missing at the
/// end of the file is an error of reading the array.
///
/// # Errors
/// When the file cannot be read, its header is cut off, or it has a dtype that arrays do not have.
pub fn load(path: impl AsRef<Path>) -> Result<Array> {
    parse(&FileBytes::open(LOAD, path.as_ref())?)
}

/// [`load`] of bytes that are already here.
///
/// # Errors
/// When the bytes are not a `.npy` file.
pub fn parse(file: &FileBytes) -> Result<Array> {
    let context = Context::new(LOAD, file.name());
    let bytes = file.as_slice();
    let header = Header::read(&mut &bytes[..]).map_err(|e| context.error("header", e))?;
    let (shape, nbytes) = context.shape("shape", &header.shape, header.dtype.size())?;
    let start = header.nbytes;
    let present = bytes.len().saturating_sub(start);
    if nbytes > present {
        let what = format!("shape and dtype need {nbytes} bytes, the file has {present}");
        return Array::failed(shape, header.dtype, context.error("data", what));
    }
    // As NumPy does, ignore what may follow: other arrays can be appended to a file.
    let range = start..start + nbytes;
    if header.is_column_major() || header.big_endian {
        let mut data = HostVec::from_bytes(&bytes[range])?;
        return array_of(&header, &mut data);
    }
    file.array(context, "data", range, shape, header.dtype)
}

/// The array with this header and data, which is as long as the header says.
pub(super) fn array_of(header: &Header, data: &mut HostVec) -> Result<Array> {
    let shape: crate::Shape = header.shape.iter().map(|&d| d as usize).collect();
    if header.big_endian {
        let parts = if header.dtype == Dtype::Complex64 { 2 } else { 1 };
        let numbers = data.bytes_mut().unwrap_or_default();
        numbers.chunks_exact_mut(header.dtype.size() / parts).for_each(<[u8]>::reverse);
    }
    make_canonical(data, header.dtype);
    let mut out = HostVec::new(data.bytes().len())?;
    if header.is_column_major() {
        let target = out.bytes_mut().unwrap_or_default();
        to_row_major(data.bytes(), target, &shape, header.dtype.size());
    } else {
        std::mem::swap(&mut out, data);
    }
    Array::from_buffer(Buffer::from_vec(out), shape, header.dtype, 0)
}

/// Copies a dense column-major array of `item`-byte elements to row-major order.
fn to_row_major(source: &[u8], target: &mut [u8], shape: &[usize], item: usize) {
    // Bytes between neighbours along each axis of the source.
    let strides: Vec<usize> = shape
        .iter()
        .scan(item, |next, &dim| {
            let stride = *next;
            *next *= dim;
            Some(stride)
        })
        .collect();
    let mut index = vec![0; shape.len()];
    let mut from = 0;
    for element in target.chunks_exact_mut(item) {
        element.copy_from_slice(&source[from..from + item]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            from += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            from -= strides[axis] * shape[axis];
            index[axis] = 0;
        }
    }
}

/// Saves an array as `.npy` in C order, atomically; adds the extension if the name lacks it.
///
/// # Errors
/// When the array cannot be evaluated or the file cannot be written; nothing is left behind then.
pub fn save(path: impl AsRef<Path>, array: &Array) -> Result<()> {
    let path = with_extension(path.as_ref(), ".npy");
    atomic::write_file(SAVE, &path, |out, context| write_to(out, context, "data", array))
}

/// [`save`] to any writer that errors call `name`.
///
/// # Errors
/// When the array cannot be evaluated or the writer fails.
pub fn write(out: &mut dyn Write, name: &Path, array: &Array) -> Result<()> {
    write_to(out, Context::new(SAVE, name), "data", array)
}

/// Writes header and data; `field` is what errors call the array.
pub(super) fn write_to(
    out: &mut dyn Write,
    context: Context<'_>,
    field: &str,
    array: &Array,
) -> Result<()> {
    let bytes = array.to_bytes()?;
    let header = header::text(array.dtype(), array.shape());
    out.write_all(&header).map_err(context.on_write(field))?;
    out.write_all(&bytes).map_err(context.on_write(field))
}

/// Bytes of the `.npy` form of an array of `nbytes` bytes, at most.
pub(super) fn file_size(array: &Array) -> u64 {
    header::text(array.dtype(), array.shape()).len() as u64 + array.nbytes() as u64
}

/// NumPy's type string of a dtype; bfloat16 is two raw bytes, as MLX writes it.
fn descr(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Bool => "|b1",
        Dtype::Uint8 => "|u1",
        Dtype::Uint16 => "<u2",
        Dtype::Uint32 => "<u4",
        Dtype::Uint64 => "<u8",
        Dtype::Int8 => "|i1",
        Dtype::Int16 => "<i2",
        Dtype::Int32 => "<i4",
        Dtype::Int64 => "<i8",
        Dtype::Float16 => "<f2",
        Dtype::Bfloat16 => "<V2",
        Dtype::Float32 => "<f4",
        Dtype::Float64 => "<f8",
        Dtype::Complex64 => "<c8",
    }
}
