//! What is done with a block: the loops of a chain's steps, and where their operands are.

use mlx_vulkan_core::{
    Dtype,
    chains::Chain,
    primitives::{CopyOp, Primitive},
};
use smallvec::{SmallVec, smallvec};

use crate::{binary, copy, elementwise::Loop, ternary, unary};

/// How an input's elements lie, as the walk over the outputs meets them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lies {
    /// As neighbours.
    InOrder,
    /// As one element that all read.
    Once,
    /// Anywhere.
    Strided,
    /// In the memory of this output, which overwrites them.
    Overwritten(usize),
}

impl Lies {
    /// Whether a block of it has to be copied before steps can read it.
    fn is_copied(self) -> bool {
        self != Lies::InOrder
    }
}

/// An operation on a block.
pub(super) struct Step {
    pub(super) run: Loop,
    /// The values that it reads.
    pub(super) reads: SmallVec<[usize; 3]>,
    /// The slot that it writes, which it does not read.
    pub(super) to: usize,
}

/// A chain as steps on blocks.
pub(super) struct Recipe {
    pub(super) lies: SmallVec<[Lies; 4]>,
    pub(super) steps: Vec<Step>,
    /// The slots of the values, inputs first: those of the outputs, then those of the block buffer. Inputs
    /// in order have none.
    pub(super) slots: SmallVec<[Option<usize>; 16]>,
    /// Bytes of an element of each value.
    pub(super) sizes: SmallVec<[usize; 16]>,
    /// Slots of the block buffer.
    pub(super) scratch: usize,
    /// Bytes of an element of the widest value.
    pub(super) widest: usize,
}

/// The loops of a chain's steps, if there are all of them.
pub(super) fn loops(chain: &Chain) -> Option<Vec<Loop>> {
    let inputs = chain.program.inputs;
    let steps = chain.program.steps.iter().zip(&chain.dtypes[inputs..]);
    steps.map(|(step, &to)| find(&step.primitive, chain.dtypes[step.inputs[0]], to)).collect()
}

/// The loop of a primitive whose first operand has the dtype `from` and whose result has the dtype `to`.
fn find(primitive: &Primitive, from: Dtype, to: Dtype) -> Option<Loop> {
    match *primitive {
        Primitive::Unary(op) => unary::kernel(op, from, to),
        Primitive::Binary(op) => binary::kernel(op, from),
        Primitive::Ternary(op) => Some(ternary::kernel(op, to)),
        Primitive::Copy(CopyOp::AsType { dtype }) => Some(copy::kernel(from, dtype)),
        _ => None,
    }
}

impl Recipe {
    /// The recipe of a chain with these loops, whose inputs lie so.
    pub(super) fn new(chain: &Chain, loops: Vec<Loop>, lies: SmallVec<[Lies; 4]>) -> Recipe {
        let (slots, scratch) = slots(chain, &lies);
        let steps = chain.program.steps.iter().zip(loops).zip(&slots[lies.len()..]);
        let steps = steps.map(|((step, run), slot)| Step {
            run,
            reads: step.inputs.clone(),
            to: slot.expect("steps write slots"),
        });
        let sizes: SmallVec<[usize; 16]> = chain.dtypes.iter().map(|dtype| dtype.size()).collect();
        Recipe {
            steps: steps.collect(),
            widest: sizes.iter().copied().max().unwrap_or(1),
            lies,
            slots,
            sizes,
            scratch,
        }
    }
}

