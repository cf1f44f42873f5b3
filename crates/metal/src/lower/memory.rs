//! Where values lie in memory, and how they come and go.

use rspirv::{
    dr::Operand,
    spirv::{Op, Word},
};

use super::{
    Lowering,
    value::{Constant, LocalPointer, Root, Value, space_of},
};
use crate::{
    ast::Space,
    error::{Error, Result},
    types::{Packing, Scalar, Type},
};

/// What can be read, and mostly written.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// A variable or a part of it.
    Local { root: Root, path: Vec<Word>, ty: Type, is_uniform: bool },
    /// Memory of the device, by its address.
    Device { address: Word, ty: Type, space: Space, is_uniform: bool },
    /// Some numbers of a vector.
    Lanes { of: Box<Place>, lanes: Vec<u32> },
    /// A variable that points to another one: its index lies in `index`.
    Pointer { pointer: LocalPointer, index: Word, ty: Type, number: usize },
    /// What can only be read.
    Value(Value),
}

impl Place {
    pub(crate) fn ty(&self) -> Type {
        match self {
            Place::Local { ty, .. } | Place::Device { ty, .. } | Place::Pointer { ty, .. } => {
                ty.clone()
            }
            Place::Lanes { of, lanes } => {
                let scalar = of.ty().numbers().map_or(Scalar::Int, |(scalar, _)| scalar);
                Type::of(scalar, lanes.len() as u32)
            }
            Place::Value(value) => value.ty.clone(),
        }
    }
}

