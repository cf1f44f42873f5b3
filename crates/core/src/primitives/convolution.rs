//! Convolutions of channels-last arrays.

use smallvec::SmallVec;

use super::{Family, Input, SpecRef, Specs, spec::one};
use crate::{Dtype, Shape};

/// Numbers per spatial axis.
pub type Spatial<T> = SmallVec<[T; 3]>;

/// Convolution: inputs (batch, spatial…, channels) and weight (outputs, spatial…, channels of a
/// group). Parameters are per spatial axis.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// Distance of neighbouring windows.
    pub stride: Spatial<usize>,
    /// Zeros before the input.
    pub padding_low: Spatial<usize>,
    /// Zeros after the input.
    pub padding_high: Spatial<usize>,
    /// Distance of a window's elements.
    pub kernel_dilation: Spatial<usize>,
    /// Distance that the input's elements are spread to.
    pub input_dilation: Spatial<usize>,
    /// Groups of channels that do not mix.
    pub groups: usize,
    /// The weight is flipped along the spatial axes.
    pub flip: bool,
}

impl Convolution {
    /// Windows along a spatial axis of `size` elements, if one of `window` elements fits.
    pub(crate) fn windows(&self, axis: usize, size: usize, window: usize) -> Option<usize> {
        let window = dilated(window, self.kernel_dilation[axis])?;
        let padded = dilated(size, self.input_dilation[axis])?
            .checked_add(self.padding_low[axis])?
            .checked_add(self.padding_high[axis])?;
        padded.checked_sub(window)?.checked_div(self.stride[axis])?.checked_add(1)
    }

    fn has_axes(&self, axes: usize) -> bool {
        let lists = [
            &self.stride,
            &self.padding_low,
            &self.padding_high,
            &self.kernel_dilation,
            &self.input_dilation,
        ];
        lists.iter().all(|list| list.len() == axes)
    }
}

/// Elements that an axis of `size` spans when its elements are `dilation` apart.
fn dilated(size: usize, dilation: usize) -> Option<usize> {
    match size.checked_sub(1) {
        Some(gaps) => dilation.checked_mul(gaps)?.checked_add(1),
        None => Some(0),
    }
}

/// Boxed, because it is larger than other primitives.
impl Family for Box<Convolution> {
    fn name(&self) -> &'static str {
        "Convolution"
    }

    fn is_view(&self) -> bool {
        false
    }

    fn takes(&self, dtype: Dtype) -> bool {
        dtype.is_floating()
    }

    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs> {
        let [x, weight] = inputs else { return None };
        let ([batch, sizes @ .., channels], [outputs, windows @ .., each]) =
            (x.shape, weight.shape)
        else {
            return None;
        };
        let fits = x.dtype == weight.dtype
            && sizes.len() == windows.len()
            && self.has_axes(sizes.len())
            && each.checked_mul(self.groups) == Some(*channels)
            && outputs.checked_rem(self.groups) == Some(0);
        let mut shape = Shape::from_elem(*batch, 1);
        for (axis, (&size, &window)) in sizes.iter().zip(windows).enumerate() {
            let count = fits.then(|| self.windows(axis, size, window))??;
            shape.push(count);
        }
        shape.push(*outputs);
        fits.then(|| one(shape, x.dtype))?
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        let convolution = Convolution {
            stride: Spatial::from_slice(&[1, 2]),
            padding_low: Spatial::from_slice(&[1, 0]),
            padding_high: Spatial::from_slice(&[1, 0]),
            kernel_dilation: Spatial::from_elem(1, 2),
            input_dilation: Spatial::from_elem(1, 2),
            groups: 1,
            flip: false,
        };
        let inputs = [Input::new(&[1, 6, 7, 3], dtype), Input::new(&[4, 3, 3, 3], dtype)];
        vec![(Box::new(convolution), inputs.into())]
    }
}
