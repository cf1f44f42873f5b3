//! What a compiled module takes from the host: its push block, its specialization constants, and
//! the structs that it reads by address. All of it comes from the module's own words.

use crate::error::{Error, Result};
use rspirv::dr::{self, Instruction, Operand};
use rspirv::spirv::{Decoration, Op, StorageClass, Word};

/// The first word of a module.
const MAGIC: u32 = 0x0723_0203;
/// Words before the first instruction.
const HEADER: usize = 5;

/// What a module takes from the host.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Interface {
    pub(crate) push: Option<Struct>,
    /// In the order of their ids.
    pub(crate) constants: Vec<Constant>,
    /// Structs behind addresses, those with a size.
    pub(crate) memory: Vec<Struct>,
}

/// A struct with the places of its fields.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Struct {
    pub(crate) name: String,
    pub(crate) fields: Vec<Field>,
}

/// A field of a struct, `offset` bytes from its beginning.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) offset: u32,
    pub(crate) of: Type,
}

/// The type of a field.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Type {
    /// A number by the name of its Rust type, and its bytes. Addresses are `u64`.
    Number(&'static str, u32),
    /// So many of a type, dense.
    Array(Box<Type>, u32),
    Struct(Struct),
}

/// A specialization constant.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Constant {
    pub(crate) id: u32,
    /// None for the workgroup's size.
    pub(crate) name: Option<String>,
    pub(crate) default: Value,
}

/// A constant's default, and by it its type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value {
    Bool(bool),
    Uint(u32),
    Int(i32),
    Float(f32),
}

impl Struct {
    /// Bytes up to the end of the last field.
    pub(crate) fn size(&self) -> u32 {
        self.fields.iter().map(|field| field.offset + field.of.size()).max().unwrap_or(0)
    }
}

impl Type {
    pub(crate) fn size(&self) -> u32 {
        match self {
            Type::Number(_, bytes) => *bytes,
            Type::Array(of, count) => of.size() * count,
            Type::Struct(of) => of.size(),
        }
    }
}

/// Reads the interface of a module.
///
/// # Errors
/// When the bytes are no SPIR-V, names were stripped, or a type has no counterpart on the host.
pub(crate) fn interface(bytes: &[u8]) -> Result<Interface> {
    let words = declarations(bytes)?;
    let module = dr::load_words(&words).map_err(|state| Error::new(state.to_string()))?;
    let module = Reader { module: &module };
    Ok(Interface { push: module.push()?, constants: module.constants()?, memory: module.memory()? })
}

/// The words of a module up to its first function: nothing behind it says what the host gives.
fn declarations(bytes: &[u8]) -> Result<Vec<u32>> {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut words: Vec<u32> = words.iter().map(|&word| u32::from_le_bytes(word)).collect();
    if words.first() != Some(&MAGIC) || !rest.is_empty() {
        return Err(Error::new("not SPIR-V"));
    }
    let mut at = HEADER;
    while at < words.len() && words[at] & 0xffff != Op::Function as u32 {
        at += (words[at] >> 16).max(1) as usize;
    }
    words.truncate(at);
    Ok(words)
}

/// A parsed module.
struct Reader<'a> {
    module: &'a dr::Module,
}

