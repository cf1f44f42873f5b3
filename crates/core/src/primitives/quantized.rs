//! Affine quantization: groups of a row share a scale and a bias.

use smallvec::smallvec;
use strum::{EnumDiscriminants, EnumIter, IntoEnumIterator};

use super::{
    Family, Input, Spec, SpecRef, Specs,
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

/// Affine quantization along the last axis, and products with what is quantized so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumDiscriminants)]
#[strum_discriminants(name(Member), derive(EnumIter), vis(pub(super)))]
pub enum QuantizedOp {
    /// Quantization: outputs packed uint32 words, scales, biases.
    Quantize(Affine),
    /// Undoes [`QuantizedOp::Quantize`]: inputs words, scales, biases.
    Dequantize(Affine),
    /// `x @ w` with quantized `w`: inputs `x`, words, scales, biases.
    QuantizedMatmul {
        /// How `w` is quantized; always along its last axis.
        affine: Affine,
        /// `w` is (outputs, inputs) and used transposed.
        transpose: bool,
    },
    /// Products of matrices picked from `x` and quantized `w`: inputs `x`, words, scales, biases, and
    /// uint32 indices of their matrices, which have the batch axes of the output.
    GatherQmm {
        /// How `w` is quantized; always along its last axis.
        affine: Affine,
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
            Self::Dequantize(_) => "Dequantize",
            Self::QuantizedMatmul { .. } => "QuantizedMatmul",
            Self::GatherQmm { .. } => "GatherQMM",
        }
    }

    fn is_view(&self) -> bool {
        match self {
            Self::Quantize(_)
            | Self::Dequantize(_)
            | Self::QuantizedMatmul { .. }
            | Self::GatherQmm { .. } => false,
        }
    }

    fn takes(&self, dtype: Dtype) -> bool {
        match self {
            Self::Quantize(_)
            | Self::Dequantize(_)
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
            (Self::QuantizedMatmul { affine, transpose }, &[x, words, scales, biases]) => {
                let (rows, columns) = product(affine, transpose, [x, words, scales, biases])?;
                let (batch, others) = (matrices(x.shape)?.0, matrices(words.shape)?.0);
                let fits = others.is_empty() || batch == others;
                fits.then(|| one(of_matrices(batch, rows, columns), x.dtype))?
            }
            (
                Self::GatherQmm { affine, transpose, .. },
                &[x, words, scales, biases, left, right],
            ) if left.is_like(right) && left.dtype == Dtype::Uint32 => {
                let (rows, columns) = product(affine, transpose, [x, words, scales, biases])?;
                one(of_matrices(left.shape, rows, columns), x.dtype)
            }
            _ => None,
        }
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        let affine = Affine { group_size: 64, bits: 4 };
        let operand = |shape: &[usize]| Input::new(shape, dtype);
        // Matrices of 8 rows of 64 elements.
        let weights = |count: usize| {
            let (words, groups) = (vec![count, 8, 8], [count, 8, 1]);
            let bits: Vec<f64> =
                (1..=count as u32 * 64).map(|i| f64::from(i.wrapping_mul(2_654_435_761))).collect();
            [Input::of(&bits, &words, Dtype::Uint32), operand(&groups), operand(&groups)]
        };
        let with_weights = |x: Input| std::iter::once(x).chain(weights(2)).collect::<Vec<_>>();
        let example = |member| match member {
            Member::Quantize => (Self::Quantize(affine), vec![operand(&[8, 64])]),
            Member::Dequantize => (Self::Dequantize(affine), weights(1).into()),
            Member::QuantizedMatmul => {
                let product = Self::QuantizedMatmul { affine, transpose: true };
                (product, with_weights(operand(&[2, 3, 64])))
            }
            Member::GatherQmm => {
                let (left_sorted, right_sorted) = (true, false);
                let pick = |values: &[f64]| Input::of(values, &[2], Dtype::Uint32);
                let mut inputs = with_weights(operand(&[2, 3, 64]));
                inputs.extend([pick(&[0.0, 1.0]), pick(&[1.0, 0.0])]);
                (Self::GatherQmm { affine, transpose: true, left_sorted, right_sorted }, inputs)
            }
        };
        Member::iter().map(example).collect()
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

/// Rows and columns of the product of `x` with a quantized matrix.
fn product(
    affine: Affine,
    transpose: bool,
    [x, words, scales, biases]: [SpecRef<'_>; 4],
) -> Option<(usize, usize)> {
    let columns = affine.columns(words, scales, biases)?;
    let (_, rows, inner) = matrices(x.shape)?;
    let (_, outer, _) = matrices(words.shape)?;
    let (expected, columns) = if transpose { (columns, outer) } else { (outer, columns) };
    let same = [scales.dtype, biases.dtype] == [x.dtype; 2];
    (inner == expected && same).then_some((rows, columns))
}
