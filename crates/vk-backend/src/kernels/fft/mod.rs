//! Fourier transforms, axis by axis: passes in shared memory, or a convolution for lengths with large
//! prime factors.

pub(crate) mod planner;

use mlx_vulkan_core::{
    Array, Result, Shape, Strides, backend::Output, primitives::Fft, shape::row_major_strides,
};

use super::{
    Ctx, Dispatch, Region,
    layouts::{fft_chirp, fft_pass, fft_side},
    strided::Walk,
};
use planner::{Block, FftPlan, longest_pass, part_of_turn, plan, radices};

/// What one side of a transform holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum End {
    Complex = COMPLEX_END,
    Real = REAL_END,
    /// The first half of what is conjugate-symmetric.
    Half = HALF_END,
}

use fft_side::{COMPLEX_END, HALF_END, IN_SHIFT, OUT_SHIFT, REAL_END};

use fft_pass::{
    CHIRP_IN_FLAG as CHIRP_IN, CHIRP_OUT_FLAG as CHIRP_OUT, LINES_FIRST_IN_FLAG as LINES_FIRST_IN,
    LINES_FIRST_OUT_FLAG as LINES_FIRST_OUT, SPECTRUM_IN_FLAG as SPECTRUM_IN,
};

impl End {
    /// Bytes of an element.
    fn bytes(self) -> i64 {
        if self == End::Real { 4 } else { 8 }
    }
}

/// Lines of one side: where they begin, and their elements' distance.
#[derive(Debug, Clone)]
struct Lines {
    address: u64,
    region: Region,
    /// Strides of the other axes.
    outer: Strides,
    unit: i64,
    end: End,
}

impl Lines {
    /// The lines along `axis` of an array with these strides.
    fn of(address: u64, region: Region, strides: &[isize], axis: usize, end: End) -> Lines {
        let mut outer = Strides::from_slice(strides);
        let unit = outer.remove(axis) as i64;
        Lines { address, region, outer, unit, end }
    }

    /// Lines of `n` complex numbers one after the other.
    fn dense(region: Region, batch: &[usize], n: usize) -> Lines {
        let mut outer = row_major_strides(batch);
        outer.iter_mut().for_each(|s| *s *= n as isize);
        Lines { address: region.address, region, outer, unit: 1, end: End::Complex }
    }
}

/// Transforms of `n` elements, one per element of `batch`.
struct Transforms<'a> {
    n: usize,
    batch: &'a [usize],
    inverse: bool,
    scale: f32,
    part: Part,
}

/// What a transform is part of.
#[derive(Debug, Clone, Copy)]
enum Part {
    Whole,
    /// The first half of a transform of so many elements as a convolution: to spectra.
    There(usize),
    /// The second half, from spectra and that of the chirp.
    Back(usize, Region),
}

impl Transforms<'_> {
    /// Flags of the first pass and of the last one.
    fn flags(&self) -> [u32; 2] {
        match self.part {
            Part::Whole => [0, 0],
            Part::There(_) => [CHIRP_IN, 0],
            Part::Back(..) => [SPECTRUM_IN, CHIRP_OUT],
        }
    }

    /// What imaginary parts are multiplied with at the beginning and at the end: an inverse transform
    /// conjugates.
    fn signs(&self) -> [f32; 2] {
        let sign = |conjugate: bool| if conjugate { -1.0 } else { 1.0 };
        let (begins, ends) =
            (!matches!(self.part, Part::Back(..)), !matches!(self.part, Part::There(_)));
        [sign(self.inverse && begins), sign(self.inverse && ends)]
    }

    /// Elements of the transform that is wanted.
    fn total(&self) -> usize {
        match self.part {
            Part::Whole => self.n,
            Part::There(n) | Part::Back(n, _) => n,
        }
    }

    fn spectrum(&self) -> Region {
        if let Part::Back(_, spectrum) = self.part { spectrum } else { Region::default() }
    }
}

