//! The functions that are written for a program: loads, the steps as calls of the library, stores.
//!
//! A value is an id for each element that a thread takes. Results of steps are kept as exact as they are
//! computed, and rounded to their dtype when another step reads them, which gives the bits that a store and a
//! load between two kernels would give.
//!
//! Rounding to bfloat16 takes more instructions than most operations, and so does what is rare. Where threads
//! take several elements, they round by floats and look, before they store, whether that went well; if not,
//! the elements are done again one by one, exactly. Rounding to float16 never fails.

mod memory;

use std::mem;

use mlx_vulkan_core::{
    Dtype,
    primitives::{BinaryOp, CopyOp, Primitive, ProgramStep, UnaryOp},
};
use rspirv::{
    dr::{Block, Function, Instruction, Operand},
    spirv::{FunctionControl, LoopControl, Op, SelectionControl, Word},
};
use smallvec::SmallVec;

use super::{
    form::Form,
    library::{LIBRARY, Type},
    link::Linker,
    rounding::{Rounding, has_near, is_exact, is_half, is_narrow, passes_nan},
};
use crate::kernels::elementwise::Class;

/// Ids of a value's elements.
type Elements = SmallVec<[Word; 8]>;

impl Class {
    /// The type of an element.
    fn element(self) -> Type {
        match self {
            Class::Float => Type::Float,
            Class::Int => Type::Int,
            Class::Uint => Type::Uint,
            Class::Long => Type::Long,
            Class::Ulong => Type::Ulong,
            Class::Complex => Type::Vector(2),
        }
    }

    /// The type of four elements, of narrow classes.
    fn four(self) -> Option<Type> {
        match self {
            Class::Float => Some(Type::Vector(4)),
            Class::Int => Some(Type::Ints),
            Class::Uint => Some(Type::Uints),
            Class::Long | Class::Ulong | Class::Complex => None,
        }
    }

    /// How the compiler writes an element in the name of a function.
    fn code(self) -> &'static str {
        match self {
            Class::Float => "f1;",
            Class::Int => "i1;",
            Class::Uint => "u1;",
            Class::Long => "i641;",
            Class::Ulong => "u641;",
            Class::Complex => "vf2;",
        }
    }
}

/// A value of the program.
struct Value {
    dtype: Dtype,
    rounding: Rounding,
    computed: Elements,
    /// What is left of it in its dtype.
    rounded: Option<Elements>,
}

/// A function that is being written.
pub(super) struct Body<'a> {
    form: &'a Form,
    linker: &'a mut Linker,
    lanes: usize,
    /// Whether functions take what is rare for doubtful.
    near: bool,
    /// Whether rounding may make NaN of what is large.
    overflows: bool,
    blocks: Vec<Block>,
    /// Of the block that is not in `blocks` yet.
    label: Word,
    instructions: Vec<Instruction>,
    values: Vec<Value>,
    /// The first element.
    at: Word,
    /// Its lane, among those that threads take.
    lane: Word,
}

/// Writes the function `id` for `lanes` elements; `like` is the library's that it stands for.
pub(super) fn write(linker: &mut Linker, form: &Form, lanes: usize, id: Word, like: &str) {
    let overflows = lanes > 1 && form.rounds_to(Dtype::Bfloat16);
    let near = overflows || lanes > 1 && form.rounds_to(Dtype::Float16);
    let library = LIBRARY.function(LIBRARY.named(like));
    let (at, label, lane) = (linker.id(), linker.id(), linker.constant(Type::Uint, 0));
    let (blocks, instructions, values) = (Vec::new(), Vec::new(), Vec::new());
    let mut body = Body {
        form,
        linker,
        lanes,
        near,
        overflows,
        blocks,
        label,
        instructions,
        values,
        at,
        lane,
    };
    body.elements();
    body.effect(Op::Return, Vec::new());
    // The next one is never written.
    body.begin(0);
    let blocks = body.blocks;
    let function_type = library.def.as_ref().map(|def| def.operands[1].clone());
    let operands = vec![Operand::FunctionControl(FunctionControl::NONE)];
    let operands = operands.into_iter().chain(function_type).collect();
    let instruction = |op, of: Option<Type>, id| {
        Instruction::new(op, of.map(|of| LIBRARY.type_id(of)), Some(id), Vec::new())
    };
    linker.add(Function {
        def: Some(Instruction { operands, ..instruction(Op::Function, Some(Type::Void), id) }),
        end: Some(Instruction::new(Op::FunctionEnd, None, None, Vec::new())),
        parameters: vec![instruction(Op::FunctionParameter, Some(Type::Ulong), at)],
        blocks,
    });
}

