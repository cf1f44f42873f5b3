//! Instructions of a module, function after function.

use rspirv::{
    binary::Assemble,
    dr::{self, Operand},
    spirv::{self, Capability, Op, StorageClass, Word},
};
use rustc_hash::FxHashMap;

/// Instructions at most: some hundred times those of a large kernel.
const LONGEST: usize = 1 << 20;

/// A module that is being written.
pub(crate) struct Emitter {
    module: dr::Module,
    next: Word,
    /// Types and constants by their words, so that each is there once.
    globals: FxHashMap<Vec<u32>, Word>,
    capabilities: Vec<Capability>,
    /// Variables of the whole module, which the entry point has to name.
    interface: Vec<Word>,
    glsl: Word,
    /// How many instructions functions have.
    length: usize,
    function: Body,
}

/// The function that is being written.
#[derive(Default)]
struct Body {
    head: Vec<dr::Instruction>,
    variables: Vec<dr::Instruction>,
    blocks: Vec<dr::Block>,
    /// Where instructions go; nowhere behind a jump.
    at: Option<usize>,
}

/// A block to come back to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark(Option<usize>);

impl Emitter {
    pub(crate) fn new() -> Emitter {
        let mut emitter = Emitter {
            module: dr::Module::new(),
            next: 1,
            globals: FxHashMap::default(),
            capabilities: Vec::new(),
            interface: Vec::new(),
            glsl: 0,
            length: 0,
            function: Body::default(),
        };
        emitter.glsl = emitter.id();
        let name = Operand::LiteralString("GLSL.std.450".into());
        let import = instruction(Op::ExtInstImport, None, Some(emitter.glsl), vec![name]);
        emitter.module.ext_inst_imports.push(import);
        for needed in
            [Capability::Shader, Capability::Int64, Capability::PhysicalStorageBufferAddresses]
        {
            emitter.require(needed);
        }
        emitter
    }

    pub(crate) fn id(&mut self) -> Word {
        self.next += 1;
        self.next - 1
    }

    pub(crate) fn require(&mut self, capability: Capability) {
        if !self.capabilities.contains(&capability) {
            self.capabilities.push(capability);
        }
    }

    /// A type, a constant or a variable of the module; types and constants are there once.
    pub(crate) fn global(&mut self, op: Op, ty: Option<Word>, operands: Vec<Operand>) -> Word {
        let mut key = Vec::new();
        instruction(op, ty, None, operands.clone()).assemble_into(&mut key);
        if let Some(&id) = self.globals.get(&key) {
            return id;
        }
        let id = self.new_global(op, ty, operands);
        self.globals.insert(key, id);
        id
    }

    /// A type or a variable of its own, whatever else is like it.
    pub(crate) fn new_global(&mut self, op: Op, ty: Option<Word>, operands: Vec<Operand>) -> Word {
        let id = self.id();
        self.module.types_global_values.push(instruction(op, ty, Some(id), operands));
        id
    }

    /// A variable of the module, of a type that is no pointer.
    pub(crate) fn module_variable(
        &mut self,
        class: StorageClass,
        ty: Word,
        value: Option<Word>,
    ) -> Word {
        let pointer = self.pointer(class, ty);
        let mut operands = vec![Operand::StorageClass(class)];
        operands.extend(value.map(Operand::IdRef));
        let id = self.new_global(Op::Variable, Some(pointer), operands);
        self.interface.push(id);
        id
    }

    pub(crate) fn pointer(&mut self, class: StorageClass, ty: Word) -> Word {
        let operands = vec![Operand::StorageClass(class), Operand::IdRef(ty)];
        self.global(Op::TypePointer, None, operands)
    }

    pub(crate) fn int(&mut self, width: u32) -> Word {
        let operands = [width, 0].map(Operand::LiteralBit32);
        self.global(Op::TypeInt, None, operands.into())
    }

    pub(crate) fn float(&mut self, width: u32) -> Word {
        self.global(Op::TypeFloat, None, vec![Operand::LiteralBit32(width)])
    }

    pub(crate) fn bool(&mut self) -> Word {
        self.global(Op::TypeBool, None, Vec::new())
    }

    pub(crate) fn void(&mut self) -> Word {
        self.global(Op::TypeVoid, None, Vec::new())
    }

    pub(crate) fn vector(&mut self, of: Word, count: u32) -> Word {
        match count {
            1 => of,
            _ => {
                let operands = vec![Operand::IdRef(of), Operand::LiteralBit32(count)];
                self.global(Op::TypeVector, None, operands)
            }
        }
    }

