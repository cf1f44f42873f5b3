//! Statements.

use rspirv::spirv::{Op, StorageClass, Word};

use super::{
    Lowering,
    memory::Place,
    names::Binding,
    value::{Constant, Root, Value},
};
use crate::{
    ast::{BaseType, Case, Declaration, Expression, Initial, Space, Statement, StatementKind as S},
    error::Result,
    types::Type,
};

/// A loop or a switch that is being written.
pub(crate) struct Loop {
    /// Where `break` goes.
    end: Word,
    /// Where `continue` goes; a switch has none.
    next: Option<Word>,
    number: usize,
}

impl Lowering<'_> {
    /// Statements with names of their own.
    pub(crate) fn statements(&mut self, statements: &[Statement]) -> Result<()> {
        self.scoped(|this| statements.iter().try_for_each(|statement| this.statement(statement)))
    }

    fn statement(&mut self, statement: &Statement) -> Result<()> {
        // Nothing comes to what stands behind a jump.
        if !self.emitter.is_reached() {
            return Ok(());
        }
        self.deeper()?;
        self.line = statement.line;
        let result = self.statement_of(&statement.kind);
        self.depth -= 1;
        result
    }

    fn statement_of(&mut self, kind: &S) -> Result<()> {
        match kind {
            S::Empty => Ok(()),
            S::Declare(all) => all.iter().try_for_each(|declared| self.declare(declared)),
            S::Alias(alias) => {
                let ty = self.resolve(&alias.ty)?;
                self.bind(&alias.name, Binding::Type(ty));
                Ok(())
            }
            S::Expression(expression) => self.value(expression).map(|_| ()),
            S::Block(statements) => self.statements(statements),
            S::If { condition, then, otherwise } => {
                self.if_else(condition, then, otherwise.as_deref())
            }
            S::For { first, condition, step, body } => self.scoped(|this| {
                if let Some(first) = first {
                    this.statement(first)?;
                }
                this.repeat(condition.as_ref(), step.as_ref(), body)
            }),
            S::While { condition, body } => self.repeat(Some(condition), None, body),
            S::DoWhile { body, condition } => self.do_while(body, condition),
            S::Switch { value, cases } => self.switch(value, cases),
            S::Break => self.leave(false),
            S::Continue => self.leave(true),
            S::Return(value) => self.give(value.as_ref()),
        }
    }

    /// The type of a variable; nothing if its value has to say it.
    pub(crate) fn declared_type(&mut self, declared: &Declaration) -> Result<Option<Type>> {
        if matches!(declared.ty.base, BaseType::Auto) {
            return Ok(None);
        }
        let ty = self.resolve(&declared.ty)?;
        let (Some(None), Some(Initial::List(parts))) = (declared.array.first(), &declared.value)
        else {
            return self.sized(ty, &declared.array).map(Some);
        };
        let of = self.sized(ty, &declared.array[1..])?;
        Ok(Some(Type::Array(Box::new(of), parts.len().max(1) as u32)))
    }

    fn declare(&mut self, declared: &Declaration) -> Result<()> {
        self.line = declared.line;
        if declared.ty.space == Some(Space::Threadgroup) && declared.ty.pointers == 0 {
            return self.declare_shared(declared);
        }
        if declared.ty.is_reference {
            return self.declare_reference(declared);
        }
        let ty = self.declared_type(declared)?;
        let binding = match (&declared.value, ty) {
            (Some(Initial::Value(value)), ty) => {
                let value = self.value(value)?;
                self.line = declared.line;
                self.begin_as(declared, &value, ty)?
            }
            (Some(Initial::List(parts)), Some(ty)) => {
                let value = self.initial(&ty, &Initial::List(parts.clone()))?;
                Binding::Place(self.kept(&value))
            }
            (None, Some(ty)) => self.unset(ty)?,
            (_, None) => return Err(self.error("`auto` needs a value")),
        };
        self.bind(&declared.name, binding);
        Ok(())
    }

    /// A variable, or a constant, that begins as a value.
    fn begin_as(
        &mut self,
        declared: &Declaration,
        value: &Value,
        ty: Option<Type>,
    ) -> Result<Binding> {
        let value = match ty {
            Some(Type::Pointer(_, of)) => match &value.ty {
                Type::Pointer(_, given) if *given == of => value.clone(),
                given => {
                    let (given, of) = (given.name(), of.name());
                    return Err(self.error(format!("`{given}` is no pointer to `{of}`")));
                }
            },
            Some(ty) => self.convert(value, &ty)?,
            None => value.clone(),
        };
        if value.pointer.is_some() {
            return Ok(self.kept_pointer(&value));
        }
        if value.ty == Type::Void {
            return Err(self.error("this gives no value"));
        }
        let is_fixed = declared.ty.is_const && declared.ty.pointers == 0;
        Ok(match value.constant {
            Some(_) if is_fixed => Binding::Value(value),
            _ => Binding::Place(self.kept(&value)),
        })
    }

    /// A variable that holds nothing yet.
    fn unset(&mut self, ty: Type) -> Result<Binding> {
        if matches!(ty, Type::Void | Type::Pointer(Space::Thread | Space::Threadgroup, _)) {
            return Err(self.error(format!("a `{}` needs a value", ty.name())));
        }
        let of = self.value_type(&ty);
        let id = self.emitter.variable(of);
        let number = self.new_number();
        let root = Root { id, class: StorageClass::Function, ty: ty.clone(), number };
        Ok(Binding::Place(Place::Local { root, path: Vec::new(), ty, is_uniform: true }))
    }

    /// Memory that a group's threads share.
    fn declare_shared(&mut self, declared: &Declaration) -> Result<()> {
        let Some(ty) = self.declared_type(declared)? else {
            return Err(self.error("memory of a group has a type"));
        };
        if declared.value.is_some() {
            return Err(self.error("memory of a group begins as nothing"));
        }
        let of = self.value_type(&ty);
        let id = self.emitter.module_variable(StorageClass::Workgroup, of, None);
        self.shared += self.shared_bytes(&ty);
        let number = self.new_number();
        let root = Root { id, class: StorageClass::Workgroup, ty: ty.clone(), number };
        let place = Place::Local { root, path: Vec::new(), ty, is_uniform: true };
        self.bind(&declared.name, Binding::Place(place));
        Ok(())
    }

    /// The bytes that a variable takes, whose small integers have 32 bits.
    pub(crate) fn shared_bytes(&self, ty: &Type) -> u64 {
        match ty {
            Type::Array(of, count) => self.shared_bytes(of) * u64::from(*count),
            Type::Scalar(scalar) => scalar.size().max(4).into(),
            Type::Vector(scalar, count, _) => {
                u64::from(scalar.size().max(4) * count.next_power_of_two())
            }
            Type::Struct(number) => self.structs[*number].shared,
            _ => self.layout(ty).0,
        }
    }

    fn declare_reference(&mut self, declared: &Declaration) -> Result<()> {
        let Some(Initial::Value(value)) = &declared.value else {
            return Err(self.error("a reference needs something to refer to"));
        };
        let place = self.place(value)?;
        let wanted = self.declared_type(declared)?;
        let binding = match (&place, wanted) {
            (Place::Value(value), wanted) => {
                let value = match wanted {
                    Some(ty) => self.convert(&value.clone(), &ty)?,
                    None => value.clone(),
                };
                Binding::Place(self.kept(&value))
            }
            (place, Some(ty)) if place.ty() != ty => {
                return Err(self.error(format!("this is no `{}`", ty.name())));
            }
            _ => Binding::Place(place),
        };
        self.bind(&declared.name, binding);
        Ok(())
    }

    fn if_else(
        &mut self,
        condition: &Expression,
        then: &Statement,
        otherwise: Option<&Statement>,
    ) -> Result<()> {
        let condition = self.condition(condition)?;
        if let Some(Constant::Bool(known)) = condition.constant {
            let taken = if known { Some(then) } else { otherwise };
            return taken.map_or(Ok(()), |s| self.scoped(|this| this.statement(s)));
        }
        let [on_yes, on_no, merge] = [(); 3].map(|()| self.emitter.id());
        let no = if otherwise.is_some() { on_no } else { merge };
        self.emitter.choose(condition.id, on_yes, no, merge);
        let before = self.flow.is_uniform;
        let inside = before && condition.is_uniform;
        let mut after = before;
        let branches = [(on_yes, Some(then)), (on_no, otherwise)];
        for (label, statement) in branches {
            let Some(statement) = statement else { continue };
            self.flow.is_uniform = inside;
            self.emitter.begin(label);
            self.scoped(|this| this.statement(statement))?;
            match self.emitter.is_reached() {
                true => {
                    after &= self.flow.is_uniform || !inside;
                    self.emitter.jump(Op::Branch, &[merge]);
                }
                // Some threads are gone.
                false => after &= inside,
            }
        }
        self.flow.is_uniform = after && !self.returned_apart;
        self.emitter.begin(merge);
        Ok(())
    }

    fn condition(&mut self, condition: &Expression) -> Result<Value> {
        let value = self.value(condition)?;
        self.truth(&value)
    }

    /// `for` and `while`.
    fn repeat(
        &mut self,
        condition: Option<&Expression>,
        step: Option<&Expression>,
        body: &Statement,
    ) -> Result<()> {
        let [head, test, inside, next, end] = [(); 5].map(|()| self.emitter.id());
        self.emitter.jump(Op::Branch, &[head]);
        self.emitter.begin(head);
        self.emitter.loop_merge(end, next);
        self.emitter.jump(Op::Branch, &[test]);
        self.emitter.begin(test);
        let before = self.enter(end, Some(next));
        match condition {
            Some(condition) => {
                let condition = self.condition(condition)?;
                self.part_at(&condition);
                self.emitter.jump(Op::BranchConditional, &[condition.id, inside, end]);
            }
            None => self.emitter.jump(Op::Branch, &[inside]),
        }
        self.emitter.begin(inside);
        self.scoped(|this| this.statement(body))?;
        self.emitter.jump_if_reached(next);
        self.emitter.begin(next);
        if let Some(step) = step {
            self.value(step)?;
        }
        self.emitter.jump(Op::Branch, &[head]);
        self.exit(before);
        self.emitter.begin(end);
        Ok(())
    }

    fn do_while(&mut self, body: &Statement, condition: &Expression) -> Result<()> {
        let [head, inside, next, end] = [(); 4].map(|()| self.emitter.id());
        self.emitter.jump(Op::Branch, &[head]);
        self.emitter.begin(head);
        self.emitter.loop_merge(end, next);
        self.emitter.jump(Op::Branch, &[inside]);
        self.emitter.begin(inside);
        let before = self.enter(end, Some(next));
        self.scoped(|this| this.statement(body))?;
        self.emitter.jump_if_reached(next);
        self.emitter.begin(next);
        let condition = self.condition(condition)?;
        self.part_at(&condition);
        self.emitter.jump(Op::BranchConditional, &[condition.id, head, end]);
        self.exit(before);
        self.emitter.begin(end);
        Ok(())
    }

    /// Begins a loop or a switch. Whether all threads were there together is given.
    fn enter(&mut self, end: Word, next: Option<Word>) -> bool {
        let number = self.new_number();
        self.loops.push(Loop { end, next, number });
        let before = self.flow.is_uniform;
        self.flow.is_uniform &= !self.varying.contains(&number);
        before
    }

    fn exit(&mut self, before: bool) {
        self.loops.pop();
        self.flow.is_uniform = before && !self.returned_apart;
    }

    /// Threads leave a loop apart if they differ in its condition.
    fn part_at(&mut self, condition: &Value) {
        if !condition.is_uniform {
            self.flow.is_uniform = false;
            self.found.extend(self.loops.last().map(|last| last.number));
        }
    }

    /// `break` and `continue`.
    fn leave(&mut self, goes_on: bool) -> Result<()> {
        let target = match goes_on {
            false => self.loops.last().map(|last| last.end),
            true => self.loops.iter().rev().find_map(|outer| outer.next),
        };
        let Some(target) = target else {
            return Err(self.error("there is no loop here"));
        };
        if !self.flow.is_uniform {
            self.found.extend(self.loops.iter().map(|outer| outer.number));
        }
        self.emitter.jump(Op::Branch, &[target]);
        Ok(())
    }

    fn give(&mut self, value: Option<&Expression>) -> Result<()> {
        if !self.flow.is_uniform {
            self.returned_apart = true;
            self.found.extend(self.loops.iter().map(|outer| outer.number));
        }
        let result = self.result.clone();
        match (value, &result) {
            (None, Type::Void) => self.emitter.jump(Op::Return, &[]),
            (Some(value), Type::Void) => {
                self.value(value)?;
                self.emitter.jump(Op::Return, &[]);
            }
            (Some(value), _) => {
                let value = self.value(value)?;
                if value.pointer.is_some() {
                    return Err(self.error("a pointer to a variable cannot be given back"));
                }
                let value = match (&result, &value.ty) {
                    (Type::Pointer(_, a), Type::Pointer(_, b)) if a == b => value,
                    _ => self.convert(&value, &result)?,
                };
                self.emitter.jump(Op::ReturnValue, &[value.id]);
            }
            (None, _) => return Err(self.error("a value is to be given back")),
        }
        Ok(())
    }

    fn switch(&mut self, value: &Expression, cases: &[Case]) -> Result<()> {
        let value = self.value(value)?;
        if !matches!(value.ty, Type::Scalar(scalar) if !scalar.is_float() && scalar.size() <= 4) {
            let name = value.ty.name();
            return Err(
                self.error(format!("a switch is over integers of up to 32 bits, no `{name}`"))
            );
        }
        let value = self.convert(&value, &Type::INT)?;
        let end = self.emitter.id();
        let labels: Vec<Word> = cases.iter().map(|_| self.emitter.id()).collect();
        let (mut targets, mut default) = (Vec::new(), end);
        for (case, &label) in cases.iter().zip(&labels) {
            for written in &case.labels {
                let Some(written) = written else {
                    default = label;
                    continue;
                };
                let Some(number) = self.value(written)?.known() else {
                    return Err(self.error("a case has to be known"));
                };
                if targets.iter().any(|&(known, _)| known == number as u32) {
                    return Err(self.error(format!("there is a case {number} already")));
                }
                targets.push((number as u32, label));
            }
        }
        let before = self.enter(end, None);
        self.part_at(&value);
        self.emitter.switch(value.id, default, &targets, end);
        let inside = self.flow.is_uniform;
        for (at, case) in cases.iter().enumerate() {
            self.flow.is_uniform = inside;
            self.emitter.begin(labels[at]);
            self.statements(&case.body)?;
            // It goes on with the next case.
            self.emitter.jump_if_reached(labels.get(at + 1).copied().unwrap_or(end));
        }
        self.exit(before);
        self.emitter.begin(end);
        Ok(())
    }

    /// A number for what threads may differ in: a variable or a loop.
    pub(crate) fn new_number(&mut self) -> usize {
        self.numbers += 1;
        self.numbers
    }
}
