//! Which primitive of upstream is which of ours.
//!
//! [`arguments`] says what upstream makes each of its primitives with, in the order of a file; [`form`] how a
//! primitive of ours is written, and [`meaning`] what one of upstream's is read as.

mod composed;
mod form;
mod functions;
mod meaning;

pub(super) use form::{Applied, Form, form};
pub(super) use meaning::{Operation, Specs, meaning};

use super::argument::Kind::{
    self, Bool, Double, Dtype, Flags, Float, Int, Ints, MaybeFloat, Scalars, Shape, Size, Sizes,
    Strides, Text,
};
use crate::primitives::{BinaryOp, UnaryOp};

/// Upstream's primitives that are made with arguments, or after which no elementwise operation of ours is
/// named.
const ARGUMENTS: &[(&str, &[Kind])] = &[
    ("AddMM", &[Float, Float]),
    ("Arange", &[Double, Double, Double]),
    ("ArgPartition", &[Int, Int]),
    ("ArgReduce", &[Int, Int]),
    ("ArgSort", &[Int]),
    ("AsStrided", &[Shape, Strides, Size]),
    ("AsType", &[Dtype]),
    ("BitwiseBinary", &[Int]),
    ("BlockMaskedMM", &[Int]),
    ("Broadcast", &[Shape]),
    ("BroadcastAxes", &[Ints]),
    ("Cholesky", &[Bool]),
    ("Concatenate", &[Int]),
    ("Convolution", &[Ints, Ints, Ints, Ints, Ints, Int, Bool]),
    ("Copy", &[]),
    (
        "CustomKernel",
        &[
            Text, Text, Int, Int, Int, Int, Int, Int, Flags, Bool, MaybeFloat, Scalars, Bool, Int,
            Int,
        ],
    ),
    ("Depends", &[]),
    ("DivMod", &[]),
    ("DynamicSlice", &[Ints, Shape]),
    ("DynamicSliceUpdate", &[Ints]),
    ("Eig", &[Bool]),
    ("Eigh", &[Text, Bool]),
    ("Equal", &[Bool]),
    ("ExpandDims", &[Ints]),
    ("FFT", &[Sizes, Bool, Bool, Bool]),
    ("Flatten", &[Int, Int]),
    ("Full", &[]),
    ("Gather", &[Ints, Shape]),
    ("GatherAxis", &[Int]),
    ("GatherMM", &[Bool, Bool]),
    ("GatherQMM", &[Int, Int, Int, Bool, Bool, Bool]),
    ("Hadamard", &[Float]),
    ("Inverse", &[Bool, Bool]),
    ("LayerNorm", &[Float]),
    ("LayerNormVJP", &[Float]),
    ("Log", &[Int]),
    ("LogSumExp", &[]),
    ("MaskedScatter", &[]),
    ("Matmul", &[]),
    ("NumberOfElements", &[Ints, Bool, Dtype]),
    ("Pad", &[Ints, Shape, Shape]),
    ("Partition", &[Int, Int]),
    ("QRF", &[]),
    ("Quantize", &[Int, Int, Int, Bool]),
    ("QuantizedMatmul", &[Int, Int, Int, Bool]),
    ("RMSNorm", &[Float]),
    ("RMSNormVJP", &[Float]),
    ("RandomBits", &[Shape, Int]),
    ("Reduce", &[Int, Ints]),
    ("Reshape", &[Shape]),
    ("RoPE", &[Int, Bool, Float, Float, Bool]),
    ("SVD", &[Bool]),
    ("ScaledDotProductAttention", &[Float, Bool, Bool, Bool, Bool]),
    ("Scan", &[Int, Int, Bool, Bool]),
    ("Scatter", &[Int, Ints]),
    ("ScatterAxis", &[Int, Int]),
    ("SearchSorted", &[Bool]),
    ("Select", &[]),
    ("Slice", &[Shape, Shape, Shape]),
    ("SliceUpdate", &[Int, Shape, Shape, Shape]),
    ("Softmax", &[Bool]),
    ("Sort", &[Int]),
    ("Split", &[Shape, Int]),
    ("Sqrt", &[Bool]),
    ("Squeeze", &[Ints]),
    ("StopGradient", &[]),
    ("Transpose", &[Ints]),
    ("Unflatten", &[Int, Shape]),
    ("View", &[Dtype]),
];

