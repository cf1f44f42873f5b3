//! Convolutions on cooperative matrices whose kernels gather windows while they load: none lie in memory.

use mlx_vulkan_core::{Array, Dtype, Result, backend::Output, primitives::Convolution};

use super::{
    classes::{Axis, Class},
    octets::{self, Pixels},
    planner,
};
use crate::{
    kernels::{
        Ctx, Dispatch, Operand, Region,
        fragment::fragment,
        layouts::convolution_windows as kernel,
        matmul::{
            A_ALONG_K, B_ALONG_K, SCALED, matrix::MatrixTile, matrix_constants, matrix_pipeline,
            sum_parts,
        },
        operands::Dtypes,
        scaled,
    },
    runtime::{capabilities::Fragment, pipelines::PipelineOf},
    shaders::KernelOf,
};

/// Kernels by dtype: float16 first.
const KERNELS: [KernelOf<kernel::Constants, kernel::Push>; 2] =
    [kernel::CONVOLUTION_WINDOWS_FLOAT16, kernel::CONVOLUTION_WINDOWS_BFLOAT16];

/// Bytes of an element that cooperative matrices multiply.
pub(super) const SIZE: usize = 2;

/// What cooperative matrices multiply, and whether that is made of float32.
#[derive(Debug, Clone, Copy)]
pub(super) struct Elements {
    pub dtypes: Dtypes,
    pub fragment: Fragment,
    pub scaled: bool,
}

impl Elements {
    /// What they multiply for products of so many multiplications, if they may.
    pub(super) fn of(ctx: &Ctx<'_>, dtype: Dtype, multiplications: usize) -> Option<Elements> {
        if let Some(fragment) = fragment(dtype, [0; 2], ctx.capabilities(), ctx.config()) {
            return Some(Elements { dtypes: dtype.into(), fragment, scaled: false });
        }
        let fragment = {
            let (caps, config) = (ctx.capabilities(), ctx.config());
            scaled::fragment_of(dtype, multiplications, [0; 2], caps, config)?
        };
        Some(Elements { dtypes: scaled::DTYPES, fragment, scaled: true })
    }
}

/// Numbers by which a kernel divides integers below 2^31: a factor and a shift. With `s` the bits of `d - 1`
/// and a factor of 2^(31 + s) / d, rounded up, the quotient is exact (Granlund and Montgomery 1994).
pub(super) fn quotient(d: usize) -> [u32; 2] {
    let d = d.max(1) as u64;
    let shift = (d - 1).checked_ilog2().map_or(0, |bits| bits + 1);
    [(1u64 << (31 + shift)).div_ceil(d) as u32, shift]
}

/// The axes of a convolution over one or two axes: along y, which may be missing, and x.
pub(super) fn axes(c: &Convolution, weight: &Array, output: &[usize]) -> Option<[Axis; 2]> {
    let spatial = c.stride.len();
    let axis = |i: usize| Axis {
        kernel: weight.shape()[i + 1],
        output: output[i + 1],
        stride: c.stride[i],
        padding: c.padding_low[i],
        kernel_dilation: c.kernel_dilation[i],
        input_dilation: c.input_dilation[i],
    };
    let missing =
        Axis { kernel: 1, output: 1, stride: 1, padding: 0, kernel_dilation: 1, input_dilation: 1 };
    match spatial {
        1 => Some([missing, axis(0)]),
        2 => Some([axis(0), axis(1)]),
        _ => None,
    }
}

/// An array of one or two spatial axes as pixels.
///
/// # Errors
/// When memory or the device fails.
pub(super) fn pixels(ctx: &mut Ctx<'_>, a: &Array) -> Result<Pixels> {
    let at = ctx.input(a)?;
    let (sizes, steps) = (a.shape(), &a.evaluated().layout.strides);
    let last = a.ndim() - 1;
    let (y, x) = (last.checked_sub(2).filter(|&y| y > 0), last - 1);
    let shape = [sizes[0], y.map_or(1, |y| sizes[y]), sizes[x], sizes[last]];
    let strides = [steps[0], y.map_or(0, |y| steps[y]), steps[x], steps[last]];
    Ok(Pixels { at, dtype: a.dtype(), shape, strides })
}

