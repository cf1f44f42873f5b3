//! Quantization: groups of a row share a scale, and integers a bias.

use smallvec::smallvec;
use strum::{EnumDiscriminants, EnumIter, IntoEnumIterator};

use super::{
    Family, FpMode, Input, Spec, SpecRef, Specs,
    spec::{matrices, of_matrices, one, with_last},
};
use crate::Dtype;

/// Parameters of affine quantization: `w = scale * q + bias`, one pair per group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Affine {
    /// Elements of the last axis that share a scale and a bias: 32, 64 or 128.
    pub group_size: usize,
    /// Bits per element: 2, 3, 4, 5, 6 or 8.
    pub bits: usize,
}

impl Affine {
    /// Group sizes that there are.
    pub(crate) const GROUP_SIZES: [usize; 3] = [32, 64, 128];
    /// Bits that there are.
    pub(crate) const BITS: [usize; 6] = [2, 3, 4, 5, 6, 8];

    /// 32-bit words that hold `columns` quantized elements, packed without gaps from the lowest
    /// bit up (3, 5 and 6 bits straddle words).
    pub const fn packed_words(self, columns: usize) -> usize {
        columns * self.bits / 32
    }

    /// Elements of a row of matrices that are quantized as `words`, `scales` and `biases`, if
    /// these belong together.
    pub(crate) fn columns(
        self,
        words: SpecRef<'_>,
        scales: SpecRef<'_>,
        biases: SpecRef<'_>,
    ) -> Option<usize> {
        let known = Self::GROUP_SIZES.contains(&self.group_size) && Self::BITS.contains(&self.bits);
        let ([rows @ .., packed], [groups_of @ .., groups]) = (words.shape, scales.shape) else {
            return None;
        };
        let fits = known
            && !rows.is_empty()
            && rows == groups_of
            && scales.shape == biases.shape
            && words.dtype == Dtype::Uint32
            && scales.dtype.is_floating();
        let columns = groups.checked_mul(self.group_size).filter(|_| fits)?;
        (columns.checked_mul(self.bits)? / 32 == *packed).then_some(columns)
    }
}

/// How the elements of a matrix are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Packing {
    /// Integers with a scale and a bias for each group, in the dtype of the product.
    Affine(Affine),
    /// Small floats with a scale of one byte for each group.
    Floats(FpMode),
}

impl Packing {
    /// Elements of the last axis that share a scale.
    pub const fn group_size(self) -> usize {
        match self {
            Self::Affine(affine) => affine.group_size,
            Self::Floats(mode) => mode.group_size(),
        }
    }

    /// Bits per element.
    pub const fn bits(self) -> usize {
        match self {
            Self::Affine(affine) => affine.bits,
            Self::Floats(mode) => mode.bits(),
        }
    }

    /// 32-bit words that hold `columns` packed elements, without gaps from the lowest bit up.
    pub const fn packed_words(self, columns: usize) -> usize {
        columns * self.bits() / 32
    }

    /// Arrays that make up a matrix: words and scales, and biases if it is affine.
    pub const fn parts(self) -> usize {
        if matches!(self, Self::Affine(_)) { 3 } else { 2 }
    }

    /// The affine format, if it is that.
    pub const fn affine(self) -> Option<Affine> {
        match self {
            Self::Affine(affine) => Some(affine),
            Self::Floats(_) => None,
        }
    }

