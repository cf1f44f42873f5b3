//! What core's enums and shaders number alike: the build fails where they differ.

use mlx_vulkan_core::{
    Dtype,
    primitives::{BinaryOp, ReduceOp, ScatterOp, UnaryOp},
};

use super::layouts::{common, functions_binary, functions_unary, reduction, scatter_fold};

/// Every variant of an enum has the number that a module of `layouts` has by its name.
macro_rules! alike {
    ($of:ident in $module:ident $(without $other:ident)?: $($variant:ident = $name:ident),* $(,)?) => {
        const _: () = {
            $(assert!($of::$variant as u32 == $module::$name);)*
            // A new variant has to be named above.
            const fn _all(of: $of) {
                match of {
                    $($of::$other => {})?
                    $($of::$variant)|* => {}
                }
            }
        };
    };
}

alike! { Dtype in common:
    Bool = BOOL,
    Uint8 = UINT8,
    Uint16 = UINT16,
    Uint32 = UINT32,
    Uint64 = UINT64,
    Int8 = INT8,
    Int16 = INT16,
    Int32 = INT32,
    Int64 = INT64,
    Float16 = FLOAT16,
    Bfloat16 = BFLOAT16,
    Float32 = FLOAT32,
    Float64 = FLOAT64,
    Complex64 = COMPLEX64,
}

alike! { UnaryOp in functions_unary:
    Abs = ABS,
    Arccos = ARCCOS,
    Arccosh = ARCCOSH,
    Arcsin = ARCSIN,
    Arcsinh = ARCSINH,
    Arctan = ARCTAN,
    Arctanh = ARCTANH,
    BitwiseInvert = BITWISE_INVERT,
    Ceil = CEIL,
    Conjugate = CONJUGATE,
    Cos = COS,
    Cosh = COSH,
    Erf = ERF,
    Erfinv = ERFINV,
    Exp = EXP,
    Expm1 = EXPM1,
    Floor = FLOOR,
    Imag = IMAG,
    Log = LOG,
    Log10 = LOG10,
    Log1p = LOG1P,
    Log2 = LOG2,
    LogicalNot = LOGICAL_NOT,
    Negative = NEGATIVE,
    Real = REAL,
    Round = ROUND,
    Rsqrt = RSQRT,
    Sigmoid = SIGMOID,
    Sign = SIGN,
    Sin = SIN,
    Sinh = SINH,
    Sqrt = SQRT,
    Square = SQUARE,
    Tan = TAN,
    Tanh = TANH,
}

alike! { BinaryOp in functions_binary:
    Add = ADD,
    Arctan2 = ARCTAN2,
    BitwiseAnd = BITWISE_AND,
    BitwiseOr = BITWISE_OR,
    BitwiseXor = BITWISE_XOR,
    Divide = DIVIDE,
    Equal = EQUAL,
    FloorDivide = FLOOR_DIVIDE,
    Greater = GREATER,
    GreaterEqual = GREATER_EQUAL,
    LeftShift = LEFT_SHIFT,
    Less = LESS,
    LessEqual = LESS_EQUAL,
    LogAddExp = LOG_ADD_EXP,
    LogicalAnd = LOGICAL_AND,
    LogicalOr = LOGICAL_OR,
    Maximum = MAXIMUM,
    Minimum = MINIMUM,
    Multiply = MULTIPLY,
    NanEqual = NAN_EQUAL,
    NotEqual = NOT_EQUAL,
    Power = POWER,
    Remainder = REMAINDER,
    RightShift = RIGHT_SHIFT,
    Subtract = SUBTRACT,
}

alike! { ReduceOp in reduction:
    All = ALL,
    Any = ANY,
    Max = MAX,
    Min = MIN,
    Prod = PROD,
    Sum = SUM,
}

alike! { ScatterOp in scatter_fold without Assign:
    Sum = SUM,
    Prod = PROD,
    Max = MAX,
    Min = MIN,
}