/// A product whose tiles are planned, with a kernel that stores an (m, n) matrix.
#[derive(Debug, Clone, Copy)]
pub(super) struct Product {
    pub size: [usize; 2],
    pub tile: MatrixTile,
    pub splits: u32,
    pub out: Dtype,
}

impl Product {
    /// Encodes it with what the kernel is for a dtype of its result, and its arguments for the result's
    /// address and parts of k.
    ///
    /// # Errors
    /// When memory or the device fails.
    pub(super) fn encode<P: bytemuck::Pod>(
        &self,
        ctx: &mut Ctx<'_>,
        pipeline: impl Fn(&Ctx<'_>, Dtype) -> PipelineOf<P>,
        push: impl Fn(u64, u32) -> P,
        reads: &[Region],
        result: Operand,
    ) -> Result<()> {
        let Product { size: [m, n], tile, splits, out } = *self;
        let (count, parts) = ((m * n) as u64, splits > 1);
        let (to, stored) = match parts {
            true => (ctx.scratch(count * u64::from(splits) * 4)?, Dtype::Float32),
            false => (result.region, out),
        };
        let at = if parts { to.address } else { result.address };
        let tiles = tile.count(m, n, 1) * u64::from(splits);
        ctx.dispatch(&Dispatch {
            pipeline: &pipeline(ctx, stored),
            push: &push(at, splits),
            groups: [ctx.capabilities().groups_1d(tiles, 1), 1, 1],
            reads,
            writes: &[to],
        })?;
        if parts { sum_parts(ctx, to, splits, count, out, result) } else { Ok(()) }
    }
}

/// Encodes the convolution, if the kernels are for it.
///
/// # Errors
/// When memory or the device fails.
pub(super) fn eval(
    ctx: &mut Ctx<'_>,
    c: &Convolution,
    [input, weight]: [&Array; 2],
    output: &mut Output,
) -> Result<bool> {
    let Some(axes) = axes(c, weight, &output.shape).filter(|_| c.groups == 1) else {
        return Ok(false);
    };
    let windows = output.size() / weight.dim(0);
    let multiplications = windows.saturating_mul(weight.size());
    let Some(elements) = Elements::of(ctx, output.dtype, multiplications) else { return Ok(false) };
    let (from, by) = (pixels(ctx, input)?, pixels(ctx, weight)?);
    let several = axes.map(|axis| axis.period()).into_iter().product::<usize>();
    let sizes = [windows.div_ceil(several), weight.dim(0), weight.size() / weight.dim(0)];
    let plan = planner::windows(sizes, several, elements.fragment, ctx.capabilities());
    let (true, Some((tile, splits))) = (from.is_near() && by.is_near(), plan) else {
        return Ok(false);
    };
    let result = ctx.output(output)?;
    let (from, by, factors) = match elements.scaled {
        true => octets::scaled(ctx, [&from, &by])?,
        false => (from.octets(ctx)?, by.octets(ctx)?, Region::default()),
    };
    let outputs = axes.map(|axis| axis.output);
    let windows = Windows {
        elements,
        from,
        by,
        factors,
        result,
        outputs,
        tile,
        splits,
        flip: c.flip,
        several: several > 1,
    };
    for y in axes[0].classes() {
        for x in axes[1].classes() {
            windows.class(ctx, [y, x])?;
        }
    }
    Ok(true)
}

/// A convolution of pixels in whole octets.
struct Windows {
    elements: Elements,
    from: Pixels,
    by: Pixels,
    /// Of float32 operands, else none.
    factors: Region,
    result: Operand,
    /// Along y and x.
    outputs: [usize; 2],
    tile: MatrixTile,
    splits: u32,
    flip: bool,
    /// There are several classes.
    several: bool,
}

impl Windows {
    /// Encodes the outputs of a class along each axis.
    fn class(&self, ctx: &mut Ctx<'_>, along: [Class; 2]) -> Result<()> {
        let [y, x] = along;
        let (m, n) = (self.from.shape[0] * y.outputs * x.outputs, self.by.shape[0]);
        let k = y.taps * x.taps * self.from.shape[3];
        let push = self.push(ctx, along, [m, n, k])?;
        let Dtypes { operands, result: out } = self.elements.dtypes;
        let (tile, splits) = (self.tile, self.splits);
        let bit = |on: bool, flag: u32| if on { flag } else { 0 };
        let flags = A_ALONG_K
            | B_ALONG_K
            | bit(self.elements.scaled, SCALED)
            | bit(self.several, kernel::CLASSES_FLAG)
            | bit(self.from.shape[3].is_multiple_of(tile.bk as usize), kernel::WHOLE_FLAG);
        let pipeline = |ctx: &Ctx<'_>, out| {
            let constants = matrix_constants!(kernel, tile, operands, out, flags);
            matrix_pipeline(ctx, KERNELS, operands, &constants)
        };
        let push = |result, splits| kernel::Push { result, splits, ..push };
        let reads = [self.from.at.region, self.by.at.region, self.factors];
        let product = Product { size: [m, n], tile, splits, out };
        product.encode(ctx, pipeline, push, &reads, self.result)
    }

