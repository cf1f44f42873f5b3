//! The lazy array.

use std::sync::{Arc, OnceLock};

use qcell::TCell;
use smallvec::smallvec;

use crate::{
    Dtype, Element, Error, Result, Shape, Stream,
    backend::Output,
    buffer::{self, Buffer, Current},
    dispatch_dtype,
    dtype::FromF64,
    eval::{self, eval},
    graph::{Evaluating, Inputs, Node, Sibling, Turn},
    host::HostVec,
    outcome::Failure,
    primitives::{PassOp, Primitive, SpecRef},
    shape::{self, Layout},
    transforms::trace::{self, Mark},
};

/// Where the elements of an evaluated array are.
#[derive(Clone, Debug)]
pub struct Data {
    /// The memory.
    pub buffer: Buffer,
    /// How the elements lie in it.
    pub layout: Layout,
}

pub(crate) struct Inner {
    shape: Shape,
    dtype: Dtype,
    /// How to compute the array; gone once it is evaluated, but for tracers. Only who has the turn to
    /// evaluate looks at it.
    node: TCell<Evaluating, Option<Arc<Node>>>,
    data: OnceLock<Data>,
    /// Which trace it belongs to.
    mark: Mark,
}

// With its counts an array takes 152 bytes. With 160, a size of mimalloc's blocks, each would be allocated
// the slow way, because seven bytes more are asked for to align it whenever that size's free list is empty.
const _: () = assert!(size_of::<Inner>() <= 136);

/// An n-dimensional array whose contents are computed when they are needed.
///
/// Cloning is cheap and refers to the same array. Operations return at once; [`crate::eval()`]
/// or reading the contents runs them.
///
/// ```no_run
/// use mlx_vulkan_core::{Array, ops};
/// # fn main() -> mlx_vulkan_core::Result<()> {
/// let a = Array::from_slice(&[1.0f32, 2.0, 3.0], &[3])?;
/// let b = ops::add(&a, &a)?;
/// assert_eq!(b.to_vec::<f32>()?, [2.0, 4.0, 6.0]);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Array(pub(crate) Arc<Inner>);

impl Array {
    /// An array of `shape` (row-major) with a copy of `data`.
    ///
    /// # Errors
    /// When the number of elements is not the shape's, or memory is out.
    pub fn from_slice<T: Element>(data: &[T], shape: &[usize]) -> Result<Array> {
        if shape::checked_num_elements(shape) != Some(data.len()) {
            let message = format!("{} elements do not fill shape {shape:?}", data.len());
            return Err(Error::invalid("array", message));
        }
        let buffer = Buffer::from_vec(HostVec::from_bytes(bytemuck::cast_slice(data))?);
        Ok(Self::with_data(
            shape.into(),
            T::DTYPE,
            Data { buffer, layout: Layout::row_major(shape) },
        ))
    }

    /// A scalar.
    ///
    /// # Errors
    /// When memory is out.
    pub fn scalar<T: Element>(value: T) -> Result<Array> {
        Self::from_slice(&[value], &[])
    }

    /// A scalar of `dtype` with the value nearest to `value`.
    ///
    /// # Errors
    /// When memory is out.
    pub fn scalar_of(value: f64, dtype: Dtype) -> Result<Array> {
        dispatch_dtype!(dtype, T => Self::scalar(<T as FromF64>::from_f64(value)))
    }

    /// An array of `shape` (row-major) with a copy of `bytes`, little endian.
    ///
    /// # Errors
    /// When the bytes are not as many as the elements take, or memory is out.
    pub fn from_bytes(bytes: &[u8], shape: &[usize], dtype: Dtype) -> Result<Array> {
        if shape::checked_nbytes(shape, dtype) != Some(bytes.len()) {
            let message = format!("{} bytes do not fill shape {shape:?} of {dtype}", bytes.len());
            return Err(Error::invalid("array", message));
        }
        let buffer = Buffer::from_vec(HostVec::from_bytes(bytes)?);
        Ok(Self::with_data(shape.into(), dtype, Data { buffer, layout: Layout::row_major(shape) }))
    }

