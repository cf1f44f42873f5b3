//! Primitives: what a node of the graph computes, as data.
//!
//! One module per family, under the name that the family has everywhere. It holds the parameters
//! and answers for each member what the rest of the library must know of it (`family.rs`): its
//! name, whether it is a view, which dtypes reach it, what comes out, and examples. Matches over
//! these enums are exhaustive, so that a new member does not compile until its family and each
//! backend have answered for it.
//!
//! Shapes and dtypes of outputs follow from primitive and inputs alone
//! ([`Primitive::output_specs`]). So equal primitives with equal inputs compute the same thing:
//! two nodes are the same computation exactly if their primitives and inputs are.

mod arange;
mod attention;
mod binary;
mod convolution;
mod copy;
mod delta;
mod exact;
mod example;
mod family;
mod fft;
mod hadamard;
mod indexing;
mod kernel;
mod linalg;
mod load;
mod matmul;
mod norm;
mod operators;
mod pass;
mod program;
mod quantized;
mod random;
mod reduce;
mod rope;
mod scan;
mod shape;
mod small_floats;
mod softmax;
mod sort;
mod spec;
mod ternary;
#[cfg(test)]
mod tests;
mod unary;

pub use arange::Arange;
pub use attention::{Attention, AttentionMask, AttentionVjp};
pub use binary::BinaryOp;
pub use convolution::{Convolution, Spatial};
pub use copy::CopyOp;
pub use delta::GatedDelta;
pub use exact::Exact;
pub use example::{Example, Input};
pub use fft::Fft;
pub use hadamard::Hadamard;
pub use indexing::{IndexingOp, ScatterOp};
pub use kernel::{CustomKernel, MathMode, Scalar};
pub use linalg::Linalg;
pub use load::Load;
pub use matmul::MatmulOp;
pub use norm::NormOp;
pub use pass::{Custom, CustomRules, PassOp};
pub use program::{Program, ProgramStep};
pub use quantized::{Affine, Packing, QuantizedOp};
pub use random::RandomBits;
pub use reduce::{ArgReduce, ArgReduceOp, Reduce, ReduceOp};
pub use rope::Rope;
pub use scan::{Scan, ScanOp};
pub use shape::{Rule, ShapeOp, To};
pub use small_floats::FpMode;
pub use softmax::SoftmaxOp;
pub use sort::SortOp;
pub use spec::{Spec, SpecRef, Specs};
pub use ternary::TernaryOp;
pub use unary::UnaryOp;

pub(crate) use shape::reaches_inside;
pub(crate) use small_floats::FP4;

use std::sync::Arc;

use family::Family;
use smallvec::SmallVec;

use crate::{
    Array, Dtype, Error, Result,
    graph::Inputs,
    transforms::rules::{Applied, Mapped, Outputs, Rules},
};

/// Axes, each in `0..ndim`.
pub type Axes = SmallVec<[usize; 4]>;
/// Per-axis integers of slices.
pub type Indices = SmallVec<[isize; 4]>;