/// Encodes the transform.
///
/// # Errors
/// When memory or the device fails, or an axis has 2^31 elements or more.
pub(super) fn eval(ctx: &mut Ctx<'_>, fft: &Fft, input: &Array, output: &mut Output) -> Result<()> {
    let result = ctx.output(output)?;
    if output.size() == 0 {
        return Ok(());
    }
    if fft.axes.iter().any(|&axis| output.shape[axis] >= 1 << 31) {
        return Err(ctx.unsupported_output(output, "an axis has 2^31 elements or more"));
    }
    let from = ctx.input(input)?;
    let strides = input.evaluated().layout.strides.clone();
    let mut source = (from.address, from.region, strides, Shape::from(input.shape()));
    let target = (result.address, result.region);
    let mut order = fft.axes.clone();
    let real = fft.real.is_some();
    if real && !fft.inverse {
        order.reverse(); // the halved axis first, while its elements are still real
    }
    for (i, &axis) in order.iter().enumerate() {
        let halved = real && Some(&axis) == fft.axes.last();
        let last = i + 1 == order.len();
        let (in_end, out_end) = match (halved, fft.inverse) {
            (true, false) => (End::Real, End::Half),
            (true, true) => (End::Half, End::Real),
            (false, _) => (End::Complex, End::Complex),
        };
        let n = if halved && !fft.inverse { source.3[axis] } else { output.shape[axis] };
        let mut shape = source.3.clone();
        shape[axis] = if halved && !fft.inverse { n / 2 + 1 } else { n };
        // A real result is not the size of what goes before it.
        let to = match real && fft.inverse && !last && i == 0 {
            true => {
                let bytes = shape.iter().product::<usize>() as u64 * 8;
                let region = ctx.scratch(bytes)?;
                (region.address, region)
            }
            false if real && fft.inverse && !last => (source.0, source.1),
            false => target,
        };
        let strides = row_major_strides(&shape);
        let mut batch = shape.clone();
        batch.remove(axis);
        let scale = if fft.inverse { (1.0 / n as f64) as f32 } else { 1.0 };
        let transforms =
            Transforms { n, batch: &batch, inverse: fft.inverse, scale, part: Part::Whole };
        let from = Lines::of(source.0, source.1, &source.2, axis, in_end);
        let into = Lines::of(to.0, to.1, &strides, axis, out_end);
        transform(ctx, &transforms, &from, &into)?;
        source = (to.0, to.1, strides, shape);
    }
    Ok(())
}

/// The transforms along one axis.
fn transform(
    ctx: &mut Ctx<'_>,
    transforms: &Transforms<'_>,
    from: &Lines,
    to: &Lines,
) -> Result<()> {
    match plan(transforms.n, longest_pass(ctx.capabilities().shared_memory)) {
        FftPlan::Passes(factors) => passes(ctx, transforms, &factors, from, to),
        FftPlan::Bluestein(m) => bluestein(ctx, transforms, m, from, to),
    }
}

/// Runs the factors' passes: the first reads the source, the last writes the destination, between
/// them lines lie in scratch memory.
fn passes(
    ctx: &mut Ctx<'_>,
    transforms: &Transforms<'_>,
    factors: &[usize],
    from: &Lines,
    to: &Lines,
) -> Result<()> {
    let lines: usize = transforms.batch.iter().product();
    let between = match factors.len() {
        1 => None,
        _ => {
            let region = ctx.scratch((lines * transforms.n) as u64 * 8)?;
            Some(Lines::dense(region, transforms.batch, transforms.n))
        }
    };
    let between = between.as_ref();
    let mut done = 1;
    for (i, &size) in factors.iter().enumerate() {
        let last = i + 1 == factors.len();
        let rest = transforms.n / done / size;
        let source = if i == 0 { from } else { between.expect("several passes") };
        let target = if last { to } else { between.expect("several passes") };
        // Lines of this pass: the batch, then the indices that earlier passes made.
        let mut shape = Shape::from(transforms.batch);
        let mut numbers = [vec![0; transforms.batch.len()], vec![0; transforms.batch.len()]];
        let (mut below, mut above) = (transforms.n, 1);
        for &earlier in &factors[..i] {
            below /= earlier;
            shape.push(earlier);
            numbers[0].push(below as isize);
            numbers[1].push(if last { above } else { below as isize });
            above *= earlier as isize;
        }
        let with_zeros = |outer: &Strides| {
            let mut strides = outer.clone();
            strides.resize(shape.len(), 0);
            strides
        };
        let (ins, outs) = (with_zeros(&source.outer), with_zeros(&target.outer));
        let walk = Walk::new(&shape, [&ins, &numbers[0], &outs, &numbers[1]]);
        let out_stride = if last { above as usize } else { rest };
        let flags = ((source.end as u32) << IN_SHIFT)
            | ((target.end as u32) << OUT_SHIFT)
            | lines_first(source, rest, LINES_FIRST_IN)
            | lines_first(target, out_stride, LINES_FIRST_OUT)
            | if i == 0 { transforms.flags()[0] } else { 0 }
            | if last { transforms.flags()[1] } else { 0 };
        let push = fft_pass::Push {
            source: source.address,
            destination: target.address,
            walk: ctx.args(&walk.pack())?,
            count: walk.count() * rest as u64,
            size_part: part_of_turn(size as u64),
            pass_part: part_of_turn((size * rest) as u64),
            chirp_part: part_of_turn(2 * transforms.total() as u64),
            spectrum: transforms.spectrum().address,
            in_unit: source.unit * source.end.bytes(),
            out_unit: target.unit * target.end.bytes(),
            rest: rest as u32,
            out_stride: out_stride as u32,
            total: transforms.total() as u32,
            ndim: walk.ndim(),
            scale: if last { transforms.scale } else { 1.0 },
            in_sign: if i == 0 { transforms.signs()[0] } else { 1.0 },
            out_sign: if last { transforms.signs()[1] } else { 1.0 },
        };
        dispatch(ctx, size, flags, &push, &[source.region, transforms.spectrum()], target.region)?;
        done *= size;
    }
    Ok(())
}