    pub(crate) fn array(&mut self, of: Word, count: u32) -> Word {
        let count = self.uint(count);
        self.global(Op::TypeArray, None, [of, count].map(Operand::IdRef).into())
    }

    pub(crate) fn uint(&mut self, value: u32) -> Word {
        let ty = self.int(32);
        self.global(Op::Constant, Some(ty), vec![Operand::LiteralBit32(value)])
    }

    pub(crate) fn ulong(&mut self, value: u64) -> Word {
        let ty = self.int(64);
        self.global(Op::Constant, Some(ty), vec![Operand::LiteralBit64(value)])
    }

    pub(crate) fn annotate(&mut self, op: Op, operands: Vec<Operand>) {
        self.module.annotations.push(instruction(op, None, None, operands));
    }

    /// Keeps drivers from taking sums and quotients apart: some make x of (x + c) - c.
    pub(crate) fn keep_order(&mut self, sum: Word) {
        let decoration = Operand::Decoration(spirv::Decoration::NoContraction);
        self.annotate(Op::Decorate, vec![Operand::IdRef(sum), decoration]);
    }

    /// Begins a function. Its parameters have these types; their ids are given.
    pub(crate) fn begin_function(&mut self, id: Word, result: Word, of: &[Word]) -> Vec<Word> {
        let all = std::iter::once(result).chain(of.iter().copied());
        let ty = self.global(Op::TypeFunction, None, all.map(Operand::IdRef).collect());
        let control = Operand::FunctionControl(spirv::FunctionControl::NONE);
        let operands = vec![control, Operand::IdRef(ty)];
        let mut head = vec![instruction(Op::Function, Some(result), Some(id), operands)];
        let ids: Vec<Word> = of.iter().map(|_| self.id()).collect();
        let parameters = of.iter().zip(&ids);
        head.extend(
            parameters.map(|(&ty, &id)| {
                instruction(Op::FunctionParameter, Some(ty), Some(id), Vec::new())
            }),
        );
        self.function = Body { head, ..Body::default() };
        let label = self.id();
        self.begin(label);
        ids
    }

    pub(crate) fn end_function(&mut self) {
        let mut body = std::mem::take(&mut self.function);
        if let Some(first) = body.blocks.first_mut() {
            first.instructions.splice(0..0, body.variables);
        }
        let mut head = body.head.into_iter();
        self.module.functions.push(dr::Function {
            def: head.next(),
            parameters: head.collect(),
            blocks: body.blocks,
            end: Some(instruction(Op::FunctionEnd, None, None, Vec::new())),
        });
    }

    /// A variable of the function.
    pub(crate) fn variable(&mut self, ty: Word) -> Word {
        let pointer = self.pointer(StorageClass::Function, ty);
        let id = self.id();
        let class = vec![Operand::StorageClass(StorageClass::Function)];
        let variable = instruction(Op::Variable, Some(pointer), Some(id), class);
        self.function.variables.push(variable);
        id
    }

    /// Whether anything comes to where instructions go now.
    pub(crate) fn is_reached(&self) -> bool {
        self.function.at.is_some()
    }

    /// Begins a block.
    pub(crate) fn begin(&mut self, label: Word) {
        let label = instruction(Op::Label, None, Some(label), Vec::new());
        self.function.at = Some(self.function.blocks.len());
        self.function.blocks.push(dr::Block { label: Some(label), instructions: Vec::new() });
    }

    /// Whether there are more instructions than a kernel may have.
    pub(crate) fn is_full(&self) -> bool {
        self.length > LONGEST
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark(self.function.at)
    }

    /// Goes on in a block that no jump has ended.
    pub(crate) fn go_on(&mut self, mark: Mark) {
        self.function.at = mark.0;
    }

    fn push(&mut self, instruction: dr::Instruction) {
        self.length += 1;
        if self.is_full() {
            return;
        }
        if let Some(at) = self.function.at {
            self.function.blocks[at].instructions.push(instruction);
        }
    }

    /// An instruction that gives a value, of ids.
    pub(crate) fn op(&mut self, op: Op, ty: Word, ids: &[Word]) -> Word {
        self.op_of(op, ty, ids.iter().copied().map(Operand::IdRef).collect())
    }

    /// An instruction that gives a value.
    pub(crate) fn op_of(&mut self, op: Op, ty: Word, operands: Vec<Operand>) -> Word {
        let id = self.id();
        self.push(instruction(op, Some(ty), Some(id), operands));
        id
    }

