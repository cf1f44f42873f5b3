//! Derivatives of attention along a cotangent: a pass over the rows for their softmax, one for the
//! derivatives by queries, one for those by keys and values. Each result is one workgroup's, so sums come in
//! one order. Halves, and float32 as scaled halves, go to cooperative matrices where there are any.

pub(crate) mod matrix;
pub(crate) mod planner;

use mlx_vulkan_core::{Array, Result, backend::Output, primitives::AttentionVjp, shape::Layout};
use smallvec::smallvec;

use super::{bit, kind_of, mask_strides, operands::Heads, planner::Sizes, sizes};
use crate::{
    kernels::{
        Ctx, Dispatch, Operand, Region,
        fragment::fragment,
        layouts::{
            attention_derivatives as passes,
            attention_vjp::{self as lanes, Constants, Push, Strides},
            attention_vjp_matrix as matrices,
        },
        matmul::matrix_pipeline,
        operands::Dtypes,
        scaled::{self, whole},
    },
    runtime::{capabilities::Fragment, pipelines::PipelineOf},
};
use matrix::Matrix;
use planner::Plan;

/// Memory of a query row's maximum, sum and mean.
const ROW_BYTES: u64 = 16;

/// What is differentiated, where everything lies.
struct Vjp<'a> {
    sizes: Sizes,
    scale: f32,
    kind: u32,
    /// Of queries, keys, values and the cotangent, and of everything else.
    dtypes: Dtypes,
    q: Heads,
    k: Heads,
    v: Heads,
    mask: Option<(&'a Array, Operand)>,
    result: Heads,
    cotangent: Heads,
    by_q: Heads,
    by_k: Heads,
    by_v: Heads,
    /// Of each query row what [`ROW_BYTES`] says.
    rows: Region,
    /// Of float32 queries, keys, values and cotangents that were scaled (`scaled/whole.rs`), else none.
    factors: Region,
}

/// Encodes the derivatives by queries, keys and values. Inputs are the attention's, its output and the
/// cotangent of that.
///
/// # Errors
/// When memory or the device fails, or there are more rows or keys than kernels count.
pub(in crate::kernels) fn eval(
    ctx: &mut Ctx<'_>,
    op: AttentionVjp,
    inputs: &[Array],
    by_q: &mut Output,
    others: &mut [Output],
) -> Result<()> {
    let [primals @ .., result, cotangent] = inputs else { unreachable!("core checks the number") };
    let [by_k, by_v] = others else { unreachable!("there are three outputs") };
    let sizes = sizes(primals);
    let rows = sizes.batches.saturating_mul(sizes.heads).saturating_mul(sizes.queries);
    if rows >= 1 << 31 || sizes.keys >= 1 << 31 {
        return Err(ctx.unsupported(&primals[0], "more than 2^31 query rows or keys"));
    }
    let mask = primals.get(3).map(|mask| Ok((mask, ctx.input(mask)?))).transpose()?;
    let mut vjp = Vjp {
        sizes,
        scale: op.scale.0,
        kind: kind_of(op.mask, primals),
        dtypes: by_q.dtype.into(),
        q: Heads::new(ctx, &primals[0])?,
        k: Heads::new(ctx, &primals[1])?,
        v: Heads::new(ctx, &primals[2])?,
        mask,
        result: Heads::new(ctx, result)?,
        cotangent: Heads::new(ctx, cotangent)?,
        by_q: output_like(ctx, &primals[0], by_q)?,
        by_k: output_like(ctx, &primals[1], by_k)?,
        by_v: output_like(ctx, &primals[2], by_v)?,
        rows: ctx.scratch((rows as u64 * ROW_BYTES).max(ROW_BYTES))?,
        factors: Region::default(),
    };
    if vjp.scales(ctx) {
        vjp.scale(ctx)?;
    }
    let (lanes, fragment) = (planner::plan(ctx.capabilities()), vjp.fragment(ctx));
    for pass in [passes::ROWS_PASS, passes::QUERIES_PASS, passes::KEYS_PASS] {
        match matrix::plan(&vjp.sizes, pass, fragment, ctx.capabilities()) {
            Some(plan) => vjp.run_matrix(ctx, plan, pass)?,
            None => vjp.run(ctx, lanes, pass)?,
        }
    }
    Ok(())
}

