//! What the elementwise families share: the kernel class of a dtype, and how operands are walked.

use mlx_vulkan_core::{Array, Dtype, backend::Output, shape::Layout};

use super::{Operand, layouts::elementwise};

/// Register type of a kernel: the `CLASS` define of its source, in that order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// float16, bfloat16 and float32, computed in float32.
    Float,
    /// Signed integers of at most 32 bits.
    Int,
    /// bool and unsigned integers of at most 32 bits.
    Uint,
    /// int64.
    Long,
    /// uint64.
    Ulong,
    /// complex64.
    Complex,
}

impl From<Dtype> for Class {
    fn from(dtype: Dtype) -> Self {
        match dtype {
            Dtype::Float16 | Dtype::Bfloat16 | Dtype::Float32 | Dtype::Float64 => Class::Float,
            Dtype::Int8 | Dtype::Int16 | Dtype::Int32 => Class::Int,
            Dtype::Bool | Dtype::Uint8 | Dtype::Uint16 | Dtype::Uint32 => Class::Uint,
            Dtype::Int64 => Class::Long,
            Dtype::Uint64 => Class::Ulong,
            Dtype::Complex64 => Class::Complex,
        }
    }
}

/// How a kernel walks its operands: the `MODE` constant of `elementwise.glsl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Mode {
    /// Element by element in memory order.
    Dense = elementwise::DENSE,
    /// Four elements at a time in memory order.
    Dense4 = elementwise::DENSE4,
    /// By shape and strides; the output is row-major.
    Strided = elementwise::STRIDED,
}

impl Mode {
    /// The widest dense mode that the alignment of the operands allows.
    pub(crate) fn dense(dtypes: &[(Operand, Dtype)]) -> Mode {
        let wide = dtypes.iter().all(|(at, dtype)| {
            let size = dtype.size() as u64;
            size <= 4 && *dtype != Dtype::Complex64 && at.is_aligned(4 * size)
        });
        if wide { Mode::Dense4 } else { Mode::Dense }
    }

    /// Rounds of the grid for `count` elements.
    pub(crate) fn items(self, count: u64) -> u64 {
        if self == Mode::Dense4 { count.div_ceil(4) } else { count }
    }
}

/// Whether a flat walk over the memory visits every element once.
pub(crate) fn is_dense(a: &Array) -> bool {
    let layout = &a.evaluated().layout;
    layout.flags.contiguous && layout.data_size == a.size()
}

/// Whether all elements are one element of memory.
pub(crate) fn is_one_element(a: &Array) -> bool {
    a.evaluated().layout.data_size == 1 || a.evaluated().layout.strides.iter().all(|&s| s == 0)
}

/// Whether two dense arrays of one shape lie in the same order.
pub(crate) fn same_order(a: &Array, b: &Array) -> bool {
    let (a, b) = (&a.evaluated().layout, &b.evaluated().layout);
    a.strides == b.strides || (a.flags.row_contiguous && b.flags.row_contiguous)
}

/// The layout of an output in the order of a dense input.
pub(crate) fn layout_like(a: &Array, output: &Output) -> Layout {
    debug_assert_eq!(a.shape(), output.shape.as_slice());
    Layout { offset: 0, ..a.evaluated().layout.clone() }
}
