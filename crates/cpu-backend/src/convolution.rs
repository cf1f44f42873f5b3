//! Convolutions: windows of the input as rows of a matrix, times the weight; channels that do not
//! mix are summed directly. Halves are summed in float32.

use std::ops::Range;

use mlx_vulkan_core::{Array, Result, backend::Output, primitives::Convolution};

use crate::{
    elementwise::for_rows,
    encoder::{Elements, Encoder, In, Out},
    float::{Real, Wide, dispatch_real},
    rows::{RowStarts, widen_row},
    simd::gemm::{MatMut, MatRef, gemm},
};

/// Elements of a matrix of windows that one core fills at a time: a part of its second cache.
const WINDOWS: usize = 1 << 14;

/// Encodes the convolution of the input with the weight.
pub(crate) fn encode(
    enc: &mut Encoder<'_>,
    convolution: &Convolution,
    [input, weight]: &[Array; 2],
    output: &mut Output,
) -> Result<()> {
    let out = enc.allocate(output)?;
    let (input, weight) = (In::from(input), In::from(weight));
    let windows = Windows::new(convolution, &input, &weight, &out);
    dispatch_real!(out.dtype, T => enc.push(move || windows.run::<T>(&input, &weight, &out)))
}

/// Sizes along one spatial axis.
#[derive(Clone, Copy)]
struct Axis {
    input: usize,
    kernel: usize,
    output: usize,
    stride: usize,
    padding: usize,
    kernel_dilation: usize,
    input_dilation: usize,
    /// Elements between neighbours of the input.
    input_stride: isize,
}

impl Axis {
    /// An axis of size 1, for arrays with fewer than three.
    const NONE: Axis = Axis {
        input: 1,
        kernel: 1,
        output: 1,
        stride: 1,
        padding: 0,
        kernel_dilation: 1,
        input_dilation: 1,
        input_stride: 0,
    };

    /// Where element `tap` of a window lies in the input, unless it is one of the zeros.
    fn at(&self, window: usize, tap: usize) -> Option<isize> {
        let spread = window * self.stride + tap * self.kernel_dilation;
        let spread = spread.checked_sub(self.padding)?;
        let index = spread / self.input_dilation;
        let there = spread % self.input_dilation == 0 && index < self.input;
        there.then_some(index as isize * self.input_stride)
    }

    /// The taps of a window that lie in the input; with a dilated input also those between its elements.
    fn present(&self, window: usize) -> Range<usize> {
        let start = window * self.stride;
        let first = self.padding.saturating_sub(start).div_ceil(self.kernel_dilation);
        let end = (self.padding + self.input * self.input_dilation).saturating_sub(start);
        let end = end.div_ceil(self.kernel_dilation).min(self.kernel);
        first.min(end)..end
    }

    /// Elements of the input from one tap to the next, where these are all as far apart.
    fn tap_stride(&self) -> Option<isize> {
        (self.input_dilation == 1).then_some(self.kernel_dilation as isize * self.input_stride)
    }
}

/// The windows of a convolution, over three axes.
struct Windows {
    axes: [Axis; 3],
    /// From one element to the next of all taps along the last axis, each with all channels, if that is the
    /// same everywhere.
    run_stride: Option<isize>,
    groups: usize,
    /// Channels of a group.
    channels: usize,
    /// Outputs of a group.
    outputs: usize,
    flip: bool,
    batch_stride: isize,
    channel_stride: isize,
}

impl Windows {
    fn new(c: &Convolution, input: &In, weight: &In, out: &Out) -> Self {
        let mut axes = [Axis::NONE; 3];
        let spatial = c.stride.len();
        for i in 0..spatial {
            axes[3 - spatial + i] = Axis {
                input: input.shape[i + 1],
                kernel: weight.shape[i + 1],
                output: out.shape[i + 1],
                stride: c.stride[i],
                padding: c.padding_low[i],
                kernel_dilation: c.kernel_dilation[i],
                input_dilation: c.input_dilation[i],
                input_stride: input.layout.strides[i + 1],
            };
        }
        let channels = weight.shape[spatial + 1];
        let channel_stride = input.layout.strides[spatial + 1];
        // Taps follow one another as channels do; a single channel leaves them as they are.
        let taps = axes[2].tap_stride();
        let run_stride = match channels {
            1 => taps,
            _ => taps.filter(|&s| s == channels as isize * channel_stride).map(|_| channel_stride),
        };
        Windows {
            axes,
            run_stride,
            groups: c.groups,
            channels,
            outputs: weight.shape[0] / c.groups,
            flip: c.flip,
            batch_stride: input.layout.strides[0],
            channel_stride,
        }
    }

    /// Elements of a window, without channels.
    fn taps(&self) -> usize {
        self.axes.iter().map(|a| a.kernel).product()
    }

