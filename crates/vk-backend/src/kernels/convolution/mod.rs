//! Convolutions: products of windows with the weight, which are gathered by tiles or unfolded, or sums
//! by one thread an output.

pub(crate) mod classes;
mod matrix;
mod octets;
pub(crate) mod planner;
pub(crate) mod token;
mod weight;

use mlx_vulkan_core::{
    Array, Dtype, Result,
    backend::Output,
    primitives::Convolution,
    shape::{is_row_contiguous, row_major_strides},
};

use super::{
    Ctx, Dispatch, Operand, Region, copy,
    fragment::fragment,
    layouts::{
        convolution_direct as direct_sums, convolution_direct::Geometry, convolution_tile,
        convolution_unfold,
    },
    matmul::{
        A_ALONG_K, A_VECTOR, B_ALONG_K, B_VECTOR, GemmPush, dense_matrix, lines,
        planner::{Gemm, Tile},
        tile_constants, tile_grid,
    },
    operands::Dtypes,
    scaled,
};
use crate::runtime::capabilities::Fragment;
use planner::{ConvolutionPlan, ConvolutionSizes, plan};

/// A convolution of an input whose channels are neighbours with a dense weight.
struct Operands {
    input: Operand,
    weight: Operand,
    result: Operand,
    /// What the kernels read, and the result.
    dtypes: Dtypes,
    geometry: Geometry,
    product: ConvolutionSizes,
}

/// Encodes the convolution.
///
/// # Errors
/// When memory or the device fails, or there are 2^31 windows or more.
pub(super) fn eval(
    ctx: &mut Ctx<'_>,
    convolution: &Convolution,
    [input, weight]: &[Array; 2],
    output: &mut Output,
) -> Result<()> {
    if output.size() == 0 {
        ctx.output(output)?;
        return Ok(());
    }
    let windows = output.size() / output.shape[output.shape.len() - 1];
    let depth = weight.size() / weight.dim(0);
    if [windows, depth].iter().any(|&n| n >= 1 << 31) {
        return Err(ctx.unsupported_output(output, "2^31 windows, or elements of one, or more"));
    }
    if ctx.config().enable_coopmat_windows
        && !is_dense_matrix(convolution, input, weight)
        && (weight::eval(ctx, convolution, [input, weight], output)?
            || matrix::eval(ctx, convolution, [input, weight], output)?)
    {
        return Ok(());
    }
    let result = ctx.output(output)?;
    let mut o = operands(ctx, convolution, [input, weight], output, result)?;
    if let Some(fragment) = scaled_fragment(ctx, &o.product, output.dtype) {
        (o.product.fragment, o.dtypes) = (Some(fragment), scaled::DTYPES);
    }
    match plan(&o.product, ctx.capabilities()) {
        ConvolutionPlan::Depthwise => direct(ctx, &o, output, true),
        ConvolutionPlan::Direct => direct(ctx, &o, output, false),
        ConvolutionPlan::Tile(tile, quads) => tiles(ctx, &o, output, tile, quads),
        ConvolutionPlan::Product(gemm, at_once) => products(ctx, &o, gemm, at_once),
    }
}

fn operands(
    ctx: &mut Ctx<'_>,
    c: &Convolution,
    [input, weight]: [&Array; 2],
    output: &Output,
    result: Operand,
) -> Result<Operands> {
    let mut strides = input.evaluated().layout.strides.clone();
    let last = input.ndim() - 1;
    let at = match strides[last] == 1 || input.dim(-1) == 1 {
        true => ctx.input(input)?,
        false => {
            strides = row_major_strides(input.shape());
            copy::dense(ctx, input)?
        }
    };
    let spatial = c.stride.len();
    // Axes that are missing come first.
    let axes = |missing: u32, of: &dyn Fn(usize) -> usize| {
        let mut all = [missing; 3];
        (0..spatial).for_each(|i| all[3 - spatial + i] = of(i) as u32);
        all
    };
    let mut between = [0; 3];
    (0..spatial).for_each(|i| between[3 - spatial + i] = strides[i + 1] as i64);
    let (channels, outputs) = (weight.dim(-1), weight.dim(0) / c.groups);
    let geometry = Geometry {
        batch_stride: strides[0] as i64,
        strides: between,
        input: axes(1, &|i| input.shape()[i + 1]),
        kernel: axes(1, &|i| weight.shape()[i + 1]),
        output: axes(1, &|i| output.shape[i + 1]),
        stride: axes(1, &|i| c.stride[i]),
        padding: axes(0, &|i| c.padding_low[i]),
        kernel_dilation: axes(1, &|i| c.kernel_dilation[i]),
        input_dilation: axes(1, &|i| c.input_dilation[i]),
        channels: channels as u32,
        outputs: outputs as u32,
        groups: c.groups as u32,
        flip: u32::from(c.flip),
    };
    let quad = 4 * output.dtype.size() as u64;
    let aligned = at.is_aligned(quad) && strides[..last].iter().all(|s| s % 4 == 0);
    let dense = is_row_contiguous(input.shape(), &strides);
    let product = ConvolutionSizes {
        windows: output.size() / output.shape[last],
        taps: weight.shape()[1..last].iter().product(),
        groups: c.groups,
        channels,
        outputs,
        aligned,
        pointwise: is_matrix(&geometry) && dense,
        size: output.dtype.size(),
        fragment: fragment(
            output.dtype,
            [(weight.size() / weight.dim(0)) as i64; 2],
            ctx.capabilities(),
            ctx.config(),
        ),
    };
    let weight = copy::dense(ctx, weight)?;
    let dtypes = output.dtype.into();
    Ok(Operands { input: at, weight, result, dtypes, geometry, product })
}

