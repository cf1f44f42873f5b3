//! What a family of primitives needs to encode its work: outputs to allocate, inputs to read and
//! a place to put the task.

use mlx_vulkan_core::{
    Array, Dtype, Element, Result, Shape, Stream,
    array::Data,
    backend::Output,
    buffer::{self, BufferRef},
    shape::Layout,
};
use parking_lot::{MappedRwLockReadGuard, MappedRwLockWriteGuard};

use crate::stream::{CpuStream, Task};

/// The open stream of one evaluation.
pub(crate) struct Encoder<'a> {
    pub(crate) stream: Stream,
    pub(crate) tasks: &'a mut CpuStream,
}

/// An input as a task sees it: it keeps the memory alive, but does not own it.
#[derive(Clone)]
pub(crate) struct In {
    buffer: BufferRef,
    pub(crate) layout: Layout,
    pub(crate) shape: Shape,
    pub(crate) dtype: Dtype,
}

/// An output as a task sees it; always dense unless its family says otherwise.
#[derive(Clone)]
pub(crate) struct Out {
    buffer: BufferRef,
    pub(crate) layout: Layout,
    pub(crate) shape: Shape,
    pub(crate) dtype: Dtype,
}

impl From<&Array> for In {
    fn from(a: &Array) -> Self {
        let data = a.evaluated();
        In {
            buffer: (*data.buffer).clone(),
            layout: data.layout.clone(),
            shape: a.shape().into(),
            dtype: a.dtype(),
        }
    }
}

/// Elements of a locked buffer.
pub(crate) struct Elements<'a, T> {
    bytes: MappedRwLockReadGuard<'a, [u8]>,
    /// First element.
    first: usize,
    element: std::marker::PhantomData<T>,
}

impl<T: Element> Elements<'_, T> {
    /// All elements of the buffer; strides count from [`Elements::first`].
    pub(crate) fn buffer(&self) -> &[T] {
        let whole = self.bytes.len() / size_of::<T>() * size_of::<T>();
        bytemuck::cast_slice(&self.bytes[..whole])
    }

    /// Index of the first element in [`Elements::buffer`].
    pub(crate) fn first(&self) -> usize {
        self.first
    }
}

impl In {
    /// Locks the elements for reading.
    pub(crate) fn read<T: Element>(&self) -> Elements<'_, T> {
        debug_assert_eq!(T::DTYPE.size(), self.dtype.size());
        Elements {
            bytes: self.buffer.read(),
            first: self.layout.offset / size_of::<T>(),
            element: std::marker::PhantomData,
        }
    }

    /// Locks the bytes for reading.
    pub(crate) fn read_bytes(&self) -> Elements<'_, u8> {
        let (bytes, first) = (self.buffer.read(), self.layout.offset);
        Elements { bytes, first, element: std::marker::PhantomData }
    }

    /// Elements of the input.
    pub(crate) fn size(&self) -> usize {
        mlx_vulkan_core::shape::num_elements(&self.shape)
    }
}

/// Writable elements of a locked output.
pub(crate) struct ElementsMut<'a, T> {
    bytes: MappedRwLockWriteGuard<'a, [u8]>,
    first: usize,
    len: usize,
    element: std::marker::PhantomData<T>,
}

impl<T: Element> std::ops::Deref for ElementsMut<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        let size = size_of::<T>();
        bytemuck::cast_slice(&self.bytes[self.first * size..(self.first + self.len) * size])
    }
}

impl<T: Element> std::ops::DerefMut for ElementsMut<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        let size = size_of::<T>();
        bytemuck::cast_slice_mut(&mut self.bytes[self.first * size..(self.first + self.len) * size])
    }
}

impl Out {
    /// Locks the `data_size` elements for writing.
    pub(crate) fn write<T: Element>(&self) -> ElementsMut<'_, T> {
        debug_assert_eq!(T::DTYPE.size(), self.dtype.size());
        ElementsMut {
            bytes: self.buffer.write(),
            first: self.layout.offset / size_of::<T>(),
            len: self.layout.data_size,
            element: std::marker::PhantomData,
        }
    }

    /// Locks the bytes of the `data_size` elements for writing.
    pub(crate) fn write_bytes(&self) -> ElementsMut<'_, u8> {
        ElementsMut {
            bytes: self.buffer.write(),
            first: self.layout.offset,
            len: self.layout.data_size * self.dtype.size(),
            element: std::marker::PhantomData,
        }
    }

    /// Whether the output took over the memory of this input: a task must then work in place,
    /// because the two cannot be locked at once.
    pub(crate) fn aliases(&self, input: &In) -> bool {
        self.buffer.same(&input.buffer)
    }

    /// Elements of the output.
    pub(crate) fn size(&self) -> usize {
        mlx_vulkan_core::shape::num_elements(&self.shape)
    }
}

impl Encoder<'_> {
    /// Allocates a dense row-major output.
    pub(crate) fn allocate(&self, output: &mut Output) -> Result<Out> {
        let layout = Layout::row_major(&output.shape);
        self.allocate_as(output, layout)
    }

    /// Allocates an output of `layout.data_size` elements with that layout.
    pub(crate) fn allocate_as(&self, output: &mut Output, layout: Layout) -> Result<Out> {
        let buffer = buffer::host_buffer(layout.data_size * output.dtype.size())?;
        Ok(self.bind(output, Data { buffer, layout }))
    }

    /// Lets the output take over an input's memory and layout where that is safe (see
    /// [`Array::is_donatable`]) and both have the same element size; else `None`.
    pub(crate) fn donate(&self, output: &mut Output, input: &Array) -> Option<Out> {
        self.donate_among(output, input, 1)
    }

    /// [`Encoder::donate`] where what is evaluated at once refers to the input `references` times.
    pub(crate) fn donate_among(
        &self,
        output: &mut Output,
        input: &Array,
        references: usize,
    ) -> Option<Out> {
        let data = input.evaluated();
        let fits = input.dtype().size() == output.dtype.size()
            && input.shape() == output.shape.as_slice()
            && data.layout.flags.contiguous
            && input.is_donatable_among(references, output.nbytes(), self.stream)
            && data.buffer.is_host_writable();
        fits.then(|| self.bind(output, data.clone()))
    }

    fn bind(&self, output: &mut Output, data: Data) -> Out {
        data.buffer.set_current(buffer::Current::Host);
        let out = Out {
            buffer: (*data.buffer).clone(),
            layout: data.layout.clone(),
            shape: output.shape.clone(),
            dtype: output.dtype,
        };
        output.data = Some(data);
        out
    }

    /// Records a task.
    pub(crate) fn push(&mut self, task: impl FnOnce() + Send + 'static) -> Result<()> {
        let task: Task = Box::new(move || {
            task();
            Ok(())
        });
        self.tasks.push(task);
        Ok(())
    }
}

/// The inputs of a node, whose number its operation fixed.
pub(crate) fn args<const N: usize>(inputs: &[Array]) -> &[Array; N] {
    inputs.try_into().expect("operations build nodes with this number of inputs")
}
