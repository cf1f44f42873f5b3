//! Arithmetic, comparisons and logic of values.

use rspirv::spirv::Op;

use super::{
    Lowering,
    value::{Constant, Value},
};
use crate::{
    ast::{BinaryOperator, UnaryOperator},
    error::Result,
    types::{Scalar, Type},
};

impl Lowering<'_> {
    /// What an operator makes of two values.
    pub(crate) fn arithmetic(
        &mut self,
        operator: BinaryOperator,
        a: &Value,
        b: &Value,
    ) -> Result<Value> {
        use BinaryOperator as B;
        if matches!(a.ty, Type::Pointer(..)) || matches!(b.ty, Type::Pointer(..)) {
            return self.of_pointers(operator, a, b);
        }
        match operator {
            B::ShiftLeft | B::ShiftRight => self.shifted(operator, a, b),
            B::Both | B::Either => {
                let op = if operator == B::Both { Op::LogicalAnd } else { Op::LogicalOr };
                let (a, b) = (self.truth(a)?, self.truth(b)?);
                Ok(self.emit(op, &Type::BOOL, &[&a, &b]))
            }
            _ => {
                let (a, b) = self.unified(a, b)?;
                self.of_same(operator, &a, &b)
            }
        }
    }

    /// Both values as the type that an operation of them is done in.
    pub(crate) fn unified(&mut self, a: &Value, b: &Value) -> Result<(Value, Value)> {
        let (Some((x, m)), Some((y, n))) = (a.ty.numbers(), b.ty.numbers()) else {
            let (a, b) = (a.ty.name(), b.ty.name());
            return Err(self.error(format!("`{a}` and `{b}` have no operation")));
        };
        let ty = match (m, n) {
            (1, 1) => Type::Scalar(x.common(y)),
            // A number becomes what the vector consists of.
            (1, _) => Type::of(y, n),
            (_, 1) => Type::of(x, m),
            _ if m == n && x == y => Type::of(x, m),
            _ if m == n => Type::of(x.common(y), m),
            _ => return Err(self.error(format!("vectors of {m} and {n} have no operation"))),
        };
        Ok((self.convert(a, &ty)?, self.convert(b, &ty)?))
    }

    fn of_same(&mut self, operator: BinaryOperator, a: &Value, b: &Value) -> Result<Value> {
        let Some((scalar, count)) = a.ty.numbers() else {
            return Err(self.error("this has no operation"));
        };
        if let (Some(x), Some(y), 1) = (a.constant, b.constant, count)
            && let Some((constant, is_bool)) = folded(operator, x, y)
        {
            let scalar = if is_bool { Scalar::Bool } else { scalar };
            return Ok(self.constant(scalar, constant));
        }
        let is_comparison = compares(operator);
        let ty = if is_comparison { a.ty.with(Scalar::Bool) } else { a.ty.clone() };
        let Some(op) = instruction(operator, scalar) else {
            let name = a.ty.name();
            return Err(self.error(format!("`{name}` has no {operator:?}").to_lowercase()));
        };
        if op == Op::SRem {
            return self.remainder(a, b);
        }
        let mut result = self.emit(op, &ty, &[a, b]);
        result.is_product = op == Op::FMul && scalar == Scalar::Float;
        let may_join = matches!(op, Op::FAdd | Op::FSub) && (a.is_product || b.is_product);
        if matches!(op, Op::FAdd | Op::FSub | Op::FDiv) && !may_join {
            self.emitter.keep_order(result.id);
        }
        match scalar {
            Scalar::Bfloat if !is_comparison => Ok(self.rounded(&result)),
            // Vectors of small numbers stay what they are.
            _ if scalar < Scalar::Int && scalar != Scalar::Bool && !is_comparison => {
                Ok(self.narrow(&result, scalar))
            }
            _ => Ok(result),
        }
    }

    /// The remainder of integers with signs: Vulkan leaves the instruction's open for negative ones.
    fn remainder(&mut self, a: &Value, b: &Value) -> Result<Value> {
        let quotient = self.of_same(BinaryOperator::Divide, a, b)?;
        let whole = self.of_same(BinaryOperator::Multiply, &quotient, b)?;
        self.of_same(BinaryOperator::Subtract, a, &whole)
    }

    fn shifted(&mut self, operator: BinaryOperator, a: &Value, b: &Value) -> Result<Value> {
        let (Some((x, m)), Some((y, n))) = (a.ty.numbers(), b.ty.numbers()) else {
            return Err(self.error("only integers can be shifted"));
        };
        if x.is_float() || y.is_float() || (n > 1 && m != n) {
            return Err(self.error("only integers can be shifted"));
        }
        let scalar = if m == 1 { x.promoted() } else { x };
        let ty = Type::of(scalar, m);
        let a = self.convert(a, &ty)?;
        let b = self.convert(b, &ty.with(scalar))?;
        if let (Some(x), Some(y), 1) = (a.known(), b.known(), m)
            && (0..i128::from(8 * scalar.size())).contains(&y)
        {
            let shifted = if operator == BinaryOperator::ShiftLeft { x << y } else { x >> y };
            return Ok(self.constant(scalar, Constant::Int(shifted)));
        }
        let op = match operator {
            BinaryOperator::ShiftLeft => Op::ShiftLeftLogical,
            _ if scalar.is_signed() => Op::ShiftRightArithmetic,
            _ => Op::ShiftRightLogical,
        };
        let result = self.emit(op, &ty, &[&a, &b]);
        Ok(if scalar < Scalar::Int { self.narrow(&result, scalar) } else { result })
    }

    fn of_pointers(&mut self, operator: BinaryOperator, a: &Value, b: &Value) -> Result<Value> {
        use BinaryOperator as B;
        match (operator, &a.ty, &b.ty) {
            (B::Add, Type::Pointer(..), Type::Scalar(_)) => self.advanced(a, b),
            (B::Add, Type::Scalar(_), Type::Pointer(..)) => self.advanced(b, a),
            (B::Subtract, Type::Pointer(..), Type::Scalar(_)) => {
                self.index(b)?;
                let by = self.convert(b, &Type::Scalar(Scalar::Long))?;
                let back = self.unary(UnaryOperator::Minus, &by)?;
                self.advanced(a, &back)
            }
            (B::Subtract, Type::Pointer(_, of), Type::Pointer(..)) => {
                let size = self.layout(of).0;
                let (x, y) = self.addresses(a, b)?;
                let long = Type::Scalar(Scalar::Long);
                let bytes = self.emit(Op::ISub, &long, &[&x, &y]);
                let size = if a.pointer.is_some() { 1 } else { size };
                let size = self.constant(Scalar::Long, Constant::Int(size.into()));
                Ok(self.emit(Op::SDiv, &long, &[&bytes, &size]))
            }
            _ if compares(operator) => {
                let (x, y) = self.addresses(a, b)?;
                self.of_same(operator, &x, &y)
            }
            _ => Err(self.error("pointers have no such operation")),
        }
    }

    /// Where two pointers into the same memory point to.
    fn addresses(&mut self, a: &Value, b: &Value) -> Result<(Value, Value)> {
        let place = |value: &Value| value.pointer.as_ref().map(|p| (p.root.id, p.path.clone()));
        if place(a) != place(b) {
            return Err(self.error("these are no pointers into the same memory"));
        }
        let long = Type::Scalar(Scalar::Long);
        let address = |this: &mut Self, value: &Value| match value.pointer.is_some() {
            false => Ok(Value { ty: long.clone(), ..value.clone() }),
            true => {
                let index = Value { ty: Type::INT, pointer: None, ..value.clone() };
                this.convert(&index, &long)
            }
        };
        Ok((address(self, a)?, address(self, b)?))
    }

    /// What an operator makes of a value.
    pub(crate) fn unary(&mut self, operator: UnaryOperator, value: &Value) -> Result<Value> {
        let Some((scalar, count)) = value.ty.numbers() else {
            return Err(self.error(format!("`{}` has no such operator", value.ty.name())));
        };
        let promoted = if count == 1 { scalar.promoted() } else { scalar };
        match operator {
            UnaryOperator::Not => {
                let truth = self.convert(value, &value.ty.with(Scalar::Bool))?;
                if let Some(Constant::Bool(known)) = truth.constant {
                    return Ok(self.constant(Scalar::Bool, Constant::Bool(!known)));
                }
                Ok(self.emit(Op::LogicalNot, &truth.ty.clone(), &[&truth]))
            }
            UnaryOperator::Plus => self.convert(value, &value.ty.with(promoted)),
            UnaryOperator::Minus => {
                let value = self.convert(value, &value.ty.with(promoted))?;
                match value.constant {
                    Some(Constant::Int(known)) => {
                        Ok(self.constant(promoted, Constant::Int(-known)))
                    }
                    Some(Constant::Float(known)) => {
                        Ok(self.constant(promoted, Constant::Float(-known)))
                    }
                    _ => {
                        let op = if promoted.is_float() { Op::FNegate } else { Op::SNegate };
                        let result = self.emit(op, &value.ty.clone(), &[&value]);
                        let is_narrow = promoted < Scalar::Int;
                        Ok(if is_narrow { self.narrow(&result, promoted) } else { result })
                    }
                }
            }
            UnaryOperator::Complement if promoted.is_integer() => {
                let value = self.convert(value, &value.ty.with(promoted))?;
                if let Some(known) = value.known() {
                    return Ok(self.constant(promoted, Constant::Int(!known)));
                }
                let result = self.emit(Op::Not, &value.ty.clone(), &[&value]);
                Ok(if promoted < Scalar::Int { self.narrow(&result, promoted) } else { result })
            }
            _ => Err(self.error(format!("`{}` has no such operator", value.ty.name()))),
        }
    }

    /// Whether a value is not zero.
    pub(crate) fn truth(&mut self, value: &Value) -> Result<Value> {
        match value.ty {
            Type::Scalar(_) => self.convert(value, &Type::BOOL),
            _ => Err(self.error(format!("`{}` is no condition", value.ty.name()))),
        }
    }
}