/// What cooperative matrices multiply for a float32 convolution, if they do.
fn scaled_fragment(ctx: &Ctx<'_>, p: &ConvolutionSizes, dtype: Dtype) -> Option<Fragment> {
    let multiplications =
        [p.windows, p.outputs, p.depth()].into_iter().fold(1, usize::saturating_mul);
    let leading = [lines::leading(true, p.depth()) as i64; 2];
    let fragment =
        scaled::fragment_of(dtype, multiplications, leading, ctx.capabilities(), ctx.config());
    let sizes = ConvolutionSizes { fragment, ..*p };
    let plan = plan(&sizes, ctx.capabilities());
    fragment.filter(|_| matches!(plan, ConvolutionPlan::Product(Gemm::Matrix(..), _)))
}

/// Whether the input lies as the matrix of its windows.
fn is_dense_matrix(c: &Convolution, input: &Array, weight: &Array) -> bool {
    let spatial = 1..input.ndim() - 1;
    let lists = [&c.stride, &c.kernel_dilation, &c.input_dilation];
    input.evaluated().layout.flags.row_contiguous
        && weight.shape()[spatial].iter().chain(lists.into_iter().flatten()).all(|&x| x == 1)
        && c.padding_low.iter().chain(&c.padding_high).all(|&zeros| zeros == 0)
}

/// Whether every element of the input is the window of one output.
fn is_matrix(g: &Geometry) -> bool {
    let ones = [g.kernel, g.stride, g.input_dilation];
    let mut ones = ones.into_iter().flatten();
    ones.all(|x| x == 1) && g.padding == [0; 3] && g.input == g.output
}

fn direct(ctx: &mut Ctx<'_>, o: &Operands, output: &Output, quads: bool) -> Result<()> {
    let count = match quads {
        true => {
            let [.., along] = o.geometry.output;
            let lines = o.product.windows as u64 / u64::from(along);
            lines * u64::from(along.div_ceil(direct_sums::WINDOWS)) * (o.product.groups / 4) as u64
        }
        false => output.size() as u64,
    };
    let push = direct_sums::Push {
        source: o.input.address,
        weight: o.weight.address,
        result: o.result.address,
        geometry: ctx.args(bytemuck::bytes_of(&o.geometry))?,
        count,
    };
    let group = ctx.capabilities().elementwise_workgroup();
    let (dtype, quad) = (output.dtype as u32, u32::from(quads));
    let constants = direct_sums::Constants { workgroup: group, dtype, quad };
    let pipeline = ctx.pipeline(direct_sums::CONVOLUTION_DIRECT, &constants);
    let reads = [o.input.region, o.weight.region];
    ctx.run(&pipeline, &push, count, u64::from(group), &reads, &[o.result.region])
}

fn tiles(ctx: &mut Ctx<'_>, o: &Operands, output: &Output, tile: Tile, quads: bool) -> Result<()> {
    let depth = o.product.depth();
    let push = GemmPush {
        a: o.input.address,
        b: o.weight.address,
        result: o.result.address,
        walk: ctx.args(bytemuck::bytes_of(&o.geometry))?,
        ldb: depth as i64,
        m: o.product.windows as u32,
        n: o.product.outputs as u32,
        k: depth as u32,
        batches: o.product.groups as u32,
        splits: 1,
        ..GemmPush::default()
    };
    let whole = depth.is_multiple_of(4) && o.weight.is_aligned(4 * output.dtype.size() as u64);
    let bit = |on: bool, flag: u32| if on { flag } else { 0 };
    let flags = A_ALONG_K | B_ALONG_K | bit(quads, A_VECTOR) | bit(whole, B_VECTOR);
    let caps = ctx.capabilities();
    let constants = tile_constants!(convolution_tile, tile, output.dtype, output.dtype, flags);
    let pipeline = ctx.pipeline(convolution_tile::CONVOLUTION_TILE, &constants);
    ctx.dispatch(&Dispatch {
        pipeline: &pipeline,
        push: &push,
        groups: tile_grid(&tile, &push, 0, caps),
        reads: &[o.input.region, o.weight.region],
        writes: &[o.result.region],
    })
}

