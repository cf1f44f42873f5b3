//! Families whose members have no parameters: one line of a table says all of a member.

use crate::Dtype;

/// Declares an enum of operators. A line is: name, upstream's name, which dtypes operations apply
/// it to, and the dtype of the result; the latter two are functions of this module.
macro_rules! operators {
    ($(#[$meta:meta])* $family:ident {
        $($(#[$doc:meta])* $op:ident: $name:literal, $takes:ident => $output:ident;)*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum $family {
            $($(#[$doc])* $op,)*
        }

        impl $family {
            /// Every operator, in declaration order.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$op),*];

            /// Upstream's name, where upstream has it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$op => $name,)*
                }
            }

            /// Whether operations apply it to arrays of `dtype`.
            pub const fn takes(self, dtype: Dtype) -> bool {
                match self {
                    $(Self::$op => $crate::primitives::operators::$takes(dtype),)*
                }
            }

            /// The dtype of the result for operands of `dtype`.
            pub const fn output_dtype(self, dtype: Dtype) -> Dtype {
                match self {
                    $(Self::$op => $crate::primitives::operators::$output(dtype),)*
                }
            }
        }
    };
}

pub(super) use operators;

/// Every dtype.
pub(super) const fn any(_: Dtype) -> bool {
    true
}

/// All but bool.
pub(super) const fn number(dtype: Dtype) -> bool {
    !matches!(dtype, Dtype::Bool)
}

/// All but complex64.
pub(super) const fn ordered(dtype: Dtype) -> bool {
    !matches!(dtype, Dtype::Complex64)
}

/// All but bool and integers of fewer than 32 bits, which sums widen.
pub(super) const fn accumulated(dtype: Dtype) -> bool {
    dtype.is_inexact() || (dtype.is_integer() && dtype.size() >= 4)
}

/// Floating and complex.
pub(super) const fn inexact(dtype: Dtype) -> bool {
    dtype.is_inexact()
}

/// Real floating point.
pub(super) const fn floating(dtype: Dtype) -> bool {
    dtype.is_floating()
}

/// Integers.
pub(super) const fn integer(dtype: Dtype) -> bool {
    dtype.is_integer()
}

/// Integers and bool.
pub(super) const fn exact(dtype: Dtype) -> bool {
    !dtype.is_inexact()
}

/// Bool.
pub(super) const fn truth(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Bool)
}

/// Complex64.
pub(super) const fn complex(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Complex64)
}

/// The result has the operands' dtype.
pub(super) const fn same(dtype: Dtype) -> Dtype {
    dtype
}

/// The result is real.
pub(super) const fn real(dtype: Dtype) -> Dtype {
    match dtype {
        Dtype::Complex64 => Dtype::Float32,
        _ => dtype,
    }
}

/// The result is bool.
pub(super) const fn bool(_: Dtype) -> Dtype {
    Dtype::Bool
}

/// The result is uint32.
pub(super) const fn uint32(_: Dtype) -> Dtype {
    Dtype::Uint32
}