impl Body<'_> {
    fn push(&mut self, op: Op, of: Type, operands: Vec<Operand>) -> Word {
        let id = self.linker.id();
        self.push_as(id, op, of, operands);
        id
    }

    /// The same with an id that is known already.
    fn push_as(&mut self, id: Word, op: Op, of: Type, operands: Vec<Operand>) {
        self.instructions.push(Instruction::new(op, Some(LIBRARY.type_id(of)), Some(id), operands));
    }

    /// An instruction without a result.
    fn effect(&mut self, op: Op, operands: Vec<Operand>) {
        self.instructions.push(Instruction::new(op, None, None, operands));
    }

    fn branch(&mut self, to: Word) {
        self.effect(Op::Branch, vec![Operand::IdRef(to)]);
    }

    /// Ends the block, whose last instruction says what is next, and begins another.
    fn begin(&mut self, label: Word) {
        let ended = mem::replace(&mut self.label, label);
        let ended = Instruction::new(Op::Label, None, Some(ended), Vec::new());
        let instructions = mem::take(&mut self.instructions);
        self.blocks.push(Block { label: Some(ended), instructions });
    }

    /// Nothing is doubtful yet.
    fn trust(&mut self) {
        if self.near {
            self.call(Type::Void, "trust(", None, &[]);
        }
    }

    /// Looks for NaN among floats that may come of numbers too large to be rounded.
    fn doubt(&mut self, elements: &[Word]) {
        for four in elements.chunks_exact(4) {
            let four = self.ids(Op::CompositeConstruct, Type::Vector(4), four);
            self.call(Type::Void, "doubt(vf4;", None, &[four]);
        }
    }

    /// The same among elements of a value, if they are floats that were computed.
    fn doubt_value(&mut self, value: usize) {
        let is_float = Class::from(self.values[value].dtype) == Class::Float;
        if self.overflows && is_float && value >= self.form.program.inputs {
            let elements = self.rounded(value);
            self.doubt(&elements);
        }
    }

    /// What is done with the elements.
    fn elements(&mut self) {
        self.load();
        self.trust();
        let form = self.form;
        form.program.steps.iter().for_each(|step| self.step(step));
        let end = self.check();
        self.store();
        self.take();
        if let Some(end) = end {
            self.branch(end);
            self.begin(end);
        }
    }

    /// Looks for doubt in all results, and does again what is doubtful. Gives the label behind what is done
    /// otherwise.
    fn check(&mut self) -> Option<Word> {
        if !self.near {
            return None;
        }
        for nth in 0..self.form.program.outputs.len() {
            self.doubt_value(self.form.output(nth));
        }
        let is = self.call(Type::Bool, "is_doubtful(", None, &[]);
        let [again, sure, end] = [self.linker.id(), self.linker.id(), self.linker.id()];
        let none = Operand::SelectionControl(SelectionControl::NONE);
        self.effect(Op::SelectionMerge, vec![Operand::IdRef(end), none]);
        let targets = [is, again, sure].map(Operand::IdRef).to_vec();
        self.effect(Op::BranchConditional, targets);
        self.begin(again);
        self.one_by_one();
        self.branch(end);
        self.begin(sure);
        Some(end)
    }

    /// A loop that takes the elements one after the other, exactly.
    ///
    /// It calls no function for an element: NVIDIA's compiler (driver 580.159) crashes on a chain that ends
    /// with a sum where it inlines one here (docs/experiments/chains.md).
    fn one_by_one(&mut self) {
        let [head, one, next, end] = [(); 4].map(|()| self.linker.id());
        let [lane, following] = [(); 2].map(|()| self.linker.id());
        let (before, zero, step) = (self.label, self.uint(0), self.uint(1));
        self.branch(head);
        self.begin(head);
        let from = [zero, before, following, next].map(Operand::IdRef).to_vec();
        self.push_as(lane, Op::Phi, Type::Uint, from);
        let lanes = self.uint(self.lanes as u32);
        let goes_on = self.ids(Op::ULessThan, Type::Bool, &[lane, lanes]);
        let control = Operand::LoopControl(LoopControl::DONT_UNROLL);
        self.effect(Op::LoopMerge, vec![Operand::IdRef(end), Operand::IdRef(next), control]);
        self.effect(Op::BranchConditional, [goes_on, one, end].map(Operand::IdRef).to_vec());
        self.begin(one);
        self.one_element(lane);
        self.branch(next);
        self.begin(next);
        self.push_as(following, Op::IAdd, Type::Uint, [lane, step].map(Operand::IdRef).to_vec());
        self.branch(head);
        self.begin(end);
    }

    /// What is done with one of the elements, exactly.
    fn one_element(&mut self, lane: Word) {
        let distance = self.ids(Op::UConvert, Type::Ulong, &[lane]);
        let at = self.ids(Op::IAdd, Type::Ulong, &[self.at, distance]);
        let all = (self.lanes, self.near, self.at, self.lane, mem::take(&mut self.values));
        (self.lanes, self.near, self.at, self.lane) = (1, false, at, lane);
        self.elements();
        (self.lanes, self.near, self.at, self.lane, self.values) = all;
    }

    fn ids(&mut self, op: Op, of: Type, ids: &[Word]) -> Word {
        self.push(op, of, ids.iter().map(|&id| Operand::IdRef(id)).collect())
    }

    /// Calls a function of the library, for one operation if it applies one.
    fn call(&mut self, of: Type, name: &str, operation: Option<u32>, arguments: &[Word]) -> Word {
        let function = self.linker.copy(name, operation);
        let ids = std::iter::once(function).chain(arguments.iter().copied());
        self.push(Op::FunctionCall, of, ids.map(Operand::IdRef).collect())
    }

    fn uint(&mut self, value: u32) -> Word {
        self.linker.constant(Type::Uint, value.into())
    }

    fn dtype(&mut self, dtype: Dtype) -> Word {
        self.uint(dtype as u32)
    }

    /// Elements of a composite.
    fn extract(&mut self, of: Type, composite: Word, path: &[u32]) -> Word {
        let path = path.iter().map(|&index| Operand::LiteralBit32(index));
        let operands = std::iter::once(Operand::IdRef(composite)).chain(path).collect();
        self.push(Op::CompositeExtract, of, operands)
    }

    /// Each element of a value in its dtype.
    fn rounded(&mut self, value: usize) -> Elements {
        let Value { dtype, rounding, computed, rounded } = &self.values[value];
        if let Some(rounded) = rounded {
            return rounded.clone();
        }
        let (dtype, rounding, computed) = (*dtype, *rounding, computed.clone());
        let class = Class::from(dtype);
        let number = self.dtype(dtype);
        let function = match (dtype, rounding) {
            (Dtype::Float16, _) => Some("rounded_halves(vf4;"),
            (Dtype::Bfloat16, Rounding::Near) => Some("rounded_near(vf4;"),
            (Dtype::Bfloat16, Rounding::Sum) => Some("rounded_sum(vf4;"),
            _ => None,
        };
        let rounded = if let Some(function) = function.filter(|_| self.near) {
            self.rounded_together(&computed, function)
        } else {
            let name = format!("rounded(u1;{}", class.code());
            let one = |&element| self.call(class.element(), &name, None, &[number, element]);
            computed.iter().map(one).collect()
        };
        self.values[value].rounded = Some(rounded.clone());
        rounded
    }

    /// Floats as halves, by a function that rounds four.
    fn rounded_together(&mut self, computed: &[Word], name: &str) -> Elements {
        let mut rounded = Elements::new();
        for four in computed.chunks_exact(4) {
            let four = self.ids(Op::CompositeConstruct, Type::Vector(4), four);
            let four = self.call(Type::Vector(4), name, None, &[four]);
            for lane in 0..4 {
                rounded.push(self.extract(Type::Float, four, &[lane]));
            }
        }
        rounded
    }

    /// Computes a step.
    fn step(&mut self, step: &ProgramStep) {
        let read: SmallVec<[Elements; 3]> =
            step.inputs.iter().map(|&value| self.rounded(value)).collect();
        let dtype = self.form.dtypes[self.values.len()];
        if self.near && !passes_nan(&step.primitive, dtype) {
            step.inputs.iter().for_each(|&value| self.doubt_value(value));
        }
        // Of a selection the last inputs have the dtype, the first is its condition.
        let last = *step.inputs.last().expect("elementwise steps read something");
        let source = self.values[last].dtype;
        let computed: Elements = (0..self.lanes)
            .map(|lane| {
                let arguments: SmallVec<[Word; 3]> = read.iter().map(|of| of[lane]).collect();
                self.element(&step.primitive, source, dtype, &arguments)
            })
            .collect();
        let rounded =
            (!is_narrow(dtype) || is_exact(&step.primitive, dtype)).then(|| computed.clone());
        let rounding = Rounding::of(&step.primitive);
        self.values.push(Value { dtype, rounding, computed, rounded });
    }

    /// Computes an element of a step from others of dtype `source`.
    fn element(
        &mut self,
        primitive: &Primitive,
        source: Dtype,
        dtype: Dtype,
        read: &[Word],
    ) -> Word {
        let from = Class::from(source);
        let (code, of) = (from.code(), from.element());
        let near = self.near && is_half(source);
        match primitive {
            &Primitive::Unary(op) if near && has_near(op, source) => {
                let arguments = [self.uint(op as u32), read[0]];
                self.call(of, "unary_near(u1;f1;", Some(op as u32), &arguments)
            }
            &Primitive::Binary(op @ (BinaryOp::Divide | BinaryOp::Maximum | BinaryOp::Minimum))
                if near =>
            {
                let arguments = [self.uint(op as u32), read[0], read[1]];
                self.call(of, "binary_near(u1;f1;f1;", Some(op as u32), &arguments)
            }
            &Primitive::Unary(op @ (UnaryOp::Abs | UnaryOp::Real | UnaryOp::Imag))
                if from == Class::Complex =>
            {
                let number = self.uint(op as u32);
                self.call(Type::Float, "unary_real(u1;vf2;", Some(op as u32), &[number, read[0]])
            }
            &Primitive::Unary(op) => {
                let (number, of_dtype) = (self.uint(op as u32), self.dtype(source));
                let arguments = [number, of_dtype, read[0]];
                self.call(of, &format!("unary(u1;u1;{code}"), Some(op as u32), &arguments)
            }
            &Primitive::Binary(op) if op.is_predicate() => self.comparison(op, from, read),
            &Primitive::Binary(op) => {
                let (number, of_dtype) = (self.uint(op as u32), self.dtype(source));
                let name = format!("binary(u1;u1;{code}{code}");
                let arguments = [number, of_dtype, read[0], read[1]];
                self.call(of, &name, Some(op as u32), &arguments)
            }
            Primitive::Ternary(_) => self.call(of, &format!("choose(u1;{code}{code}"), None, read),
            Primitive::Copy(CopyOp::AsType { .. }) => self.converted(from, dtype, read[0]),
            other => unreachable!("{} is no step of a chain", other.name()),
        }
    }

    fn comparison(&mut self, op: BinaryOp, from: Class, read: &[Word]) -> Word {
        let (number, code) = (self.uint(op as u32), from.code());
        let name = format!("compare(u1;{code}{code}");
        let is = self.call(Type::Bool, &name, Some(op as u32), &[number, read[0], read[1]]);
        let (yes, no) = (self.uint(1), self.uint(0));
        self.ids(Op::Select, Type::Uint, &[is, yes, no])
    }

    fn converted(&mut self, from: Class, dtype: Dtype, element: Word) -> Word {
        let to = Class::from(dtype);
        let name = match to {
            Class::Float => "to_float",
            Class::Int => "to_int",
            Class::Uint if dtype == Dtype::Bool => "to_bool",
            Class::Uint => "to_uint",
            Class::Long => "to_long",
            Class::Ulong => "to_ulong",
            Class::Complex => "to_complex",
        };
        self.call(to.element(), &format!("{name}({}", from.code()), None, &[element])
    }
}