    /// A row-major array over `buffer`, from `offset` bytes on.
    ///
    /// # Errors
    /// When the elements do not lie in the buffer, or `offset` is not a multiple of their size.
    pub fn from_buffer(buffer: Buffer, shape: Shape, dtype: Dtype, offset: usize) -> Result<Array> {
        let bytes =
            shape::checked_num_elements(&shape)
                .and_then(|n| n.checked_mul(dtype.size()))
                .ok_or_else(|| Error::invalid("array", format!("shape {shape:?} is too large")))?;
        buffer::check_range("array", buffer.nbytes(), offset, bytes)?;
        if !offset.is_multiple_of(dtype.size()) {
            return Err(Error::invalid(
                "array",
                format!("offset {offset} is not aligned to {dtype}"),
            ));
        }
        let layout = Layout { offset, ..Layout::row_major(&shape) };
        Ok(Self::with_data(shape, dtype, Data { buffer, layout }))
    }

    /// An array that could not be had: who reads it, or what is computed from it, is told the error. Its
    /// elements share the memory of one.
    pub(crate) fn failed(shape: Shape, dtype: Dtype, error: Error) -> Result<Array> {
        let buffer = Buffer::from_vec(HostVec::new(dtype.size())?);
        buffer.fail(&Failure::new(error));
        let strides = std::iter::repeat_n(0, shape.len()).collect();
        let layout = Layout::view(&shape, strides, 0, 1, true);
        Ok(Self::with_data(shape, dtype, Data { buffer, layout }))
    }

    /// An evaluated array.
    pub(crate) fn with_data(shape: Shape, dtype: Dtype, data: Data) -> Array {
        Self::new(shape, dtype, None, OnceLock::from(data), Mark::NONE)
    }

    /// An array that stands for an argument of a function that is traced; it cannot be evaluated.
    pub(crate) fn placeholder(shape: Shape, dtype: Dtype, mark: Mark) -> Array {
        Self::new(shape, dtype, None, OnceLock::new(), mark)
    }

    /// A view of the whole of `source` that is traced.
    pub(crate) fn tracer(source: Array, stream: Stream, mark: Mark) -> Array {
        let (shape, dtype) = (source.0.shape.clone(), source.dtype());
        let node = Node::new(PassOp::Copy.into(), stream, smallvec![source]);
        Self::of_node(shape, dtype, Arc::new(node), mark)
    }

    /// A lazy array: the result of `primitive` on `inputs`.
    pub(crate) fn lazy(
        shape: Shape,
        dtype: Dtype,
        primitive: Primitive,
        stream: Stream,
        inputs: Inputs,
    ) -> Array {
        let mark = trace::mark_of(&inputs);
        let node = Arc::new(Node::new(primitive, stream, inputs));
        Self::of_node(shape, dtype, node, mark)
    }

    /// The lazy results of a primitive with several outputs.
    pub(crate) fn lazy_many(
        outputs: Vec<(Shape, Dtype)>,
        primitive: Primitive,
        stream: Stream,
        inputs: Inputs,
    ) -> Vec<Array> {
        let mark = trace::mark_of(&inputs);
        let node = Arc::new(Node::new(primitive, stream, inputs));
        let arrays: Vec<Array> =
            outputs.into_iter().map(|(s, d)| Self::of_node(s, d, node.clone(), mark)).collect();
        let siblings = arrays.iter().map(Sibling::new).collect();
        // A new node has no siblings yet.
        let _ = node.siblings.set(siblings);
        arrays
    }

    pub(crate) fn of_node(shape: Shape, dtype: Dtype, node: Arc<Node>, mark: Mark) -> Array {
        Self::new(shape, dtype, Some(node), OnceLock::new(), mark)
    }

    fn new(
        shape: Shape,
        dtype: Dtype,
        node: Option<Arc<Node>>,
        data: OnceLock<Data>,
        mark: Mark,
    ) -> Array {
        Array(Arc::new(Inner { shape, dtype, node: TCell::new(node), data, mark }))
    }