impl Reader<'_> {
    fn push(&self) -> Result<Option<Struct>> {
        let is_push = |found: &&Instruction| {
            found.class.opcode == Op::Variable
                && found.operands.first()
                    == Some(&Operand::StorageClass(StorageClass::PushConstant))
        };
        let Some(variable) = self.module.types_global_values.iter().find(is_push) else {
            return Ok(None);
        };
        let pointer = self.definition(variable.result_type.unwrap_or_default())?;
        self.structure(self.definition(id(pointer, 1)?)?).map(Some)
    }

    fn constants(&self) -> Result<Vec<Constant>> {
        let mut found = Vec::new();
        for (target, number) in self.decorated(Decoration::SpecId) {
            found.push(self.constant(self.definition(target)?, number)?);
        }
        found.sort_by_key(|constant| constant.id);
        Ok(found)
    }

    fn constant(&self, found: &Instruction, id: u32) -> Result<Constant> {
        let name = found.result_id.and_then(|target| self.name(target, None));
        // The workgroup's size is declared by `local_size_x_id`, which has no name.
        let name = name.filter(|name| !name.is_empty());
        if name.is_none() && id != 0 {
            return Err(Error::new(format!("specialization constant {id} has no name")));
        }
        let of = found.result_type.map(|of| self.definition(of)).transpose()?;
        let default = match (found.class.opcode, of.map(|of| of.class.opcode)) {
            (Op::SpecConstantTrue, _) => Value::Bool(true),
            (Op::SpecConstantFalse, _) => Value::Bool(false),
            (Op::SpecConstant, Some(Op::TypeFloat)) => {
                Value::Float(f32::from_bits(literal(found, 0)?))
            }
            (Op::SpecConstant, Some(Op::TypeInt)) => {
                let signed = of.map(|of| literal(of, 1)).transpose()? == Some(1);
                let bits = literal(found, 0)?;
                if signed { Value::Int(bits as i32) } else { Value::Uint(bits) }
            }
            _ => return Err(Error::new(format!("specialization constant {id} is no scalar"))),
        };
        Ok(Constant { id, name, default })
    }

    /// The sized structs that pointers to memory lead to, themselves or as elements of an array.
    fn memory(&self) -> Result<Vec<Struct>> {
        let mut found = Vec::new();
        for pointer in &self.module.types_global_values {
            let memory = Operand::StorageClass(StorageClass::PhysicalStorageBuffer);
            if pointer.class.opcode != Op::TypePointer || pointer.operands.first() != Some(&memory)
            {
                continue;
            }
            let target = self.definition(id(pointer, 1)?)?;
            if let Some(of) = self.row(target)?
                && !found.contains(&of)
            {
                found.push(of);
            }
        }
        found.sort_by(|a: &Struct, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// The struct that is `target`, or that it is a list of.
    fn row(&self, target: &Instruction) -> Result<Option<Struct>> {
        if target.class.opcode != Op::TypeStruct {
            return Ok(None);
        }
        let last = target.operands.last().and_then(Operand::id_ref_any);
        let last = last.map(|last| self.definition(last)).transpose()?;
        match last {
            Some(list) if list.class.opcode == Op::TypeRuntimeArray => {
                let of = self.definition(id(list, 0)?)?;
                self.row(of)
            }
            _ => self.structure(target).map(Some),
        }
    }

    fn structure(&self, found: &Instruction) -> Result<Struct> {
        let target = found.result_id.unwrap_or_default();
        let name = self.named(target, None)?;
        let mut fields = Vec::new();
        for (index, of) in (0..).zip(&found.operands) {
            let of = of.id_ref_any().unwrap_or_default();
            let field = self.named(target, Some(index))?;
            let offset = self.offset(target, index);
            let offset =
                offset.ok_or_else(|| Error::new(format!("{name}.{field} has no offset")))?;
            let of =
                self.field_type(of).map_err(|why| Error::new(format!("{name}.{field}: {why}")))?;
            fields.push(Field { name: field, offset, of });
        }
        Ok(Struct { name, fields })
    }

    fn field_type(&self, of: Word) -> Result<Type> {
        let found = self.definition(of)?;
        match found.class.opcode {
            Op::TypeInt => number(literal(found, 0)?, literal(found, 1)? == 1),
            Op::TypeFloat if literal(found, 0)? == 32 => Ok(Type::Number("f32", 4)),
            // An address.
            Op::TypePointer => Ok(Type::Number("u64", 8)),
            Op::TypeVector => {
                Ok(Type::Array(Box::new(self.field_type(id(found, 0)?)?), literal(found, 1)?))
            }
            Op::TypeStruct => self.structure(found).map(Type::Struct),
            Op::TypeArray => {
                let element = self.field_type(id(found, 0)?)?;
                let stride =
                    self.decorated(Decoration::ArrayStride).find(|(target, _)| *target == of);
                if stride.is_none_or(|(_, stride)| stride != element.size()) {
                    return Err(Error::new("an array that is not dense"));
                }
                let count = literal(self.definition(id(found, 1)?)?, 0)?;
                Ok(Type::Array(Box::new(element), count))
            }
            other => Err(Error::new(format!("no type of the host is {other:?}"))),
        }
    }

    /// The instruction that makes `target`.
    fn definition(&self, target: Word) -> Result<&Instruction> {
        let all = &self.module.types_global_values;
        let found = all.iter().find(|found| found.result_id == Some(target));
        found.ok_or_else(|| Error::new(format!("nothing defines %{target}")))
    }

    /// Targets of a decoration with its number.
    fn decorated(&self, with: Decoration) -> impl Iterator<Item = (Word, u32)> {
        self.module.annotations.iter().filter_map(move |found| match found.operands.as_slice() {
            [
                Operand::IdRef(target),
                Operand::Decoration(decoration),
                Operand::LiteralBit32(number),
            ] if *decoration == with => Some((*target, *number)),
            _ => None,
        })
    }

    fn offset(&self, target: Word, index: u32) -> Option<u32> {
        self.module.annotations.iter().find_map(|found| match found.operands.as_slice() {
            [
                Operand::IdRef(of),
                Operand::LiteralBit32(member),
                Operand::Decoration(Decoration::Offset),
                Operand::LiteralBit32(offset),
            ] if (*of, *member) == (target, index) => Some(*offset),
            _ => None,
        })
    }

    fn named(&self, target: Word, member: Option<u32>) -> Result<String> {
        let what = || Error::new(format!("%{target} has no name: were names stripped?"));
        self.name(target, member).ok_or_else(what)
    }

    fn name(&self, target: Word, member: Option<u32>) -> Option<String> {
        self.module.debug_names.iter().find_map(|found| match found.operands.as_slice() {
            [Operand::IdRef(of), Operand::LiteralString(name)] => {
                (*of == target && member.is_none()).then(|| name.clone())
            }
            [Operand::IdRef(of), Operand::LiteralBit32(index), Operand::LiteralString(name)] => {
                (*of == target && member == Some(*index)).then(|| name.clone())
            }
            _ => None,
        })
    }
}

fn number(bits: u32, signed: bool) -> Result<Type> {
    let name = match (bits, signed) {
        (8, false) => "u8",
        (16, false) => "u16",
        (32, false) => "u32",
        (64, false) => "u64",
        (8, true) => "i8",
        (16, true) => "i16",
        (32, true) => "i32",
        (64, true) => "i64",
        _ => return Err(Error::new(format!("an integer of {bits} bits"))),
    };
    Ok(Type::Number(name, bits / 8))
}

/// The operand at `index`, an id.
fn id(of: &Instruction, index: usize) -> Result<Word> {
    let found = of.operands.get(index).and_then(Operand::id_ref_any);
    found.ok_or_else(|| Error::new(format!("{:?} without operand {index}", of.class.opcode)))
}

/// The operand at `index`, a word.
fn literal(of: &Instruction, index: usize) -> Result<u32> {
    match of.operands.get(index) {
        Some(Operand::LiteralBit32(word)) => Ok(*word),
        _ => Err(Error::new(format!("{:?} without operand {index}", of.class.opcode))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `testdata/interface.comp`, compiled as kernels are.
    const MODULE: &[u8] = include_bytes!("testdata/interface.spv");

    fn field(name: &str, offset: u32, of: Type) -> Field {
        Field { name: name.to_owned(), offset, of }
    }

    #[test]
    fn push_blocks_have_names_offsets_and_types() {
        let (u64_, f32_) = (Type::Number("u64", 8), Type::Number("f32", 4));
        let pair = Struct {
            name: "Pair".to_owned(),
            fields: vec![
                field("words", 0, u64_.clone()),
                field("step_", 8, Type::Number("i64", 8)),
            ],
        };
        let expected = [
            field("x", 0, u64_),
            field("pairs", 8, Type::Array(Box::new(Type::Struct(pair)), 2)),
            field("ends", 40, Type::Array(Box::new(Type::Number("u32", 4)), 3)),
            field("eps", 52, f32_.clone()),
            field("turn", 56, Type::Array(Box::new(f32_), 2)),
        ];
        let push = interface(MODULE).unwrap().push.unwrap();
        assert_eq!((push.name.as_str(), push.size()), ("Push", 64));
        assert_eq!(push.fields, expected);
    }

    #[test]
    fn constants_have_ids_names_and_defaults() {
        let constant = |id, name: Option<&str>, default| Constant {
            id,
            name: name.map(str::to_owned),
            default,
        };
        let expected = [
            constant(0, None, Value::Uint(1)),
            constant(1, Some("DTYPE"), Value::Uint(11)),
            constant(2, Some("VECTOR"), Value::Bool(true)),
            constant(4, Some("SHIFT"), Value::Int(-3)),
            constant(5, Some("SCALE"), Value::Float(0.5)),
        ];
        assert_eq!(interface(MODULE).unwrap().constants, expected);
    }

    #[test]
    fn structs_behind_addresses_are_found_and_lists_of_numbers_left_out() {
        let memory = interface(MODULE).unwrap().memory;
        let names: Vec<_> = memory.iter().map(|of| (of.name.as_str(), of.size())).collect();
        assert_eq!(names, [("Entry", 12), ("Header", 8)]);
    }

    #[test]
    fn other_bytes_are_an_error() {
        assert!(interface(b"no SPIR-V").is_err());
        assert!(interface(&MODULE[..MODULE.len() - 2]).is_err());
    }
}
