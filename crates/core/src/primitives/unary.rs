//! Elementwise functions of one array.

use super::{Family, Input, SpecRef, Specs, operators::operators, spec::one};
use crate::Dtype;

operators! {
    /// Elementwise functions of one array.
    #[expect(missing_docs, reason = "the variants are MLX's names of well-known functions")]
    UnaryOp {
        Abs: "Abs", number => real;
        Arccos: "ArcCos", inexact => same;
        Arccosh: "ArcCosh", inexact => same;
        Arcsin: "ArcSin", inexact => same;
        Arcsinh: "ArcSinh", inexact => same;
        Arctan: "ArcTan", inexact => same;
        Arctanh: "ArcTanh", inexact => same;
        BitwiseInvert: "BitwiseInvert", integer => same;
        Ceil: "Ceil", floating => same;
        Conjugate: "Conjugate", complex => same;
        Cos: "Cos", inexact => same;
        Cosh: "Cosh", inexact => same;
        Erf: "Erf", floating => same;
        Erfinv: "ErfInv", floating => same;
        Exp: "Exp", inexact => same;
        Expm1: "Expm1", inexact => same;
        Floor: "Floor", floating => same;
        Imag: "Imag", complex => real;
        Log: "Log", inexact => same;
        Log10: "Log10", inexact => same;
        Log1p: "Log1p", inexact => same;
        Log2: "Log2", inexact => same;
        LogicalNot: "LogicalNot", truth => bool;
        Negative: "Negative", number => same;
        Real: "Real", complex => real;
        Round: "Round", inexact => same;
        Rsqrt: "Rsqrt", inexact => same;
        Sigmoid: "Sigmoid", inexact => same;
        Sign: "Sign", any => same;
        Sin: "Sin", inexact => same;
        Sinh: "Sinh", inexact => same;
        Sqrt: "Sqrt", inexact => same;
        Square: "Square", any => same;
        Tan: "Tan", inexact => same;
        Tanh: "Tanh", inexact => same;
    }
}

impl Family for UnaryOp {
    fn name(&self) -> &'static str {
        UnaryOp::name(*self)
    }

    fn is_view(&self) -> bool {
        false
    }

    fn takes(&self, dtype: Dtype) -> bool {
        UnaryOp::takes(*self, dtype)
    }

    fn output_specs(&self, inputs: &[SpecRef<'_>]) -> Option<Specs> {
        let [a] = inputs else { return None };
        one(a.shape, self.output_dtype(a.dtype))
    }

    fn examples(dtype: Dtype) -> Vec<(Self, Vec<Input>)> {
        // The inverse hyperbolic cosine begins at 1.
        let above_one: Vec<f64> = (0..24).map(|i| 1.125 + f64::from(i) / 8.0).collect();
        let input = |op| match op {
            UnaryOp::Arccosh => Input::of(&above_one, &[4, 6], dtype),
            _ => Input::new(&[4, 6], dtype),
        };
        UnaryOp::ALL.into_iter().map(|op| (op, vec![input(op)])).collect()
    }
}