    /// Elements of a row of the matrix that these parts are, for a product in `dtype`.
    fn columns(self, parts: &[SpecRef<'_>], dtype: Dtype) -> Option<usize> {
        match (self, parts) {
            (Self::Affine(affine), &[words, scales, biases]) => {
                let columns = affine.columns(words, scales, biases)?;
                ([scales.dtype, biases.dtype] == [dtype; 2]).then_some(columns)
            }
            (Self::Floats(mode), &[words, scales]) => {
                mode.columns(words, scales).filter(|_| dtype.is_floating())
            }
            _ => None,
        }
    }
}

impl From<Affine> for Packing {
    fn from(affine: Affine) -> Self {
        Self::Affine(affine)
    }
}

impl From<FpMode> for Packing {
    fn from(mode: FpMode) -> Self {
        Self::Floats(mode)
    }
}

/// Quantization along the last axis, and products with what is quantized so. A matrix is words, scales, and
/// biases if it is affine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumDiscriminants)]
#[strum_discriminants(name(Member), derive(EnumIter), vis(pub(super)))]
pub enum QuantizedOp {
    /// Quantization: outputs packed uint32 words, scales, biases.
    Quantize(Affine),
    /// Undoes [`QuantizedOp::Quantize`]: inputs words, scales, biases.
    Dequantize(Affine),
    /// Small floats as numbers of `dtype`, rounded from float32: inputs words, scales.
    DequantizeFloats {
        /// The format of words and scales.
        mode: FpMode,
        /// Of the output; floating.
        dtype: Dtype,
    },
    /// `x @ w` with quantized `w`: inputs `x`, and the parts of `w`.
    QuantizedMatmul {
        /// How `w` is quantized; always along its last axis.
        packing: Packing,
        /// `w` is (outputs, inputs) and used transposed.
        transpose: bool,
    },
    /// Products of matrices picked from `x` and quantized `w`: inputs `x`, the parts of `w`, and
    /// uint32 indices of their matrices, which have the batch axes of the output.
    GatherQmm {
        /// How `w` is quantized; always along its last axis.
        packing: Packing,
        /// Matrices of `w` are (outputs, inputs) and used transposed.
        transpose: bool,
        /// The indices of `x` ascend.
        left_sorted: bool,
        /// The indices of `w` ascend.
        right_sorted: bool,
    },
}

impl Family for QuantizedOp {
    fn name(&self) -> &'static str {
        match self {
            Self::Quantize(_) => "Quantize",
            Self::Dequantize(_) | Self::DequantizeFloats { .. } => "Dequantize",
            Self::QuantizedMatmul { .. } => "QuantizedMatmul",
            Self::GatherQmm { .. } => "GatherQMM",
        }
    }

    fn is_view(&self) -> bool {
        match self {
            Self::Quantize(_)
            | Self::Dequantize(_)
            | Self::DequantizeFloats { .. }
            | Self::QuantizedMatmul { .. }
            | Self::GatherQmm { .. } => false,
        }
    }

    fn takes(&self, dtype: Dtype) -> bool {
        match self {
            Self::Quantize(_)
            | Self::Dequantize(_)
            | Self::DequantizeFloats { .. }
            | Self::QuantizedMatmul { .. }
            | Self::GatherQmm { .. } => dtype.is_floating(),
        }
    }

    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs> {
        match (*self, inputs) {
            (Self::Quantize(affine), [w]) => quantized(affine, *w),
            (Self::Dequantize(affine), &[words, scales, biases])
                if scales.dtype == biases.dtype =>
            {
                let columns = affine.columns(words, scales, biases)?;
                one(with_last(words.shape, columns)?, scales.dtype)
            }
            (Self::DequantizeFloats { mode, dtype }, &[words, scales]) if dtype.is_floating() => {
                one(with_last(words.shape, mode.columns(words, scales)?)?, dtype)
            }
            (Self::QuantizedMatmul { packing, transpose }, &[x, words, ..]) => {
                let (rows, columns) = product(packing, transpose, x, &inputs[1..])?;
                let (batch, others) = (matrices(x.shape)?.0, matrices(words.shape)?.0);
                let fits = others.is_empty() || batch == others;
                fits.then(|| one(of_matrices(batch, rows, columns), x.dtype))?
            }
            (Self::GatherQmm { packing, transpose, .. }, &[x, ref parts @ .., left, right])
                if left.is_like(right) && left.dtype == Dtype::Uint32 =>
            {
                let (rows, columns) = product(packing, transpose, x, parts)?;
                one(of_matrices(left.shape, rows, columns), x.dtype)
            }
            _ => None,
        }
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        let affine = Affine { group_size: 64, bits: 4 };
        let operand = |shape: &[usize]| Input::new(shape, dtype);
        let product = |packing| {
            let inputs = std::iter::once(operand(&[2, 3, 64])).chain(example(packing, 2, dtype));
            (Self::QuantizedMatmul { packing, transpose: true }, inputs.collect::<Vec<_>>())
        };
        let gather = |packing| {
            let (left_sorted, right_sorted) = (true, false);
            let pick = |values: &[f64]| Input::of(values, &[2], Dtype::Uint32);
            let (_, mut inputs) = product(packing);
            inputs.extend([pick(&[0.0, 1.0]), pick(&[1.0, 0.0])]);
            (Self::GatherQmm { packing, transpose: true, left_sorted, right_sorted }, inputs)
        };
        let dequantize =
            |mode: FpMode| (Self::DequantizeFloats { mode, dtype }, example(mode.into(), 1, dtype));
        let of_member = |member| match member {
            Member::Quantize => vec![(Self::Quantize(affine), vec![operand(&[8, 64])])],
            Member::Dequantize => {
                vec![(Self::Dequantize(affine), example(affine.into(), 1, dtype))]
            }
            Member::DequantizeFloats => FpMode::ALL.map(dequantize).into(),
            Member::QuantizedMatmul => {
                vec![product(affine.into()), product(FpMode::Mxfp4.into())]
            }
            Member::GatherQmm => vec![gather(affine.into()), gather(FpMode::Nvfp4.into())],
        };
        Member::iter().flat_map(of_member).collect()
    }
}

