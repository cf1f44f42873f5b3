//! Convolutions of channels-last arrays: input (batch, spatial…, channels), weight (outputs,
//! spatial…, channels of a group). As in machine learning the weight is not flipped, unless asked.

use smallvec::SmallVec;

use crate::{
    Array, Error, Result,
    ops::{self, astype},
    primitives::{Convolution, Spatial},
};

/// Parameters of [`conv_general`]: per spatial axis, or one number for all of them.
#[derive(Debug, Clone, Copy)]
pub struct ConvOptions<'a> {
    /// Distance of neighbouring windows.
    pub stride: &'a [isize],
    /// Zeros before (negative: elements cut off) and after each axis.
    pub padding: (&'a [isize], &'a [isize]),
    /// Distance of a window's elements.
    pub kernel_dilation: &'a [isize],
    /// Distance that the input's elements are spread to, with zeros between them.
    pub input_dilation: &'a [isize],
    /// Groups of channels that do not mix.
    pub groups: usize,
    /// Whether the weight is flipped along the spatial axes.
    pub flip: bool,
}

impl Default for ConvOptions<'_> {
    fn default() -> Self {
        ConvOptions {
            stride: &[1],
            padding: (&[0], &[0]),
            kernel_dilation: &[1],
            input_dilation: &[1],
            groups: 1,
            flip: false,
        }
    }
}

/// Convolution over one to three spatial axes, in float32 for halves.
///
/// # Errors
/// When the input is not floating, shapes, groups and parameters do not fit together, or a window
/// is larger than the padded input.
pub fn conv_general(input: &Array, weight: &Array, options: ConvOptions<'_>) -> Result<Array> {
    let axes = check(input, weight, options.groups)?;
    let dtype = input.dtype().promote(weight.dtype());
    let all = |values: &[isize], default: isize| -> Spatial<isize> {
        match values {
            [] => SmallVec::from_elem(default, axes),
            [one] => SmallVec::from_elem(*one, axes),
            many => many.into(),
        }
    };
    let stride = all(options.stride, 1);
    let kernel_dilation = all(options.kernel_dilation, 1);
    let input_dilation = all(options.input_dilation, 1);
    let mut low = all(options.padding.0, 0);
    let mut high = all(options.padding.1, 0);
    let lists = [&stride, &low, &high, &kernel_dilation, &input_dilation];
    let names = ["strides", "padding", "padding", "kernel dilation", "input dilation"];
    for (list, name) in lists.into_iter().zip(names) {
        if list.len() != axes {
            return invalid(format!("Invalid {name} {list:?} for {axes}D convolution."));
        }
    }
    for (list, name) in [(&kernel_dilation, "Kernel dilation"), (&input_dilation, "Input dilation")]
    {
        if list.iter().any(|&d| d <= 0) {
            return invalid(format!(
                "{name} sizes must be positive. Got {} {list:?}.",
                name.to_lowercase()
            ));
        }
    }
    if stride.iter().any(|&s| s <= 0) {
        return invalid(format!("Stride sizes must be positive. Got strides {stride:?}."));
    }
    let input = cut(&astype(input, dtype)?, &mut low, &mut high)?;
    let unsigned = |list: &[isize]| list.iter().map(|&x| x as usize).collect();
    let convolution = Convolution {
        stride: unsigned(&stride),
        padding_low: unsigned(&low),
        padding_high: unsigned(&high),
        kernel_dilation: unsigned(&kernel_dilation),
        input_dilation: unsigned(&input_dilation),
        groups: options.groups,
        flip: options.flip,
    };
    check_windows(&input, weight, &convolution)?;
    ops::node(Box::new(convolution), [input, astype(weight, dtype)?])
}

fn invalid<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::invalid("conv", message))
}

