//! Specialization constants become constants.

use rspirv::{
    dr::{Instruction, Module, Operand},
    spirv::{Decoration, Op, Word},
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::fold::{Value, fold_operands};

/// What a module's constants say.
#[derive(Default)]
pub(super) struct Known {
    /// The bits of numbers of 32 bits and of bools.
    pub(super) scalars: FxHashMap<Word, u32>,
    /// The types of such.
    pub(super) types: FxHashSet<Word>,
    /// The type of bools.
    pub(super) bool_type: Option<Word>,
    /// What composites are made of.
    composites: FxHashMap<Word, Vec<Word>>,
}

/// Gives the constants their values, and what is computed of them.
pub(super) fn put_in(module: &mut Module, constants: &[u32]) -> Option<Known> {
    let values = values(module, constants);
    let mut known = Known::default();
    for instruction in &mut module.types_global_values {
        if let Some(id) = instruction.result_id {
            known.become_constant(instruction, values.get(&id).copied())?;
            known.note(instruction, id);
        }
    }
    module.annotations.retain(|annotation| spec_id(annotation).is_none());
    Some(known)
}

/// The values of specialization constants by their ids.
fn values(module: &Module, constants: &[u32]) -> FxHashMap<Word, u32> {
    let of = |(target, id): (Word, u32)| Some((target, *constants.get(id as usize)?));
    module.annotations.iter().filter_map(spec_id).filter_map(of).collect()
}

/// The target of an annotation that makes it a specialization constant, and which one.
fn spec_id(annotation: &Instruction) -> Option<(Word, u32)> {
    match *annotation.operands {
        [
            Operand::IdRef(target),
            Operand::Decoration(Decoration::SpecId),
            Operand::LiteralBit32(id),
        ] => Some((target, id)),
        _ => None,
    }
}

impl Known {
    /// Makes of an instruction for specialization the one without, if it is one. `value` is what was asked
    /// for.
    fn become_constant(&self, instruction: &mut Instruction, value: Option<u32>) -> Option<()> {
        let (op, operands) = match instruction.class.opcode {
            op @ (Op::SpecConstantTrue | Op::SpecConstantFalse) => {
                let default = op == Op::SpecConstantTrue;
                (of_bool(value.map_or(default, |bits| bits != 0)), Vec::new())
            }
            Op::SpecConstant => match (value, &*instruction.operands) {
                (Some(bits), [Operand::LiteralBit32(_)]) => {
                    (Op::Constant, vec![Operand::LiteralBit32(bits)])
                }
                (None, default) => (Op::Constant, default.to_vec()),
                _ => return None,
            },
            Op::SpecConstantComposite => (Op::ConstantComposite, instruction.operands.clone()),
            Op::SpecConstantOp => match self.computed(instruction) {
                Value::Is(bits) if instruction.result_type == self.bool_type => {
                    (of_bool(bits != 0), Vec::new())
                }
                Value::Is(bits) => (Op::Constant, vec![Operand::LiteralBit32(bits)]),
                // The driver computes it.
                _ => return Some(()),
            },
            _ => return Some(()),
        };
        *instruction =
            Instruction::new(op, instruction.result_type, instruction.result_id, operands);
        Some(())
    }

    /// Whether the result is a number of 32 bits or a bool.
    pub(super) fn makes_scalar(&self, instruction: &Instruction) -> bool {
        instruction.result_type.is_some_and(|id| self.types.contains(&id))
    }

    /// The value of an operation on constants.
    fn computed(&self, instruction: &Instruction) -> Value {
        match &*instruction.operands {
            _ if !self.makes_scalar(instruction) => Value::Varies,
            [
                Operand::LiteralSpecConstantOpInteger(Op::CompositeExtract),
                Operand::IdRef(whole),
                Operand::LiteralBit32(index),
            ] => {
                let part = self.composites.get(whole).and_then(|parts| parts.get(*index as usize));
                part.map_or(Value::Varies, |part| self.value(*part))
            }
            [Operand::LiteralSpecConstantOpInteger(op), operands @ ..] => {
                fold_operands(*op, operands, |id| self.value(id))
            }
            _ => Value::Varies,
        }
    }

    /// What is known of a constant.
    fn value(&self, id: Word) -> Value {
        self.scalars.get(&id).map_or(Value::Varies, |&bits| Value::Is(bits))
    }

    fn note(&mut self, instruction: &Instruction, id: Word) {
        match (instruction.class.opcode, &*instruction.operands) {
            (Op::TypeBool, _) => {
                self.types.insert(id);
                self.bool_type = Some(id);
            }
            (Op::TypeInt, [Operand::LiteralBit32(32), ..]) => drop(self.types.insert(id)),
            (Op::ConstantTrue, _) => drop(self.scalars.insert(id, 1)),
            (Op::ConstantFalse, _) => drop(self.scalars.insert(id, 0)),
            (Op::Constant, [Operand::LiteralBit32(bits)]) if self.makes_scalar(instruction) => {
                self.scalars.insert(id, *bits);
            }
            (Op::ConstantComposite, parts) => {
                let ids = parts.iter().filter_map(Operand::id_ref_any);
                self.composites.insert(id, ids.collect());
            }
            _ => {}
        }
    }
}

fn of_bool(value: bool) -> Op {
    if value { Op::ConstantTrue } else { Op::ConstantFalse }
}