    /// An instruction that gives nothing.
    pub(crate) fn act(&mut self, op: Op, operands: Vec<Operand>) {
        self.push(instruction(op, None, None, operands));
    }

    /// A function of GLSL's library.
    pub(crate) fn glsl(&mut self, function: spirv::GlslStd450Op, ty: Word, ids: &[Word]) -> Word {
        let mut operands =
            vec![Operand::IdRef(self.glsl), Operand::LiteralExtInstInteger(function as u32)];
        operands.extend(ids.iter().copied().map(Operand::IdRef));
        self.op_of(Op::ExtInst, ty, operands)
    }

    /// Part of a composite value.
    pub(crate) fn extract(&mut self, ty: Word, from: Word, part: u32) -> Word {
        let operands = vec![Operand::IdRef(from), Operand::LiteralBit32(part)];
        self.op_of(Op::CompositeExtract, ty, operands)
    }

    /// Ends a block.
    pub(crate) fn jump(&mut self, op: Op, ids: &[Word]) {
        self.act(op, ids.iter().copied().map(Operand::IdRef).collect());
        self.function.at = None;
    }

    /// Ends a block, unless a jump has ended it, and goes on elsewhere.
    pub(crate) fn jump_if_reached(&mut self, label: Word) {
        if self.is_reached() {
            self.jump(Op::Branch, &[label]);
        }
    }

    /// Ends a block with a choice, behind which all go on at `merge`.
    pub(crate) fn choose(&mut self, condition: Word, yes: Word, no: Word, merge: Word) {
        let none = Operand::SelectionControl(spirv::SelectionControl::NONE);
        self.act(Op::SelectionMerge, vec![Operand::IdRef(merge), none]);
        self.jump(Op::BranchConditional, &[condition, yes, no]);
    }

    /// Says where a loop, whose first block this is, ends and goes on.
    pub(crate) fn loop_merge(&mut self, merge: Word, next: Word) {
        let none = Operand::LoopControl(spirv::LoopControl::NONE);
        self.act(Op::LoopMerge, vec![Operand::IdRef(merge), Operand::IdRef(next), none]);
    }

    /// Ends a block with a choice by a number.
    pub(crate) fn switch(
        &mut self,
        value: Word,
        default: Word,
        cases: &[(u32, Word)],
        merge: Word,
    ) {
        let none = Operand::SelectionControl(spirv::SelectionControl::NONE);
        self.act(Op::SelectionMerge, vec![Operand::IdRef(merge), none]);
        let mut operands = vec![Operand::IdRef(value), Operand::IdRef(default)];
        for &(case, label) in cases {
            operands.extend([Operand::LiteralBit32(case), Operand::IdRef(label)]);
        }
        self.act(Op::Switch, operands);
        self.function.at = None;
    }

    /// The words of the module, whose entry point has groups of this size.
    pub(crate) fn finish(mut self, entry: Word, threadgroup: [u32; 3]) -> Vec<u32> {
        let mut header = dr::ModuleHeader::new(self.next);
        header.set_version(1, 5);
        self.module.header = Some(header);
        let capability =
            |&c: &Capability| instruction(Op::Capability, None, None, vec![Operand::Capability(c)]);
        self.module.capabilities = self.capabilities.iter().map(capability).collect();
        let model = vec![
            Operand::AddressingModel(spirv::AddressingModel::PhysicalStorageBuffer64),
            Operand::MemoryModel(spirv::MemoryModel::GLSL450),
        ];
        self.module.memory_model = Some(instruction(Op::MemoryModel, None, None, model));
        let mut point = vec![
            Operand::ExecutionModel(spirv::ExecutionModel::GLCompute),
            Operand::IdRef(entry),
            Operand::LiteralString("main".into()),
        ];
        point.extend(self.interface.iter().copied().map(Operand::IdRef));
        self.module.entry_points = vec![instruction(Op::EntryPoint, None, None, point)];
        let mut size =
            vec![Operand::IdRef(entry), Operand::ExecutionMode(spirv::ExecutionMode::LocalSize)];
        size.extend(threadgroup.map(Operand::LiteralBit32));
        self.module.execution_modes = vec![instruction(Op::ExecutionMode, None, None, size)];
        self.module.assemble()
    }
}

fn instruction(
    op: Op,
    ty: Option<Word>,
    id: Option<Word>,
    operands: Vec<Operand>,
) -> dr::Instruction {
    dr::Instruction::new(op, ty, id, operands)
}
