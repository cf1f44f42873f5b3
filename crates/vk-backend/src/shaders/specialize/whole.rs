//! What every module has to be, for the tests of what makes some.

use rspirv::{
    dr::{Block, Module, Operand},
    spirv::Op,
};
use rustc_hash::FxHashSet;

use super::flow;

/// Expects all that is named to be there, each block to end once, and where something depends on the way
/// there, exactly the blocks to be named that go there.
pub(crate) fn check_whole(module: &Module, what: &str) {
    let defined: FxHashSet<_> = module.all_inst_iter().filter_map(|i| i.result_id).collect();
    for instruction in module.all_inst_iter() {
        let named = instruction.operands.iter().filter_map(Operand::id_ref_any);
        for id in named.chain(instruction.result_type) {
            assert!(defined.contains(&id), "{what}: {instruction:?}");
        }
    }
    let blocks = || module.functions.iter().flat_map(|f| &f.blocks);
    for block in blocks() {
        let ends = block.instructions.iter().filter(|i| ends_blocks(i.class.opcode));
        assert_eq!(ends.count(), 1, "{what}: {:?}", block.label);
        check_phis(block, blocks());
    }
}

fn ends_blocks(op: Op) -> bool {
    use Op::{Branch, BranchConditional, Kill, Return, ReturnValue, Switch, Unreachable};
    matches!(op, Branch | BranchConditional | Kill | Return | ReturnValue | Switch | Unreachable)
}

fn check_phis<'a>(block: &Block, blocks: impl Iterator<Item = &'a Block>) {
    let phis: Vec<_> =
        block.instructions.iter().take_while(|i| i.class.opcode == Op::Phi).collect();
    if phis.is_empty() {
        return;
    }
    let label = block.label.as_ref().and_then(|l| l.result_id).unwrap();
    let goes_here = |b: &&Block| flow::labels(b.instructions.last().unwrap()).contains(&label);
    let from: FxHashSet<_> =
        blocks.filter(goes_here).filter_map(|b| b.label.as_ref()?.result_id).collect();
    for phi in phis {
        let named: FxHashSet<_> =
            phi.operands.chunks_exact(2).filter_map(|way| way[1].id_ref_any()).collect();
        assert_eq!(named, from, "{phi:?}");
    }
}
