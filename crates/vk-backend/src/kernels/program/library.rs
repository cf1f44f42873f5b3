//! The library that programs are linked from: `shaders/program/program.comp` as compiled, with its functions
//! by name.

use std::sync::LazyLock;

use rspirv::{
    dr::{self, Function, Instruction, Operand},
    spirv::{Op, Word},
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::shaders::Kernel;

/// The library, read once.
pub(super) static LIBRARY: LazyLock<Library> = LazyLock::new(Library::new);

/// A module whose functions are copied into others.
pub(super) struct Library {
    /// Everything that modules linked from it share; no functions, names or annotations of functions.
    pub(super) base: dr::Module,
    functions: Vec<Function>,
    /// Functions by their names, such as `unary(u1;f1;`, and by their ids.
    by_name: FxHashMap<String, usize>,
    by_id: FxHashMap<Word, usize>,
    /// Annotations of ids inside of functions, such as `NoContraction`.
    annotations: FxHashMap<Word, Vec<Instruction>>,
    types: FxHashMap<Type, Word>,
}

/// A type of the library that the links between its functions need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Type {
    Void,
    Bool,
    Float,
    Int,
    Uint,
    Long,
    Ulong,
    /// Vectors of floats.
    Vector(u32),
    /// Vectors of four integers.
    Ints,
    Uints,
    /// Two columns of four floats.
    Matrix,
}

impl Library {
    fn new() -> Library {
        let words = Kernel::program.committed().expect("the registry marks it committed");
        let mut base = dr::load_bytes(words).expect("it is a module that spirv-val accepted");
        let functions = std::mem::take(&mut base.functions);
        let by_id = functions.iter().enumerate().map(|(i, f)| (id_of(f), i)).collect();
        let by_name = std::mem::take(&mut base.debug_names);
        let by_name = by_name.iter().filter_map(|name| named(name, &by_id)).collect();
        let inner: FxHashSet<Word> = functions
            .iter()
            .flat_map(Function::all_inst_iter)
            .filter_map(|i| i.result_id)
            .collect();
        let mut annotations: FxHashMap<Word, Vec<Instruction>> = FxHashMap::default();
        base.annotations.retain(|annotation| {
            let target = annotation.operands[0].id_ref_any().filter(|id| inner.contains(id));
            target.map(|id| annotations.entry(id).or_default().push(annotation.clone())).is_none()
        });
        base.debug_string_source.clear();
        base.debug_module_processed.clear();
        let types = types(&base);
        Library { base, functions, by_name, by_id, annotations, types }
    }

    /// The number of a function by its name with the types of its parameters.
    pub(super) fn named(&self, name: &str) -> usize {
        *self.by_name.get(name).unwrap_or_else(|| panic!("program.comp has no function {name}"))
    }

    /// The number of the function that a call names, if it names one.
    pub(super) fn called(&self, instruction: &Instruction) -> Option<usize> {
        if instruction.class.opcode != Op::FunctionCall {
            return None;
        }
        self.by_id.get(&instruction.operands[0].id_ref_any()?).copied()
    }

    pub(super) fn function(&self, number: usize) -> &Function {
        &self.functions[number]
    }

    /// Annotations of an id inside of a function.
    pub(super) fn annotations(&self, id: Word) -> &[Instruction] {
        self.annotations.get(&id).map_or(&[], Vec::as_slice)
    }

    pub(super) fn type_id(&self, of: Type) -> Word {
        self.types[&of]
    }
}

/// The id of a function.
pub(super) fn id_of(function: &Function) -> Word {
    function.def.as_ref().and_then(|def| def.result_id).expect("a function has an id")
}

/// The name and number of the function that an `OpName` is of, if it is of one.
fn named(name: &Instruction, by_id: &FxHashMap<Word, usize>) -> Option<(String, usize)> {
    match &name.operands[..] {
        [Operand::IdRef(id), Operand::LiteralString(text)] => Some((text.clone(), *by_id.get(id)?)),
        _ => None,
    }
}

/// The types that links need, as far as the module has them.
fn types(module: &dr::Module) -> FxHashMap<Type, Word> {
    let mut found: FxHashMap<Type, Word> = FxHashMap::default();
    for instruction in &module.types_global_values {
        let Some(id) = instruction.result_id else { continue };
        let is = |of: Type, at: usize| {
            found.get(&of).copied() == instruction.operands.get(at).and_then(Operand::id_ref_any)
        };
        let literal = |at: usize| match instruction.operands.get(at) {
            Some(Operand::LiteralBit32(value)) => Some(*value),
            _ => None,
        };
        let of = match (instruction.class.opcode, literal(0), literal(1)) {
            (Op::TypeVoid, ..) => Type::Void,
            (Op::TypeBool, ..) => Type::Bool,
            (Op::TypeFloat, Some(32), _) => Type::Float,
            (Op::TypeInt, Some(32), Some(0)) => Type::Uint,
            (Op::TypeInt, Some(32), Some(1)) => Type::Int,
            (Op::TypeInt, Some(64), Some(0)) => Type::Ulong,
            (Op::TypeInt, Some(64), Some(1)) => Type::Long,
            (Op::TypeVector, _, Some(count)) if is(Type::Float, 0) => Type::Vector(count),
            (Op::TypeVector, _, Some(4)) if is(Type::Int, 0) => Type::Ints,
            (Op::TypeVector, _, Some(4)) if is(Type::Uint, 0) => Type::Uints,
            (Op::TypeMatrix, _, Some(2)) if is(Type::Vector(4), 0) => Type::Matrix,
            _ => continue,
        };
        found.entry(of).or_insert(id);
    }
    found
}