/// The first version whose files say whether an inverse real transform has an odd number of elements.
const ODD_TRANSFORMS: [u32; 3] = [0, 32, 4];

/// What upstream makes a primitive with; `None` for a name that means nothing here.
pub(super) fn arguments(name: &str, version: [u32; 3]) -> Option<&'static [Kind]> {
    match ARGUMENTS.binary_search_by_key(&name, |(name, _)| name) {
        Ok(i) if name == "FFT" && version < ODD_TRANSFORMS => Some(&ARGUMENTS[i].1[..3]),
        Ok(i) => Some(ARGUMENTS[i].1),
        Err(_) => (unary(name).is_some() || binary(name).is_some()).then_some(&[]),
    }
}

/// The elementwise function of one array with this name.
fn unary(name: &str) -> Option<UnaryOp> {
    UnaryOp::ALL.into_iter().find(|op| op.name() == name)
}

/// The elementwise function of two arrays with this name.
fn binary(name: &str) -> Option<BinaryOp> {
    BinaryOp::ALL.into_iter().find(|op| op.name() == name)
}

/// Members of a family that upstream tells apart by a number: their place here.
struct Numbers<T: 'static>(&'static [T]);

impl<T: Copy + PartialEq> Numbers<T> {
    /// The number of a member.
    fn of(&self, member: T) -> super::Argument {
        let number = self.0.iter().position(|&known| known == member);
        super::Argument::int(number.expect("every member has a number"))
    }

    /// The member with a number.
    fn at(&self, number: i64) -> Option<T> {
        usize::try_from(number).ok().and_then(|number| self.0.get(number).copied())
    }
}

mod numbers {
    use super::Numbers;
    use crate::primitives::{
        ArgReduceOp, BinaryOp, FpMode, MathMode, ReduceOp, ScanOp, ScatterOp, UnaryOp,
    };

    pub(super) const ARG_REDUCE: Numbers<ArgReduceOp> =
        Numbers(&[ArgReduceOp::ArgMin, ArgReduceOp::ArgMax]);
    pub(super) const BITWISE: Numbers<BinaryOp> = Numbers(&[
        BinaryOp::BitwiseAnd,
        BinaryOp::BitwiseOr,
        BinaryOp::BitwiseXor,
        BinaryOp::LeftShift,
        BinaryOp::RightShift,
    ]);
    pub(super) const LOG: Numbers<UnaryOp> =
        Numbers(&[UnaryOp::Log2, UnaryOp::Log10, UnaryOp::Log]);
    /// Of quantization; affine is none of small floats.
    pub(super) const MODE: Numbers<Option<FpMode>> =
        Numbers(&[None, Some(FpMode::Mxfp4), Some(FpMode::Mxfp8), Some(FpMode::Nvfp4)]);
    pub(super) const MATH_MODE: Numbers<MathMode> =
        Numbers(&[MathMode::Safe, MathMode::Relaxed, MathMode::Fast]);
    pub(super) const REDUCE: Numbers<ReduceOp> = Numbers(&[
        ReduceOp::All,
        ReduceOp::Any,
        ReduceOp::Sum,
        ReduceOp::Prod,
        ReduceOp::Min,
        ReduceOp::Max,
    ]);
    pub(super) const SCAN: Numbers<ScanOp> =
        Numbers(&[ScanOp::Max, ScanOp::Min, ScanOp::Sum, ScanOp::Prod, ScanOp::LogAddExp]);
    pub(super) const SCATTER: Numbers<ScatterOp> = Numbers(&[
        ScatterOp::Max,
        ScatterOp::Min,
        ScatterOp::Sum,
        ScatterOp::Prod,
        ScatterOp::Assign,
    ]);
    pub(super) const SCATTER_AXIS: Numbers<ScatterOp> =
        Numbers(&[ScatterOp::Sum, ScatterOp::Assign]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order() {
        assert!(ARGUMENTS.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
