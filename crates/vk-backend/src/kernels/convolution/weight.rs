//! Derivatives of convolutions by their weights on cooperative matrices.
//!
//! Such a derivative is a convolution of the input with the cotangents whose batches are channels and the
//! other way round (`core/src/transforms/rules/convolution.rs`): views that say so by their strides. It is
//! the product of the cotangents with the windows that the derived convolution had.

use mlx_vulkan_core::{
    Array, Result, Strides, backend::Output, primitives::Convolution, shape::Layout,
};

use super::{
    classes::Axis,
    matrix::{Elements, Product, SIZE, axes, pixels, quotient},
    octets::{self, Pixels},
    planner,
};
use crate::{
    kernels::{
        Ctx, Operand, Region,
        copy::{self, StridedOperand},
        layouts::convolution_weight as kernel,
        matmul::{A_VECTOR, SCALED, matrix::MatrixTile, matrix_constants, matrix_pipeline},
        operands::Dtypes,
    },
    shaders::KernelOf,
};

/// Kernels by dtype: float16 first.
const KERNELS: [KernelOf<kernel::Constants, kernel::Push>; 2] =
    [kernel::CONVOLUTION_WEIGHT_FLOAT16, kernel::CONVOLUTION_WEIGHT_BFLOAT16];

/// Encodes the convolution, if it is such a derivative and the kernel is for it. The channels of the derived
/// convolution are neighbours in the result, whose first axis they are.
///
/// # Errors
/// When memory or the device fails.
pub(super) fn eval(
    ctx: &mut Ctx<'_>,
    c: &Convolution,
    [input, cotangents]: [&Array; 2],
    output: &mut Output,
) -> Result<bool> {
    let strides = &input.evaluated().layout.strides;
    let turned = strides[0] == 1 && strides[input.ndim() - 1] > 1;
    let spread = c.input_dilation.iter().any(|&d| d > 1);
    if !turned || spread || c.flip || c.groups > 1 {
        return Ok(false);
    }
    let Some(axes) = axes(c, cotangents, &output.shape) else { return Ok(false) };
    let multiplications = output.size().saturating_mul(cotangents.size() / cotangents.dim(0));
    let Some(elements) = Elements::of(ctx, output.dtype, multiplications) else { return Ok(false) };
    let (from, by) = (pixels(ctx, input)?.turned(), pixels(ctx, cotangents)?.turned());
    let (outputs, windows) = (by.shape[3], by.shape[..3].iter().product::<usize>());
    let columns = output.size() / outputs;
    let serves = outputs % 8 == 0 && from.is_near() && by.is_near();
    let sizes = [outputs, columns, windows];
    let plan = planner::weight(sizes, elements.fragment, ctx.capabilities());
    let (true, Some((tile, splits))) = (serves, plan) else { return Ok(false) };
    let result = self::output(ctx, output)?;
    let (from, by, factors) = match elements.scaled {
        true => octets::scaled(ctx, [&from, &by])?,
        false => (from.octets(ctx)?, by.rows(ctx)?, Region::default()),
    };
    let channels = output.shape[0];
    Derivative { elements, from, by, factors, axes, tile, splits }.encode(ctx, channels, result)?;
    Ok(true)
}

/// A derivative by the weight of operands in whole octets, as a product.
struct Derivative {
    elements: Elements,
    /// The input.
    from: Pixels,
    /// The cotangents.
    by: Pixels,
    /// Of float32 operands, else none.
    factors: Region,
    axes: [Axis; 2],
    tile: MatrixTile,
    splits: u32,
}

