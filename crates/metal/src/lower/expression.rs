//! Values and places of expressions.

use rspirv::{
    dr::Operand,
    spirv::{Op, StorageClass},
};

use super::{
    Lowering,
    memory::Place,
    names::Binding,
    value::{Constant, LocalPointer, Root, Value, space_of},
};
use crate::{
    ast::{
        BaseType, BinaryOperator, Declaration, Expression, ExpressionKind as E, Initial, TypeName,
        UnaryOperator,
    },
    error::Result,
    types::{Scalar, Type},
};

impl Lowering<'_> {
    /// What an expression gives.
    pub(crate) fn value(&mut self, expression: &Expression) -> Result<Value> {
        self.deeper()?;
        self.line = expression.line;
        let value = self.value_of(expression);
        self.depth -= 1;
        value
    }

    fn value_of(&mut self, expression: &Expression) -> Result<Value> {
        match &expression.kind {
            E::Integer { value, is_unsigned, is_long } => {
                let scalar = integer_type(*value, *is_unsigned, *is_long);
                Ok(self.constant(scalar, Constant::Int((*value).into())))
            }
            E::Float { value, is_half } => {
                let scalar = if *is_half { Scalar::Half } else { Scalar::Float };
                Ok(self.constant(scalar, Constant::Float(*value)))
            }
            E::Bool(value) => Ok(self.constant(Scalar::Bool, Constant::Bool(*value))),
            E::Name(name, arguments) if !arguments.is_empty() => self.of_types(name, arguments),
            E::Name(..) | E::Index(..) | E::Member(..) | E::Unary(UnaryOperator::Pointee, _) => {
                let place = self.place(expression)?;
                self.load(&place)
            }
            E::Unary(UnaryOperator::AddressOf, of) => self.address_of(of),
            E::Unary(operator, of) => {
                let value = self.value(of)?;
                self.unary(*operator, &value)
            }
            E::Step { place, by, is_postfix } => self.step(place, *by, *is_postfix),
            E::Binary(operator @ (BinaryOperator::Both | BinaryOperator::Either), a, b) => {
                self.logic(*operator, a, b)
            }
            E::Binary(operator, a, b) => {
                let (a, b) = (self.value(a)?, self.value(b)?);
                self.line = expression.line;
                self.arithmetic(*operator, &a, &b)
            }
            E::Assign(operator, place, value) => self.assign(*operator, place, value),
            E::Conditional(condition, yes, no) => self.conditional(condition, yes, no),
            E::Comma(a, b) => {
                self.value(a)?;
                self.value(b)
            }
            E::Call { name, template, arguments } => self.call(name, template, arguments),
            E::CallOf { ty, name, arguments } => self.call_of(ty, name, arguments),
            E::CallOn { value, name, template, arguments } => {
                self.call_on(value, name, template, arguments)
            }
            E::Cast(ty, _) if ty.is_reference && !ty.is_const => {
                let place = self.place(expression)?;
                self.load(&place)
            }
            E::Cast(ty, of) => self.cast(ty, of),
            E::Bits(ty, of) => {
                let (ty, value) = (self.resolve(ty)?, self.value(of)?);
                self.bits(&value, &ty)
            }
            E::Construct(ty, arguments) => self.construct(ty, arguments),
            E::Braces(ty, parts) => {
                let ty = match ty.base {
                    BaseType::Auto => self.result.clone(),
                    _ => self.resolve(ty)?,
                };
                self.braces(&ty, parts)
            }
            E::SizeOf(ty) => {
                let ty = self.resolve(ty)?;
                let size = self.layout(&ty).0;
                Ok(self.constant(Scalar::Ulong, Constant::Int(size.into())))
            }
        }
    }

    /// Where an expression's value lies.
    pub(crate) fn place(&mut self, expression: &Expression) -> Result<Place> {
        self.line = expression.line;
        match &expression.kind {
            E::Name(name, _) => self.name(name),
            E::Index(of, index) => {
                let place = self.nested_place(of)?;
                let index = self.value(index)?;
                self.line = expression.line;
                self.element(place, &index)
            }
            E::Member(of, name) => {
                let place = self.nested_place(of)?;
                self.member(place, name)
            }
            E::Unary(UnaryOperator::Pointee, of) => {
                let pointer = self.value(of)?;
                self.pointee(&pointer)
            }
            E::Cast(to, of) if to.is_reference && !to.is_const => {
                let (to, place) = (self.resolve(to)?, self.nested_place(of)?);
                if place.ty() != to {
                    let (from, to) = (place.ty().name(), to.name());
                    return Err(self.error(format!("`{from}` cannot be referred to as `{to}`")));
                }
                Ok(place)
            }
            _ => Ok(Place::Value(self.value(expression)?)),
        }
    }

    pub(crate) fn nested_place(&mut self, expression: &Expression) -> Result<Place> {
        self.deeper()?;
        let place = self.place(expression);
        self.depth -= 1;
        place
    }

    fn name(&mut self, name: &str) -> Result<Place> {
        match self.binding(name) {
            Some(Binding::Place(place)) => return Ok(place),
            Some(Binding::Value(value)) => return Ok(Place::Value(value)),
            Some(Binding::Type(_)) => return Err(self.error(format!("`{name}` is a type"))),
            None => {}
        }
        if let Some(declared) = self.program.constants.iter().find(|c| c.name == name) {
            return self.global(declared);
        }
        if let Some(value) = self.language_constant(name) {
            return Ok(Place::Value(value));
        }
        Err(self.error(format!("`{name}` is not known")))
    }

    /// A constant of the program. An array becomes a variable of the module.
    fn global(&mut self, declared: &Declaration) -> Result<Place> {
        if let Some(place) = self.globals.get(&declared.name) {
            return Ok(place.clone());
        }
        self.deeper()?;
        let outer = std::mem::take(&mut self.scopes);
        let place = self.scoped(|this| this.new_global(declared));
        self.scopes = outer;
        self.depth -= 1;
        let place = place?;
        // Others are worked out where they are asked for.
        if !matches!(&place, Place::Value(value) if !value.is_global) {
            self.globals.insert(declared.name.clone(), place.clone());
        }
        Ok(place)
    }

    fn new_global(&mut self, declared: &Declaration) -> Result<Place> {
        let name = &declared.name;
        let Some(initial) = &declared.value else {
            return Err(self.error(format!("`{name}` has no value")));
        };
        let ty = self.declared_type(declared)?;
        let Some(ty) = ty else {
            let Initial::Value(value) = initial else {
                return Err(self.error(format!("`{name}` has no type")));
            };
            return Ok(Place::Value(self.value(value)?));
        };
        if !matches!(ty, Type::Array(..)) {
            let value = self.initial(&ty, initial)?;
            return Ok(Place::Value(value));
        }
        let id = self.constant_of(&ty, initial)?;
        let of = self.value_type(&ty);
        let id = self.emitter.module_variable(StorageClass::Private, of, Some(id));
        let number = self.new_number();
        let root = Root { id, class: StorageClass::Private, ty: ty.clone(), number };
        Ok(Place::Local { root, path: Vec::new(), ty, is_uniform: true })
    }

    /// A constant of the module; all of its parts have to be known.
    fn constant_of(&mut self, ty: &Type, initial: &Initial) -> Result<u32> {
        let of = self.value_type(ty);
        let (Type::Array(part, count), Initial::List(parts)) = (ty, initial) else {
            let value = self.initial(ty, initial)?;
            return match value.is_global {
                true => Ok(value.id),
                false => Err(self.error("a constant of the program has to be known")),
            };
        };
        if parts.len() > *count as usize {
            return Err(self.error(format!("an array of {count} has no {} elements", parts.len())));
        }
        let mut ids = Vec::new();
        for initial in parts {
            ids.push(Operand::IdRef(self.constant_of(part, initial)?));
        }
        let zero = Operand::IdRef(self.zero(part).id);
        ids.resize(*count as usize, zero);
        Ok(self.emitter.global(Op::ConstantComposite, Some(of), ids))
    }

    /// A value of a type from what is written behind `=` or in braces.
    pub(crate) fn initial(&mut self, ty: &Type, initial: &Initial) -> Result<Value> {
        match initial {
            Initial::Value(value) => {
                let value = self.value(value)?;
                self.convert(&value, ty)
            }
            Initial::List(parts) => self.braces(ty, parts),
        }
    }

    fn braces(&mut self, ty: &Type, parts: &[Initial]) -> Result<Value> {
        if parts.is_empty() {
            return Ok(self.zero(ty));
        }
        let is_matrix = matches!(ty, Type::Struct(number) if self.is_matrix(*number));
        let types: Vec<Type> = match ty {
            Type::Struct(number) if !is_matrix => {
                let fields = self.structs[*number].fields.iter();
                fields.filter(|(name, _)| !name.is_empty()).map(|(_, ty)| ty.clone()).collect()
            }
            Type::Array(of, count) => vec![(**of).clone(); *count as usize],
            Type::Vector(scalar, count, _) if parts.len() == *count as usize => {
                vec![Type::Scalar(*scalar); *count as usize]
            }
            _ => {
                return match parts {
                    [part] => self.initial(ty, part),
                    _ => Err(self.error(format!("`{}` has no such parts", ty.name()))),
                };
            }
        };
        if parts.len() > types.len() {
            return Err(self.error(format!("`{}` has {} parts", ty.name(), types.len())));
        }
        let mut values = Vec::new();
        for (at, part) in types.iter().enumerate() {
            values.push(match parts.get(at) {
                Some(initial) => self.initial(part, initial)?,
                None => self.zero(part),
            });
        }
        Ok(self.composite(ty, &values))
    }

    fn address_of(&mut self, of: &Expression) -> Result<Value> {
        // The pointer to an element moves over the array.
        if let E::Index(array, index) = &of.kind {
            let place = self.nested_place(array)?;
            if matches!(place.ty(), Type::Array(..) | Type::Pointer(..)) {
                let first = self.load(&place)?;
                let index = self.value(index)?;
                return self.advanced(&first, &index);
            }
        }
        match self.nested_place(of)? {
            Place::Local { root, path, ty, is_uniform } => {
                let id = self.emitter.uint(0);
                let ty = Type::Pointer(space_of(root.class), Box::new(ty));
                let pointer = Some(LocalPointer { root, path, index: None });
                Ok(Value { pointer, ..Value::new(ty, id, is_uniform) })
            }
            Place::Device { address, ty, space, is_uniform } => {
                Ok(Value::new(Type::Pointer(space, Box::new(ty)), address, is_uniform))
            }
            _ => Err(self.error("this has no address")),
        }
    }

    fn step(&mut self, place: &Expression, by: i32, is_postfix: bool) -> Result<Value> {
        let place = self.nested_place(place)?;
        let before = self.load(&place)?;
        let by = self.int(by.into());
        let after = self.arithmetic(BinaryOperator::Add, &before, &by)?;
        let after = self.convert(&after, &before.ty)?;
        self.store(&place, &after)?;
        Ok(if is_postfix { before } else { after })
    }

    fn assign(
        &mut self,
        operator: Option<BinaryOperator>,
        place: &Expression,
        value: &Expression,
    ) -> Result<Value> {
        let line = self.line;
        let place = self.nested_place(place)?;
        let value = self.value(value)?;
        self.line = line;
        let value = match operator {
            Some(operator) => {
                let before = self.load(&place)?;
                self.arithmetic(operator, &before, &value)?
            }
            None => value,
        };
        let value = self.convert(&value, &place.ty())?;
        self.store(&place, &value)?;
        Ok(value)
    }

    /// `&&` and `||`: the second value is looked at only if the first does not decide.
    fn logic(&mut self, operator: BinaryOperator, a: &Expression, b: &Expression) -> Result<Value> {
        let first = self.value(a)?;
        let first = self.truth(&first)?;
        let goes_on = operator == BinaryOperator::Both;
        if let Some(Constant::Bool(known)) = first.constant {
            if known != goes_on {
                return Ok(first);
            }
            let second = self.value(b)?;
            return self.truth(&second);
        }
        if is_plain(b) {
            let second = self.value(b)?;
            return self.arithmetic(operator, &first, &second);
        }
        let bool = self.emitter.bool();
        let variable = self.emitter.variable(bool);
        self.emitter.act(Op::Store, [variable, first.id].map(Operand::IdRef).into());
        let (second, merge) = (self.emitter.id(), self.emitter.id());
        let (yes, no) = if goes_on { (second, merge) } else { (merge, second) };
        self.emitter.choose(first.id, yes, no, merge);
        self.emitter.begin(second);
        let is_uniform = self.flow.is_uniform;
        self.flow.is_uniform &= first.is_uniform;
        let value = self.value(b)?;
        let value = self.truth(&value)?;
        self.flow.is_uniform = is_uniform;
        self.emitter.act(Op::Store, [variable, value.id].map(Operand::IdRef).into());
        self.emitter.jump(Op::Branch, &[merge]);
        self.emitter.begin(merge);
        let id = self.emitter.op(Op::Load, bool, &[variable]);
        Ok(Value::new(Type::BOOL, id, first.is_uniform && value.is_uniform))
    }

    fn conditional(
        &mut self,
        condition: &Expression,
        yes: &Expression,
        no: &Expression,
    ) -> Result<Value> {
        let condition = self.value(condition)?;
        if let Type::Vector(..) = condition.ty {
            let (yes, no) = (self.value(yes)?, self.value(no)?);
            return self.select(&no, &yes, &condition);
        }
        let condition = self.truth(&condition)?;
        if let Some(Constant::Bool(known)) = condition.constant {
            return self.value(if known { yes } else { no });
        }
        if is_plain(yes) && is_plain(no) {
            let (yes, no) = (self.value(yes)?, self.value(no)?);
            if yes.pointer.is_none() && no.pointer.is_none() {
                let (yes, no) = self.alike(&yes, &no)?;
                return self.select(&no, &yes, &condition);
            }
        }
        self.branches(&condition, yes, no)
    }

    /// Both values of a choice as one type.
    fn alike(&mut self, a: &Value, b: &Value) -> Result<(Value, Value)> {
        if a.ty == b.ty { Ok((a.clone(), b.clone())) } else { self.unified(a, b) }
    }

    fn branches(&mut self, condition: &Value, yes: &Expression, no: &Expression) -> Result<Value> {
        let [on_yes, on_no, merge] = [(); 3].map(|()| self.emitter.id());
        self.emitter.choose(condition.id, on_yes, on_no, merge);
        let is_uniform = self.flow.is_uniform;
        self.flow.is_uniform &= condition.is_uniform;
        self.emitter.begin(on_yes);
        let yes = self.value(yes)?;
        let after_yes = self.emitter.mark();
        self.emitter.begin(on_no);
        let no = self.value(no)?;
        let after_no = self.emitter.mark();
        self.flow.is_uniform = is_uniform;
        if yes.pointer.is_some() || no.pointer.is_some() {
            return Err(self.error("a choice of pointers to variables is not supported"));
        }
        let ty = match (yes.ty.numbers(), no.ty.numbers()) {
            _ if yes.ty == no.ty => yes.ty.clone(),
            (Some((a, m)), Some((b, n))) => match (m, n) {
                (1, 1) => Type::Scalar(a.common(b)),
                (1, _) => no.ty.clone(),
                _ => yes.ty.clone(),
            },
            _ => return Err(self.error("the values of a choice have no common type")),
        };
        if ty == Type::Void {
            for after in [after_yes, after_no] {
                self.emitter.go_on(after);
                self.emitter.jump(Op::Branch, &[merge]);
            }
            self.emitter.begin(merge);
            return Ok(yes);
        }
        let of = self.value_type(&ty);
        let variable = self.emitter.variable(of);
        for (after, value) in [(after_yes, &yes), (after_no, &no)] {
            self.emitter.go_on(after);
            let value = self.convert(value, &ty)?;
            self.emitter.act(Op::Store, [variable, value.id].map(Operand::IdRef).into());
            self.emitter.jump(Op::Branch, &[merge]);
        }
        self.emitter.begin(merge);
        let id = self.emitter.op(Op::Load, of, &[variable]);
        let is_uniform = condition.is_uniform && yes.is_uniform && no.is_uniform;
        Ok(Value::new(ty, id, is_uniform))
    }

    /// `yes` where the condition holds, else `no`; both have one type.
    pub(crate) fn select(&mut self, no: &Value, yes: &Value, condition: &Value) -> Result<Value> {
        let (no, yes) = self.alike(no, yes)?;
        let count = yes.ty.numbers().map_or(1, |(_, count)| count);
        let mut condition = self.convert(condition, &condition.ty.with(Scalar::Bool))?;
        if condition.ty == Type::BOOL && count > 1 {
            condition = self.convert(&condition, &Type::of(Scalar::Bool, count))?;
        }
        Ok(self.emit(Op::Select, &yes.ty.clone(), &[&condition, &yes, &no]))
    }

    fn cast(&mut self, ty: &TypeName, of: &Expression) -> Result<Value> {
        let ty = self.resolve(ty)?;
        let value = self.value(of)?;
        match (&ty, &value.ty) {
            (Type::Pointer(_, to), Type::Pointer(_, from)) if value.pointer.is_some() => {
                match to == from {
                    true => Ok(value),
                    false => {
                        let message = format!("variables cannot be read as `{}`", to.name());
                        Err(self.error(message))
                    }
                }
            }
            // Which memory it is stays as it was.
            (Type::Pointer(_, to), Type::Pointer(space, _)) => {
                Ok(Value { ty: Type::Pointer(*space, to.clone()), ..value })
            }
            (Type::Void, _) => Ok(Value { ty, ..value }),
            _ => self.convert(&value, &ty),
        }
    }

    fn construct(&mut self, ty: &TypeName, arguments: &[Expression]) -> Result<Value> {
        let ty = self.resolve(ty)?;
        let values = arguments.iter().map(|a| self.value(a)).collect::<Result<Vec<Value>>>()?;
        match (&ty, &values[..]) {
            (Type::Void, _) => Err(self.error("there is no value of `void`")),
            (_, []) => Ok(self.zero(&ty)),
            (_, [value]) => self.convert(value, &ty),
            (Type::Vector(scalar, count, _), _) => {
                let mut parts = Vec::new();
                for value in &values {
                    parts.extend(self.parts(value));
                }
                if parts.len() != *count as usize {
                    let message = format!("`{}` of {} numbers", ty.name(), parts.len());
                    return Err(self.error(message));
                }
                let one = Type::Scalar(*scalar);
                let parts =
                    parts.iter().map(|p| self.convert(p, &one)).collect::<Result<Vec<_>>>()?;
                Ok(self.composite(&ty, &parts))
            }
            _ => Err(self.error(format!("`{}` is not made of several values", ty.name()))),
        }
    }
}