    /// Hands the elements of a window over by runs of taps whose elements, with all channels, are evenly
    /// spaced: the first tap, row by row, how many there are, and where the first one lies in the input.
    fn each_run(&self, window: usize, mut f: impl FnMut(usize, usize, isize)) {
        let [a, b, c] = self.axes;
        let (window, z) = (window / c.output, window % c.output);
        let (window, y) = (window / b.output, window % b.output);
        let (batch, x) = (window / a.output, window % a.output);
        let start = batch as isize * self.batch_stride;
        let taps = c.present(z);
        let longest = if self.run_stride.is_some() { taps.len().max(1) } else { 1 };
        for i in a.present(x) {
            let Some(x) = a.at(x, i) else { continue };
            for j in b.present(y) {
                let Some(y) = b.at(y, j) else { continue };
                for k in taps.clone().step_by(longest) {
                    let Some(z) = c.at(z, k) else { continue };
                    f((i * b.kernel + j) * c.kernel + k, longest, start + x + y + z);
                }
            }
        }
    }

    fn run<T: Real>(&self, input: &In, weight: &In, out: &Out) {
        let mut out = out.write::<T>();
        let all = self.groups * self.outputs;
        if out.is_empty() {
            return;
        }
        let depth = self.taps() * self.channels;
        let weight = self.weight::<T>(weight);
        let elements = input.read::<T>();
        let rows = (WINDOWS / (depth * self.groups).max(1)).max(1);
        let work = out.len().saturating_mul(depth.max(1));
        let direct = self.channels == 1 && self.outputs == 1;
        let by_taps = if direct { transposed(&weight, self.taps()) } else { Vec::new() };
        for_rows(&mut out, rows * all, work, |part, out| {
            if direct {
                return self.sum(&elements, &by_taps, part * rows, out);
            }
            for group in 0..self.groups {
                self.multiply(&elements, &weight, group, part * rows, out);
            }
        });
    }

    /// The weight as a dense matrix of wide elements, a row per output, with flipped windows if the
    /// convolution flips.
    fn weight<T: Real>(&self, weight: &In) -> Vec<T::Wide> {
        let depth = self.taps() * self.channels;
        let mut out = vec![T::Wide::default(); self.groups * self.outputs * depth];
        let data = weight.read::<T>();
        let starts = RowStarts::new(weight, 1);
        let stride = weight.layout.strides[weight.shape.len() - 1];
        if depth == 0 {
            return out;
        }
        for (i, row) in out.chunks_exact_mut(self.channels).enumerate() {
            let (output, tap) = (i / self.taps(), i % self.taps());
            let tap = if self.flip { self.taps() - 1 - tap } else { tap };
            widen_row(data.buffer(), starts.at(output * self.taps() + tap), stride, row);
        }
        out
    }

    /// The outputs of a group for the windows from `first` on.
    fn multiply<T: Real>(
        &self,
        input: &Elements<'_, T>,
        weight: &[T::Wide],
        group: usize,
        first: usize,
        out: &mut [T],
    ) {
        let all = self.groups * self.outputs;
        let (rows, depth) = (out.len() / all, self.taps() * self.channels);
        let mut windows = vec![T::Wide::default(); rows * depth];
        let skip = (group * self.channels) as isize * self.channel_stride;
        let stride = self.run_stride.unwrap_or(self.channel_stride);
        if depth > 0 {
            for (i, window) in windows.chunks_exact_mut(depth).enumerate() {
                self.each_run(first + i, |tap, taps, offset| {
                    let at = input.first().wrapping_add_signed(offset + skip);
                    let run = &mut window[tap * self.channels..][..taps * self.channels];
                    widen_row(input.buffer(), at, stride, run);
                });
            }
        }
        let weight = &weight[group * self.outputs * depth..][..self.outputs * depth];
        let mut products = vec![T::Wide::default(); rows * self.outputs];
        gemm(
            MatMut::dense(&mut products, rows, self.outputs),
            T::Wide::from_f64(0.0),
            MatRef::dense(&windows, rows, depth),
            MatRef::dense(weight, self.outputs, depth).t(),
            T::Wide::from_f64(1.0),
            false,
        );
        for (products, out) in products.chunks_exact(self.outputs).zip(out.chunks_exact_mut(all)) {
            T::narrow_slice(products, &mut out[group * self.outputs..][..self.outputs]);
        }
    }

    /// One output per channel: each tap's weights times the channels there.
    fn sum<T: Real>(
        &self,
        input: &Elements<'_, T>,
        by_taps: &[T::Wide],
        first: usize,
        out: &mut [T],
    ) {
        let mut sums = vec![T::Wide::default(); self.groups];
        let mut channels = sums.clone();
        for (i, out) in out.chunks_exact_mut(self.groups).enumerate() {
            sums.fill(T::Wide::default());
            self.each_run(first + i, |tap, taps, offset| {
                let weights = by_taps[tap * self.groups..].chunks_exact(self.groups).take(taps);
                for (j, weights) in weights.enumerate() {
                    let at = offset + j as isize * self.run_stride.unwrap_or_default();
                    let at = input.first().wrapping_add_signed(at);
                    widen_row(input.buffer(), at, self.channel_stride, &mut channels);
                    let terms = channels.iter().zip(weights);
                    sums.iter_mut().zip(terms).for_each(|(sum, (&x, &w))| *sum = *sum + x * w);
                }
            });
            T::narrow_slice(&sums, out);
        }
    }
}

/// The transpose of a row-major matrix.
fn transposed<W: Copy>(matrix: &[W], columns: usize) -> Vec<W> {
    (0..columns).flat_map(|j| matrix.iter().skip(j).step_by(columns).copied()).collect()
}