/// The parts of so many matrices of 8 rows of 64 elements, for a product in `dtype`.
fn example(packing: Packing, count: usize, dtype: Dtype) -> Vec<Input> {
    let (width, groups) = (packing.packed_words(64), 64 / packing.group_size());
    // Eight bits are never those of e4m3 that are no number.
    let kept = if packing.bits() == 8 { 0xbfbf_bfbf } else { u32::MAX };
    let word = |i: usize| f64::from((i as u32).wrapping_mul(2_654_435_761) & kept);
    let bits: Vec<f64> = (1..=count * 8 * width).map(word).collect();
    let words = Input::of(&bits, &[count, 8, width], Dtype::Uint32);
    let shape = [count, 8, groups];
    match packing {
        Packing::Affine(_) => {
            vec![words, Input::new(&shape, dtype), Input::new(&shape, dtype)]
        }
        Packing::Floats(mode) => {
            // A quarter, a half and one, or thereabouts.
            let first = if mode == FpMode::Nvfp4 { 40 } else { 125 };
            let step = if mode == FpMode::Nvfp4 { 7 } else { 1 };
            let codes: Vec<f64> =
                (0..count * 8 * groups).map(|i| f64::from(first + i as u32 % 3 * step)).collect();
            vec![words, Input::of(&codes, &shape, Dtype::Uint8)]
        }
    }
}

fn quantized(affine: Affine, w: SpecRef<'_>) -> Option<Specs> {
    let columns = *w.shape.last()?;
    let fits = w.ndim() >= 2
        && w.dtype.is_floating()
        && Affine::GROUP_SIZES.contains(&affine.group_size)
        && Affine::BITS.contains(&affine.bits)
        && columns.is_multiple_of(affine.group_size);
    if !fits {
        return None;
    }
    let words = with_last(w.shape, columns.checked_mul(affine.bits)? / 32)?;
    let groups = Spec { shape: with_last(w.shape, columns / affine.group_size)?, dtype: w.dtype };
    Some(smallvec![Spec { shape: words, dtype: Dtype::Uint32 }, groups.clone(), groups])
}

/// Rows and columns of the product of `x` with the matrix that `parts` are.
fn product(
    packing: Packing,
    transpose: bool,
    x: SpecRef<'_>,
    parts: &[SpecRef<'_>],
) -> Option<(usize, usize)> {
    let columns = packing.columns(parts, x.dtype)?;
    let (_, rows, inner) = matrices(x.shape)?;
    let (_, outer, _) = matrices(parts[0].shape)?;
    let (expected, columns) = if transpose { (columns, outer) } else { (outer, columns) };
    (inner == expected).then_some((rows, columns))
}
