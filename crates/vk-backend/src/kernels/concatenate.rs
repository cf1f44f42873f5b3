//! Arrays one after the other: one dispatch for dense ones, else a copy of each.

use mlx_vulkan_core::{Array, Dtype, Result, backend::Output, shape};

use super::{
    Ctx, Dispatch, Operand, Region,
    copy::{self, StridedOperand},
    layouts::copy_join as join,
};

/// Bytes of words that are too narrow for results of more than so many bytes: copies that find wider ones in
/// some of the arrays take less time then.
const NARROW: (u64, u64) = (4, 1 << 20);

/// A dense array, and what it has of each row of the result.
struct Part {
    at: Operand,
    bytes: u64,
}

/// Encodes the inputs one after the other along an axis.
///
/// # Errors
/// When memory or the device fails.
pub(super) fn eval(
    ctx: &mut Ctx<'_>,
    inputs: &[Array],
    axis: usize,
    output: &mut Output,
) -> Result<()> {
    let to = ctx.output(output)?;
    let parts = parts(ctx, inputs, axis)?;
    let rows: usize = output.shape[..axis].iter().product();
    match parts.and_then(|parts| Some((word(&parts, rows as u64, to)?, parts))) {
        Some((word, parts)) => joined(ctx, &parts, rows as u64, word, to),
        None => one_by_one(ctx, inputs, axis, output, to),
    }
}

/// The inputs that have elements, if there are several and all of them are dense.
fn parts(ctx: &mut Ctx<'_>, inputs: &[Array], axis: usize) -> Result<Option<Vec<Part>>> {
    let some = || inputs.iter().filter(|input| input.size() > 0);
    let dense = |input: &Array| input.evaluated().layout.flags.row_contiguous;
    if some().count() < 2 || !some().all(dense) {
        return Ok(None);
    }
    let part = |input: &Array| {
        let row: usize = input.shape()[axis..].iter().product();
        Ok(Part { at: ctx.input(input)?, bytes: (row * input.dtype().size()) as u64 })
    };
    some().map(part).collect::<Result<Vec<Part>>>().map(Some)
}

/// Bytes of the words that all rows of all parts are made of, if one dispatch pays.
fn word(parts: &[Part], rows: u64, to: Operand) -> Option<u64> {
    let whole = |&word: &u64| {
        let fits = |part: &Part| part.bytes.is_multiple_of(word) && part.at.is_aligned(word);
        to.is_aligned(word) && parts.iter().all(fits)
    };
    let word = [16, 8, 4, 2, 1].into_iter().find(whole)?;
    let bytes = rows * parts.iter().map(|part| part.bytes).sum::<u64>();
    let narrow = word < NARROW.0 && bytes > NARROW.1;
    (!narrow && bytes / word < 1 << 31).then_some(word)
}

/// All parts by one dispatch.
fn joined(ctx: &mut Ctx<'_>, parts: &[Part], rows: u64, word: u64, to: Operand) -> Result<()> {
    let mut first = 0;
    let table: Vec<join::Part> = parts
        .iter()
        .map(|part| {
            let width = (part.bytes / word) as u32;
            let row = join::Part { source: part.at.address, first, width };
            first += width;
            row
        })
        .collect();
    let count = rows * u64::from(first);
    let push = join::Push {
        parts: ctx.args(bytemuck::cast_slice(&table))?,
        destination: to.address,
        count: count as u32,
        row: first,
        number: parts.len() as u32,
    };
    let workgroup = ctx.capabilities().elementwise_workgroup();
    let constants = join::Constants { workgroup, bytes: word as u32 };
    let pipeline = ctx.pipeline(join::JOIN_BYTES, &constants);
    let reads: Vec<Region> = parts.iter().map(|part| part.at.region).collect();
    let groups = [ctx.capabilities().groups_1d(count, u64::from(workgroup)), 1, 1];
    ctx.dispatch(&Dispatch {
        pipeline: &pipeline,
        push: &push,
        groups,
        reads: &reads,
        writes: &[to.region],
    })
}

fn one_by_one(
    ctx: &mut Ctx<'_>,
    inputs: &[Array],
    axis: usize,
    output: &Output,
    to: Operand,
) -> Result<()> {
    let dtype: Dtype = output.dtype;
    let strides = shape::row_major_strides(&output.shape);
    let mut at = 0isize;
    for input in inputs {
        let from = ctx.input(input)?;
        let target =
            copy::strided_part(to.address, input.shape(), &strides, at * strides[axis], dtype);
        let own = &input.evaluated().layout.strides;
        let from = StridedOperand { at: from, dtype: input.dtype(), strides: own };
        let to = StridedOperand { at: target, dtype, strides: &strides };
        copy::copy(ctx, input.shape(), from, to)?;
        at += input.shape()[axis] as isize;
    }
    Ok(())
}