    fn push(
        &self,
        ctx: &mut Ctx<'_>,
        along: [Class; 2],
        [m, n, k]: [usize; 3],
    ) -> Result<kernel::Push> {
        let ([y, x], flip) = (along, self.flip);
        let bytes = |stride: isize| (stride * SIZE as isize) as i32;
        // The first tap, and the distance of taps, along y and x.
        let taps = [0, 1].map(|i| {
            let (c, last, apart) =
                (along[i], self.by.shape[i + 1] - 1, bytes(self.by.strides[i + 1]));
            let first = if flip { last - c.first_tap } else { c.first_tap } as i32 * apart;
            let step = c.taps_apart as i32 * apart;
            (first, if flip { -step } else { step })
        });
        let walk = ctx.args(bytemuck::bytes_of(&self.windows(along)))?;
        Ok(kernel::Push {
            a: self.from.at.address,
            b: self.by.at.address,
            result: self.result.address,
            walk,
            factors: self.factors.address,
            m: m as u32,
            n: n as u32,
            k: k as u32,
            batches: 1,
            splits: 1,
            channels: self.from.shape[3] as u32,
            columns: x.taps.max(1) as u32,
            by_channels: quotient(self.from.shape[3]),
            by_columns: quotient(x.taps),
            tap_y: y.tap_step as i32,
            tap_x: x.tap_step as i32,
            height: self.from.shape[1] as u32,
            width: self.from.shape[2] as u32,
            line: bytes(self.from.strides[1]) as u32,
            pixel: bytes(self.from.strides[2]) as u32,
            weight_first: (taps[0].0 + taps[1].0) as u32,
            weight_y: taps[0].1,
            weight_x: taps[1].1,
            weight_row: bytes(self.by.strides[0]) as u32,
        })
    }

    fn windows(&self, [y, x]: [Class; 2]) -> kernel::Windows {
        let [height, width] = self.outputs;
        let image = y.outputs * x.outputs;
        kernel::Windows {
            zeros: [0; 4],
            image: image as u32,
            line: x.outputs as u32,
            by_image: quotient(image),
            by_line: quotient(x.outputs),
            first_y: y.element as i32,
            first_x: x.element as i32,
            step_y: y.step as u32,
            step_x: x.step as u32,
            image_stride: (self.from.strides[0] * SIZE as isize) as u32,
            result_image: (height * width) as u32,
            result_y: (y.apart * width) as u32,
            result_x: x.apart as u32,
            result_first: (y.first * width + x.first) as u32,
        }
    }
}