impl Lowering<'_> {
    /// The bytes that a value takes, and the multiple of which it lies at.
    pub(crate) fn layout(&self, ty: &Type) -> (u64, u64) {
        match ty {
            Type::Void => (1, 1),
            Type::Scalar(scalar) | Type::Atomic(scalar) => {
                (scalar.size().into(), scalar.size().into())
            }
            Type::Vector(scalar, count, Packing::Packed) => {
                (u64::from(scalar.size() * count), scalar.size().into())
            }
            Type::Vector(scalar, count, Packing::Aligned) => {
                let bytes = u64::from(scalar.size() * count.next_power_of_two());
                (bytes, bytes)
            }
            Type::Array(of, count) => {
                let (size, align) = self.layout(of);
                (size * u64::from(*count), align)
            }
            Type::Struct(number) => self.structs[*number].layout,
            Type::Pointer(..) => (8, 8),
        }
    }

    /// Where a field begins.
    pub(super) fn offset(&self, number: usize, field: usize) -> u64 {
        let mut end = 0u64;
        for (at, (_, ty)) in self.structs[number].fields.iter().enumerate() {
            let (size, align) = self.layout(ty);
            let begin = end.next_multiple_of(align);
            if at == field {
                return begin;
            }
            end = begin + size;
        }
        end
    }

    pub(crate) fn load(&mut self, place: &Place) -> Result<Value> {
        match place {
            Place::Value(value) => Ok(value.clone()),
            Place::Local { ty: Type::Array(..), .. }
            | Place::Device { ty: Type::Array(..), .. } => self.decayed(place),
            Place::Local { root, path, ty, is_uniform } => {
                let is_uniform = *is_uniform && !self.varying.contains(&root.number);
                let pointer = self.chain(root, path, ty);
                let of = self.value_type(ty);
                let id = self.emitter.op(Op::Load, of, &[pointer]);
                Ok(Value::new(ty.clone(), id, is_uniform))
            }
            Place::Device { address, ty, is_uniform, .. } => {
                let id = self.load_device(*address, ty);
                Ok(Value::new(ty.clone(), id, *is_uniform))
            }
            Place::Lanes { of, lanes } => {
                let whole = self.load(of)?;
                Ok(self.lanes(&whole, lanes))
            }
            Place::Pointer { pointer, index, ty, number } => {
                let int = self.emitter.int(32);
                let at = self.emitter.op(Op::Load, int, &[*index]);
                let is_uniform = !self.varying.contains(number);
                let pointer = LocalPointer { index: Some(at), ..pointer.clone() };
                let value = Value::new(ty.clone(), at, is_uniform);
                Ok(Value { pointer: Some(pointer), ..value })
            }
        }
    }

    /// Some numbers of a vector.
    pub(crate) fn lanes(&mut self, whole: &Value, lanes: &[u32]) -> Value {
        let scalar = whole.ty.numbers().map_or(Scalar::Int, |(scalar, _)| scalar);
        let ty = Type::of(scalar, lanes.len() as u32);
        let of = self.value_type(&ty);
        let id = match lanes {
            [lane] => self.emitter.extract(of, whole.id, *lane),
            _ => {
                let mut operands = vec![Operand::IdRef(whole.id), Operand::IdRef(whole.id)];
                operands.extend(lanes.iter().copied().map(Operand::LiteralBit32));
                self.emitter.op_of(Op::VectorShuffle, of, operands)
            }
        };
        let is_same = lanes.iter().all(|&lane| whole.uniform_lanes >> lane & 1 == 1);
        Value::new(ty, id, whole.is_uniform || is_same)
    }

    /// Stores a value, which has the place's type.
    pub(crate) fn store(&mut self, place: &Place, value: &Value) -> Result<()> {
        match place {
            Place::Value(_) => Err(self.error("this cannot be assigned to")),
            Place::Local { root, path, ty, is_uniform } => {
                if !(value.is_uniform && *is_uniform && self.flow.is_uniform) {
                    self.found.insert(root.number);
                }
                if value.pointer.is_some() {
                    return Err(self.error("pointers to variables cannot be kept in others"));
                }
                let pointer = self.chain(root, path, ty);
                self.emitter.act(Op::Store, [pointer, value.id].map(Operand::IdRef).into());
                Ok(())
            }
            Place::Device { address, ty, space, .. } => {
                if *space == Space::Constant {
                    return Err(self.error("constants cannot be assigned to"));
                }
                self.store_device(*address, ty, value.id);
                Ok(())
            }
            Place::Lanes { of, lanes } => self.store_lanes(of, lanes, value),
            Place::Pointer { pointer, index, number, .. } => {
                let Some(new) = value.pointer.as_ref().filter(|new| is_same(new, pointer)) else {
                    return Err(self.error("a pointer to a variable can only point to that one"));
                };
                if !(value.is_uniform && self.flow.is_uniform) {
                    self.found.insert(*number);
                }
                let at = match new.index {
                    Some(at) => at,
                    None => self.emitter.uint(0),
                };
                self.emitter.act(Op::Store, [*index, at].map(Operand::IdRef).into());
                Ok(())
            }
        }
    }

    fn store_lanes(&mut self, of: &Place, lanes: &[u32], value: &Value) -> Result<()> {
        let parts = self.parts(value);
        for (&lane, part) in lanes.iter().zip(&parts) {
            let lane = self.int(lane.into());
            let place = self.element(of.clone(), &lane)?;
            self.store(&place, part)?;
        }
        Ok(())
    }

    /// A pointer to a part of a variable.
    pub(crate) fn chain(&mut self, root: &Root, path: &[Word], ty: &Type) -> Word {
        if path.is_empty() {
            return root.id;
        }
        let of = self.value_type(ty);
        let pointer = self.emitter.pointer(root.class, of);
        let mut ids = vec![root.id];
        ids.extend(path);
        self.emitter.op(Op::AccessChain, pointer, &ids)
    }

    /// What an array is where a pointer is wanted: one to its first element.
    pub(crate) fn decayed(&mut self, place: &Place) -> Result<Value> {
        match place {
            Place::Local { root, path, ty: Type::Array(of, _), is_uniform } => {
                let zero = self.int(0).id;
                let pointer =
                    LocalPointer { root: root.clone(), path: path.clone(), index: Some(zero) };
                let ty = Type::Pointer(space_of(root.class), of.clone());
                let value = Value::new(ty, zero, *is_uniform);
                Ok(Value { pointer: Some(pointer), ..value })
            }
            Place::Device { address, ty: Type::Array(of, _), space, is_uniform } => {
                let ty = Type::Pointer(*space, of.clone());
                Ok(Value::new(ty, *address, *is_uniform))
            }
            _ => self.load(place),
        }
    }

    /// A field of a structure, or numbers of a vector.
    pub(crate) fn member(&mut self, place: Place, name: &str) -> Result<Place> {
        match place.ty() {
            Type::Struct(number) => {
                let fields = &self.structs[number].fields;
                let Some(at) = fields.iter().position(|(field, _)| field == name) else {
                    return Err(self.error(format!("there is no field `{name}`")));
                };
                let ty = fields[at].1.clone();
                self.part(place, at as u32, ty, self.offset(number, at))
            }
            Type::Vector(_, count, _) => {
                let Some(lanes) = lanes_named(name, count) else {
                    return Err(self.error(format!("`{name}` names no numbers of {count}")));
                };
                match lanes[..] {
                    [lane] => {
                        let lane = self.int(lane.into());
                        self.element(place, &lane)
                    }
                    _ => Ok(Place::Lanes { of: Box::new(place), lanes }),
                }
            }
            ty => Err(self.error(format!("`{}` has no member `{name}`", ty.name()))),
        }
    }

    fn part(&mut self, place: Place, at: u32, ty: Type, offset: u64) -> Result<Place> {
        Ok(match place {
            Place::Local { root, mut path, is_uniform, .. } => {
                path.push(self.emitter.uint(at));
                Place::Local { root, path, ty, is_uniform }
            }
            Place::Device { address, space, is_uniform, .. } => {
                let address = self.moved(address, offset);
                Place::Device { address, ty, space, is_uniform }
            }
            place => {
                let whole = self.load(&place)?;
                let of = self.value_type(&ty);
                let id = self.emitter.extract(of, whole.id, at);
                Place::Value(Value::new(ty, id, whole.is_uniform))
            }
        })
    }

    /// An element of an array, of a vector, or of what a pointer points to.
    pub(crate) fn element(&mut self, place: Place, index: &Value) -> Result<Place> {
        match (place.ty(), place) {
            (Type::Array(of, count), Place::Local { root, mut path, is_uniform, .. }) => {
                if index.known().is_some_and(|at| !(0..i128::from(count)).contains(&at)) {
                    return Err(self.error(format!("an array of {count} has no such element")));
                }
                path.push(self.index(index)?);
                let is_uniform = is_uniform && index.is_uniform;
                Ok(Place::Local { root, path, ty: *of, is_uniform })
            }
            (Type::Vector(scalar, ..), Place::Local { root, mut path, is_uniform, .. }) => {
                path.push(self.index(index)?);
                let is_uniform = is_uniform && index.is_uniform;
                Ok(Place::Local { root, path, ty: Type::Scalar(scalar), is_uniform })
            }
            (Type::Vector(scalar, ..), place @ (Place::Lanes { .. } | Place::Value(_))) => {
                let whole = self.load(&place)?;
                if let Some(lane @ 0..4) = index.known() {
                    return Ok(Place::Value(self.lanes(&whole, &[lane as u32])));
                }
                let (of, at) = (self.scalar_type(scalar), self.index(index)?);
                let id = self.emitter.op(Op::VectorExtractDynamic, of, &[whole.id, at]);
                let is_uniform = whole.is_uniform && index.is_uniform;
                Ok(Place::Value(Value::new(Type::Scalar(scalar), id, is_uniform)))
            }
            (Type::Vector(scalar, ..), Place::Device { address, space, is_uniform, .. }) => {
                self.device_element((address, is_uniform), Type::Scalar(scalar), space, index)
            }
            (Type::Array(of, _), Place::Device { address, space, is_uniform, .. }) => {
                self.device_element((address, is_uniform), *of, space, index)
            }
            (Type::Pointer(..), place) => {
                let pointer = self.load(&place)?;
                let moved = self.advanced(&pointer, index)?;
                self.pointee(&moved)
            }
            (ty, _) => Err(self.error(format!("`{}` has no elements", ty.name()))),
        }
    }

    fn device_element(
        &mut self,
        (address, is_uniform): (Word, bool),
        ty: Type,
        space: Space,
        index: &Value,
    ) -> Result<Place> {
        let pointer = Type::Pointer(space, Box::new(ty));
        let first = Value::new(pointer, address, is_uniform);
        let moved = self.advanced(&first, index)?;
        self.pointee(&moved)
    }

    /// What a pointer points to.
    pub(crate) fn pointee(&mut self, pointer: &Value) -> Result<Place> {
        let Type::Pointer(space, ty) = pointer.ty.clone() else {
            return Err(self.error(format!("`{}` is no pointer", pointer.ty.name())));
        };
        let is_uniform = pointer.is_uniform;
        Ok(match pointer.pointer.clone() {
            Some(LocalPointer { root, mut path, index }) => {
                path.extend(index);
                Place::Local { root, path, ty: *ty, is_uniform }
            }
            None => Place::Device { address: pointer.id, ty: *ty, space, is_uniform },
        })
    }

    /// A pointer some elements further.
    pub(crate) fn advanced(&mut self, pointer: &Value, by: &Value) -> Result<Value> {
        let is_uniform = pointer.is_uniform && by.is_uniform;
        if let Some(local) = &pointer.pointer {
            let by = self.index(by)?;
            let int = self.emitter.int(32);
            let Some(at) = local.index else {
                return Err(self.error("a pointer to a single variable cannot move"));
            };
            let at = self.emitter.op(Op::IAdd, int, &[at, by]);
            let local = LocalPointer { index: Some(at), ..local.clone() };
            let value = Value::new(pointer.ty.clone(), at, is_uniform);
            return Ok(Value { pointer: Some(local), ..value });
        }
        let Type::Pointer(_, of) = &pointer.ty else {
            return Err(self.error(format!("`{}` is no pointer", pointer.ty.name())));
        };
        let size = self.layout(of).0;
        self.index(by)?;
        let by = self.convert(by, &Type::Scalar(Scalar::Long))?;
        let size = self.constant(Scalar::Long, Constant::Int(size.into()));
        let bytes = self.arithmetic(crate::ast::BinaryOperator::Multiply, &by, &size)?;
        let ulong = self.emitter.int(64);
        let id = self.emitter.op(Op::IAdd, ulong, &[pointer.id, bytes.id]);
        Ok(Value::new(pointer.ty.clone(), id, is_uniform))
    }

    /// An integer as an index of a variable.
    pub(crate) fn index(&mut self, value: &Value) -> Result<Word> {
        match value.ty {
            Type::Scalar(scalar) if !scalar.is_float() => Ok(self.convert(value, &Type::INT)?.id),
            _ => Err(self.error(format!("`{}` is no index", value.ty.name()))),
        }
    }

    /// An error at the line that is looked at.
    pub(crate) fn error(&self, message: impl Into<String>) -> Error {
        Error::new(self.line, message)
    }
}

/// Whether both are pointers into the same place.
fn is_same(a: &LocalPointer, b: &LocalPointer) -> bool {
    a.root == b.root && a.path == b.path
}

/// The numbers of a vector that `xyzw` or `rgba` name.
fn lanes_named(name: &str, count: u32) -> Option<Vec<u32>> {
    let lane = |c: char| {
        let at = "xyzw".find(c).or_else(|| "rgba".find(c))? as u32;
        (at < count).then_some(at)
    };
    (1..=4).contains(&name.len()).then(|| name.chars().map(lane).collect())?
}