fn compares(operator: BinaryOperator) -> bool {
    use BinaryOperator as B;
    matches!(
        operator,
        B::Less | B::LessEqual | B::Greater | B::GreaterEqual | B::Equal | B::NotEqual
    )
}

/// The instruction of an operator for numbers of a kind.
fn instruction(operator: BinaryOperator, scalar: Scalar) -> Option<Op> {
    use BinaryOperator as B;
    let (is_float, is_signed) = (scalar.is_float(), scalar.is_signed());
    let by_kind = |float, signed, unsigned| match () {
        () if is_float => float,
        () if is_signed => signed,
        () => unsigned,
    };
    let is_bool = scalar == Scalar::Bool;
    Some(match operator {
        B::Equal if is_bool => Op::LogicalEqual,
        B::NotEqual | B::Xor if is_bool => Op::LogicalNotEqual,
        B::And if is_bool => Op::LogicalAnd,
        B::Or if is_bool => Op::LogicalOr,
        _ if is_bool => return None,
        B::Add => by_kind(Op::FAdd, Op::IAdd, Op::IAdd),
        B::Subtract => by_kind(Op::FSub, Op::ISub, Op::ISub),
        B::Multiply => by_kind(Op::FMul, Op::IMul, Op::IMul),
        B::Divide => by_kind(Op::FDiv, Op::SDiv, Op::UDiv),
        B::Less => by_kind(Op::FOrdLessThan, Op::SLessThan, Op::ULessThan),
        B::LessEqual => by_kind(Op::FOrdLessThanEqual, Op::SLessThanEqual, Op::ULessThanEqual),
        B::Greater => by_kind(Op::FOrdGreaterThan, Op::SGreaterThan, Op::UGreaterThan),
        B::GreaterEqual => {
            by_kind(Op::FOrdGreaterThanEqual, Op::SGreaterThanEqual, Op::UGreaterThanEqual)
        }
        B::Equal => by_kind(Op::FOrdEqual, Op::IEqual, Op::IEqual),
        B::NotEqual => by_kind(Op::FUnordNotEqual, Op::INotEqual, Op::INotEqual),
        _ if is_float => return None,
        B::Remainder => by_kind(Op::SRem, Op::SRem, Op::UMod),
        B::And => Op::BitwiseAnd,
        B::Or => Op::BitwiseOr,
        B::Xor => Op::BitwiseXor,
        B::ShiftLeft | B::ShiftRight | B::Both | B::Either => return None,
    })
}

