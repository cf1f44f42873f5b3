//! Types of values.

use crate::ast::Space;

/// A number's type, in the order of their ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Scalar {
    Bool,
    Char,
    Uchar,
    Short,
    Ushort,
    Int,
    Uint,
    Long,
    Ulong,
    Half,
    Bfloat,
    Float,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Type {
    Void,
    Scalar(Scalar),
    /// Two to four numbers; packed ones lie closer in memory.
    Vector(Scalar, u32, Packing),
    Array(Box<Type>, u32),
    /// The number of a structure of the program.
    Struct(usize),
    Pointer(Space, Box<Type>),
    Atomic(Scalar),
}

/// Whether three numbers take the room of four.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Packing {
    Aligned,
    Packed,
}

impl Scalar {
    /// The bytes of one in memory.
    pub(crate) fn size(self) -> u32 {
        match self {
            Scalar::Bool | Scalar::Char | Scalar::Uchar => 1,
            Scalar::Short | Scalar::Ushort | Scalar::Half | Scalar::Bfloat => 2,
            Scalar::Int | Scalar::Uint | Scalar::Float => 4,
            Scalar::Long | Scalar::Ulong => 8,
        }
    }

    pub(crate) fn is_float(self) -> bool {
        self >= Scalar::Half
    }

    pub(crate) fn is_integer(self) -> bool {
        !self.is_float() && self != Scalar::Bool
    }

    pub(crate) fn is_signed(self) -> bool {
        matches!(self, Scalar::Char | Scalar::Short | Scalar::Int | Scalar::Long)
    }

    /// What it is where it takes part in arithmetic.
    pub(crate) fn promoted(self) -> Scalar {
        if self < Scalar::Int { Scalar::Int } else { self }
    }

    /// What an operation of both is done in.
    pub(crate) fn common(self, other: Scalar) -> Scalar {
        let (low, high) = (self.min(other).promoted(), self.max(other).promoted());
        match (low, high) {
            (Scalar::Half, Scalar::Bfloat) => Scalar::Float,
            _ => low.max(high),
        }
    }

    /// An integer's value with the bits that fit.
    pub(crate) fn wrapped(self, value: i128) -> i128 {
        let bits = 8 * self.size();
        let cut = value & ((1i128 << bits) - 1);
        if self.is_signed() && cut >> (bits - 1) != 0 { cut - (1i128 << bits) } else { cut }
    }

    fn named(name: &str) -> Option<Scalar> {
        Some(match name {
            "bool" => Scalar::Bool,
            "char" | "int8_t" => Scalar::Char,
            "uchar" | "uint8_t" => Scalar::Uchar,
            "short" | "int16_t" => Scalar::Short,
            "ushort" | "uint16_t" => Scalar::Ushort,
            "int" | "int32_t" => Scalar::Int,
            "uint" | "uint32_t" => Scalar::Uint,
            "long" | "int64_t" | "ptrdiff_t" => Scalar::Long,
            "ulong" | "uint64_t" | "size_t" | "uintptr_t" => Scalar::Ulong,
            "half" | "float16_t" => Scalar::Half,
            "bfloat" | "bfloat16_t" => Scalar::Bfloat,
            "float" => Scalar::Float,
            _ => return None,
        })
    }
}

impl Type {
    pub(crate) const BOOL: Type = Type::Scalar(Scalar::Bool);
    pub(crate) const INT: Type = Type::Scalar(Scalar::Int);
    pub(crate) const UINT: Type = Type::Scalar(Scalar::Uint);

    /// A type of the language by its name.
    pub(crate) fn named(name: &str) -> Option<Type> {
        if name == "void" {
            return Some(Type::Void);
        }
        if let Some(of) = name.strip_prefix("atomic_") {
            return Scalar::named(of).map(Type::Atomic);
        }
        if let Some(scalar) = Scalar::named(name) {
            return Some(Type::Scalar(scalar));
        }
        let (name, packing) = match name.strip_prefix("packed_") {
            Some(name) => (name, Packing::Packed),
            None => (name, Packing::Aligned),
        };
        let count = name.chars().next_back()?.to_digit(10).filter(|n| (2..=4).contains(n))?;
        let scalar = Scalar::named(&name[..name.len() - 1])?;
        Some(Type::Vector(scalar, count, packing))
    }

    /// `count` numbers; one is no vector.
    pub(crate) fn of(scalar: Scalar, count: u32) -> Type {
        match count {
            1 => Type::Scalar(scalar),
            _ => Type::Vector(scalar, count, Packing::Aligned),
        }
    }

    /// What a number or vector consists of, and of how many.
    pub(crate) fn numbers(&self) -> Option<(Scalar, u32)> {
        match *self {
            Type::Scalar(scalar) => Some((scalar, 1)),
            Type::Vector(scalar, count, _) => Some((scalar, count)),
            _ => None,
        }
    }

    /// The same number of other numbers.
    pub(crate) fn with(&self, scalar: Scalar) -> Type {
        Type::of(scalar, self.numbers().map_or(1, |(_, count)| count))
    }

    pub(crate) fn is_float(&self) -> bool {
        self.numbers().is_some_and(|(scalar, _)| scalar.is_float())
    }

    /// As an error calls it.
    pub(crate) fn name(&self) -> String {
        match self {
            Type::Void => "void".into(),
            Type::Scalar(scalar) => format!("{scalar:?}").to_lowercase(),
            Type::Vector(scalar, count, packing) => {
                let prefix = if *packing == Packing::Packed { "packed_" } else { "" };
                format!("{prefix}{}{count}", format!("{scalar:?}").to_lowercase())
            }
            Type::Array(of, count) => format!("{}[{count}]", of.name()),
            Type::Struct(_) => "struct".into(),
            Type::Pointer(space, to) => {
                format!("{} {}*", format!("{space:?}").to_lowercase(), to.name())
            }
            Type::Atomic(of) => format!("atomic<{}>", format!("{of:?}").to_lowercase()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_types() {
        let vector = |scalar, count, packing| Some(Type::Vector(scalar, count, packing));
        assert_eq!(Type::named("uint64_t"), Some(Type::Scalar(Scalar::Ulong)));
        assert_eq!(Type::named("half4"), vector(Scalar::Half, 4, Packing::Aligned));
        assert_eq!(Type::named("packed_float3"), vector(Scalar::Float, 3, Packing::Packed));
        assert_eq!(Type::named("atomic_uint"), Some(Type::Atomic(Scalar::Uint)));
        assert!(
            ["float5", "double", "int1", "", "é", "4"]
                .into_iter()
                .all(|n| Type::named(n).is_none())
        );
    }

    #[test]
    fn arithmetic_has_the_types_of_c() {
        assert_eq!(Scalar::Uchar.common(Scalar::Bool), Scalar::Int);
        assert_eq!(Scalar::Int.common(Scalar::Uint), Scalar::Uint);
        assert_eq!(Scalar::Long.common(Scalar::Half), Scalar::Half);
        assert_eq!(Scalar::Half.common(Scalar::Bfloat), Scalar::Float);
    }

    #[test]
    fn integers_wrap() {
        assert_eq!(Scalar::Char.wrapped(200), -56);
        assert_eq!(Scalar::Uint.wrapped(-1), u32::MAX.into());
        assert_eq!(Scalar::Long.wrapped(i128::from(u64::MAX)), -1);
    }
}