/// The flag if lines are nearer to one another than a line's elements, which are `stride` units apart.
fn lines_first(side: &Lines, stride: usize, flag: u32) -> u32 {
    let apart = side.unit.unsigned_abs() as usize * stride;
    if apart > 1 { flag } else { 0 }
}

fn dispatch(
    ctx: &mut Ctx<'_>,
    size: usize,
    flags: u32,
    push: &fft_pass::Push,
    reads: &[Region],
    writes: Region,
) -> Result<()> {
    let caps = ctx.capabilities();
    let across = flags & (LINES_FIRST_IN | LINES_FIRST_OUT) != 0;
    let Block { group, lines } = Block::new(caps, size as u32, across);
    let twos = size.is_power_of_two();
    let (size, radices) = (size as u32, radices(size as u32));
    let constants = fft_pass::Constants { workgroup: group, size, lines, flags, radices };
    let kernel = if twos { fft_pass::FFT_PASS_TWOS } else { fft_pass::FFT_PASS_MIXED };
    let pipeline = ctx.pipeline(kernel, &constants);
    let groups = [caps.groups_1d(push.count, u64::from(lines)), 1, 1];
    ctx.dispatch(&Dispatch { pipeline: &pipeline, push, groups, reads, writes: &[writes] })
}

/// The transform as a convolution of length `m` with a chirp.
fn bluestein(
    ctx: &mut Ctx<'_>,
    transforms: &Transforms<'_>,
    m: usize,
    from: &Lines,
    to: &Lines,
) -> Result<()> {
    let spectrum = ctx.scratch(m as u64 * 8)?;
    let push = fft_chirp::Push {
        destination: spectrum.address,
        m: m as u64,
        part: part_of_turn(2 * transforms.n as u64),
        n: transforms.n as u32,
    };
    let group = ctx.capabilities().elementwise_workgroup();
    let constants = fft_chirp::Constants { workgroup: group };
    let pipeline = ctx.pipeline(fft_chirp::FFT_CHIRP, &constants);
    ctx.run(&pipeline, &push, push.m, u64::from(group), &[], &[spectrum])?;
    let one = Transforms { n: m, batch: &[], inverse: false, scale: 1.0, part: Part::Whole };
    let side = Lines::dense(spectrum, &[], m);
    transform(ctx, &one, &side, &side)?;

    let lines: usize = transforms.batch.iter().product();
    let spectra = Lines::dense(ctx.scratch((lines * m) as u64 * 8)?, transforms.batch, m);
    let there = Transforms { n: m, scale: 1.0, part: Part::There(transforms.n), ..*transforms };
    transform(ctx, &there, from, &spectra)?;
    let scale = transforms.scale / m as f32;
    let back = Transforms { scale, part: Part::Back(transforms.n, spectrum), ..there };
    transform(ctx, &back, &spectra, to)
}