/// Allocates an output whose axes lie in memory in the order of the input's: derivatives of heads that were
/// split off features are joined again without a copy.
fn output_like(ctx: &mut Ctx<'_>, input: &Array, output: &mut Output) -> Result<Heads> {
    let [_, heads, rows, width] = [0, 1, 2, 3].map(|i| output.shape[i] as isize);
    let of_input = &input.evaluated().layout.strides;
    let layout = match of_input[1] < of_input[2] {
        true => {
            let strides = smallvec![rows * heads * width, width, heads * width, 1];
            Layout::view(&output.shape, strides, 0, output.size(), true)
        }
        false => Layout::row_major(&output.shape),
    };
    let strides = [0, 1, 2].map(|axis| layout.strides[axis] as i64);
    Ok(Heads { at: ctx.output_like(output, layout)?, strides })
}

impl Vjp<'_> {
    /// Whether float32 products are made of scaled float16, in all passes.
    fn scales(&self, ctx: &Ctx<'_>) -> bool {
        let s = &self.sizes;
        let leading = [self.result.strides[2], self.by_q.strides[2]];
        let dtype = self.dtypes.operands;
        let fragment = scaled::fragment_of(
            dtype,
            s.multiplications(),
            leading,
            ctx.capabilities(),
            ctx.config(),
        )
        .filter(|_| s.elements() <= scaled::MOST);
        let plans = |pass| matrix::plan(s, pass, fragment, ctx.capabilities()).is_some();
        [&self.result, &self.by_q, &self.by_k, &self.by_v].into_iter().all(Heads::vectors)
            && [passes::ROWS_PASS, passes::QUERIES_PASS, passes::KEYS_PASS].into_iter().all(plans)
    }

    /// Makes queries, keys, values and the cotangent float16.
    fn scale(&mut self, ctx: &mut Ctx<'_>) -> Result<()> {
        let s = &self.sizes;
        let axes = s.of_rows();
        let [q, k, v] = super::rows([&self.q, &self.k, &self.v], s, &axes);
        let cotangent = self.cotangent.rows(&axes[0], s.queries, s.value_width);
        let scaled = whole::convert(ctx, [q, k, v, cotangent])?;
        let widths = [s.key_width, s.key_width, s.value_width, s.value_width];
        [self.q, self.k, self.v, self.cotangent] = Heads::scaled(&scaled, widths);
        self.factors = scaled.factors;
        self.dtypes.operands = scaled::DTYPES.operands;
        Ok(())
    }

    /// What cooperative matrices multiply, where the device has them and all rows lie as they want it.
    fn fragment(&self, ctx: &Ctx<'_>) -> Option<Fragment> {
        let (caps, config) = (ctx.capabilities(), ctx.config());
        let inputs = [&self.q, &self.k, &self.v, &self.result, &self.cotangent];
        let outputs = [&self.by_q, &self.by_k, &self.by_v];
        let strides = |[a, b]: [&Heads; 2]| {
            fragment(self.dtypes.operands, [a.strides[2], b.strides[2]], caps, config)
        };
        strides([&self.k, &self.v])?;
        strides([&self.result, &self.cotangent])?;
        let all = inputs.into_iter().chain(outputs);
        all.clone().all(Heads::vectors).then(|| strides([&self.q, &self.by_q]))?
    }

    /// Rows that a pass goes over, and in how many heads.
    fn kept(&self, pass: u32) -> [usize; 2] {
        let s = &self.sizes;
        match pass {
            passes::KEYS_PASS => [s.keys, s.batches * s.kv_heads],
            _ => [s.queries, s.batches * s.heads],
        }
    }

    /// Encodes a pass on cooperative matrices.
    fn run_matrix(&self, ctx: &mut Ctx<'_>, plan: Matrix, pass: u32) -> Result<()> {
        let kernels =
            [matrices::ATTENTION_VJP_MATRIX_FLOAT16, matrices::ATTENTION_VJP_MATRIX_BFLOAT16];
        let Dtypes { operands, result } = self.dtypes;
        let constants = matrices::Constants {
            workgroup: plan.threads(),
            dtype: operands as u32,
            // It looks whether it may.
            flags: matrices::REGISTERS_FLAG | bit(plan.prefetch, matrices::PREFETCH_FLAG),
            pass,
            blocks: plan.blocks,
            subgroup: plan.subgroup,
            walked: plan.walked,
            key_width: self.sizes.key_width as u32,
            value_width: self.sizes.value_width as u32,
            mask: self.kind,
            out_dtype: result as u32,
        };
        let pipeline = matrix_pipeline(ctx, kernels, operands, &constants);
        let [rows, heads] = self.kept(pass);
        self.dispatch(ctx, &pipeline, pass, rows.div_ceil(plan.rows() as usize) * heads)
    }

    /// Encodes a pass of the kernel that runs anywhere.
    fn run(&self, ctx: &mut Ctx<'_>, plan: Plan, pass: u32) -> Result<()> {
        let s = &self.sizes;
        let width = match pass {
            passes::ROWS_PASS => 0,
            passes::QUERIES_PASS => s.key_width,
            _ => s.key_width.max(s.value_width),
        };
        let constants = Constants {
            workgroup: plan.threads(),
            dtype: self.dtypes.operands as u32,
            flags: bit(self.is_vector(), lanes::VECTOR_FLAG),
            pass,
            block: plan.block,
            columns: plan.columns(width),
            mask: self.kind,
        };
        let pipeline = ctx.pipeline(lanes::ATTENTION_VJP, &constants);
        let [rows, heads] = self.kept(pass);
        self.dispatch(ctx, &pipeline, pass, plan.blocks(rows) * heads * plan.shares(width))
    }

    /// Encodes a pass of so many workgroups of work: fewer than there are rows, but for very wide heads.
    fn dispatch(
        &self,
        ctx: &mut Ctx<'_>,
        pipeline: &PipelineOf<Push>,
        pass: u32,
        work: usize,
    ) -> Result<()> {
        if work == 0 {
            return Ok(());
        }
        let push = self.push(ctx)?;
        let groups = [ctx.capabilities().groups_1d(work as u64, 1), 1, 1];
        let writes: &[Region] = match pass {
            passes::ROWS_PASS => &[self.rows],
            passes::QUERIES_PASS => &[self.by_q.at.region],
            _ => &[self.by_k.at.region, self.by_v.at.region],
        };
        let reads = self.reads(pass == passes::ROWS_PASS);
        ctx.dispatch(&Dispatch { pipeline, push: &push, groups, reads: &reads, writes })
    }

    /// What a pass reads; but for the first one that is the rows, too.
    fn reads(&self, first: bool) -> [Region; 8] {
        let mask = self.mask.map_or(Region::default(), |(_, at)| at.region);
        let rows = if first { Region::default() } else { self.rows };
        let [q, k, v] = [&self.q, &self.k, &self.v].map(|h| h.at.region);
        [q, k, v, mask, self.result.at.region, self.cotangent.at.region, rows, self.factors]
    }

    /// Whether all rows are aligned quads.
    fn is_vector(&self) -> bool {
        let dtype = self.dtypes.operands;
        let of_keys = [&self.q, &self.k, &self.by_q, &self.by_k];
        let of_values = [&self.v, &self.result, &self.cotangent, &self.by_v];
        of_keys.iter().all(|h| h.quads(self.sizes.key_width, dtype))
            && of_values.iter().all(|h| h.quads(self.sizes.value_width, dtype))
    }

    fn push(&self, ctx: &mut Ctx<'_>) -> Result<Push> {
        let s = &self.sizes;
        Ok(Push {
            q: self.q.at.address,
            k: self.k.at.address,
            v: self.v.at.address,
            mask: self.mask.map_or(0, |(_, at)| at.address),
            result: self.result.at.address,
            cotangent: self.cotangent.at.address,
            by_q: self.by_q.at.address,
            by_k: self.by_k.at.address,
            by_v: self.by_v.at.address,
            rows: self.rows.address,
            strides: ctx.args(bytemuck::bytes_of(&self.strides()))?,
            factors: self.factors.address,
            batches: s.batches as u32,
            heads: s.heads as u32,
            kv_heads: s.kv_heads as u32,
            queries: s.queries as u32,
            keys: s.keys as u32,
            key_width: s.key_width as u32,
            value_width: s.value_width as u32,
            scale: self.scale,
        })
    }

    fn strides(&self) -> Strides {
        let mask = self.mask.as_ref().map(|&(array, _)| array);
        let [mask_batch, mask_head, mask_row, mask_key] = mask_strides(mask);
        Strides {
            q: self.q.strides,
            k: self.k.strides,
            v: self.v.strides,
            result: self.result.strides,
            cotangent: self.cotangent.strides,
            by_q: self.by_q.strides,
            by_k: self.by_k.strides,
            by_v: self.by_v.strides,
            mask_batch,
            mask_head,
            mask_row,
            mask_key,
        }
    }
}
