//! What is known of a value, and what operations make of that.

use rspirv::{
    dr::Operand,
    spirv::{Op, Word},
};

/// What is known of a number of 32 bits or a bool, whatever way the kernel goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    /// Nothing has made it so far.
    Unseen,
    /// It has these bits, whoever makes it; a bool is 0 or 1.
    Is(u32),
    /// Nobody knows.
    Varies,
}

impl Value {
    /// What is known of a value that is one of two.
    pub(super) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Value::Unseen, value) | (value, Value::Unseen) => value,
            (a, b) if a == b => a,
            _ => Value::Varies,
        }
    }
}

/// The result of an operation on scalars, of which `value` says what is known.
pub(super) fn fold_operands(op: Op, operands: &[Operand], value: impl Fn(Word) -> Value) -> Value {
    let values = operands.iter().map(|operand| match operand {
        Operand::IdRef(id) => value(*id),
        _ => Value::Varies,
    });
    fold(op, &values.collect::<Vec<_>>())
}

fn fold(op: Op, operands: &[Value]) -> Value {
    match (op, operands) {
        (Op::LogicalAnd, [Value::Is(0), _] | [_, Value::Is(0)]) => Value::Is(0),
        (Op::LogicalOr, [Value::Is(1), _] | [_, Value::Is(1)]) => Value::Is(1),
        (Op::Select, &[Value::Is(condition), yes, no]) => [no, yes][condition as usize & 1],
        _ if operands.contains(&Value::Varies) => Value::Varies,
        _ if operands.contains(&Value::Unseen) => Value::Unseen,
        _ => {
            let bits = |value: &Value| if let Value::Is(bits) = *value { bits } else { 0 };
            let operands: Vec<u32> = operands.iter().map(bits).collect();
            computed(op, &operands).map_or(Value::Varies, Value::Is)
        }
    }
}

fn computed(op: Op, operands: &[u32]) -> Option<u32> {
    Some(match *operands {
        [a] => match op {
            Op::CopyObject | Op::Bitcast => a,
            Op::Not => !a,
            Op::SNegate => a.wrapping_neg(),
            Op::LogicalNot => a ^ 1,
            _ => return None,
        },
        [a, b] => match op {
            Op::IAdd => a.wrapping_add(b),
            Op::ISub => a.wrapping_sub(b),
            Op::IMul => a.wrapping_mul(b),
            Op::UDiv => a.checked_div(b)?,
            Op::UMod => a.checked_rem(b)?,
            Op::ShiftLeftLogical => a.checked_shl(b)?,
            Op::ShiftRightLogical => a.checked_shr(b)?,
            Op::BitwiseAnd | Op::LogicalAnd => a & b,
            Op::BitwiseOr | Op::LogicalOr => a | b,
            Op::BitwiseXor => a ^ b,
            _ => compared(op, a, b)?.into(),
        },
        _ => return None,
    })
}

fn compared(op: Op, a: u32, b: u32) -> Option<bool> {
    let (signed_a, signed_b) = (a.cast_signed(), b.cast_signed());
    Some(match op {
        Op::IEqual | Op::LogicalEqual => a == b,
        Op::INotEqual | Op::LogicalNotEqual => a != b,
        Op::ULessThan => a < b,
        Op::ULessThanEqual => a <= b,
        Op::UGreaterThan => a > b,
        Op::UGreaterThanEqual => a >= b,
        Op::SLessThan => signed_a < signed_b,
        Op::SLessThanEqual => signed_a <= signed_b,
        Op::SGreaterThan => signed_a > signed_b,
        Op::SGreaterThanEqual => signed_a >= signed_b,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_decides_and_the_rest_is_unknown() {
        use Value::{Is, Unseen, Varies};
        assert_eq!(fold(Op::IEqual, &[Is(4), Is(4)]), Is(1));
        assert_eq!(fold(Op::SLessThan, &[Is(u32::MAX), Is(0)]), Is(1));
        assert_eq!(fold(Op::ULessThan, &[Is(u32::MAX), Is(0)]), Is(0));
        assert_eq!(fold(Op::LogicalAnd, &[Varies, Is(0)]), Is(0));
        assert_eq!(fold(Op::LogicalAnd, &[Varies, Is(1)]), Varies);
        assert_eq!(fold(Op::Select, &[Is(1), Varies, Is(3)]), Varies);
        assert_eq!(fold(Op::Select, &[Is(0), Varies, Is(3)]), Is(3));
        assert_eq!(fold(Op::IAdd, &[Is(1), Unseen]), Unseen);
        assert_eq!(fold(Op::UDiv, &[Is(1), Is(0)]), Varies);
        assert_eq!(fold(Op::ShiftLeftLogical, &[Is(1), Is(32)]), Varies);
        assert_eq!(fold(Op::FAdd, &[Is(1), Is(32)]), Varies);
        assert_eq!(Unseen.or(Is(2)).or(Is(2)), Is(2));
        assert_eq!(Is(2).or(Is(3)), Varies);
    }
}
