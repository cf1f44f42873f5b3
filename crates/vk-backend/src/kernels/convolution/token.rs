//! The convolution of one token of every sequence with those before it, of channels that do not mix.

use mlx_vulkan_core::Result;

use crate::kernels::{
    Ctx, Operand, Region,
    layouts::convolution_token::{BIAS_FLAG, CONVOLUTION_TOKEN, Constants, Push, SILU_FLAG},
};

/// Operands of such a convolution, dense but for `before`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token {
    /// The tokens before it (sequences, taps - 1, channels), and elements from a sequence to the next one.
    pub before: Operand,
    pub before_stride: u32,
    /// (sequences, channels).
    pub x: Operand,
    /// (channels, taps).
    pub weight: Operand,
    /// (channels).
    pub bias: Option<Operand>,
    /// (sequences, channels).
    pub result: Operand,
    /// All tokens that meet the weight (sequences, taps, channels).
    pub window: Operand,
    pub dtype: u32,
    pub sequences: u32,
    pub channels: u32,
    pub taps: u32,
    /// Whether the result is `y sigmoid(y)`.
    pub silu: bool,
}

impl Token {
    fn reads(&self) -> [Region; 4] {
        let bias = self.bias.unwrap_or(self.weight);
        [self.before, self.x, self.weight, bias].map(|at| at.region)
    }

    fn writes(&self) -> [Region; 2] {
        [self.result, self.window].map(|at| at.region)
    }
}

/// Encodes the convolution, as a step where the stream makes runs of such.
///
/// # Errors
/// When the device fails.
pub(crate) fn encode(ctx: &mut Ctx<'_>, token: &Token) -> Result<()> {
    if ctx.runs().is_some_and(|runs| runs.serves_convolution(token)) {
        let (reads, writes) = (token.reads(), token.writes());
        return ctx.put_off(Box::new(*token), &reads, &writes);
    }
    dispatch(ctx, token)
}

/// Encodes the convolution as a dispatch.
///
/// # Errors
/// When the device fails.
pub(crate) fn dispatch(ctx: &mut Ctx<'_>, token: &Token) -> Result<()> {
    let flag = |on: bool, flag: u32| if on { flag } else { 0 };
    let workgroup = ctx.capabilities().elementwise_workgroup();
    let flags = flag(token.bias.is_some(), BIAS_FLAG) | flag(token.silu, SILU_FLAG);
    let constants = Constants { workgroup, dtype: token.dtype, taps: token.taps, flags };
    let pipeline = ctx.pipeline(CONVOLUTION_TOKEN, &constants);
    let bias = token.bias.unwrap_or_default();
    let push = Push {
        before: token.before.address,
        x: token.x.address,
        weight: token.weight.address,
        bias: bias.address,
        result: token.result.address,
        window: token.window.address,
        sequences: token.sequences,
        channels: token.channels,
        before_stride: token.before_stride,
    };
    let items = u64::from(token.sequences) * u64::from(token.channels);
    let (reads, writes) = (token.reads(), token.writes());
    ctx.run(&pipeline, &push, items, u64::from(workgroup), &reads, &writes)
}