/// Checks dtype, axes and channels; returns the number of spatial axes.
fn check(input: &Array, weight: &Array, groups: usize) -> Result<usize> {
    if groups != 1 && !matches!(input.ndim(), 3 | 4) {
        return invalid("Can only handle groups != 1 in 1D or 2D convolutions.");
    }
    if !(3..=5).contains(&input.ndim()) {
        return invalid(
            "Only works for inputs with 1-3 spatial dimensions. The inputs must be in the format [N, \
             ..., C_in]",
        );
    }
    let axes = input.ndim() - 2;
    if !input.dtype().is_floating() || !input.dtype().promote(weight.dtype()).is_floating() {
        let dtype = if input.dtype().is_floating() { weight.dtype() } else { input.dtype() };
        return invalid(format!(
            "Invalid input array with type {dtype}. Convolution currently only supports floating point types"
        ));
    }
    if weight.ndim() != axes + 2 {
        return invalid(format!(
            "Invalid weight array with {} dimensions for {axes}D convolution. Expected an array with {} \
             dimensions following the format [C_out, ..., C_in].",
            weight.ndim(),
            axes + 2
        ));
    }
    let (channels, outputs, each) = (input.dim(-1), weight.dim(0), weight.dim(-1));
    if groups == 0 || !channels.is_multiple_of(groups) {
        return invalid(format!(
            "The input channels must be divisible by the number of groups. Got input with shape {:?} and \
             {groups} groups.",
            input.shape()
        ));
    }
    if !outputs.is_multiple_of(groups) {
        return invalid(format!(
            "If groups > 1, the output channels must be divisible by the number of groups. Got {outputs} \
             output channels and {groups} groups."
        ));
    }
    if channels != groups * each {
        return invalid(match groups {
            1 => format!(
                "Expect the input channels in the input and weight array to match but got shapes - \
                 input: {:?} and weight: {:?}",
                input.shape(),
                weight.shape()
            ),
            _ => format!(
                "Given groups={groups} and weights of shape {:?}, expected to have {} input channels but \
                 got {channels} input channels instead.",
                weight.shape(),
                groups * each
            ),
        });
    }
    Ok(axes)
}

/// Takes off the elements that negative padding cuts, and sets that padding to zero.
fn cut(input: &Array, low: &mut [isize], high: &mut [isize]) -> Result<Array> {
    if low.iter().chain(&*high).all(|&p| p >= 0) {
        return Ok(input.clone());
    }
    let mut start = vec![0; input.ndim()];
    let mut stop: Vec<isize> = input.shape().iter().map(|&d| d as isize).collect();
    for axis in 0..low.len() {
        start[axis + 1] = (-low[axis]).max(0);
        stop[axis + 1] = (stop[axis + 1] + high[axis].min(0)).max(0);
        (low[axis], high[axis]) = (low[axis].max(0), high[axis].max(0));
    }
    ops::slice(input, &start, &stop, &vec![1; input.ndim()])
}

/// Refuses windows that are larger than the padded input.
fn check_windows(input: &Array, weight: &Array, c: &Convolution) -> Result<()> {
    for axis in 0..c.stride.len() {
        let (size, window) = (input.shape()[axis + 1], weight.shape()[axis + 1]);
        if c.windows(axis, size, window).is_none() {
            return invalid(format!(
                "Spatial dimensions of input after padding cannot be smaller than weight spatial \
                 dimensions. Got error at axis {} for input with shape {:?}, padding low {:?}, padding \
                 high {:?}, and weight of shape {:?}.",
                axis + 1,
                input.shape(),
                c.padding_low,
                c.padding_high,
                weight.shape()
            ));
        }
    }
    Ok(())
}

/// Transposed convolution: the gradient of a convolution with these parameters by its input.
fn conv_transpose<const N: usize>(
    input: &Array,
    weight: &Array,
    stride: [usize; N],
    padding: [isize; N],
    dilation: [usize; N],
    output_padding: [usize; N],
    groups: usize,
) -> Result<Array> {
    if input.ndim() != N + 2 || weight.ndim() != N + 2 {
        check_axes::<N>(input)?;
        check(input, weight, groups)?;
    }
    let mut low = [0; N];
    let mut high = [0; N];
    for axis in 0..N {
        // Windows reach over the edges as far as those of the convolution lie inside.
        let reach = dilation[axis] as isize * (weight.shape()[axis + 1] as isize - 1);
        low[axis] = reach - padding[axis];
        high[axis] = reach - padding[axis] + output_padding[axis] as isize;
    }
    let signed = |list: [usize; N]| list.map(|x| x as isize);
    let options = ConvOptions {
        padding: (&low, &high),
        kernel_dilation: &signed(dilation),
        input_dilation: &signed(stride),
        groups,
        flip: true,
        ..ConvOptions::default()
    };
    conv_general(input, weight, options)
}

