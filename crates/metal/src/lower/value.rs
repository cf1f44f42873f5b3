//! Values, and what they are in a module.

use half::{bf16, f16};
use rspirv::{
    dr::Operand,
    spirv::{Capability, Op, StorageClass, Word},
};

use super::Lowering;
use crate::{
    ast::Space,
    types::{Scalar, Type},
};

/// A number that is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Constant {
    Int(i128),
    Float(f64),
    Bool(bool),
}

/// What an expression gives.
#[derive(Debug, Clone)]
pub(crate) struct Value {
    pub(crate) ty: Type,
    /// The value; an address if it is a pointer to memory of the device.
    pub(crate) id: Word,
    pub(crate) constant: Option<Constant>,
    /// Whether all threads of a group have the same.
    pub(crate) is_uniform: bool,
    /// Which numbers of a vector all threads have the same, if not all of them: a bit for each.
    pub(crate) uniform_lanes: u32,
    /// Whether it is a constant of the module, which all functions may use.
    pub(crate) is_global: bool,
    /// Whether it is a product of floats, to which an addition may add without rounding in between.
    pub(crate) is_product: bool,
    /// Where it points to if that is a variable.
    pub(crate) pointer: Option<LocalPointer>,
}

/// A variable as a whole.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Root {
    pub(crate) id: Word,
    pub(crate) class: StorageClass,
    pub(crate) ty: Type,
    /// Its number, by which it is known whether threads differ in it.
    pub(crate) number: usize,
}

/// A pointer to a variable or a part of it. The path is fixed, an index behind it moves.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LocalPointer {
    pub(crate) root: Root,
    pub(crate) path: Vec<Word>,
    pub(crate) index: Option<Word>,
}

impl Value {
    pub(crate) fn new(ty: Type, id: Word, is_uniform: bool) -> Value {
        let (constant, uniform_lanes, pointer) = (None, 0, None);
        let (is_global, is_product) = (false, false);
        Value { ty, id, constant, is_uniform, uniform_lanes, is_global, is_product, pointer }
    }

    /// The integer, if it is known.
    pub(crate) fn known(&self) -> Option<i128> {
        match self.constant? {
            Constant::Int(value) => Some(value),
            Constant::Bool(value) => Some(value.into()),
            Constant::Float(_) => None,
        }
    }
}

impl Constant {
    fn as_float(self) -> f64 {
        match self {
            Constant::Int(value) => value as f64,
            Constant::Float(value) => value,
            Constant::Bool(value) => f64::from(u8::from(value)),
        }
    }

    /// The same number as one of another type.
    pub(crate) fn converted(self, to: Scalar) -> Constant {
        match to {
            Scalar::Bool => Constant::Bool(self.as_float() != 0.0),
            Scalar::Half => Constant::Float(f16::from_f64(self.as_float()).to_f64()),
            Scalar::Bfloat => Constant::Float(bf16::from_f64(self.as_float()).to_f64()),
            Scalar::Float => Constant::Float((self.as_float() as f32).into()),
            _ => Constant::Int(to.wrapped(match self {
                Constant::Int(value) => value,
                Constant::Float(value) => value as i128,
                Constant::Bool(value) => value.into(),
            })),
        }
    }
}