/// Whether an expression may be worked out although it is not asked for: it does nothing, and reads no
/// memory.
fn is_plain(expression: &Expression) -> bool {
    match &expression.kind {
        E::Integer { .. } | E::Float { .. } | E::Bool(_) | E::SizeOf(_) | E::Name(..) => true,
        E::Unary(operator, of) => {
            !matches!(operator, UnaryOperator::Pointee | UnaryOperator::AddressOf) && is_plain(of)
        }
        E::Binary(operator, a, b) => {
            let may_fail = matches!(operator, BinaryOperator::Divide | BinaryOperator::Remainder);
            !may_fail && is_plain(a) && is_plain(b)
        }
        E::Conditional(a, b, c) => is_plain(a) && is_plain(b) && is_plain(c),
        E::Cast(_, of) | E::Bits(_, of) => is_plain(of),
        E::Construct(_, arguments) => arguments.iter().all(is_plain),
        _ => false,
    }
}

/// The type of an integer as it is written.
fn integer_type(value: u64, is_unsigned: bool, is_long: bool) -> Scalar {
    match (is_unsigned, is_long) {
        (false, false) if value <= i32::MAX as u64 => Scalar::Int,
        (true, false) if value <= u32::MAX.into() => Scalar::Uint,
        (false, _) if value <= i64::MAX as u64 => Scalar::Long,
        _ => Scalar::Ulong,
    }
}
