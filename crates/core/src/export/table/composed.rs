//! What upstream computes primitives with that it has no kernel for, or writes none of.

use crate::{
    Array, Dtype, Result,
    buffer::Buffer,
    host::HostVec,
    ops,
    primitives::{Affine, Attention, FP4, FpMode, Rope},
};

/// Slices at indices: a gather, whose axes are put in order.
pub(super) fn take(inputs: &[Array], axis: usize) -> Result<Array> {
    let [a, indices] = inputs else { unreachable!("there are two inputs") };
    let mut sizes = a.shape().to_vec();
    sizes[axis] = usize::from(indices.size() > 0);
    let slices = ops::gather(a, &[indices], &[axis as isize], &sizes)?;
    // The axes of the indices go where the axis was.
    let of_indices = indices.ndim();
    let order = (of_indices..of_indices + axis)
        .chain(0..of_indices)
        .chain(of_indices + axis..slices.ndim())
        .map(|x| x as isize);
    let slices = ops::transpose(&slices, &order.collect::<Vec<_>>())?;
    ops::squeeze(&slices, &[(of_indices + axis) as isize])
}

/// Every bit the other way round.
pub(super) fn invert(inputs: &[Array]) -> Result<Array> {
    let a = &inputs[0];
    let ones = HostVec::from_bytes(&[0xff; 8][..a.dtype().size()])?;
    let ones = Array::from_buffer(Buffer::from_vec(ones), [].as_slice().into(), a.dtype(), 0)?;
    ops::bitwise_xor(a, &ones)
}

/// Normalization, in float32 at least. The mean is taken off where there is a bias.
pub(super) fn norm(eps: f32, inputs: &[Array]) -> Result<Array> {
    let dtype = inputs[0].dtype();
    let (x, bias) = (ops::astype(&inputs[0], dtype.promote(Dtype::Float32))?, inputs.get(2));
    let x = match bias {
        None => x,
        Some(_) => ops::subtract(&x, &ops::mean(&x, &[-1], true)?)?,
    };
    let square = ops::mean(&ops::square(&x)?, &[-1], true)?;
    let factor = ops::rsqrt(&ops::add(&square, f64::from(eps))?)?;
    let unit = ops::astype(&ops::multiply(&x, &factor)?, dtype)?;
    let scaled = ops::multiply(&unit, &inputs[1])?;
    match bias {
        None => Ok(scaled),
        Some(bias) => ops::add(&scaled, bias),
    }
}

/// A rotation, the frequencies of which are made where there is no third input.
pub(super) fn rope(rope: &Rope, inputs: &[Array]) -> Result<Array> {
    let Some(base) = rope.base else { return rope.composed(inputs) };
    let half = rope.dims as f64 / 2.0;
    let exponents = ops::arange(0.0, half, 1.0, inputs[0].dtype().promote(Dtype::Float32))?;
    let exponents = ops::multiply(&exponents, f64::from(base.0).ln() / half)?;
    rope.composed(&[inputs[0].clone(), inputs[1].clone(), ops::exp(&exponents)?])
}

/// Attention by products of matrices.
pub(super) fn attention(attention: &Attention, inputs: &[Array]) -> Result<Array> {
    attention.composed(inputs)
}

/// Undoes quantization: the bits of the words become numbers, of as many bits each as there are in one.
pub(super) fn dequantize(affine: Affine, inputs: &[Array]) -> Result<Array> {
    let [words, scales, biases] = inputs else { unreachable!("there are three inputs") };
    let (bits, dtype) = (affine.bits, scales.dtype());
    let places = ops::arange(0.0, 32.0, 1.0, Dtype::Uint32)?;
    let stream = ops::right_shift(&ops::expand_dims(words, &[-1])?, &places)?;
    let stream = ops::bitwise_and(&stream, &Array::scalar(1u32)?)?;
    let mut shape: Vec<isize> = words.shape().iter().map(|&size| size as isize).collect();
    let last = shape.len() - 1;
    shape[last] = scales.dim(-1) as isize;
    shape.extend([affine.group_size as isize, bits as isize]);
    let weights = ops::left_shift(
        &Array::scalar(1u32)?,
        &ops::arange(0.0, bits as f64, 1.0, Dtype::Uint32)?,
    )?;
    let numbers = ops::multiply(&ops::reshape(&stream, &shape)?, &weights)?;
    let numbers = ops::astype(&ops::sum(&numbers, &[-1], false)?, dtype.promote(Dtype::Float32))?;
    let of_groups = |a: &Array| ops::expand_dims(a, &[-1]);
    let scaled = ops::add(&ops::multiply(&numbers, &of_groups(scales)?)?, &of_groups(biases)?)?;
    shape.truncate(last);
    shape.push((scales.dim(-1) * affine.group_size) as isize);
    ops::astype(&ops::reshape(&scaled, &shape)?, dtype)
}

/// Undoes quantization to small floats: elements are looked up, and multiplied with their scales in float32.
pub(super) fn dequantize_floats(mode: FpMode, inputs: &[Array], dtype: Dtype) -> Result<Array> {
    let [words, scales] = inputs else { unreachable!("there are two inputs") };
    let bytes = ops::view(words, Dtype::Uint8)?;
    let elements = match mode {
        FpMode::Mxfp8 => ops::from_fp8(&bytes, Dtype::Float32)?,
        FpMode::Mxfp4 | FpMode::Nvfp4 => {
            let low = ops::bitwise_and(&bytes, &Array::scalar(15u8)?)?;
            let high = ops::right_shift(&bytes, &Array::scalar(4u8)?)?;
            ops::take(&Array::from_slice(&FP4, &[16])?, &ops::stack(&[&low, &high], -1)?, 0)?
        }
    };
    let factors = match mode {
        FpMode::Nvfp4 => ops::from_fp8(scales, Dtype::Float32)?,
        FpMode::Mxfp4 | FpMode::Mxfp8 => powers(scales)?,
    };
    let mut shape: Vec<isize> = scales.shape().iter().map(|&size| size as isize).collect();
    shape.push(mode.group_size() as isize);
    let elements = ops::reshape(&elements, &shape)?;
    let product = ops::multiply(&elements, &ops::expand_dims(&factors, &[-1])?)?;
    ops::astype(&ops::flatten(&product, -2, -1)?, dtype)
}

/// Powers of two with these exponents, biased by 127.
fn powers(exponents: &Array) -> Result<Array> {
    let exponents = ops::astype(exponents, Dtype::Uint32)?;
    let bits = ops::left_shift(&exponents, &Array::scalar(23u32)?)?;
    let least = ops::equal(&exponents, &Array::scalar(0u32)?)?;
    ops::view(&ops::where_(&least, &Array::scalar(1u32 << 22)?, &bits)?, Dtype::Float32)
}