/// What an operator makes of known numbers, and whether that is a truth.
fn folded(operator: BinaryOperator, a: Constant, b: Constant) -> Option<(Constant, bool)> {
    use BinaryOperator as B;
    match (a, b) {
        (Constant::Int(a), Constant::Int(b)) => {
            let number = match operator {
                B::Add => a + b,
                B::Subtract => a - b,
                B::Multiply => a.checked_mul(b)?,
                B::Divide => a.checked_div(b)?,
                B::Remainder => a.checked_rem(b)?,
                B::And => a & b,
                B::Or => a | b,
                B::Xor => a ^ b,
                _ => return Some((Constant::Bool(compared(operator, &a, &b)?), true)),
            };
            Some((Constant::Int(number), false))
        }
        (Constant::Float(a), Constant::Float(b)) => {
            // As the device would: a float's precision, which is what constants are written in.
            let (x, y) = (a as f32, b as f32);
            let number = match operator {
                B::Add => x + y,
                B::Subtract => x - y,
                B::Multiply => x * y,
                B::Divide => x / y,
                _ => return Some((Constant::Bool(compared(operator, &a, &b)?), true)),
            };
            Some((Constant::Float(number.into()), false))
        }
        (Constant::Bool(a), Constant::Bool(b)) => {
            Some((Constant::Bool(compared(operator, &a, &b)?), true))
        }
        _ => None,
    }
}

fn compared<T: PartialOrd>(operator: BinaryOperator, a: &T, b: &T) -> Option<bool> {
    use BinaryOperator as B;
    Some(match operator {
        B::Less => a < b,
        B::LessEqual => a <= b,
        B::Greater => a > b,
        B::GreaterEqual => a >= b,
        B::Equal => a == b,
        B::NotEqual => a != b,
        _ => return None,
    })
}