fn check_axes<const N: usize>(input: &Array) -> Result<()> {
    if input.ndim() == N + 2 {
        return Ok(());
    }
    invalid(format!(
        "Invalid input array with {} dimensions for {N}D convolution. Expected an array with {} \
         dimensions following the format [N, ..., C_in].",
        input.ndim(),
        N + 2
    ))
}

/// Declares the convolution and its transpose for a number of spatial axes.
macro_rules! convolutions {
    ($($n:literal: $conv:ident, $transpose:ident;)*) => {$(
        #[doc = concat!("Convolution over ", stringify!($n), " spatial axes; see [`conv_general`].")]
        ///
        /// # Errors
        /// As [`conv_general`].
        pub fn $conv(
            input: &Array,
            weight: &Array,
            stride: [usize; $n],
            padding: [isize; $n],
            dilation: [usize; $n],
            groups: usize,
        ) -> Result<Array> {
            check_axes::<$n>(input)?;
            let (stride, dilation) = (stride.map(|x| x as isize), dilation.map(|x| x as isize));
            let options = ConvOptions {
                stride: &stride,
                padding: (&padding, &padding),
                kernel_dilation: &dilation,
                groups,
                ..ConvOptions::default()
            };
            conv_general(input, weight, options)
        }

        #[doc = concat!("Transposed convolution over ", stringify!($n), " spatial axes: the")]
        /// gradient of a convolution with these parameters by its input, with `output_padding`
        /// more elements at the end.
        ///
        /// # Errors
        /// As [`conv_general`].
        pub fn $transpose(
            input: &Array,
            weight: &Array,
            stride: [usize; $n],
            padding: [isize; $n],
            dilation: [usize; $n],
            output_padding: [usize; $n],
            groups: usize,
        ) -> Result<Array> {
            conv_transpose(input, weight, stride, padding, dilation, output_padding, groups)
        }
    )*};
}

convolutions! {
    1: conv1d, conv_transpose1d;
    2: conv2d, conv_transpose2d;
    3: conv3d, conv_transpose3d;
}

/// Part of the discrete convolution that [`convolve`] returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConvolveMode {
    /// Wherever the arrays overlap.
    Full,
    /// Where they overlap wholly.
    Valid,
    /// As many elements as the longer array has.
    Same,
}

impl std::str::FromStr for ConvolveMode {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "full" => Ok(ConvolveMode::Full),
            "valid" => Ok(ConvolveMode::Valid),
            "same" => Ok(ConvolveMode::Same),
            _ => Err(Error::invalid("convolve", "Invalid mode.")),
        }
    }
}

/// Discrete convolution of two vectors, the shorter of which is flipped.
///
/// # Errors
/// When an array is no vector, is empty, or is not floating.
pub fn convolve(a: &Array, v: &Array, mode: ConvolveMode) -> Result<Array> {
    if a.ndim() != 1 || v.ndim() != 1 {
        return Err(Error::invalid("convolve", "Inputs must be 1D."));
    }
    if a.size() == 0 || v.size() == 0 {
        return Err(Error::invalid("convolve", "Inputs cannot be empty."));
    }
    let (long, short) = if a.size() < v.size() { (v, a) } else { (a, v) };
    let size = short.size() as isize;
    let (low, high) = match mode {
        ConvolveMode::Full => (size - 1, size - 1),
        ConvolveMode::Valid => (0, 0),
        ConvolveMode::Same => (size / 2, (size - 1) / 2),
    };
    let options = ConvOptions { padding: (&[low], &[high]), flip: true, ..ConvOptions::default() };
    let as_channel = |x: &Array| ops::reshape(x, &[1, -1, 1]);
    ops::reshape(&conv_general(&as_channel(long)?, &as_channel(short)?, options)?, &[-1])
}
