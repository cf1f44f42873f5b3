//! The convolution of a token with those before it, which models keep: the window that both are joined to,
//! the sums, a bias and `silu` behind them (`convolution/token.comp`).

use mlx_vulkan_core::{
    Result,
    backend::Output,
    fusion::Group,
    primitives::{CopyOp, Primitive, ShapeOp},
    tape::Tape,
};
use smallvec::{SmallVec, smallvec};

use super::{
    Grouped,
    bias::Biased,
    gate,
    heads::{Cursor, Walk, input},
    inner,
};
use crate::{
    kernels::{Ctx, Operand, Region, convolution::token, copy},
    runtime::device::DeviceState,
};

/// A convolution by places on the tape.
struct Found {
    window: usize,
    convolution: usize,
    /// The tokens before, and the token.
    before: Cursor,
    x: Cursor,
    bias: Option<Biased>,
    silu: bool,
    /// What has the result.
    result: usize,
    members: SmallVec<[usize; 16]>,
    operations: u64,
}

/// The convolutions of one token that were found so far, each by the node that has its result.
#[derive(Default)]
pub(super) struct Builder(Vec<Found>);

impl Builder {
    /// The convolution at `place`, if it is one.
    pub(super) fn convolution(&mut self, tape: &Tape, place: usize, device: &DeviceState) {
        self.0.extend(Found::new(tape, place, device));
    }

    /// The addition at `sum` adds a bias to a convolution that was found.
    pub(super) fn add(&mut self, tape: &Tape, sum: usize) {
        let stream = tape.node(sum).stream;
        for (of, bias) in [(0, 1), (1, 0)] {
            let Some(place) = inner(tape, (sum, of), 1, stream) else { continue };
            let found = self.0.iter_mut().rev().find(|found| found.result == place);
            let Some(found) = found.filter(|found| found.bias.is_none() && !found.silu) else {
                continue;
            };
            if let Some(biased) = Biased::of_sum(tape, sum, bias).filter(|b| !b.is_lazy(tape)) {
                found.members.extend(biased.members());
                found.bias = Some(biased);
                found.result = sum;
            }
        }
    }

    /// The multiplication at `place` is `silu` of a convolution that was found.
    pub(super) fn silu(&mut self, tape: &Tape, place: usize) {
        if self.0.is_empty() {
            return;
        }
        let Some((convolved, members)) = gate::silu_of(tape, place) else { return };
        let found = self.0.iter_mut().rev().find(|found| found.result == convolved);
        if let Some(found) = found.filter(|found| !found.silu) {
            found.members.extend(members);
            (found.silu, found.result) = (true, place);
        }
    }

    pub(super) fn finish(self, tape: &Tape) -> impl Iterator<Item = Group> {
        let is_operation = |&&member: &&usize| !tape.node(member).primitive.is_view();
        self.0.into_iter().map(move |mut found| {
            found.operations = found.members.iter().filter(is_operation).count() as u64;
            let kept = smallvec![found.result, found.window];
            let members = std::mem::take(&mut found.members);
            Group { members, kept, fusion: Box::new(Grouped(found)) }
        })
    }
}

impl Found {
    fn new(tape: &Tape, place: usize, device: &DeviceState) -> Option<Found> {
        let node = tape.node(place);
        let Primitive::Convolution(convolution) = &node.primitive else { return None };
        let weight = node.inputs[1].shape();
        let [sequences, taps, channels] = node.inputs[0].shape() else { return None };
        let plain = convolution.groups == *channels
            && !convolution.flip
            && convolution.stride[..] == [1]
            && convolution.padding_low[..] == [0]
            && convolution.padding_high[..] == [0]
            && convolution.kernel_dilation[..] == [1]
            && convolution.input_dilation[..] == [1]
            && weight == [*channels, *taps, 1]
            && tape.array(place).size() > 0
            && (2..=8).contains(taps);
        (device.config.enable_fused_tokens && plain).then_some(())?;
        let window = tape.input(place, 0)?;
        let joined = tape.node(window);
        let [before, x] = &joined.inputs[..] else { return None };
        let is_token = joined.primitive == Primitive::Shape(ShapeOp::Concatenate { axis: 1 })
            && joined.stream == node.stream
            && x.shape() == [*sequences, 1, *channels]
            && before.dim(1) + 1 == *taps;
        is_token.then_some(())?;
        let mut walk = Walk::new(tape, node.stream, x.dtype());
        walk.members.extend([window, place]);
        // A copy of what was kept is read where it comes from.
        let copies = |p: &Primitive| matches!(p, Primitive::Copy(CopyOp::Contiguous { .. }));
        let copy = walk.pass((window, 0), |node| copies(&node.primitive));
        Some(Found {
            window,
            convolution: place,
            before: copy.map_or((window, 0), |copy| (copy, 0)),
            x: (window, 1),
            bias: None,
            silu: false,
            result: place,
            members: walk.members,
            operations: 0,
        })
    }
}

impl super::GroupKernel for Found {
    fn name(&self) -> usize {
        self.convolution
    }

    fn counted(&self) -> &[usize] {
        std::slice::from_ref(&self.convolution)
    }

    fn replaces(&self) -> u64 {
        self.operations
    }

    fn describe(&self, tape: &Tape) -> String {
        format!("token convolution {:?}", tape.array(self.window).shape())
    }

    fn encode(&self, ctx: &mut Ctx<'_>, tape: &Tape, kept: &mut [Output]) -> Result<bool> {
        let [result, window] = kept else { return Ok(false) };
        let [sequences, taps, channels] = window.shape[..] else { return Ok(false) };
        let before = input(tape, self.before);
        let strides = &before.evaluated().layout.strides;
        let rows = strides[2] == 1 && (taps == 2 || strides[1] == channels as isize);
        let stride = if sequences == 1 { Some(0) } else { u32::try_from(strides[0]).ok() };
        let Some(before_stride) = stride.filter(|_| rows) else { return Ok(false) };
        let small = u32::try_from(sequences).is_ok() && u32::try_from(taps * channels).is_ok();
        if !small {
            return Ok(false);
        }
        let mut reads: SmallVec<[Region; 1]> = SmallVec::new();
        let bias = match &self.bias {
            None => None,
            Some(bias) => match bias.operand(ctx, tape, &mut reads)? {
                Some(bias) => Some(Operand { address: bias.at, region: reads[0] }),
                None => return Ok(false),
            },
        };
        let token = token::Token {
            before: ctx.input(before)?,
            before_stride,
            x: copy::dense(ctx, input(tape, self.x))?,
            weight: copy::dense(ctx, input(tape, (self.convolution, 1)))?,
            bias,
            dtype: result.dtype as u32,
            result: ctx.output(result)?,
            window: ctx.output(window)?,
            sequences: sequences as u32,
            channels: channels as u32,
            taps: taps as u32,
            silu: self.silu,
        };
        token::encode(ctx, &token)?;
        Ok(true)
    }
}