/// The slots of values, and how many of them the block buffer has. A slot is used again once nobody reads
/// its value any more, so that there are few.
fn slots(chain: &Chain, lies: &[Lies]) -> (SmallVec<[Option<usize>; 16]>, usize) {
    let (steps, outputs) = (&chain.program.steps, &chain.program.outputs);
    let mut last_reads: SmallVec<[usize; 32]> = smallvec![0; lies.len() + steps.len()];
    for (i, step) in steps.iter().enumerate() {
        step.inputs.iter().for_each(|&value| last_reads[value] = i);
    }
    let mut count = outputs.len();
    let mut new = || {
        count += 1;
        count - 1
    };
    let mut slots: SmallVec<[Option<usize>; 16]> =
        lies.iter().map(|lies| lies.is_copied().then(&mut new)).collect();
    let mut free: SmallVec<[usize; 16]> = SmallVec::new();
    for (i, step) in steps.iter().enumerate() {
        let output = outputs.iter().position(|&output| output == i);
        slots.push(Some(output.or_else(|| free.pop()).unwrap_or_else(&mut new)));
        for (nth, &value) in step.inputs.iter().enumerate() {
            let again = step.inputs[..nth].contains(&value);
            // All blocks read what is copied once.
            let stays = last_reads[value] > i || lies.get(value) == Some(&Lies::Once);
            let own = slots[value].filter(|&slot| slot >= outputs.len());
            free.extend(own.filter(|_| !again && !stays));
        }
    }
    (slots, count - outputs.len())
}

#[cfg(test)]
mod tests {
    use mlx_vulkan_core::primitives::{BinaryOp, Program, ProgramStep};
    use proptest::{prelude::*, sample::Index, test_runner::RngSeed};

    use super::*;

    /// A chain of additions that read what `picks` say, and how its inputs lie.
    fn chain(lies: &[Lies], picks: &[[Index; 2]], kept: &[bool]) -> Chain {
        let inputs = lies.len();
        let steps = picks.iter().enumerate().map(|(i, picks)| ProgramStep {
            primitive: BinaryOp::Add.into(),
            inputs: picks.iter().map(|pick| pick.index(inputs + i)).collect(),
        });
        let last = picks.len() - 1;
        let outputs = (0..picks.len()).filter(|&i| kept[i] || i == last).collect();
        Chain {
            members: SmallVec::new(),
            kept: SmallVec::new(),
            inputs: SmallVec::new(),
            program: Program { inputs, steps: steps.collect(), outputs },
            dtypes: smallvec![Dtype::Float32; inputs + picks.len()],
        }
    }

    fn lies() -> impl Strategy<Value = Lies> {
        prop_oneof![Just(Lies::InOrder), Just(Lies::Once), Just(Lies::Strided)]
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 1000,
            failure_persistence: None,
            rng_seed: RngSeed::Fixed(1),
            ..Default::default()
        })]

        #[test]
        fn no_step_writes_where_something_is_still_read(
            lies in prop::collection::vec(lies(), 1..5),
            picks in prop::collection::vec(any::<[Index; 2]>(), 1..20),
            kept in prop::collection::vec(prop::bool::weighted(0.2), 20),
        ) {
            let chain = chain(&lies, &picks, &kept);
            let (slots, scratch) = slots(&chain, &lies);
            prop_assert!(slots.iter().flatten().all(|&slot| slot < chain.program.outputs.len() + scratch));
            for (i, step) in chain.program.steps.iter().enumerate() {
                let own = slots[lies.len() + i];
                for value in 0..lies.len() + i {
                    let reads = chain.program.steps[i..].iter().any(|step| step.inputs.contains(&value));
                    let is_output = value.checked_sub(lies.len()).is_some_and(|step| {
                        chain.program.outputs.contains(&step)
                    });
                    let lives = reads || is_output || lies.get(value) == Some(&Lies::Once);
                    prop_assert!(!lives || slots[value] != own, "{value} and {step:?}");
                }
            }
        }
    }

    #[test]
    fn a_long_chain_needs_two_slots() {
        let step = |value: usize| ProgramStep {
            primitive: BinaryOp::Add.into(),
            inputs: smallvec![value, 0],
        };
        let program = Program { inputs: 1, steps: (0..40).map(step).collect(), outputs: vec![39] };
        let (members, kept, inputs) = Default::default();
        let dtypes = smallvec![Dtype::Float32; 41];
        let chain = Chain { members, kept, inputs, program, dtypes };
        assert_eq!(slots(&chain, &[Lies::InOrder]).1, 2);
    }
}
