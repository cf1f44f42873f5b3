//! Conversions between types.

use rspirv::spirv::{GlslStd450Op as GL, Op};

use super::{
    Lowering,
    value::{Constant, Value},
};
use crate::{
    error::Result,
    types::{Scalar, Type},
};

impl Lowering<'_> {
    /// A value as one of another type, as an assignment converts it.
    pub(crate) fn convert(&mut self, value: &Value, to: &Type) -> Result<Value> {
        if value.ty == *to {
            return Ok(value.clone());
        }
        match (&value.ty, to) {
            (Type::Scalar(from), Type::Scalar(to)) => Ok(self.convert_number(value, *from, *to)),
            (Type::Scalar(from), Type::Vector(scalar, count, _)) => {
                let one = self.convert_number(value, *from, *scalar);
                Ok(self.repeated(&one, to, *count))
            }
            (Type::Vector(from, a, _), Type::Vector(scalar, b, packing)) if a == b => {
                let converted = self.convert_number(value, *from, *scalar);
                Ok(Value { ty: Type::Vector(*scalar, *b, *packing), ..converted })
            }
            (Type::Pointer(from, _), Type::Pointer(space, of)) => match &value.pointer {
                Some(_) if from == space && value.ty != *to => {
                    let message = format!("variables cannot be read as `{}`", of.name());
                    Err(self.error(message))
                }
                _ => Ok(Value { ty: to.clone(), ..value.clone() }),
            },
            (Type::Pointer(..), Type::Scalar(Scalar::Ulong)) if value.pointer.is_none() => {
                Ok(Value { ty: to.clone(), ..value.clone() })
            }
            (Type::Scalar(_), Type::Struct(number)) if self.is_matrix(*number) => {
                self.diagonal(value, *number, to)
            }
            (from, to) => {
                let message = format!("`{}` does not become `{}`", from.name(), to.name());
                Err(self.error(message))
            }
        }
    }

    /// A matrix of a simdgroup with a number on its diagonal.
    fn diagonal(&mut self, value: &Value, matrix: usize, to: &Type) -> Result<Value> {
        let (_, elements) = &self.structs[matrix].fields[0];
        let element = elements.numbers().map_or(Scalar::Float, |(scalar, _)| scalar);
        let value = self.convert(value, &Type::Scalar(element))?;
        let diagonal = self.by_prelude("__simdgroup_diagonal", &[&value])?;
        self.convert(&diagonal, to)
    }

    fn repeated(&mut self, one: &Value, ty: &Type, count: u32) -> Value {
        match one.constant {
            Some(constant) => self.splat(ty, constant),
            None => self.composite(ty, &vec![one.clone(); count as usize]),
        }
    }

    /// Numbers of one kind, one or a vector of them, as numbers of another.
    fn convert_number(&mut self, value: &Value, from: Scalar, to: Scalar) -> Value {
        if let (Some(constant), Type::Scalar(_)) = (value.constant, &value.ty) {
            return self.constant(to, constant);
        }
        let ty = value.ty.with(to);
        if from == to {
            return Value { ty, ..value.clone() };
        }
        match (from.is_float(), to.is_float()) {
            _ if to == Scalar::Bool => self.is_not_zero(value),
            _ if from == Scalar::Bool => self.of_bool(value, &ty),
            (false, false) => self.resize(value, from, to),
            (false, true) => self.as_float(value, from, to),
            (true, false) => self.as_integer(value, to),
            (true, true) => self.refloat(value, from, to),
        }
    }

    pub(crate) fn is_not_zero(&mut self, value: &Value) -> Value {
        let ty = value.ty.with(Scalar::Bool);
        let zero = self.zero(&value.ty);
        let op = if value.ty.is_float() { Op::FUnordNotEqual } else { Op::INotEqual };
        self.emit(op, &ty, &[value, &zero])
    }

    fn of_bool(&mut self, value: &Value, ty: &Type) -> Value {
        let one = self.splat(ty, Constant::Int(1));
        let zero = self.zero(ty);
        self.emit(Op::Select, ty, &[value, &one, &zero])
    }

    fn resize(&mut self, value: &Value, from: Scalar, to: Scalar) -> Value {
        let is_wide = |scalar: Scalar| scalar.size() == 8;
        let ty = value.ty.with(to);
        match (is_wide(from), is_wide(to)) {
            (true, true) => Value { ty, ..value.clone() },
            (false, true) if from.is_signed() => self.emit(Op::SConvert, &ty, &[value]),
            (false, true) => self.emit(Op::UConvert, &ty, &[value]),
            (true, false) => {
                let word = self.emit(Op::UConvert, &value.ty.with(Scalar::Uint), &[value]);
                self.narrow(&word, to)
            }
            (false, false) => self.narrow(value, to),
        }
    }

    /// The low bits of integers of 32 bits as smaller ones.
    pub(crate) fn narrow(&mut self, value: &Value, to: Scalar) -> Value {
        let ty = value.ty.with(to);
        let bits = 8 * to.size();
        if bits == 32 {
            return Value { ty, constant: None, ..value.clone() };
        }
        if to.is_signed() {
            let by = self.splat(&value.ty.with(Scalar::Uint), Constant::Int((32 - bits).into()));
            let high = self.emit(Op::ShiftLeftLogical, &ty, &[value, &by]);
            return self.emit(Op::ShiftRightArithmetic, &ty, &[&high, &by]);
        }
        let mask = self.splat(&value.ty.with(Scalar::Uint), Constant::Int((1 << bits) - 1));
        self.emit(Op::BitwiseAnd, &ty, &[value, &mask])
    }

    fn as_float(&mut self, value: &Value, from: Scalar, to: Scalar) -> Value {
        let op = if from.is_signed() { Op::ConvertSToF } else { Op::ConvertUToF };
        let converted = self.emit(op, &value.ty.with(to), &[value]);
        if to == Scalar::Bfloat { self.rounded(&converted) } else { converted }
    }

    fn as_integer(&mut self, value: &Value, to: Scalar) -> Value {
        let op = if to.is_signed() { Op::ConvertFToS } else { Op::ConvertFToU };
        let wide = if to.size() == 8 { to } else { to.promoted() };
        let op = if wide == Scalar::Int { Op::ConvertFToS } else { op };
        let converted = self.emit(op, &value.ty.with(wide), &[value]);
        if wide == to { converted } else { self.narrow(&converted, to) }
    }

    fn refloat(&mut self, value: &Value, from: Scalar, to: Scalar) -> Value {
        let (ty, float) = (value.ty.with(to), value.ty.with(Scalar::Float));
        match (from, to) {
            (Scalar::Half, Scalar::Bfloat) => {
                let wide = self.emit(Op::FConvert, &float, &[value]);
                let wide = Value { ty, ..wide };
                self.rounded(&wide)
            }
            (Scalar::Half, _) | (_, Scalar::Half) => self.emit(Op::FConvert, &ty, &[value]),
            (Scalar::Bfloat, _) => Value { ty, constant: None, ..value.clone() },
            _ => {
                let value = Value { ty, constant: None, ..value.clone() };
                self.rounded(&value)
            }
        }
    }

    /// Floats with a bfloat's precision: ties to even, as MLX rounds.
    pub(crate) fn rounded(&mut self, value: &Value) -> Value {
        let word = value.ty.with(Scalar::Uint);
        let number = |this: &mut Self, value: i128| this.splat(&word, Constant::Int(value));
        let (one, sixteen) = (number(self, 1), number(self, 16));
        let (half, mask, quiet) =
            (number(self, 0x7fff), number(self, 0xffff_0000), number(self, 0x40_0000));
        let bits = self.emit(Op::Bitcast, &word, &[value]);
        let high = self.emit(Op::ShiftRightLogical, &word, &[&bits, &sixteen]);
        let odd = self.emit(Op::BitwiseAnd, &word, &[&high, &one]);
        let sum = self.emit(Op::IAdd, &word, &[&bits, &half]);
        let sum = self.emit(Op::IAdd, &word, &[&sum, &odd]);
        let nan = self.emit(Op::BitwiseOr, &word, &[&bits, &quiet]);
        let (size, infinity) = (number(self, 0x7fff_ffff), number(self, 0x7f80_0000));
        let size = self.emit(Op::BitwiseAnd, &word, &[&bits, &size]);
        let is_nan = self.emit(Op::UGreaterThan, &value.ty.with(Scalar::Bool), &[&size, &infinity]);
        let chosen = self.emit(Op::Select, &word, &[&is_nan, &nan, &sum]);
        let cut = self.emit(Op::BitwiseAnd, &word, &[&chosen, &mask]);
        self.emit(Op::Bitcast, &value.ty, &[&cut])
    }

    /// The same bits as another type of as many bits.
    pub(crate) fn bits(&mut self, value: &Value, to: &Type) -> Result<Value> {
        let (Some((from, of)), Some((scalar, count))) = (value.ty.numbers(), to.numbers()) else {
            return Err(self.error("as_type is for numbers and vectors"));
        };
        if from.size() * of != scalar.size() * count
            || from == Scalar::Bool
            || scalar == Scalar::Bool
        {
            let (from, to) = (value.ty.name(), to.name());
            return Err(self.error(format!("`{from}` and `{to}` have other bits")));
        }
        let stored = self.stored(value.id, from, of);
        let (from, ty) = (self.stored_type(from, of), self.stored_type(scalar, count));
        let bits = if from == ty { stored } else { self.emitter.op(Op::Bitcast, ty, &[stored]) };
        let id = self.loaded(bits, scalar, count);
        Ok(Value::new(to.clone(), id, value.is_uniform))
    }

    /// A function of GLSL's library on values of one type.
    pub(crate) fn glsl(&mut self, function: GL, ty: &Type, of: &[&Value]) -> Value {
        let id = self.value_type(ty);
        let ids: Vec<u32> = of.iter().map(|value| value.id).collect();
        let id = self.emitter.glsl(function, id, &ids);
        Value::new(ty.clone(), id, of.iter().all(|value| value.is_uniform))
    }
}
