//! Memory that is shared with other libraries, and calls that PyO3 does not know: the only room of this crate
//! with `unsafe` in it.

pub(crate) mod buffer;
pub(crate) mod dlpack;
pub(crate) mod keywords;
pub(crate) mod slices;

use mlx::Dtype;

/// Copies strided elements of `itemsize` bytes into row-major order.
///
/// # Safety
/// `first` and `strides` (in bytes) name elements of `shape` in memory that nobody writes meanwhile.
unsafe fn gather(first: *const u8, shape: &[usize], strides: &[isize], itemsize: usize) -> Vec<u8> {
    let size: usize = shape.iter().product();
    let mut out = Vec::with_capacity(size * itemsize);
    if is_row_major(shape, strides, itemsize) {
        let bytes = match size {
            // It may have no address.
            0 => &[],
            // SAFETY: the elements lie one after the other.
            _ => unsafe { std::slice::from_raw_parts(first, size * itemsize) },
        };
        out.extend_from_slice(bytes);
        return out;
    }
    let mut index = vec![0usize; shape.len()];
    let mut at = 0isize;
    for _ in 0..size {
        // SAFETY: `at` is the offset of the element at `index`.
        out.extend_from_slice(unsafe { std::slice::from_raw_parts(first.offset(at), itemsize) });
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            at += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            at -= strides[axis] * shape[axis] as isize;
            index[axis] = 0;
        }
    }
    out
}

fn is_row_major(shape: &[usize], strides: &[isize], itemsize: usize) -> bool {
    let mut expected = itemsize as isize;
    shape.iter().zip(strides).rev().all(|(&n, &stride)| {
        let fits = n == 1 || stride == expected;
        expected *= n as isize;
        fits
    })
}

/// Elements of another library: their type here, and how they become it.
#[derive(Clone, Copy)]
enum Source {
    /// The same bytes.
    Same(Dtype),
    /// float64, which becomes float32.
    Double,
    /// Pairs of float64, which become pairs of float32.
    DoubleComplex,
}

impl Source {
    fn itemsize(self) -> usize {
        match self {
            Source::Same(dtype) => dtype.size(),
            Source::Double => 8,
            Source::DoubleComplex => 16,
        }
    }

    /// An array of elements in row-major order.
    fn into_array(self, bytes: &[u8], shape: &[usize]) -> mlx::Result<mlx::Array> {
        let narrow = || {
            let doubles = bytes.as_chunks().0.iter().map(|&b| f64::from_ne_bytes(b) as f32);
            doubles.flat_map(f32::to_ne_bytes).collect::<Vec<u8>>()
        };
        match self {
            Source::Same(dtype) => mlx::Array::from_bytes(bytes, shape, dtype),
            Source::Double => mlx::Array::from_bytes(&narrow(), shape, Dtype::Float32),
            Source::DoubleComplex => mlx::Array::from_bytes(&narrow(), shape, Dtype::Complex64),
        }
    }
}
