//! Which pointers can be followed: those to scalars that only loads, stores and calls use, of which the
//! latter load alone. The compiler makes such variables for arguments.

use rspirv::{
    dr::{Function, Instruction, Module, Operand},
    spirv::{Op, StorageClass, Word},
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::constants::Known;

/// Variables and parameters that can be followed.
pub(super) fn followed(module: &Module, known: &Known) -> FxHashSet<Word> {
    let types = types(module, known);
    let mut followed = parameters(module, &types);
    let uses = Uses::new(module, followed.clone());
    followed.extend(variables(module, &types));
    for instruction in instructions(module) {
        for (place, operand) in instruction.operands.iter().enumerate() {
            if let Some(used) = operand.id_ref_any()
                && !uses.is_plain(instruction, place)
            {
                followed.remove(&used);
            }
        }
    }
    followed
}

/// The types of pointers to scalars of a function's own.
fn types(module: &Module, known: &Known) -> FxHashSet<Word> {
    let own = Operand::StorageClass(StorageClass::Function);
    let is_one = |i: &&Instruction| {
        i.class.opcode == Op::TypePointer
            && i.operands[0] == own
            && i.operands[1].id_ref_any().is_some_and(|to| known.types.contains(&to))
    };
    module.types_global_values.iter().filter(is_one).filter_map(|i| i.result_id).collect()
}

/// Parameters of these types that are loaded and nothing else.
fn parameters(module: &Module, types: &FxHashSet<Word>) -> FxHashSet<Word> {
    let all = module.functions.iter().flat_map(|f| &f.parameters);
    let mut loaded: FxHashSet<Word> =
        all.filter(|i| is_of(i, types)).filter_map(|i| i.result_id).collect();
    for instruction in instructions(module) {
        let first = usize::from(instruction.class.opcode == Op::Load);
        for used in instruction.operands.iter().skip(first).filter_map(Operand::id_ref_any) {
            loaded.remove(&used);
        }
    }
    loaded
}

/// Variables of these types that begin with nothing.
fn variables(module: &Module, types: &FxHashSet<Word>) -> impl Iterator<Item = Word> {
    let all =
        instructions(module).filter(|i| i.class.opcode == Op::Variable && i.operands.len() == 1);
    all.filter(|i| is_of(i, types)).filter_map(|i| i.result_id)
}

fn is_of(instruction: &Instruction, types: &FxHashSet<Word>) -> bool {
    instruction.result_type.is_some_and(|id| types.contains(&id))
}

fn instructions(module: &Module) -> impl Iterator<Item = &Instruction> {
    module.functions.iter().flat_map(Function::all_inst_iter)
}

/// How pointers are used.
struct Uses<'a> {
    functions: FxHashMap<Word, &'a Function>,
    /// Parameters that are loaded and nothing else.
    loaded: FxHashSet<Word>,
}

impl<'a> Uses<'a> {
    fn new(module: &'a Module, loaded: FxHashSet<Word>) -> Self {
        let functions = module.functions.iter().filter_map(|f| Some((f.def_id()?, f))).collect();
        Uses { functions, loaded }
    }

    /// Whether a pointer at this place of an instruction is loaded or stored, here or where it is given to.
    fn is_plain(&self, instruction: &Instruction, place: usize) -> bool {
        match instruction.class.opcode {
            Op::Load | Op::Store => place == 0,
            Op::FunctionCall => {
                let parameter = || {
                    let callee = instruction.operands[0].id_ref_any()?;
                    let parameters = &self.functions.get(&callee)?.parameters;
                    parameters.get(place.checked_sub(1)?)?.result_id
                };
                parameter().is_some_and(|id| self.loaded.contains(&id))
            }
            _ => false,
        }
    }
}
