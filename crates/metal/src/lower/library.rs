//! Functions of the language.

use rspirv::{
    dr::Operand,
    spirv::{GlslStd450Op as GL, Op},
};

use super::{
    Lowering,
    value::{Constant, Value},
};
use crate::{
    ast::{BinaryOperator, Expression},
    error::Result,
    types::{Scalar, Type},
};

impl Lowering<'_> {
    /// A call of a function that the program does not have.
    pub(crate) fn language_call(&mut self, name: &str, arguments: &[Expression]) -> Result<Value> {
        let line = self.line;
        if let Some(value) = self.atomic_call(name, arguments)? {
            return Ok(value);
        }
        if name.ends_with("group_barrier") {
            return self.barrier(name);
        }
        if let ("sincos" | "modf" | "frexp", [x, other]) = (name, arguments) {
            return self.of_two_results(name, x, other);
        }
        let values = arguments.iter().map(|a| self.value(a)).collect::<Result<Vec<Value>>>()?;
        self.line = line;
        self.language_values(name, &values)
    }

    /// What a function of the language gives for values.
    pub(crate) fn language_values(&mut self, name: &str, values: &[Value]) -> Result<Value> {
        if name.starts_with("simd_") || name.starts_with("quad_") {
            return self.group_call(name, values);
        }
        let found = match values {
            [x] => self.of_one(name, x)?,
            [x, y] => self.of_two(name, x, y)?,
            [x, y, z] => self.of_three(name, x, y, z)?,
            [x, bits, offset, count] if name == "insert_bits" => {
                let [bits, offset, count] = self.words(x, [bits, offset, count])?;
                Some(self.emit(Op::BitFieldInsert, &x.ty.clone(), &[x, &bits, &offset, &count]))
            }
            _ => None,
        };
        found.ok_or_else(|| {
            let types: Vec<String> = values.iter().map(|value| value.ty.name()).collect();
            self.error(format!("there is no function `{name}` of ({})", types.join(", ")))
        })
    }

    /// A function with a second result, which it stores.
    fn of_two_results(&mut self, name: &str, x: &Expression, other: &Expression) -> Result<Value> {
        let x = self.value(x)?;
        let ([x], ty) = self.floats([&x])?;
        let place = self.place(other)?;
        let (result, second) = match name {
            "sincos" => (self.glsl(GL::Sin, &ty, &[&x]), self.glsl(GL::Cos, &ty, &[&x])),
            "modf" => {
                let whole = self.glsl(GL::Trunc, &ty, &[&x]);
                (self.emit(Op::FSub, &ty, &[&x, &whole]), whole)
            }
            _ => self.significand(&x)?,
        };
        let second = self.convert(&second, &place.ty())?;
        self.store(&place, &second)?;
        let result = self.convert(&result, &ty)?;
        Ok(self.fitted(&result))
    }

    /// A float as a number from a half to one, and the power of two that it is multiplied with.
    fn significand(&mut self, x: &Value) -> Result<(Value, Value)> {
        let (float, int) = (x.ty.with(Scalar::Float), x.ty.with(Scalar::Int));
        let x = self.convert(x, &float)?;
        let [float_id, int_id] = [&float, &int].map(|ty| self.value_type(ty));
        let both = [float_id, int_id].map(Operand::IdRef).into();
        let both = self.emitter.global(Op::TypeStruct, None, both);
        let both = self.emitter.glsl(GL::FrexpStruct, both, &[x.id]);
        let part = |this: &mut Self, ty: &Type, id, number| {
            let id = this.emitter.extract(id, both, number);
            Value::new(ty.clone(), id, x.is_uniform)
        };
        Ok((part(self, &float, float_id, 0), part(self, &int, int_id, 1)))
    }

    /// Values as floats of one kind; integers become floats.
    fn floats<const N: usize>(&mut self, values: [&Value; N]) -> Result<([Value; N], Type)> {
        let mut ty: Option<(Scalar, u32)> = None;
        for value in values {
            let Some((scalar, count)) = value.ty.numbers() else {
                return Err(self.error(format!("`{}` is no number", value.ty.name())));
            };
            let scalar = if scalar.is_float() { scalar } else { Scalar::Float };
            let is_known = value.constant.is_some() || !value.ty.is_float();
            ty = Some(match ty {
                None => (scalar, count),
                // A number beside a vector, and a literal beside a half, take the other's type.
                Some((other, most)) if count < most || (is_known && count == most) => (other, most),
                Some((other, most)) if count == most => (other.common(scalar), count),
                Some(_) => (scalar, count),
            });
        }
        let (scalar, count) = ty.unwrap_or((Scalar::Float, 1));
        let ty = Type::of(scalar, count);
        let mut converted = Vec::new();
        for value in values {
            converted.push(self.convert(value, &ty)?);
        }
        let converted = converted.try_into().map_err(|_| self.error("too many values"))?;
        Ok((converted, ty))
    }

    /// A function of floats. What bfloats give is rounded.
    fn float_function<const N: usize>(
        &mut self,
        function: GL,
        values: [&Value; N],
    ) -> Result<Value> {
        let (values, ty) = self.floats(values)?;
        let all: Vec<&Value> = values.iter().collect();
        let result = self.glsl(function, &ty, &all);
        Ok(self.fitted(&result))
    }

    /// A result of floats as its type has it.
    fn fitted(&mut self, value: &Value) -> Value {
        match value.ty.numbers() {
            Some((Scalar::Bfloat, _)) => self.rounded(value),
            _ => value.clone(),
        }
    }

    fn of_one(&mut self, name: &str, x: &Value) -> Result<Option<Value>> {
        if let Some(function) = function_of_one(name) {
            return self.float_function(function, [x]).map(Some);
        }
        let Some((scalar, _)) = x.ty.numbers() else { return Ok(None) };
        Ok(Some(match name {
            "abs" | "fabs" if scalar.is_float() => self.glsl(GL::FAbs, &x.ty.clone(), &[x]),
            "abs" if scalar.is_signed() => self.glsl(GL::SAbs, &x.ty.clone(), &[x]),
            "abs" => x.clone(),
            "fabs" => self.float_function(GL::FAbs, [x])?,
            "exp10" => self.scaled(GL::Exp2, x, std::f64::consts::LOG2_10, true)?,
            "log10" => self.scaled(GL::Log2, x, std::f64::consts::LOG10_2, false)?,
            "tanh" => {
                // Some drivers divide infinities.
                let (low, high) = (self.float(-20.0), self.float(20.0));
                let x = self.of_three("clamp", x, &low, &high)?.unwrap_or_else(|| x.clone());
                self.float_function(GL::Tanh, [&x])?
            }
            "asin" | "acos" => self.of_sine(name == "asin", x)?,
            "sinpi" | "cospi" | "tanpi" => self.of_half_turns(name, x)?,
            "round" => self.away_from_zero(x)?,
            "log1p" => self.log1p(x)?,
            "saturate" => {
                let (low, high) = (self.float(0.0), self.float(1.0));
                return self.of_three("clamp", x, &low, &high);
            }
            "recip" | "reciprocal" => {
                let one = self.float(1.0);
                self.arithmetic(BinaryOperator::Divide, &one, x)?
            }
            "isnan" => self.beside_infinity(Op::UGreaterThan, x)?,
            "isinf" => self.beside_infinity(Op::IEqual, x)?,
            "isfinite" => self.beside_infinity(Op::ULessThan, x)?,
            "signbit" => {
                let (x, _) = self.floats([x])?;
                let float = x[0].ty.with(Scalar::Float);
                let wide = self.convert(&x[0], &float)?;
                let bits = self.emit(Op::Bitcast, &float.with(Scalar::Int), &[&wide]);
                let zero = self.zero(&bits.ty);
                self.emit(Op::SLessThan, &bits.ty.with(Scalar::Bool), &[&bits, &zero])
            }
            "any" | "all" if scalar == Scalar::Bool => {
                if x.ty == Type::BOOL {
                    return Ok(Some(x.clone()));
                }
                self.emit(if name == "any" { Op::Any } else { Op::All }, &Type::BOOL, &[x])
            }
            "length" => {
                let (x, ty) = self.floats([x])?;
                let (scalar, _) = ty.numbers().unwrap_or((Scalar::Float, 1));
                self.glsl(GL::Length, &Type::Scalar(scalar), &[&x[0]])
            }
            "normalize" => self.float_function(GL::Normalize, [x])?,
            "popcount" | "clz" | "ctz" | "reverse_bits" if scalar.is_integer() => {
                self.of_bits(name, x, scalar)?
            }
            _ => return Ok(None),
        }))
    }

    pub(crate) fn float(&mut self, value: f64) -> Value {
        self.constant(Scalar::Float, Constant::Float(value))
    }

    fn scaled(&mut self, function: GL, x: &Value, by: f64, is_before: bool) -> Result<Value> {
        let ([x], ty) = self.floats([x])?;
        let by = self.splat(&ty, Constant::Float(by));
        let x = if is_before { self.emit(Op::FMul, &ty, &[&x, &by]) } else { x };
        let result = self.glsl(function, &ty, &[&x]);
        let result = if is_before { result } else { self.emit(Op::FMul, &ty, &[&result, &by]) };
        Ok(self.fitted(&result))
    }

    /// The angle of a sine or a cosine, by that of a tangent, which drivers know better.
    fn of_sine(&mut self, is_sine: bool, x: &Value) -> Result<Value> {
        let ([x], ty) = self.floats([x])?;
        let one = self.splat(&ty, Constant::Float(1.0));
        let (more, less) =
            (self.emit(Op::FAdd, &ty, &[&one, &x]), self.emit(Op::FSub, &ty, &[&one, &x]));
        let square = self.emit(Op::FMul, &ty, &[&more, &less]);
        let other = self.glsl(GL::Sqrt, &ty, &[&square]);
        let sides = if is_sine { [&x, &other] } else { [&other, &x] };
        let angle = self.glsl(GL::Atan2, &ty, &sides);
        Ok(self.fitted(&angle))
    }

    /// A function of an angle in half turns, of which whole turns are taken away first.
    fn of_half_turns(&mut self, name: &str, x: &Value) -> Result<Value> {
        let ([x], ty) = self.floats([x])?;
        let number = |this: &mut Self, value: f64| this.splat(&ty, Constant::Float(value));
        let (half, two, pi) =
            (number(self, 0.5), number(self, 2.0), number(self, std::f64::consts::PI));
        let turns = self.emit(Op::FMul, &ty, &[&x, &half]);
        let turns = self.glsl(GL::RoundEven, &ty, &[&turns]);
        let whole = self.emit(Op::FMul, &ty, &[&turns, &two]);
        let rest = self.emit(Op::FSub, &ty, &[&x, &whole]);
        let angle = self.emit(Op::FMul, &ty, &[&rest, &pi]);
        let function = match name {
            "sinpi" => GL::Sin,
            "cospi" => GL::Cos,
            _ => GL::Tan,
        };
        let result = self.glsl(function, &ty, &[&angle]);
        Ok(self.fitted(&result))
    }

    /// To the nearest integer, ties away from zero.
    fn away_from_zero(&mut self, x: &Value) -> Result<Value> {
        let ([x], ty) = self.floats([x])?;
        let (half, one) =
            (self.splat(&ty, Constant::Float(0.5)), self.splat(&ty, Constant::Float(1.0)));
        let size = self.glsl(GL::FAbs, &ty, &[&x]);
        let down = self.glsl(GL::Floor, &ty, &[&size]);
        let rest = self.emit(Op::FSub, &ty, &[&size, &down]);
        let up = self.emit(Op::FAdd, &ty, &[&down, &one]);
        let is_up = self.emit(Op::FOrdGreaterThanEqual, &ty.with(Scalar::Bool), &[&rest, &half]);
        let rounded = self.emit(Op::Select, &ty, &[&is_up, &up, &down]);
        let sign = self.glsl(GL::FSign, &ty, &[&x]);
        Ok(self.emit(Op::FMul, &ty, &[&sign, &rounded]))
    }

    /// log(1 + x), exact for small x: Goldberg, "What every computer scientist should know about
    /// floating-point arithmetic", theorem 4.
    fn log1p(&mut self, x: &Value) -> Result<Value> {
        let ([x], ty) = self.floats([x])?;
        let one = self.splat(&ty, Constant::Float(1.0));
        let sum = self.emit(Op::FAdd, &ty, &[&x, &one]);
        let log = self.glsl(GL::Log, &ty, &[&sum]);
        let added = self.emit(Op::FSub, &ty, &[&sum, &one]);
        let factor = self.emit(Op::FDiv, &ty, &[&x, &added]);
        let exact = self.emit(Op::FMul, &ty, &[&log, &factor]);
        let is_small = self.emit(Op::FOrdEqual, &ty.with(Scalar::Bool), &[&sum, &one]);
        let is_infinite = self.beside_infinity(Op::IEqual, &sum)?;
        let result = self.emit(Op::Select, &ty, &[&is_infinite, &sum, &exact]);
        let result = self.emit(Op::Select, &ty, &[&is_small, &x, &result]);
        Ok(self.fitted(&result))
    }

    /// How the size of a float compares with infinity, by their bits: drivers may take it that there is none.
    fn beside_infinity(&mut self, op: Op, x: &Value) -> Result<Value> {
        let ([x], ty) = self.floats([x])?;
        let word = ty.with(Scalar::Uint);
        let wide = self.convert(&x, &ty.with(Scalar::Float))?;
        let bits = self.emit(Op::Bitcast, &word, &[&wide]);
        let mask = self.splat(&word, Constant::Int(0x7fff_ffff));
        let size = self.emit(Op::BitwiseAnd, &word, &[&bits, &mask]);
        let infinity = self.splat(&word, Constant::Int(0x7f80_0000));
        Ok(self.emit(op, &ty.with(Scalar::Bool), &[&size, &infinity]))
    }

    fn of_bits(&mut self, name: &str, x: &Value, scalar: Scalar) -> Result<Value> {
        if scalar.size() != 4 {
            return Err(self.error(format!("`{name}` is for integers of 32 bits here")));
        }
        let ty = x.ty.clone();
        Ok(match name {
            "popcount" => self.emit(Op::BitCount, &ty, &[x]),
            "reverse_bits" => self.emit(Op::BitReverse, &ty, &[x]),
            "clz" => {
                let high = self.glsl(GL::FindUMsb, &ty, &[x]);
                let top = self.splat(&ty, Constant::Int(31));
                self.emit(Op::ISub, &ty, &[&top, &high])
            }
            _ => {
                let low = self.glsl(GL::FindILsb, &ty, &[x]);
                let all = self.splat(&ty, Constant::Int(32));
                self.glsl(GL::UMin, &ty, &[&low, &all])
            }
        })
    }

    fn of_two(&mut self, name: &str, x: &Value, y: &Value) -> Result<Option<Value>> {
        let function = match name {
            "atan2" => Some(GL::Atan2),
            "powr" => Some(GL::Pow),
            "fmin" => Some(GL::NMin),
            "fmax" => Some(GL::NMax),
            "step" => Some(GL::Step),
            _ => None,
        };
        if let Some(function) = function {
            return self.float_function(function, [x, y]).map(Some);
        }
        Ok(Some(match name {
            "min" | "max" => self.extreme(name == "max", x, y)?,
            "pow" => self.power(x, y)?,
            "fmod" => {
                let ([x, y], ty) = self.floats([x, y])?;
                let result = self.emit(Op::FRem, &ty, &[&x, &y]);
                self.fitted(&result)
            }
            "divide" => self.arithmetic(BinaryOperator::Divide, x, y)?,
            "copysign" => self.copysign(x, y)?,
            "ldexp" => {
                let ([x], ty) = self.floats([x])?;
                let y = self.convert(y, &ty.with(Scalar::Int))?;
                let result = self.glsl(GL::Ldexp, &ty, &[&x, &y]);
                self.fitted(&result)
            }
            "fdim" => {
                let rest = self.arithmetic(BinaryOperator::Subtract, x, y)?;
                let zero = self.float(0.0);
                return self.of_two("fmax", &rest, &zero);
            }
            "dot" => self.dot(x, y)?,
            "distance" => {
                let rest = self.arithmetic(BinaryOperator::Subtract, x, y)?;
                return self.of_one("length", &rest);
            }
            "cross" => self.float_function(GL::Cross, [x, y])?,
            "absdiff" => {
                let (more, less) = (self.extreme(true, x, y)?, self.extreme(false, x, y)?);
                self.arithmetic(BinaryOperator::Subtract, &more, &less)?
            }
            "mulhi" => self.high_product(x, y)?,
            "rotate" => self.rotate(x, y)?,
            _ => return Ok(None),
        }))
    }

    /// The smaller or the larger of two values.
    pub(crate) fn extreme(&mut self, is_max: bool, x: &Value, y: &Value) -> Result<Value> {
        let is_float = x.ty.is_float() || y.ty.is_float();
        if is_float {
            let function = if is_max { GL::NMax } else { GL::NMin };
            let ([x, y], ty) = self.floats([x, y])?;
            return Ok(self.glsl(function, &ty, &[&x, &y]));
        }
        let is_bool = x.ty.numbers().is_some_and(|(scalar, _)| scalar == Scalar::Bool);
        let is_same = x.ty == y.ty && !is_bool;
        let (x, y) = if is_same { (x.clone(), y.clone()) } else { self.unified(x, y)? };
        if let (Some(a), Some(b), Type::Scalar(scalar)) = (x.known(), y.known(), &x.ty) {
            let known = if is_max { a.max(b) } else { a.min(b) };
            return Ok(self.constant(*scalar, Constant::Int(known)));
        }
        let is_signed = x.ty.numbers().is_some_and(|(scalar, _)| scalar.is_signed());
        let function = match (is_max, is_signed) {
            (true, true) => GL::SMax,
            (true, false) => GL::UMax,
            (false, true) => GL::SMin,
            (false, false) => GL::UMin,
        };
        Ok(self.glsl(function, &x.ty.clone(), &[&x, &y]))
    }

    /// A power of any number: GLSL has those of positive ones alone.
    fn power(&mut self, x: &Value, y: &Value) -> Result<Value> {
        let ([x, y], ty) = self.floats([x, y])?;
        let truth = ty.with(Scalar::Bool);
        let number = |this: &mut Self, value: f64| this.splat(&ty, Constant::Float(value));
        let (zero, half, one, nan) =
            (number(self, 0.0), number(self, 0.5), number(self, 1.0), number(self, f64::NAN));
        let size = self.glsl(GL::FAbs, &ty, &[&x]);
        let power = self.glsl(GL::Pow, &ty, &[&size, &y]);
        let whole = self.glsl(GL::Floor, &ty, &[&y]);
        let is_whole = self.emit(Op::FOrdEqual, &truth, &[&whole, &y]);
        let halved = self.emit(Op::FMul, &ty, &[&y, &half]);
        let even = self.glsl(GL::Floor, &ty, &[&halved]);
        let is_even = self.emit(Op::FOrdEqual, &truth, &[&even, &halved]);
        let negated = self.emit(Op::FNegate, &ty, &[&power]);
        let of_whole = self.emit(Op::Select, &ty, &[&is_even, &power, &negated]);
        let of_negative = self.emit(Op::Select, &ty, &[&is_whole, &of_whole, &nan]);
        let is_negative = self.emit(Op::FOrdLessThan, &truth, &[&x, &zero]);
        let result = self.emit(Op::Select, &ty, &[&is_negative, &of_negative, &power]);
        let is_one = self.emit(Op::FOrdEqual, &truth, &[&y, &zero]);
        let result = self.emit(Op::Select, &ty, &[&is_one, &one, &result]);
        Ok(self.fitted(&result))
    }

    fn copysign(&mut self, x: &Value, y: &Value) -> Result<Value> {
        let ([x, y], ty) = self.floats([x, y])?;
        let (float, word) = (ty.with(Scalar::Float), ty.with(Scalar::Uint));
        let bits = |this: &mut Self, value: &Value, mask: i128| {
            let wide = this.convert(value, &float)?;
            let bits = this.emit(Op::Bitcast, &word, &[&wide]);
            let mask = this.splat(&word, Constant::Int(mask));
            Ok(this.emit(Op::BitwiseAnd, &word, &[&bits, &mask]))
        };
        let (size, sign) = (bits(self, &x, 0x7fff_ffff)?, bits(self, &y, 0x8000_0000)?);
        let both = self.emit(Op::BitwiseOr, &word, &[&size, &sign]);
        let wide = self.emit(Op::Bitcast, &float, &[&both]);
        self.convert(&wide, &ty)
    }

    fn dot(&mut self, x: &Value, y: &Value) -> Result<Value> {
        let products = self.arithmetic(BinaryOperator::Multiply, x, y)?;
        let parts = self.parts(&products);
        let Some((first, rest)) = parts.split_first() else { return Ok(products) };
        rest.iter()
            .try_fold(first.clone(), |sum, part| self.arithmetic(BinaryOperator::Add, &sum, part))
    }

    fn high_product(&mut self, x: &Value, y: &Value) -> Result<Value> {
        let (x, y) = self.unified(x, y)?;
        let Type::Scalar(scalar @ (Scalar::Int | Scalar::Uint)) = x.ty else {
            return Err(self.error("`mulhi` is for integers of 32 bits here"));
        };
        let wide = if scalar.is_signed() { Scalar::Long } else { Scalar::Ulong };
        let long = Type::Scalar(wide);
        let (x, y) = (self.convert(&x, &long)?, self.convert(&y, &long)?);
        let product = self.arithmetic(BinaryOperator::Multiply, &x, &y)?;
        let by = self.int(32);
        let high = self.arithmetic(BinaryOperator::ShiftRight, &product, &by)?;
        self.convert(&high, &Type::Scalar(scalar))
    }

    fn rotate(&mut self, x: &Value, y: &Value) -> Result<Value> {
        let Some((Scalar::Int | Scalar::Uint, _)) = x.ty.numbers() else {
            return Err(self.error("`rotate` is for integers of 32 bits here"));
        };
        let word = x.ty.with(Scalar::Uint);
        let bits = self.convert(x, &word)?;
        let by = self.convert(y, &word)?;
        let all = self.splat(&word, Constant::Int(31));
        let back = self.emit(Op::SNegate, &word, &[&by]);
        let by = self.emit(Op::BitwiseAnd, &word, &[&by, &all]);
        let back = self.emit(Op::BitwiseAnd, &word, &[&back, &all]);
        let high = self.emit(Op::ShiftLeftLogical, &word, &[&bits, &by]);
        let low = self.emit(Op::ShiftRightLogical, &word, &[&bits, &back]);
        let both = self.emit(Op::BitwiseOr, &word, &[&high, &low]);
        self.convert(&both, &x.ty.clone())
    }

    fn of_three(&mut self, name: &str, x: &Value, y: &Value, z: &Value) -> Result<Option<Value>> {
        let is_float = [x, y, z].iter().any(|value| value.ty.is_float());
        Ok(Some(match name {
            "fma" | "mad" if is_float => self.float_function(GL::Fma, [x, y, z])?,
            "mad" => {
                let product = self.arithmetic(BinaryOperator::Multiply, x, y)?;
                self.arithmetic(BinaryOperator::Add, &product, z)?
            }
            "clamp" if is_float => self.float_function(GL::NClamp, [x, y, z])?,
            "max3" | "fmax3" | "min3" | "fmin3" => {
                let is_max = name.contains("max");
                let two = self.extreme(is_max, x, y)?;
                self.extreme(is_max, &two, z)?
            }
            "median3" | "fmedian3" => {
                let (low, high) = (self.extreme(false, x, y)?, self.extreme(true, x, y)?);
                let most = self.extreme(false, &high, z)?;
                self.extreme(true, &low, &most)?
            }
            "clamp" => {
                let low = self.extreme(true, x, y)?;
                self.extreme(false, &low, z)?
            }
            "mix" => self.float_function(GL::FMix, [x, y, z])?,
            "smoothstep" => self.float_function(GL::SmoothStep, [x, y, z])?,
            "select" => self.select(x, y, z)?,
            "extract_bits" => {
                let [offset, count] = self.words(x, [y, z])?;
                let is_signed = x.ty.numbers().is_some_and(|(scalar, _)| scalar.is_signed());
                let op = if is_signed { Op::BitFieldSExtract } else { Op::BitFieldUExtract };
                self.emit(op, &x.ty.clone(), &[x, &offset, &count])
            }
            _ => return Ok(None),
        }))
    }

    /// Numbers that say which bits of an integer of 32 are meant.
    fn words<const N: usize>(&mut self, x: &Value, values: [&Value; N]) -> Result<[Value; N]> {
        if !matches!(x.ty, Type::Scalar(Scalar::Int | Scalar::Uint)) {
            return Err(self.error("bits are those of an integer of 32"));
        }
        let mut words = Vec::new();
        for value in values {
            words.push(self.convert(value, &Type::UINT)?);
        }
        words.try_into().map_err(|_| self.error("too many values"))
    }
}

