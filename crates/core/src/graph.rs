//! Nodes of the graph and how they are freed.

use std::{
    cell::Cell,
    mem::ManuallyDrop,
    sync::{Arc, OnceLock, Weak, atomic::AtomicU32},
};

use parking_lot::Mutex;
use qcell::TCellOwner;
use smallvec::SmallVec;

use crate::{
    Array, DeviceType, Dtype, Error, Result, Shape, Stream,
    array::Inner,
    eval::ahead,
    primitives::{Custom, PassOp, Primitive, Spec, SpecRef, Specs},
    stream,
    transforms::trace::Mark,
};

/// Marks what only who evaluates looks at.
pub(crate) struct Evaluating;

/// The right to look at the nodes of arrays. There is one in the process, which evaluations take in turns: so
/// looking costs no lock, of which an evaluation would take thousands.
pub(crate) type Turn = TCellOwner<Evaluating>;

/// Inputs of a node.
pub type Inputs = SmallVec<[Array; 4]>;

/// A primitive applied to inputs on a stream; shared by all of its outputs.
pub struct Node {
    /// What it computes.
    pub primitive: Primitive,
    /// Where it runs.
    pub stream: Stream,
    /// What it reads.
    pub inputs: Inputs,
    /// The outputs of a node that has several; empty for a node with one.
    pub(crate) siblings: OnceLock<Vec<Sibling>>,
    /// On the tape that found it last; any tape that finds it later numbers it anew.
    pub(crate) number: AtomicU32,
}

/// One of several outputs. The array itself may be gone while another one lives.
pub(crate) struct Sibling {
    shape: Shape,
    dtype: Dtype,
    mark: Mark,
    array: Mutex<Weak<Inner>>,
}

impl Sibling {
    pub(crate) fn new(array: &Array) -> Self {
        Sibling {
            shape: array.shape().into(),
            dtype: array.dtype(),
            mark: array.mark(),
            array: Mutex::new(Arc::downgrade(&array.0)),
        }
    }

    /// The array, which is made anew if it is gone.
    fn array(&self, node: &Arc<Node>) -> Array {
        let mut array = self.array.lock();
        match array.upgrade() {
            Some(inner) => Array(inner),
            None => {
                let anew = Array::of_node(self.shape.clone(), self.dtype, node.clone(), self.mark);
                *array = Arc::downgrade(&anew.0);
                anew
            }
        }
    }

    fn living(&self) -> Option<Array> {
        self.array.lock().upgrade().map(Array)
    }

    /// Whether it is this array.
    pub(crate) fn is(&self, array: &Array) -> bool {
        self.array.lock().as_ptr() == Arc::as_ptr(&array.0)
    }

    /// References to the array.
    pub(crate) fn references(&self) -> usize {
        self.array.lock().strong_count()
    }
}

impl Node {
    pub(crate) fn new(primitive: Primitive, stream: Stream, inputs: Inputs) -> Self {
        Node { primitive, stream, inputs, siblings: OnceLock::new(), number: AtomicU32::new(0) }
    }

    /// All outputs that are not gone, of which `one` is known.
    pub(crate) fn living_outputs(&self, one: &Array) -> SmallVec<[Option<Array>; 1]> {
        match self.siblings.get() {
            Some(siblings) => siblings.iter().map(Sibling::living).collect(),
            None => SmallVec::from_buf([Some(one.clone())]),
        }
    }

    /// All outputs, of which `one` is known; those that are gone are made anew.
    pub(crate) fn outputs(self: &Arc<Self>, one: &Array) -> SmallVec<[Array; 1]> {
        match self.siblings.get() {
            Some(siblings) => siblings.iter().map(|sibling| sibling.array(self)).collect(),
            None => SmallVec::from_buf([one.clone()]),
        }
    }
}

/// Adds a node to the graph, on the current stream: the lazy outputs of a primitive.
///
/// # Errors
/// When the inputs do not fit the primitive, there is no stream to run on, or a GPU would have to do with
/// float64.
pub fn apply(primitive: Primitive, inputs: Inputs) -> Result<SmallVec<[Array; 1]>> {
    let outputs = output_specs(&primitive, &inputs)?;
    let stream = stream::current_stream()?;
    let dtypes = outputs.iter().map(|spec| spec.dtype);
    expect_dtypes(&primitive, stream, &inputs, dtypes)?;
    let counted = ahead::counted(&primitive);
    let outputs = match outputs.into_inner() {
        Ok([Spec { shape, dtype }]) => {
            SmallVec::from_buf([Array::lazy(shape, dtype, primitive, stream, inputs)])
        }
        Err(several) => {
            let outputs = several.into_iter().map(|spec| (spec.shape, spec.dtype)).collect();
            Array::lazy_many(outputs, primitive, stream, inputs).into()
        }
    };
    if let (Some(number), Some(output)) = (counted, outputs.first()) {
        ahead::built(number, output);
    }
    Ok(outputs)
}

