//! What the elementwise families share: the kernel class of a dtype, and how operands are walked.

use mlx_vulkan_core::{Array, Dtype, Result, backend::Output, shape::Layout};

use super::{
    Ctx, Operand,
    layouts::operands,
    strided::{self, Walk},
};

/// Register type of a kernel: the `CLASS` define of its source, in that order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// float16, bfloat16 and float32, computed in float32.
    Float,
    /// Signed integers of at most 32 bits.
    Int,
    /// bool and unsigned integers of at most 32 bits.
    Uint,
    /// int64.
    Long,
    /// uint64.
    Ulong,
    /// complex64.
    Complex,
}

impl From<Dtype> for Class {
    fn from(dtype: Dtype) -> Self {
        match dtype {
            Dtype::Float16 | Dtype::Bfloat16 | Dtype::Float32 | Dtype::Float64 => Class::Float,
            Dtype::Int8 | Dtype::Int16 | Dtype::Int32 => Class::Int,
            Dtype::Bool | Dtype::Uint8 | Dtype::Uint16 | Dtype::Uint32 => Class::Uint,
            Dtype::Int64 => Class::Long,
            Dtype::Uint64 => Class::Ulong,
            Dtype::Complex64 => Class::Complex,
        }
    }
}

/// How an operand lies beside an output: the constants of `operands.glsl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Lies {
    /// As the output does.
    InOrder = operands::IN_ORDER,
    /// It is one element.
    One = operands::ONE,
    /// By shape and strides; the output is row-major.
    Walked = operands::WALKED,
}

/// How operands of one shape lie beside each other, and beside the output.
pub(crate) struct Operands<const N: usize> {
    pub(crate) lie: [Lies; N],
    /// The walk over all of them, if one is walked.
    walk: Option<Walk<N>>,
    /// The operand whose order the output takes, if not row-major.
    leader: Option<usize>,
}

impl<const N: usize> Operands<N> {
    pub(crate) fn new(arrays: [&Array; N]) -> Self {
        if let Order::Common(leader) = Order::of(&arrays) {
            let lies = |a: &Array| if is_dense(a) { Lies::InOrder } else { Lies::One };
            return Operands { lie: arrays.map(lies), walk: None, leader };
        }
        let walk = strided::walk(arrays);
        let lies = |k: usize| match () {
            () if walk.is_scalar(k) => Lies::One,
            () if walk.is_dense(k) => Lies::InOrder,
            () => Lies::Walked,
        };
        Operands { lie: std::array::from_fn(lies), walk: Some(walk), leader: None }
    }

    /// Memory for the output: of an operand that lies in its order and that nobody needs any more, because
    /// kernels read each element before they write it, or new.
    ///
    /// # Errors
    /// When memory or the device fails.
    pub(crate) fn destination(
        &self,
        ctx: &mut Ctx<'_>,
        arrays: [&Array; N],
        output: &mut Output,
    ) -> Result<Operand> {
        for (a, lies) in arrays.iter().zip(self.lie) {
            if lies == Lies::InOrder
                && let Some(taken) = ctx.donate(a, output)?
            {
                return Ok(taken);
            }
        }
        match self.leader {
            Some(leader) => ctx.output_like(output, layout_like(arrays[leader], output)),
            None => ctx.output(output),
        }
    }

    /// Elements that a thread takes at a time: four, where dtypes and alignment allow it.
    pub(crate) fn lanes(&self, at: [(Operand, Dtype); N], destination: (Operand, Dtype)) -> u32 {
        let is_narrow =
            |&(_, dtype): &(Operand, Dtype)| dtype.size() <= 4 && dtype != Dtype::Complex64;
        let is_aligned = |(at, dtype): (Operand, Dtype)| at.is_aligned(4 * dtype.size() as u64);
        let quads = match &self.walk {
            Some(walk) => walk.has_quads(at.map(|(at, dtype)| (at, dtype.size()))),
            None => at.iter().zip(self.lie).all(|(&at, lies)| lies == Lies::One || is_aligned(at)),
        };
        let wide = at.iter().all(is_narrow) && is_narrow(&destination) && is_aligned(destination);
        if wide && quads { 4 } else { 1 }
    }

    /// Address and number of axes of the walk, if there is one.
    ///
    /// # Errors
    /// When memory or the device fails.
    pub(crate) fn walk(&self, ctx: &mut Ctx<'_>) -> Result<(u64, u32)> {
        match &self.walk {
            Some(walk) => Ok((ctx.args(&walk.pack())?, walk.ndim())),
            None => Ok((0, 0)),
        }
    }
}

/// Workgroups for `count` elements of which a thread takes `lanes` at a time.
pub(crate) fn groups(ctx: &Ctx<'_>, count: u64, lanes: u32) -> [u32; 3] {
    let caps = ctx.capabilities();
    [caps.groups_1d(count.div_ceil(lanes.into()), caps.elementwise_workgroup().into()), 1, 1]
}

/// Whether a flat walk over the memory visits every element once.
pub(crate) fn is_dense(a: &Array) -> bool {
    let layout = &a.evaluated().layout;
    layout.flags.contiguous && layout.data_size == a.size()
}

/// The order of arrays of one shape beside each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// All are dense in the order of this one, or one element; none if all are one element.
    Common(Option<usize>),
    /// They have to be walked.
    None,
}

impl Order {
    pub(crate) fn of(arrays: &[&Array]) -> Order {
        let leads = |a: &Array| is_dense(a) && !is_one_element(a);
        let leader = arrays.iter().position(|a| leads(a));
        let follows = |a: &Array| {
            is_one_element(a)
                || is_dense(a) && leader.is_some_and(|leader| same_order(arrays[leader], a))
        };
        if arrays.iter().all(|a| follows(a)) { Order::Common(leader) } else { Order::None }
    }
}

/// Whether all elements are one element of memory.
pub(crate) fn is_one_element(a: &Array) -> bool {
    a.evaluated().layout.data_size == 1 || a.evaluated().layout.strides.iter().all(|&s| s == 0)
}

/// Whether two dense arrays of one shape lie in the same order.
fn same_order(a: &Array, b: &Array) -> bool {
    let (a, b) = (&a.evaluated().layout, &b.evaluated().layout);
    a.strides == b.strides || (a.flags.row_contiguous && b.flags.row_contiguous)
}

/// The layout of an output in the order of a dense input.
pub(crate) fn layout_like(a: &Array, output: &Output) -> Layout {
    debug_assert_eq!(a.shape(), output.shape.as_slice());
    Layout { offset: 0, ..a.evaluated().layout.clone() }
}