/// Whether the language has a function of this name, which programs may have for other types.
pub(crate) fn is_language_function(name: &str) -> bool {
    const OTHERS: [&str; 39] = [
        "abs",
        "fabs",
        "exp10",
        "log10",
        "tanh",
        "asin",
        "acos",
        "round",
        "log1p",
        "saturate",
        "isnan",
        "isinf",
        "isfinite",
        "signbit",
        "any",
        "all",
        "length",
        "normalize",
        "popcount",
        "clz",
        "ctz",
        "reverse_bits",
        "atan2",
        "powr",
        "pow",
        "fmin",
        "fmax",
        "step",
        "min",
        "max",
        "fmod",
        "copysign",
        "ldexp",
        "dot",
        "clamp",
        "mix",
        "fma",
        "select",
        "smoothstep",
    ];
    function_of_one(name).is_some() || OTHERS.contains(&name)
}

/// Functions of one float that GLSL has.
fn function_of_one(name: &str) -> Option<GL> {
    Some(match name {
        "exp" => GL::Exp,
        "exp2" => GL::Exp2,
        "log" => GL::Log,
        "log2" => GL::Log2,
        "sin" => GL::Sin,
        "cos" => GL::Cos,
        "tan" => GL::Tan,
        "atan" => GL::Atan,
        "sinh" => GL::Sinh,
        "cosh" => GL::Cosh,
        "asinh" => GL::Asinh,
        "acosh" => GL::Acosh,
        "atanh" => GL::Atanh,
        "sqrt" => GL::Sqrt,
        "rsqrt" => GL::InverseSqrt,
        "floor" => GL::Floor,
        "ceil" => GL::Ceil,
        "trunc" => GL::Trunc,
        "rint" => GL::RoundEven,
        "fract" => GL::Fract,
        "sign" => GL::FSign,
        _ => return None,
    })
}