/// Declares the enum of all families, each of which has a type that is a [`Family`].
macro_rules! families {
    ($($(#[$doc:meta])* $family:ident($type:ty),)*) => {
        /// What a node computes: a family's type holds the parameters. Inputs are named in the
        /// order in which the node holds them.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum Primitive {
            $($(#[$doc])* $family($type),)*
        }

        impl Primitive {
            /// MLX's name of the primitive.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$family(member) => Family::name(member),)*
                }
            }

            /// Whether the outputs always share memory of the inputs, or follow from their shapes: then core
            /// makes them, or refuses to, and no backend sees the primitive.
            pub fn is_view(&self) -> bool {
                match self {
                    $(Self::$family(member) => Family::is_view(member),)*
                }
            }

            /// Whether operations apply it to arrays of `dtype`, on any backend. Where the inputs'
            /// dtypes differ, the dtype of the computation counts.
            pub fn takes(&self, dtype: Dtype) -> bool {
                match self {
                    $(Self::$family(member) => Family::takes(member, dtype),)*
                }
            }

            /// Shapes and dtypes of the outputs for such inputs.
            ///
            /// # Errors
            /// When number, shapes or dtypes of the inputs do not fit the primitive, or an output would have
            /// more bytes than memory has addresses.
            pub fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Result<Specs> {
                let specs = match self {
                    $(Self::$family(member) => Family::output_specs(member, inputs),)*
                };
                let specs = specs.ok_or_else(|| self.misfit(inputs))?;
                specs.iter().try_for_each(|spec| self.expect_addresses(spec))?;
                Ok(specs)
            }

            /// What the derivatives by the `wanted` inputs are along `cotangents`, which there is one of for
            /// each output; in the order of `wanted`. Runs on the current stream.
            ///
            /// # Errors
            /// When the primitive has no such derivative.
            pub(crate) fn vjp(
                &self,
                node: &Applied<'_>,
                cotangents: &[Array],
                wanted: &[usize],
            ) -> Result<Inputs> {
                match self {
                    $(Self::$family(member) => Rules::vjp(member, node, cotangents, wanted),)*
                }
            }

            /// The derivatives of the outputs along `tangents` of the inputs, of which some are zero. Runs on
            /// the current stream.
            ///
            /// # Errors
            /// When the primitive has no such derivative.
            pub(crate) fn jvp(
                &self,
                node: &Applied<'_>,
                tangents: &[Option<Array>],
            ) -> Result<Outputs> {
                match self {
                    $(Self::$family(member) => Rules::jvp(member, node, tangents),)*
                }
            }

            /// The primitive on inputs with one more axis each, where one is named, as if it ran for every
            /// index of that axis alone. Runs on the current stream.
            ///
            /// # Errors
            /// When the primitive cannot.
            pub(crate) fn vmap(
                &self,
                inputs: &[Array],
                axes: &[Option<usize>],
            ) -> Result<Mapped> {
                match self {
                    $(Self::$family(member) => Rules::vmap(member, inputs, axes),)*
                }
            }

            /// Examples of every primitive for every dtype that it takes.
            pub fn examples() -> Vec<Example> {
                let mut all = Vec::new();
                $(for dtype in Dtype::ALL {
                    let members = <$type as Family>::examples(dtype).into_iter();
                    all.extend(members.filter(|(member, _)| Family::takes(member, dtype)).map(
                        |(member, inputs)| Example { primitive: member.into(), dtype, inputs },
                    ));
                })*
                all
            }
        }

        $(impl From<$type> for Primitive {
            fn from(member: $type) -> Self {
                Self::$family(member)
            }
        })*
    };
}

families! {
    /// Array that is passed on as it is.
    Pass(PassOp),
    /// Elementwise function of one array.
    Unary(UnaryOp),
    /// Elementwise function of two arrays.
    Binary(BinaryOp),
    /// Elementwise function of three arrays.
    Ternary(TernaryOp),
    /// Conversion or copy.
    Copy(CopyOp),
    /// View with other axes, slice, or joining.
    Shape(ShapeOp),
    /// Reduction over axes.
    Reduce(Reduce),
    /// Index of an extreme element along an axis.
    ArgReduce(ArgReduce),
    /// Cumulative reduction along an axis.
    Scan(Scan),
    /// Order along an axis, or search in it.
    Sort(SortOp),
    /// Softmax or its logarithm.
    Softmax(SoftmaxOp),
    /// Reading or writing elements at indices.
    Indexing(IndexingOp),
    /// Range of numbers.
    Arange(Arange),
    /// Random bits.
    Random(RandomBits),
    /// Matrix product.
    Matmul(MatmulOp),
    /// Quantization, or product with what is quantized.
    Quantized(QuantizedOp),
    /// Convolution.
    Convolution(Box<Convolution>),
    /// Normalization over the last axis.
    Norm(NormOp),
    /// Rotary position embedding.
    Rope(Rope),
    /// Softmax attention.
    Attention(Attention),
    /// Derivatives of softmax attention.
    AttentionVjp(AttentionVjp),
    /// Gated delta rule.
    Delta(GatedDelta),
    /// Fourier transform.
    Fft(Fft),
    /// Hadamard transform of the last axis.
    Hadamard(Hadamard),
    /// Decomposition of the matrices of the last two axes.
    Linalg(Linalg),
    /// Array of a file.
    Load(Load),
    /// Kernel of a user, in Metal's language.
    Kernel(Box<CustomKernel>),
    /// Several elementwise operations; core expands it before anything is evaluated.
    Compiled(Arc<Program>),
}

impl Primitive {
    /// Whether it holds sizes that mean something else for inputs of other sizes.
    pub(crate) fn has_sizes(&self) -> bool {
        match self {
            Self::Shape(op) => op.has_sizes(),
            // A transform cuts its input to sizes before, and has factors that follow from them.
            Self::Fft(_) => true,
            _ => false,
        }
    }

    /// Whether its output has sizes of its own, which follow from no input.
    pub(crate) fn has_own_shape(&self) -> bool {
        matches!(self, Self::Random(_))
    }

    /// Whether it is a broadcast or reshape of an array that has the shape already: shapeless traces cannot
    /// leave these out.
    pub(crate) fn repeats_nothing(&self, inputs: &[Array], outputs: &[Spec]) -> bool {
        matches!(self, Self::Shape(ShapeOp::Broadcast(_) | ShapeOp::Reshape(_)))
            && inputs[0].shape() == outputs[0].shape.as_slice()
    }

    /// Refuses an output that is larger than memory can be.
    pub(crate) fn expect_addresses(&self, output: &Spec) -> Result<()> {
        if output.has_addresses() {
            return Ok(());
        }
        let message =
            format!("An array {} has more bytes than memory has addresses.", output.as_ref());
        Err(Error::invalid(self.name(), message))
    }

    fn misfit(&self, inputs: &[SpecRef<'_>]) -> Error {
        let inputs: Vec<String> = inputs.iter().map(SpecRef::to_string).collect();
        let message = format!("Inputs ({}) do not fit {self:?}.", inputs.join(", "));
        Error::invalid(self.name(), message)
    }
}
