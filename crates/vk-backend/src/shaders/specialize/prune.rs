//! What is never reached is taken out of a module, and what the rest has to do with it.
//!
//! The structure of what stays is kept: a construct whose end is not reached still has one.

use rspirv::{
    dr::{Block, Function, Instruction, Module, Operand},
    spirv::{Op, Word},
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{constants::Known, flow::labels};

/// What is reached of a module.
pub(super) struct Reached {
    /// Functions.
    pub(super) functions: FxHashSet<Word>,
    /// Labels of blocks.
    pub(super) blocks: FxHashSet<Word>,
    /// Where a block goes on that might have gone elsewhere, by its label.
    pub(super) ways: FxHashMap<Word, Word>,
}

/// Constants that the ends of blocks are made of, as far as the module has their types.
struct Constants {
    /// The bool that is true.
    yes: Option<Word>,
    /// Some number of 32 bits.
    number: Option<Word>,
}

/// Takes out what is not reached.
pub(super) fn prune(module: &mut Module, reached: &Reached, known: &Known) -> Option<()> {
    let constants = constants(module, known)?;
    module.functions.retain(|f| f.def_id().is_some_and(|id| reached.functions.contains(&id)));
    for function in &mut module.functions {
        shorten(function, reached, &constants)?;
    }
    // Names are for people, and those of what is gone would be wrong.
    module.debug_names.clear();
    let defined: FxHashSet<Word> = module.all_inst_iter().filter_map(|i| i.result_id).collect();
    module.annotations.retain(|annotation| match annotation.operands.first() {
        Some(Operand::IdRef(target)) => defined.contains(target),
        _ => true,
    });
    Some(())
}

fn constants(module: &mut Module, known: &Known) -> Option<Constants> {
    let number = module.types_global_values.iter().find_map(|i| {
        let is_number = i.class.opcode == Op::Constant;
        i.result_id.filter(|id| is_number && known.scalars.contains_key(id))
    });
    let bound = &mut module.header.as_mut()?.bound;
    let yes = known.bool_type.map(|_| *bound);
    if let Some(id) = yes {
        *bound += 1;
        let yes = Instruction::new(Op::ConstantTrue, known.bool_type, Some(id), Vec::new());
        module.types_global_values.push(yes);
    }
    Some(Constants { yes, number })
}

/// Keeps of a function's blocks those that are reached, and what their structure needs.
fn shorten(function: &mut Function, reached: &Reached, constants: &Constants) -> Option<()> {
    let phis = blocks_with_phis(function);
    let heads = heads_of_loops(function);
    for block in &mut function.blocks {
        let label = block.label.as_ref()?.result_id?;
        // A loop keeps its way back, even if that is never taken.
        let goes_back = |last: &Instruction, way: Word| {
            labels(last)
                .iter()
                .any(|l| *l != way && heads.contains(l) && reached.blocks.contains(l))
        };
        if let Some(&way) = reached.ways.get(&label)
            && !goes_back(block.instructions.last()?, way)
        {
            go_on(block, way, &phis, constants)?;
        }
    }
    let ends = ends(function, reached);
    let mut blocks = Vec::with_capacity(function.blocks.len());
    for mut block in function.blocks.drain(..) {
        let label = block.label.as_ref()?.result_id?;
        if reached.blocks.contains(&label) {
            blocks.push(block);
        } else if let Some(end) = ends.get(&label) {
            block.instructions = vec![end.clone()];
            blocks.push(block);
        }
    }
    function.blocks = blocks;
    settle_phis(function, reached)
}

/// Lets a block go on to `way` alone, and leaves the end of its construct where it is.
fn go_on(
    block: &mut Block,
    way: Word,
    phis: &FxHashMap<Word, Vec<Word>>,
    constants: &Constants,
) -> Option<()> {
    let label = block.label.as_ref()?.result_id?;
    let last = block.instructions.pop()?;
    let merge = block.instructions.last().filter(|i| i.class.opcode == Op::SelectionMerge);
    let end = merge.and_then(|merge| merge.operands[0].id_ref_any());
    let branch = |op: Op, operands: &[Word]| {
        Instruction::new(op, None, None, operands.iter().map(|&id| Operand::IdRef(id)).collect())
    };
    let last = match end {
        None => branch(Op::Branch, &[way]),
        Some(end) if end == way => {
            block.instructions.pop();
            branch(Op::Branch, &[way])
        }
        // Others may leave for the end from within.
        Some(_) if last.class.opcode == Op::Switch => branch(Op::Switch, &[constants.number?, way]),
        // A way to the end that was not there would have to be known to what depends on the way.
        Some(end) if phis.get(&end).is_some_and(|from| !from.contains(&label)) => {
            branch(Op::Switch, &[constants.number?, way])
        }
        Some(end) => branch(Op::BranchConditional, &[constants.yes?, way, end]),
    };
    block.instructions.push(last);
    Some(())
}

/// The blocks that loops begin with.
fn heads_of_loops(function: &Function) -> FxHashSet<Word> {
    let begins =
        |block: &&Block| block.instructions.iter().any(|i| i.class.opcode == Op::LoopMerge);
    function.blocks.iter().filter(begins).filter_map(|b| b.label.as_ref()?.result_id).collect()
}

/// The blocks that begin with what depends on the way there, and the ways that they know.
fn blocks_with_phis(function: &Function) -> FxHashMap<Word, Vec<Word>> {
    let with_phis = function.blocks.iter().filter_map(|block| {
        let phi = block.instructions.first().filter(|i| i.class.opcode == Op::Phi)?;
        Some((block.label.as_ref()?.result_id?, ways_of(phi).map(|(_, from)| from).collect()))
    });
    with_phis.collect()
}

/// The values of something that depends on the way there, each with the block that it comes from.
fn ways_of(phi: &Instruction) -> impl Iterator<Item = (Word, Word)> {
    let ways = phi.operands.chunks_exact(2);
    ways.filter_map(|way| Some((way[0].id_ref_any()?, way[1].id_ref_any()?)))
}

/// The ends of constructs that are not reached, by their labels, and what they do: a loop's last block goes
/// back, the others are never run.
fn ends(function: &Function, reached: &Reached) -> FxHashMap<Word, Instruction> {
    let mut ends = FxHashMap::default();
    for block in &function.blocks {
        let label = block.label.as_ref().and_then(|label| label.result_id);
        let Some(label) = label.filter(|label| reached.blocks.contains(label)) else { continue };
        for merge in &block.instructions {
            let of_loop = merge.class.opcode == Op::LoopMerge;
            if !of_loop && merge.class.opcode != Op::SelectionMerge {
                continue;
            }
            let mut named = merge.operands.iter().filter_map(Operand::id_ref_any);
            let unreachable = Instruction::new(Op::Unreachable, None, None, Vec::new());
            ends.extend(named.next().map(|end| (end, unreachable)));
            let back = Instruction::new(Op::Branch, None, None, vec![Operand::IdRef(label)]);
            ends.extend(named.next().map(|last| (last, back)));
        }
    }
    ends
}

/// Takes ways out of what depends on them that are gone. New ones cannot be known.
fn settle_phis(function: &mut Function, reached: &Reached) -> Option<()> {
    let mut from = FxHashMap::<Word, FxHashSet<Word>>::default();
    for block in &function.blocks {
        let label = block.label.as_ref()?.result_id?;
        for next in labels(block.instructions.last()?) {
            from.entry(next).or_default().insert(label);
        }
    }
    for block in &mut function.blocks {
        let ways = from.remove(&block.label.as_ref()?.result_id?).unwrap_or_default();
        for phi in block.instructions.iter_mut().take_while(|i| i.class.opcode == Op::Phi) {
            let kept: Vec<_> = ways_of(phi).filter(|(_, from)| ways.contains(from)).collect();
            if kept.len() != ways.len() {
                return None;
            }
            // What came from a block that is never run is gone with it; any value serves.
            let (any, _) = *kept.iter().find(|(_, from)| reached.blocks.contains(from))?;
            let ids = kept.into_iter().flat_map(|(value, from)| {
                [if reached.blocks.contains(&from) { value } else { any }, from]
            });
            phi.operands = ids.map(Operand::IdRef).collect();
        }
    }
    Some(())
}
