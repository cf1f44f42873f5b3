//! Atomic numbers of 32 bits.

use rspirv::{
    dr::Operand,
    spirv::{Op, Scope, Word},
};

use super::{Lowering, memory::Place, value::Value};
use crate::{
    ast::{BinaryOperator, Expression},
    error::Result,
    types::{Scalar, Type},
};

impl Lowering<'_> {
    /// A call of an atomic function, if it is one.
    pub(crate) fn atomic_call(
        &mut self,
        name: &str,
        arguments: &[Expression],
    ) -> Result<Option<Value>> {
        let Some(what) = name.strip_prefix("atomic_").and_then(|n| n.strip_suffix("_explicit"))
        else {
            return Ok(None);
        };
        let Some((pointer, rest)) = arguments.split_first() else {
            return Err(self.error(format!("`{name}` wants a pointer")));
        };
        let pointer = self.value(pointer)?;
        let place = self.pointee(&pointer)?;
        let Type::Atomic(scalar) = place.ty() else {
            return Err(self.error(format!("`{}` is not atomic", place.ty().name())));
        };
        if what == "compare_exchange_weak" {
            return self.compare_exchange(&place, scalar, rest).map(Some);
        }
        if what == "load" {
            return self.atomic(&place, scalar, Op::AtomicLoad, None).map(Some);
        }
        let Some(value) = rest.first() else {
            return Err(self.error(format!("`{name}` wants a value")));
        };
        let value = self.value(value)?;
        let value = self.convert(&value, &Type::Scalar(scalar))?;
        let op = match what {
            "store" => Op::AtomicStore,
            "exchange" => Op::AtomicExchange,
            "fetch_add" if scalar == Scalar::Float => {
                return self.atomic_float(&place, &value, BinaryOperator::Add).map(Some);
            }
            "fetch_sub" if scalar == Scalar::Float => {
                return self.atomic_float(&place, &value, BinaryOperator::Subtract).map(Some);
            }
            "fetch_add" => Op::AtomicIAdd,
            "fetch_sub" => Op::AtomicISub,
            "fetch_max" if scalar.is_signed() => Op::AtomicSMax,
            "fetch_max" => Op::AtomicUMax,
            "fetch_min" if scalar.is_signed() => Op::AtomicSMin,
            "fetch_min" => Op::AtomicUMin,
            "fetch_and" => Op::AtomicAnd,
            "fetch_or" => Op::AtomicOr,
            "fetch_xor" => Op::AtomicXor,
            _ => return Err(self.error(format!("`{name}` is not supported"))),
        };
        let is_exact = matches!(op, Op::AtomicStore | Op::AtomicExchange);
        if scalar == Scalar::Float && !is_exact {
            return Err(self.error(format!("`{name}` is not for floats")));
        }
        self.atomic(&place, scalar, op, Some(&value)).map(Some)
    }

    fn atomic_operands(&mut self, place: &Place, scalar: Scalar) -> Result<Vec<Operand>> {
        if scalar.size() != 4 {
            let name = Type::Scalar(scalar).name();
            return Err(self.error(format!("atomic numbers are of 32 bits here, no `{name}`")));
        }
        let pointer = self.atomic_pointer(place, scalar)?;
        let scope = self.emitter.uint(Scope::Device as u32);
        let relaxed = self.emitter.uint(0);
        Ok(vec![
            Operand::IdRef(pointer),
            Operand::IdScope(scope),
            Operand::IdMemorySemantics(relaxed),
        ])
    }

    fn atomic(
        &mut self,
        place: &Place,
        scalar: Scalar,
        op: Op,
        value: Option<&Value>,
    ) -> Result<Value> {
        let mut operands = self.atomic_operands(place, scalar)?;
        operands.extend(value.map(|value| Operand::IdRef(value.id)));
        if op == Op::AtomicStore {
            self.emitter.act(op, operands);
            return Ok(Value::new(Type::Void, 0, true));
        }
        let of = self.scalar_type(scalar);
        let id = self.emitter.op_of(op, of, operands);
        Ok(Value::new(Type::Scalar(scalar), id, false))
    }

    /// Compares and exchanges words: what was there is given.
    fn exchange_word(&mut self, place: &Place, new: Word, expected: Word) -> Result<Word> {
        let mut operands = self.atomic_operands(place, Scalar::Uint)?;
        operands.push(operands[2].clone());
        operands.extend([new, expected].map(Operand::IdRef));
        let uint = self.emitter.int(32);
        Ok(self.emitter.op_of(Op::AtomicCompareExchange, uint, operands))
    }

    fn compare_exchange(
        &mut self,
        place: &Place,
        scalar: Scalar,
        rest: &[Expression],
    ) -> Result<Value> {
        let [expected, new, ..] = rest else {
            return Err(self.error("what is expected, and what shall be, are wanted"));
        };
        if !matches!(scalar, Scalar::Int | Scalar::Uint) {
            return Err(self.error("integers of 32 bits are compared and exchanged"));
        }
        let pointer = self.value(expected)?;
        let expected = self.pointee(&pointer)?;
        let wanted = self.load(&expected)?;
        let new = self.value(new)?;
        let new = self.convert(&new, &Type::Scalar(scalar))?;
        let found = self.exchange_word(place, new.id, wanted.id)?;
        let found = Value::new(Type::Scalar(scalar), found, false);
        self.store(&expected, &found)?;
        self.arithmetic(BinaryOperator::Equal, &found, &wanted)
    }

    /// An atomic operation of floats: tried until nobody came between.
    fn atomic_float(
        &mut self,
        place: &Place,
        value: &Value,
        operator: BinaryOperator,
    ) -> Result<Value> {
        let Place::Device { address, space, .. } = place else {
            return Err(self.error("atomic floats of a group are not supported"));
        };
        let word = Place::Device {
            address: *address,
            ty: Type::Atomic(Scalar::Uint),
            space: *space,
            is_uniform: false,
        };
        let (uint, float) = (self.emitter.int(32), Type::Scalar(Scalar::Float));
        let seen = self.emitter.variable(uint);
        let first = self.atomic(&word, Scalar::Uint, Op::AtomicLoad, None)?;
        self.emitter.act(Op::Store, [seen, first.id].map(Operand::IdRef).into());
        let [head, body, next, end] = [(); 4].map(|()| self.emitter.id());
        self.emitter.jump(Op::Branch, &[head]);
        self.emitter.begin(head);
        self.emitter.loop_merge(end, next);
        self.emitter.jump(Op::Branch, &[body]);
        self.emitter.begin(body);
        let before = self.emitter.op(Op::Load, uint, &[seen]);
        let before = Value::new(Type::UINT, before, false);
        let old = self.emit(Op::Bitcast, &float, &[&before]);
        let sum = self.arithmetic(operator, &old, value)?;
        let sum = self.emit(Op::Bitcast, &Type::UINT, &[&sum]);
        let found = self.exchange_word(&word, sum.id, before.id)?;
        self.emitter.act(Op::Store, [seen, found].map(Operand::IdRef).into());
        let found = Value::new(Type::UINT, found, false);
        let is_done = self.emit(Op::IEqual, &Type::BOOL, &[&found, &before]);
        self.emitter.jump(Op::Branch, &[next]);
        self.emitter.begin(next);
        self.emitter.jump(Op::BranchConditional, &[is_done.id, end, head]);
        self.emitter.begin(end);
        let id = self.emitter.op(Op::Load, uint, &[seen]);
        let found = Value::new(Type::UINT, id, false);
        Ok(self.emit(Op::Bitcast, &float, &[&found]))
    }
}