    /// Which trace it belongs to, be it over or not.
    pub(crate) fn mark(&self) -> Mark {
        self.0.mark
    }

    /// Whether a transform that this thread is at traces it: then its node stays when it is evaluated.
    pub fn is_tracer(&self) -> bool {
        trace::is_active(self.0.mark)
    }

    /// Sizes of the axes.
    pub fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    /// Size of an axis; negative axes count from the end.
    ///
    /// # Panics
    /// When there is no such axis.
    pub fn dim(&self, axis: isize) -> usize {
        let axis = if axis < 0 { axis + self.ndim() as isize } else { axis };
        self.0.shape[axis as usize]
    }

    /// Element type.
    pub fn dtype(&self) -> Dtype {
        self.0.dtype
    }

    /// Shape and dtype.
    pub fn spec(&self) -> SpecRef<'_> {
        SpecRef { shape: self.shape(), dtype: self.dtype() }
    }

    /// Number of axes.
    pub fn ndim(&self) -> usize {
        self.0.shape.len()
    }

    /// Number of elements.
    pub fn size(&self) -> usize {
        shape::num_elements(&self.0.shape)
    }

    /// Bytes of the elements.
    pub fn nbytes(&self) -> usize {
        self.size() * self.dtype().size()
    }

    /// How the array is computed, until it is evaluated. Waits for an evaluation in progress,
    /// so backends must not ask for it.
    pub fn node(&self) -> Option<Arc<Node>> {
        self.node_in(&eval::turn()).cloned()
    }

    /// The node of an array that is not evaluated.
    pub(crate) fn node_in<'a>(&'a self, turn: &'a Turn) -> Option<&'a Arc<Node>> {
        self.0.node.ro(turn).as_ref()
    }

    /// Whether both are the very same array.
    pub fn is_same(&self, other: &Array) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// A number that names the array as long as it lives.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// The array is evaluated: it gets its data, and its node goes, unless a transform needs it.
    pub(crate) fn fill(&self, output: Output, turn: &mut Turn) {
        let data = output.data.expect("a backend sets every output");
        if self.is_tracer() {
            trace::retain(self);
            let _ = self.0.data.set(data);
        } else {
            self.adopt(data, turn);
        }
    }

    /// The array is what `data` holds: it is evaluated, and its node goes.
    pub(crate) fn adopt(&self, data: Data, turn: &mut Turn) {
        drop(self.take_node(turn));
        let _ = self.0.data.set(data);
    }

    /// Lets another node compute the same.
    pub(crate) fn replace_node(&self, node: Arc<Node>, turn: &mut Turn) {
        drop(self.0.node.rw(turn).replace(node));
    }

    /// The node, which it has no longer.
    pub(crate) fn take_node(&self, turn: &mut Turn) -> Option<Arc<Node>> {
        self.0.node.rw(turn).take()
    }

    /// Buffer and layout, once evaluation has reached the array.
    pub fn data(&self) -> Option<&Data> {
        self.0.data.get()
    }

    /// Buffer and layout of an input: for backends, to whom core gives evaluated inputs only.
    ///
    /// # Panics
    /// When the array was not evaluated.
    pub fn evaluated(&self) -> &Data {
        self.data().expect("inputs are evaluated before their users")
    }

    /// Whether the contents can be read without waiting.
    pub fn is_available(&self) -> bool {
        self.data().is_some_and(|d| d.buffer.written().reached())
    }

    /// The bits of the only element, if they are in the host's memory and nothing went wrong.
    pub(crate) fn bits_at_hand(&self) -> Option<u64> {
        let size = self.dtype().size();
        if self.size() != 1 || size > size_of::<u64>() || !self.is_on_host() {
            return None;
        }
        let data = self.data().filter(|data| !data.buffer.has_failed())?;
        let bytes = data.buffer.read();
        let own = bytes.get(data.layout.offset..)?.get(..size)?;
        let mut bits = [0; 8];
        bits[..size].copy_from_slice(own);
        Some(u64::from_le_bytes(bits))
    }

    /// Whether the contents are in the host's memory: nobody who reads them waits.
    pub fn is_on_host(&self) -> bool {
        let is_there =
            |d: &Data| d.buffer.current() != Current::Device && d.buffer.written().reached();
        self.data().is_some_and(is_there)
    }

    /// Whether a result of `nbytes` on `stream` may take over this input's memory: only the node
    /// being evaluated still refers to it. Core calls backends with inputs that they alone hold.
    pub fn is_donatable(&self, nbytes: usize, stream: Stream) -> bool {
        self.is_donatable_among(1, nbytes, stream)
    }

    /// [`Array::is_donatable`] where the nodes that are evaluated together refer to this input `references`
    /// times.
    pub fn is_donatable_among(&self, references: usize, nbytes: usize, stream: Stream) -> bool {
        Arc::strong_count(&self.0) == references
            && self.data().is_some_and(|d| d.buffer.is_donatable(nbytes, stream))
    }

    /// Computes the contents and waits for them.
    ///
    /// # Errors
    /// What went wrong while computing them.
    pub fn eval(&self) -> Result<()> {
        match self.data() {
            Some(data) => data.buffer.wait(),
            None => eval(&[self]),
        }
    }

    /// The elements in row-major order.
    ///
    /// # Errors
    /// When `T` is not the dtype's type, or evaluation fails.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.expect_elements::<T>("to_vec")?;
        self.with_host_bytes(|bytes, layout| {
            let source: &[T] = bytemuck::cast_slice(bytes);
            gather_row_major(source, self.shape(), layout)
        })
    }

    fn expect_elements<T: Element>(&self, op: &'static str) -> Result<()> {
        if T::DTYPE == self.dtype() {
            return Ok(());
        }
        let message = format!("array is {} but {} was asked for", self.dtype(), T::DTYPE);
        Err(Error::invalid(op, message))
    }

    /// The elements' bytes in row-major order, little endian.
    ///
    /// # Errors
    /// When evaluation fails.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        dispatch_dtype!(self.dtype(), T => {
            Ok(bytemuck::cast_slice(&self.to_vec::<T>()?).to_vec())
        })
    }

    /// The only element.
    ///
    /// # Errors
    /// When there is not exactly one, `T` is not the dtype's type, or evaluation fails.
    pub fn item<T: Element>(&self) -> Result<T> {
        if self.size() != 1 {
            return Err(Error::invalid("item", "item can only be called on arrays of size 1"));
        }
        self.expect_elements::<T>("item")?;
        self.with_host_bytes(|bytes, layout| {
            bytemuck::cast_slice(bytes)[layout.offset / size_of::<T>()]
        })
    }

    /// Evaluates and hands the host's bytes of the buffer, from the first element's buffer start
    /// on, with the layout to `f`.
    fn with_host_bytes<R>(&self, f: impl FnOnce(&[u8], &Layout) -> R) -> Result<R> {
        self.eval()?;
        let data = self.evaluated();
        data.buffer.to_host()?.wait()?;
        let bytes = data.buffer.read();
        // Whole elements only: a view's offset is a multiple of the element size.
        let whole = bytes.len() / self.dtype().size() * self.dtype().size();
        Ok(f(&bytes[..whole], &data.layout))
    }
}

/// Copies strided elements into row-major order.
fn gather_row_major<T: Copy>(source: &[T], shape: &[usize], layout: &Layout) -> Vec<T> {
    let first = layout.offset / size_of::<T>();
    let size = shape::num_elements(shape);
    if layout.flags.row_contiguous || size <= 1 {
        return source[first..first + size].to_vec();
    }
    let mut out = Vec::with_capacity(size);
    let mut index = vec![0usize; shape.len()];
    let mut at = first as isize;
    for _ in 0..size {
        out.push(source[at as usize]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            at += layout.strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            at -= layout.strides[axis] * shape[axis] as isize;
            index[axis] = 0;
        }
    }
    out
}