/// Windows as the rows of a matrix, some at a time, and their products with the weight. Neighbouring
/// parts take turns in two pieces of memory, so that one is unfolded while the other is multiplied.
fn products(ctx: &mut Ctx<'_>, o: &Operands, gemm: Gemm, at_once: usize) -> Result<()> {
    let p = o.product;
    let row = (p.depth() * p.size) as u64;
    let parts = p.windows.div_ceil(at_once);
    let matrices = match p.pointwise {
        true => [o.input.region; 2],
        false => {
            let first = ctx.scratch(at_once as u64 * row)?;
            let second = if parts > 1 { ctx.scratch(at_once as u64 * row)? } else { first };
            [first, second]
        }
    };
    let is_scaled = o.dtypes.operands != o.dtypes.result;
    let scaled = is_scaled.then(|| ScaledRows::new(ctx, o, at_once)).transpose()?;
    for part in 0..parts {
        let first = part * at_once;
        let windows = at_once.min(p.windows - first);
        let matrix = matrices[part % 2];
        if !p.pointwise {
            unfold(ctx, o, first, windows, matrix)?;
        }
        let line = (p.outputs * o.dtypes.result.size()) as u64;
        let address = o.result.address + first as u64 * line;
        let result = Operand { address, region: Region { address, bytes: windows as u64 * line } };
        let push = GemmPush {
            a: matrix.address,
            b: o.weight.address,
            result: address,
            lda: p.depth() as i64,
            ldb: p.depth() as i64,
            m: windows as u32,
            n: p.outputs as u32,
            k: p.depth() as u32,
            batches: 1,
            splits: 1,
            ..GemmPush::default()
        };
        match &scaled {
            Some(scaled) => {
                scaled.multiply(ctx, (gemm, o.dtypes), push, (part, matrix), result)?;
            }
            None => {
                let reads = [matrix, o.weight.region];
                dense_matrix(ctx, gemm, o.dtypes, push, None, &reads, result)?;
            }
        }
    }
    Ok(())
}

/// Operands of products whose elements are scaled.
struct ScaledRows {
    weight: Operand,
    /// Memory for windows, which neighbouring parts use in turns.
    windows: [Region; 2],
}

impl ScaledRows {
    /// Encodes the weight, and takes memory for so many windows.
    fn new(ctx: &mut Ctx<'_>, o: &Operands, at_once: usize) -> Result<Self> {
        let (outputs, depth) = (o.product.outputs, o.product.depth());
        let memory = lines::rows_memory(ctx, outputs, depth)?;
        let weight = lines::rows(ctx, o.weight, [outputs, depth], memory)?;
        let windows =
            [lines::rows_memory(ctx, at_once, depth)?, lines::rows_memory(ctx, at_once, depth)?];
        Ok(ScaledRows { weight, windows })
    }

    /// The product of a part's windows and the weight.
    fn multiply(
        &self,
        ctx: &mut Ctx<'_>,
        (gemm, dtypes): (Gemm, Dtypes),
        push: GemmPush,
        (part, matrix): (usize, Region),
        result: Operand,
    ) -> Result<()> {
        let (windows, depth) = (push.m as usize, push.k as usize);
        let at = Operand { address: matrix.address, region: matrix };
        let a = lines::rows(ctx, at, [windows, depth], self.windows[part % 2])?;
        let leading = lines::leading(true, depth) as i64;
        let push = GemmPush {
            a: a.address,
            b: self.weight.address,
            lda: leading,
            ldb: leading,
            k: lines::inner(depth) as u32,
            ..push
        };
        dense_matrix(ctx, gemm, dtypes, push, None, &[a.region, self.weight.region], result)
    }
}

/// Copies `windows` windows from the `first` one on.
fn unfold(
    ctx: &mut Ctx<'_>,
    o: &Operands,
    first: usize,
    windows: usize,
    matrix: Region,
) -> Result<()> {
    let p = &o.product;
    let channels = p.channels * p.size;
    let [x, y, z] = o.geometry.strides;
    let strides = [o.geometry.batch_stride, x, y, z];
    let whole = o.input.is_aligned(16)
        && channels.is_multiple_of(16)
        && strides.iter().all(|s| (s * p.size as i64) % 16 == 0);
    let bytes = if whole { 16 } else { p.size };
    let count = (windows * p.depth() * p.size / bytes) as u64;
    let push = convolution_unfold::Push {
        source: o.input.address,
        destination: matrix.address,
        geometry: ctx.args(bytemuck::bytes_of(&o.geometry))?,
        count,
        first: first as u32,
        elements: (bytes / p.size) as u32,
    };
    let group = ctx.capabilities().elementwise_workgroup();
    let constants = convolution_unfold::Constants { workgroup: group, bytes: bytes as u32 };
    let pipeline = ctx.pipeline(convolution_unfold::CONVOLUTION_UNFOLD, &constants);
    ctx.run(&pipeline, &push, count, u64::from(group), &[o.input.region], &[matrix])
}
