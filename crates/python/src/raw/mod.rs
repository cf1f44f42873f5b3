//! Memory that is shared with other libraries, and calls that PyO3 does not know: the only room of this crate
//! with `unsafe` in it.

pub(crate) mod buffer;
pub(crate) mod dlpack;
pub(crate) mod keywords;
pub(crate) mod slices;

use mlx::{Array, Dtype, dispatch_dtype, dtype::FromF64, ops};

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
    /// float64, which becomes what is asked for.
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

    /// A copy of elements in row-major order.
    fn copied(self, bytes: Vec<u8>, shape: &[usize]) -> mlx::Result<Foreign> {
        match self {
            Source::Same(dtype) => Array::from_bytes(&bytes, shape, dtype).map(Foreign::Array),
            Source::Double => Ok(Foreign::Doubles { bytes, shape: shape.to_vec() }),
            Source::DoubleComplex => {
                let narrow = doubles(&bytes).flat_map(|value| (value as f32).to_ne_bytes());
                let narrow: Vec<u8> = narrow.collect();
                Array::from_bytes(&narrow, shape, Dtype::Complex64).map(Foreign::Array)
            }
        }
    }
}

fn doubles(bytes: &[u8]) -> impl Iterator<Item = f64> {
    bytes.as_chunks().0.iter().map(|&value| f64::from_ne_bytes(value))
}

/// A copy of another library's elements.
pub(crate) enum Foreign {
    /// What arrays can have by themselves.
    Array(Array),
    /// float64 in row-major order: by way of float32, integers would lose digits.
    Doubles { bytes: Vec<u8>, shape: Vec<usize> },
}

impl Foreign {
    /// The elements as `dtype`; without one as their own, which is float32 for float64.
    pub(crate) fn to_array(&self, dtype: Option<Dtype>) -> mlx::Result<Array> {
        match self {
            Foreign::Array(array) => ops::astype(array, dtype.unwrap_or(array.dtype())),
            Foreign::Doubles { bytes, shape } => {
                dispatch_dtype!(dtype.unwrap_or(Dtype::Float32), T => {
                    let values: Vec<T> = doubles(bytes).map(<T as FromF64>::from_f64).collect();
                    Array::from_slice(&values, shape)
                })
            }
        }
    }
}