impl Derivative {
    /// Encodes it; of the input's `channels` there may be more by now.
    fn encode(&self, ctx: &mut Ctx<'_>, channels: usize, result: Operand) -> Result<()> {
        let Dtypes { operands, result: out } = self.elements.dtypes;
        let (outputs, padded, tile) = (self.by.shape[3], self.from.shape[3], self.tile);
        let taps = self.axes[0].output * self.axes[1].output;
        let to = match channels == padded {
            true => result,
            false => {
                let region = ctx.scratch((outputs * taps * padded * out.size()) as u64)?;
                Operand { address: region.address, region }
            }
        };
        let regular = is_regular(&self.by, &tile);
        let bit = |on: bool, flag: u32| if on { flag } else { 0 };
        let flags =
            A_VECTOR | bit(self.elements.scaled, SCALED) | bit(regular, kernel::REGULAR_FLAG);
        let pipeline = |ctx: &Ctx<'_>, out| {
            let constants = matrix_constants!(kernel, tile, operands, out, flags);
            matrix_pipeline(ctx, KERNELS, operands, &constants)
        };
        let push = push(ctx, self.axes, &self.from, &self.by)?;
        let factors = self.factors.address;
        let push = |result, splits| kernel::Push { result, splits, factors, ..push };
        let product = Product { size: [outputs, taps * padded], tile, splits: self.splits, out };
        let reads = [self.by.at.region, self.from.at.region, self.factors];
        product.encode(ctx, pipeline, push, &reads, to)?;
        if channels == padded {
            return Ok(());
        }
        let from = StridedOperand { at: to, dtype: out, strides: &[padded as isize, 1] };
        let to = StridedOperand { at: result, dtype: out, strides: &[channels as isize, 1] };
        copy::copy(ctx, &[outputs * taps, channels], from, to)
    }
}

/// Allocates the output, (channels, y, x, outputs), in the order of a weight: (outputs, y, x, channels).
fn output(ctx: &mut Ctx<'_>, output: &mut Output) -> Result<Operand> {
    let shape = &output.shape;
    let last = shape.len() - 1;
    let mut strides = Strides::from_elem(1, shape.len());
    let mut next = shape[0] as isize;
    for axis in (1..=last - 1).rev().chain([last]) {
        strides[axis] = next;
        next *= shape[axis] as isize;
    }
    let layout = Layout::view(shape, strides, 0, output.size(), true);
    ctx.output_like(output, layout)
}

/// Whether the windows that a workgroup loads at once begin a line or share one, and never two images.
fn is_regular(windows: &Pixels, tile: &MatrixTile) -> bool {
    let [_, y, x, _] = windows.shape;
    let at_once = (tile.threads() / (tile.bn / 8)) as usize;
    (y * x).is_multiple_of(at_once) && (x.is_multiple_of(at_once) || at_once.is_multiple_of(x))
}

/// The kernel's arguments, without the result. Outputs along the axes are the weight's taps, and taps are the
/// derived convolution's windows.
fn push(ctx: &mut Ctx<'_>, [y, x]: [Axis; 2], from: &Pixels, by: &Pixels) -> Result<kernel::Push> {
    let bytes = |stride: isize| (stride * SIZE as isize) as u32;
    let [image, line, pixel] = [0, 1, 2].map(|i| bytes(from.strides[i]));
    let taps = kernel::Taps {
        zeros: [0; 4],
        channels: from.shape[3] as u32,
        columns: x.output as u32,
        tap_y: y.stride as i32,
        tap_x: x.stride as i32,
        first_y: -(y.padding as i32),
        first_x: -(x.padding as i32),
        line,
        pixel,
    };
    let (rows, windows) = (by.shape[1] * by.shape[2], by.shape[2]);
    Ok(kernel::Push {
        a: by.at.address,
        b: from.at.address,
        walk: ctx.args(bytemuck::bytes_of(&taps))?,
        lda: by.strides[2] as i64,
        m: by.shape[3] as u32,
        n: (y.output * x.output * from.shape[3]) as u32,
        k: (by.shape[0] * rows) as u32,
        batches: 1,
        image: rows as u32,
        line: windows as u32,
        by_image: quotient(rows),
        by_line: quotient(windows),
        step_y: y.kernel_dilation as u32,
        step_x: x.kernel_dilation as u32,
        height: from.shape[1] as u32,
        width: from.shape[2] as u32,
        image_stride: image,
        window_y: y.kernel_dilation as u32 * line,
        window_x: x.kernel_dilation as u32 * pixel,
        ..Default::default()
    })
}