impl Lowering<'_> {
    /// What values of a type are. Small integers are integers of 32 bits here, bfloat is a float.
    pub(crate) fn value_type(&mut self, ty: &Type) -> Word {
        let e = &mut self.emitter;
        match ty {
            Type::Void => e.void(),
            Type::Scalar(scalar) | Type::Atomic(scalar) => self.scalar_type(*scalar),
            Type::Vector(scalar, count, _) => {
                let of = self.scalar_type(*scalar);
                self.emitter.vector(of, *count)
            }
            Type::Array(of, count) => {
                let of = self.value_type(of);
                self.emitter.array(of, *count)
            }
            Type::Struct(number) => self.structs[*number].id,
            Type::Pointer(..) => e.int(64),
        }
    }

    pub(crate) fn scalar_type(&mut self, scalar: Scalar) -> Word {
        let e = &mut self.emitter;
        match scalar {
            Scalar::Bool => e.bool(),
            Scalar::Long | Scalar::Ulong => e.int(64),
            Scalar::Half => {
                e.require(Capability::Float16);
                e.float(16)
            }
            Scalar::Bfloat | Scalar::Float => e.float(32),
            _ => e.int(32),
        }
    }

    /// A number that is known.
    pub(crate) fn constant(&mut self, scalar: Scalar, constant: Constant) -> Value {
        let constant = constant.converted(scalar);
        let ty = self.scalar_type(scalar);
        let (op, operands) = match constant {
            Constant::Bool(true) => (Op::ConstantTrue, Vec::new()),
            Constant::Bool(false) => (Op::ConstantFalse, Vec::new()),
            Constant::Int(value) if scalar.size() == 8 => {
                (Op::Constant, vec![Operand::LiteralBit64(value as u64)])
            }
            Constant::Int(value) => (Op::Constant, vec![Operand::LiteralBit32(value as u32)]),
            Constant::Float(value) => {
                let bits = match scalar {
                    Scalar::Half => f16::from_f64(value).to_bits().into(),
                    Scalar::Bfloat => u32::from(bf16::from_f64(value).to_bits()) << 16,
                    _ => (value as f32).to_bits(),
                };
                (Op::Constant, vec![Operand::LiteralBit32(bits)])
            }
        };
        let id = self.emitter.global(op, Some(ty), operands);
        let ty = Type::Scalar(scalar);
        Value { constant: Some(constant), is_global: true, ..Value::new(ty, id, true) }
    }

    pub(crate) fn int(&mut self, value: i128) -> Value {
        self.constant(Scalar::Int, Constant::Int(value))
    }

    /// The zero of a type.
    pub(crate) fn zero(&mut self, ty: &Type) -> Value {
        let id = self.value_type(ty);
        let id = self.emitter.global(Op::ConstantNull, Some(id), Vec::new());
        Value { is_global: true, ..Value::new(ty.clone(), id, true) }
    }

    /// The same number in each place of a vector's type, or of a number's.
    pub(crate) fn splat(&mut self, ty: &Type, constant: Constant) -> Value {
        let Some((scalar, count)) = ty.numbers() else { return self.zero(ty) };
        let one = self.constant(scalar, constant);
        if count == 1 {
            return one;
        }
        let id = self.value_type(ty);
        let parts = (0..count).map(|_| Operand::IdRef(one.id)).collect();
        let id = self.emitter.global(Op::ConstantComposite, Some(id), parts);
        Value { is_global: true, ..Value::new(ty.clone(), id, true) }
    }

    /// A value that an instruction gives.
    pub(crate) fn emit(&mut self, op: Op, ty: &Type, of: &[&Value]) -> Value {
        let id = self.value_type(ty);
        let ids: Vec<Word> = of.iter().map(|value| value.id).collect();
        let id = self.emitter.op(op, id, &ids);
        Value::new(ty.clone(), id, of.iter().all(|value| value.is_uniform))
    }

    /// A vector of parts, which have its type.
    pub(crate) fn composite(&mut self, ty: &Type, parts: &[Value]) -> Value {
        if let ([one], Type::Scalar(_)) = (parts, ty) {
            return one.clone();
        }
        if parts.iter().all(|part| part.is_global) {
            let of = self.value_type(ty);
            let parts = parts.iter().map(|part| Operand::IdRef(part.id)).collect();
            let id = self.emitter.global(Op::ConstantComposite, Some(of), parts);
            return Value { is_global: true, ..Value::new(ty.clone(), id, true) };
        }
        self.emit(Op::CompositeConstruct, ty, &parts.iter().collect::<Vec<_>>())
    }

    /// Numbers of a vector, or the number itself.
    pub(crate) fn parts(&mut self, value: &Value) -> Vec<Value> {
        let Some((scalar, count)) = value.ty.numbers().filter(|(_, count)| *count > 1) else {
            return vec![value.clone()];
        };
        let ty = self.scalar_type(scalar);
        let part = |part| {
            let id = self.emitter.extract(ty, value.id, part);
            Value::new(Type::Scalar(scalar), id, value.is_uniform)
        };
        (0..count).map(part).collect()
    }
}

/// Which memory a pointer's space is where it points to variables.
pub(crate) fn space_of(class: StorageClass) -> Space {
    match class {
        StorageClass::Workgroup => Space::Threadgroup,
        _ => Space::Thread,
    }
}
