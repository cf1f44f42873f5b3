//! Linking: functions of the library are copied into a module of their own, with all that they call.
//!
//! The functions that apply an operation are one `switch` over all operations. A copy is made for one of
//! them and keeps its case alone, so that drivers compile nothing that a program does not need.

use rspirv::{
    binary::Assemble,
    dr::{self, Block, Function, Instruction, Operand},
    spirv::{Op, Word},
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::library::{LIBRARY, Type, id_of};

/// A module that is being linked.
pub(super) struct Linker {
    module: dr::Module,
    next: Word,
    /// Copies by the function's number and the operation that it is for.
    copies: FxHashMap<(usize, Option<u32>), Word>,
    /// Copies that are promised and not made yet.
    open: Vec<(usize, Option<u32>, Word)>,
    constants: FxHashMap<(Type, u64), Word>,
}

impl Linker {
    /// A module whose entry point is the library's, with other functions in place of `replaced`.
    pub(super) fn new(replaced: &[(&str, Word)]) -> Linker {
        let module = LIBRARY.base.clone();
        let next = module.header.as_ref().map_or(1, |header| header.bound) + replaced.len() as Word;
        let copies = replaced.iter().map(|&(name, id)| ((LIBRARY.named(name), None), id)).collect();
        let mut linker =
            Linker { module, next, copies, open: Vec::new(), constants: FxHashMap::default() };
        let main = linker.copy("main", None);
        linker.module.entry_points[0].operands[1] = Operand::IdRef(main);
        linker.module.execution_modes.iter_mut().for_each(|mode| {
            mode.operands[0] = Operand::IdRef(main);
        });
        linker
    }

    /// The ids that a linker gives to functions in place of the library's.
    pub(super) fn replacement(nth: usize) -> Word {
        LIBRARY.base.header.as_ref().map_or(1, |header| header.bound) + nth as Word
    }

    pub(super) fn id(&mut self) -> Word {
        self.next += 1;
        self.next - 1
    }

    /// The copy of the library's function of this name, for one operation if it applies one.
    pub(super) fn copy(&mut self, name: &str, operation: Option<u32>) -> Word {
        self.copy_of(LIBRARY.named(name), operation)
    }

    fn copy_of(&mut self, number: usize, operation: Option<u32>) -> Word {
        if let Some(&id) = self.copies.get(&(number, operation)) {
            return id;
        }
        let id = self.id();
        self.copies.insert((number, operation), id);
        self.open.push((number, operation, id));
        id
    }

    /// A constant by its bits.
    pub(super) fn constant(&mut self, of: Type, bits: u64) -> Word {
        if let Some(&id) = self.constants.get(&(of, bits)) {
            return id;
        }
        let id = self.id();
        let value = match of {
            Type::Long | Type::Ulong => Operand::LiteralBit64(bits),
            _ => Operand::LiteralBit32(bits as u32),
        };
        self.declare(Op::Constant, of, id, vec![value]);
        self.constants.insert((of, bits), id);
        id
    }

    /// The zero of a type.
    pub(super) fn null(&mut self, of: Type) -> Word {
        // No constant has this many bits of a 32-bit type set; nulls of wide types are constants.
        if matches!(of, Type::Long | Type::Ulong) {
            return self.constant(of, 0);
        }
        if let Some(&id) = self.constants.get(&(of, u64::MAX)) {
            return id;
        }
        let id = self.id();
        self.declare(Op::ConstantNull, of, id, Vec::new());
        self.constants.insert((of, u64::MAX), id);
        id
    }

    fn declare(&mut self, op: Op, of: Type, id: Word, operands: Vec<Operand>) {
        let of = LIBRARY.type_id(of);
        let instruction = Instruction::new(op, Some(of), Some(id), operands);
        self.module.types_global_values.push(instruction);
    }

    /// Adds a function that was written for this module.
    pub(super) fn add(&mut self, function: Function) {
        self.module.functions.push(function);
    }

    /// The words of the module with all that its functions call.
    pub(super) fn finish(mut self) -> Vec<u32> {
        while let Some((number, operation, id)) = self.open.pop() {
            let copied = self.copied(number, operation, id);
            self.module.functions.push(copied);
        }
        if let Some(header) = &mut self.module.header {
            header.bound = self.next;
        }
        self.module.assemble()
    }

    /// A function with ids of its own, which it has from now on as `id`.
    fn copied(&mut self, number: usize, operation: Option<u32>, id: Word) -> Function {
        let function = LIBRARY.function(number);
        let blocks = blocks(function, operation);
        let mut ids: FxHashMap<Word, Word> = FxHashMap::default();
        ids.insert(id_of(function), id);
        let labels = blocks.iter().filter_map(|block| block.label.as_ref());
        let inner = blocks.iter().flat_map(|block| &block.instructions);
        let results = function.parameters.iter().chain(labels).chain(inner);
        for old in results.filter_map(|instruction| instruction.result_id) {
            let new = self.id();
            ids.insert(old, new);
            for annotation in LIBRARY.annotations(old) {
                let mut annotation = annotation.clone();
                annotation.operands[0] = Operand::IdRef(new);
                self.module.annotations.push(annotation);
            }
        }
        let mut renamed = |instruction: &Instruction| self.renamed(instruction, &ids);
        Function {
            def: function.def.as_ref().map(&mut renamed),
            end: function.end.clone(),
            parameters: function.parameters.iter().map(&mut renamed).collect(),
            blocks: blocks
                .iter()
                .map(|block| Block {
                    label: block.label.as_ref().map(&mut renamed),
                    instructions: block.instructions.iter().map(&mut renamed).collect(),
                })
                .collect(),
        }
    }

    /// An instruction with other ids, and a call of a copy.
    fn renamed(&mut self, instruction: &Instruction, ids: &FxHashMap<Word, Word>) -> Instruction {
        let mut copied = instruction.clone();
        let new = |id: &mut Word| *id = ids.get(id).copied().unwrap_or(*id);
        copied.result_id.iter_mut().for_each(new);
        copied.operands.iter_mut().filter_map(Operand::id_ref_any_mut).for_each(new);
        if let Some(number) = LIBRARY.called(instruction) {
            copied.operands[0] = Operand::IdRef(self.copy_of(number, None));
        }
        copied
    }
}

/// The blocks of a function that can be reached, for one operation if it is a switch over them.
fn blocks(function: &Function, operation: Option<u32>) -> Vec<Block> {
    let selector = function.parameters.first().and_then(|parameter| parameter.result_id);
    let mut blocks = function.blocks.clone();
    if let (Some(operation), Some(selector)) = (operation, selector) {
        blocks.iter_mut().for_each(|block| choose(block, selector, operation));
    }
    let numbers: FxHashMap<Word, usize> = (0..)
        .zip(&blocks)
        .filter_map(|(number, block)| Some((block.label.as_ref()?.result_id?, number)))
        .collect();
    let mut reached = FxHashSet::from_iter([0]);
    let mut open = vec![0];
    while let Some(number) = open.pop() {
        let last = blocks[number].instructions.iter().rev().take(2);
        let labels = last.flat_map(|i| &i.operands).filter_map(Operand::id_ref_any);
        for next in labels.filter_map(|label| numbers.get(&label)) {
            if reached.insert(*next) {
                open.push(*next);
            }
        }
    }
    let mut number = 0..;
    blocks.retain(|_| number.next().is_some_and(|number| reached.contains(&number)));
    blocks
}

/// Goes on with the case of one operation where a block switches over all.
fn choose(block: &mut Block, selector: Word, operation: u32) {
    let Some(Instruction { class, operands, .. }) = block.instructions.last() else { return };
    if class.opcode != Op::Switch || operands[0] != Operand::IdRef(selector) {
        return;
    }
    let mut cases = operands[2..].chunks_exact(2);
    let case = cases.find(|case| case[0] == Operand::LiteralBit32(operation));
    let target = case.map_or(&operands[1], |case| &case[1]).clone();
    // The merge that belongs to the switch goes with it.
    block.instructions.truncate(block.instructions.len() - 2);
    block.instructions.push(Instruction::new(Op::Branch, None, None, vec![target]));
}
