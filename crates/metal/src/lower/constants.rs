//! Constants of the language, and where types of numbers begin and end.

use super::{
    Lowering,
    names::Argument,
    value::{Constant, Value},
};
use crate::{
    ast::{BaseType, TypeName},
    error::Result,
    types::{Scalar, Type},
};

impl Lowering<'_> {
    /// A constant of the language.
    pub(crate) fn language_constant(&mut self, name: &str) -> Option<Value> {
        use std::f32::consts as c;
        let float = match name {
            "INFINITY" | "HUGE_VALF" | "HUGE_VALH" => f32::INFINITY,
            "NAN" => f32::NAN,
            "FLT_MAX" | "MAXFLOAT" => f32::MAX,
            "FLT_MIN" => f32::MIN_POSITIVE,
            "FLT_EPSILON" => f32::EPSILON,
            "HALF_MAX" => 65_504.0,
            "M_PI_F" | "M_PI" => c::PI,
            "M_PI_2_F" => c::FRAC_PI_2,
            "M_PI_4_F" => c::FRAC_PI_4,
            "M_1_PI_F" => c::FRAC_1_PI,
            "M_2_PI_F" => c::FRAC_2_PI,
            "M_2_SQRTPI_F" => c::FRAC_2_SQRT_PI,
            "M_SQRT2_F" => c::SQRT_2,
            "M_SQRT1_2_F" => c::FRAC_1_SQRT_2,
            "M_E_F" => c::E,
            "M_LN2_F" => c::LN_2,
            "M_LN10_F" => c::LN_10,
            "M_LOG2E_F" => c::LOG2_E,
            "M_LOG10E_F" => c::LOG10_E,
            _ => return self.known_integer(name),
        };
        Some(self.float(float.into()))
    }

    fn known_integer(&mut self, name: &str) -> Option<Value> {
        let (scalar, value) = match name {
            "CHAR_MAX" | "SCHAR_MAX" => (Scalar::Int, i128::from(i8::MAX)),
            "CHAR_MIN" | "SCHAR_MIN" => (Scalar::Int, i8::MIN.into()),
            "UCHAR_MAX" => (Scalar::Int, u8::MAX.into()),
            "SHRT_MAX" => (Scalar::Int, i16::MAX.into()),
            "SHRT_MIN" => (Scalar::Int, i16::MIN.into()),
            "USHRT_MAX" => (Scalar::Int, u16::MAX.into()),
            "INT_MAX" => (Scalar::Int, i32::MAX.into()),
            "INT_MIN" => (Scalar::Int, i32::MIN.into()),
            "UINT_MAX" => (Scalar::Uint, u32::MAX.into()),
            "LONG_MAX" => (Scalar::Long, i64::MAX.into()),
            "LONG_MIN" => (Scalar::Long, i64::MIN.into()),
            "ULONG_MAX" => (Scalar::Ulong, u64::MAX.into()),
            _ => return None,
        };
        Some(self.constant(scalar, Constant::Int(value)))
    }

    /// `numeric_limits<T>::max()` and such; `Limits<T>`, which MLX has, begins and ends at infinities.
    pub(crate) fn limit(&mut self, ty: &TypeName, name: &str) -> Result<Value> {
        let BaseType::Named(of, arguments) = &ty.base else {
            return Err(self.error(format!("there is no `{name}` here")));
        };
        let of_type = match &arguments[..] {
            [argument] => self.argument(argument)?,
            _ => return Err(self.error(format!("there is no `{of}::{name}`"))),
        };
        let Argument::Type(Type::Scalar(scalar)) = of_type else {
            return Err(self.error(format!("`{of}` is of a type of numbers")));
        };
        let value = match of.as_str() {
            "numeric_limits" => limit_of(scalar, name),
            "Limits" => match (name, scalar.is_float()) {
                ("max", true) => Some(Constant::Float(f64::INFINITY)),
                ("min", true) => Some(Constant::Float(f64::NEG_INFINITY)),
                ("max" | "finite_max", _) => limit_of(scalar, "max"),
                ("min" | "finite_min", _) => limit_of(scalar, "lowest"),
                _ => None,
            },
            _ => None,
        };
        match value {
            Some(value) => Ok(self.constant(scalar, value)),
            None => Err(self.error(format!("there is no `{of}::{name}`"))),
        }
    }
}

fn limit_of(scalar: Scalar, name: &str) -> Option<Constant> {
    if scalar.is_float() {
        let (max, min, epsilon) = match scalar {
            Scalar::Half => (65_504.0, 2f64.powi(-14), 2f64.powi(-10)),
            Scalar::Bfloat => (half::bf16::MAX.to_f64(), 2f64.powi(-126), 2f64.powi(-7)),
            _ => (f32::MAX.into(), f32::MIN_POSITIVE.into(), f32::EPSILON.into()),
        };
        return Some(Constant::Float(match name {
            "max" => max,
            "lowest" => -max,
            "min" => min,
            "epsilon" => epsilon,
            "infinity" => f64::INFINITY,
            "quiet_NaN" => f64::NAN,
            _ => return None,
        }));
    }
    let bits = if scalar == Scalar::Bool { 1 } else { 8 * scalar.size() };
    let (low, high) = match scalar.is_signed() {
        true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        false => (0, (1i128 << bits) - 1),
    };
    match name {
        "max" => Some(Constant::Int(high)),
        "min" | "lowest" => Some(Constant::Int(low)),
        _ => None,
    }
}
