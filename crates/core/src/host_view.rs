//! Evaluated elements for readers and writers outside of Rust: Python's buffer protocol, DLPack.

use crate::{
    Array, Dtype, Result, Shape,
    array::Data,
    buffer::{Buffer, Current},
    host::HostVec,
    shape::{Layout, Strides},
};

/// The elements of an array in host memory, which stays where it is while the view lives.
///
/// It counts as an owner of the array's buffer, so no operation takes the memory over. What is written
/// through [`HostView::as_ptr`] is seen by operations from then on: the host copy is the one that holds the
/// contents, when the view is made and when it is dropped.
pub struct HostView {
    buffer: Buffer,
    shape: Shape,
    strides: Strides,
    dtype: Dtype,
    first: *mut u8,
}

impl HostView {
    /// What [`HostView::new`] gives, where nobody has to wait for it and nothing can go wrong.
    pub fn ready(array: &Array) -> Option<HostView> {
        let Data { buffer, layout } = array.data()?;
        let written = buffer.written();
        let is_there = buffer.current() != Current::Device
            && buffer.known_outcome().is_none()
            && written.reached()
            && written.failure().is_none();
        let first = if is_there { buffer.pin()? } else { return None };
        buffer.set_current(Current::Host);
        Some(HostView::over(array, buffer.clone(), layout, first))
    }

    /// Evaluates `array` and brings its elements to the host. Memory that may not be written (a mapped file)
    /// is copied, and so is shared with nobody.
    ///
    /// # Errors
    /// When evaluation fails or memory is out.
    pub fn new(array: &Array) -> Result<HostView> {
        array.eval()?;
        let Data { buffer, layout } = array.evaluated();
        // Evaluating has waited for what is on the host already.
        if buffer.current() == Current::Device {
            buffer.to_host()?.wait()?;
        }
        match buffer.pin() {
            Some(first) => {
                buffer.set_current(Current::Host);
                Ok(HostView::over(array, buffer.clone(), layout, first))
            }
            None => Self::copy(array),
        }
    }

    /// The same in memory of its own, in row-major order.
    fn copy(array: &Array) -> Result<HostView> {
        let memory = HostVec::from_bytes(&array.to_bytes()?)?;
        let buffer = Buffer::from_vec(memory);
        let first = buffer.pin().expect("a new block of host memory can be written");
        Ok(HostView::over(array, buffer, &Layout::row_major(array.shape()), first))
    }

    fn over(array: &Array, buffer: Buffer, layout: &Layout, first: *mut u8) -> HostView {
        HostView {
            buffer,
            shape: Shape::from_slice(array.shape()),
            strides: Strides::from_slice(&layout.strides),
            dtype: array.dtype(),
            first: first.wrapping_add(layout.offset),
        }
    }

    /// The first element.
    pub fn as_ptr(&self) -> *mut u8 {
        self.first
    }

    /// Sizes of the axes.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Distances of elements along the axes, in elements.
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// Element type.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }
}

impl Drop for HostView {
    fn drop(&mut self) {
        // What was written meanwhile reaches a device that has a copy.
        self.buffer.set_current(Current::Host);
    }
}