/// The same for a primitive with one output, of which the operation that checked the inputs knows what
/// [`Primitive::output_specs`] would say: a decode loop adds hundreds of nodes a token.
///
/// # Errors
/// When there is no stream to run on, a GPU would have to do with float64, or the output would have more
/// bytes than memory has addresses.
pub(crate) fn apply_checked(primitive: Primitive, inputs: Inputs, output: Spec) -> Result<Array> {
    primitive.expect_addresses(&output)?;
    debug_assert_eq!(
        output_specs(&primitive, &inputs).as_deref().ok(),
        Some(std::slice::from_ref(&output)),
        "{primitive:?}"
    );
    let Spec { shape, dtype } = output;
    let stream = stream::current_stream()?;
    expect_dtypes(&primitive, stream, &inputs, [dtype])?;
    let counted = ahead::counted(&primitive);
    let output = Array::lazy(shape, dtype, primitive, stream, inputs);
    if let Some(number) = counted {
        ahead::built(number, &output);
    }
    Ok(output)
}

/// Refuses float64 on a GPU, for views as well: as in MLX, a graph that cannot run is not built.
#[inline]
fn expect_dtypes(
    primitive: &Primitive,
    stream: Stream,
    inputs: &[Array],
    outputs: impl IntoIterator<Item = Dtype>,
) -> Result<()> {
    let is_double = |dtype| dtype == Dtype::Float64;
    let doubles = || inputs.iter().map(Array::dtype).chain(outputs).any(is_double);
    if stream.device.kind == DeviceType::Gpu && doubles() {
        return Err(Error::invalid(primitive.name(), "float64 is not supported on the GPU"));
    }
    Ok(())
}

fn output_specs(primitive: &Primitive, inputs: &Inputs) -> Result<Specs> {
    let specs: SmallVec<[SpecRef<'_>; 4]> = inputs.iter().map(Array::spec).collect();
    primitive.output_specs(&specs)
}

/// What a freed node kept alive.
struct Freed {
    inputs: Inputs,
    /// Functions of users, which may hold arrays themselves.
    custom: Option<Custom>,
}

thread_local! {
    /// What freed nodes kept alive, while this thread frees nodes; it is always emptied, so nothing has to
    /// drop it.
    static FREED: Cell<Option<ManuallyDrop<Vec<Freed>>>> = const { Cell::new(None) };
}

impl Drop for Node {
    /// Frees what only this node kept alive with a list instead of recursion: dropping the last reference to
    /// a graph of any depth takes no stack.
    fn drop(&mut self) {
        let custom = match &mut self.primitive {
            Primitive::Pass(PassOp::Custom(custom)) => Some(custom.take()),
            _ => None,
        };
        // Mostly the inputs are evaluated, and dropping them goes no deeper; tracers may have kept their
        // nodes.
        let ends = |input: &Array| input.data().is_some() && input.mark() == Mark::NONE;
        if custom.is_none() && self.inputs.iter().all(ends) {
            return;
        }
        let freed = Freed { inputs: std::mem::take(&mut self.inputs), custom };
        match FREED.take() {
            Some(mut list) => {
                list.push(freed);
                FREED.set(Some(list));
            }
            None => free(freed),
        }
    }
}

/// Drops what a node kept alive; the nodes that go with it add theirs to the list.
fn free(freed: Freed) {
    /// Ends the list, also when user code panics that is dropped with an array.
    struct Listing;
    impl Drop for Listing {
        fn drop(&mut self) {
            let left = FREED.take().map(ManuallyDrop::into_inner);
            drop(left);
        }
    }
    FREED.set(Some(ManuallyDrop::new(Vec::new())));
    let _listing = Listing;
    let mut next = Some(freed);
    while let Some(freed) = next {
        let Freed { inputs, custom } = freed;
        drop((inputs, custom));
        next = FREED.take().and_then(|mut list| {
            let next = list.pop();
            FREED.set(Some(list));
            next
        });
    }
}
