//! What each family says of its primitives.

use super::{Input, SpecRef, Specs};
use crate::Dtype;

/// A family of primitives. Where it has several members, every answer is an exhaustive match over
/// them, so that a new one does not compile until it has all of them.
pub(super) trait Family: Sized {
    /// The name: upstream's, where upstream has the primitive.
    fn name(&self) -> &'static str;

    /// Whether the outputs always share memory of the inputs, or follow from their shapes: then core makes
    /// them, and no backend sees the primitive.
    fn is_view(&self) -> bool;

    /// Whether operations apply it to arrays of `dtype`, on any backend. Where the inputs' dtypes
    /// differ, the dtype of the computation counts: of what is multiplied, not of indices.
    fn takes(&self, dtype: Dtype) -> bool;

    /// Shapes and dtypes of the outputs; `None` if such inputs do not fit. The answer must be safe
    /// for any inputs: these and the parameters may come from a file.
    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs>;

    /// At least one example of every member that something here runs, as if it took `dtype`; those that it
    /// does not take are left out by who asks.
    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)>;
}
