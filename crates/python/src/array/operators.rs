//! Python's operators on arrays.

// PyO3 writes unsafe code for pairs of operators, without blocks where a macro of ours names them.
#![allow(unsafe_op_in_unsafe_fn)]

use mlx::{Dtype, ops};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    pyclass::CompareOp,
    types::PyBool,
};

use super::PyArray;
use crate::{
    arguments::{ArrayArg, Operand, type_name},
    error::OrRaise,
};

/// The other side of an operator, which must be something that an array can be combined with.
fn operand(what: &str, other: &Bound<'_, PyAny>) -> PyResult<Operand> {
    match Operand::of(other)? {
        Some(operand) => Ok(operand),
        None if other.is_none() => {
            let message = format!("Cannot perform {what} on an mlx.core.array and None");
            Err(PyTypeError::new_err(message))
        }
        None => {
            let name = type_name(other);
            let message = format!("Cannot perform {what} on an mlx.core.array and {name}");
            Err(PyValueError::new_err(message))
        }
    }
}

/// Refuses numbers with fractions, which have no bits to combine.
fn no_floats(what: &str, a: Dtype, b: &Operand) -> PyResult<()> {
    let inexact = match b {
        Operand::Array(b) => b.dtype().is_inexact(),
        Operand::Float(_) | Operand::Complex(_) => true,
        // What another library's array has is cast to the dtype of ours.
        Operand::Bool(_) | Operand::Int(_) | Operand::Foreign(_) => false,
    };
    if a.is_inexact() || inexact {
        let message = format!("Floating point types not allowed with {what}.");
        return Err(PyValueError::new_err(message));
    }
    Ok(())
}

macro_rules! arithmetic {
    ($($name:ident, $reflected:ident, $in_place:ident: $op:ident, $what:literal;)*) => {
        #[pymethods]
        impl PyArray {$(
            fn $name(&self, other: &Bound<'_, PyAny>) -> PyResult<PyArray> {
                let other = operand($what, other)?;
                ops::$op(&self.array(), other).map(PyArray::from).or_raise()
            }

            fn $reflected(&self, other: &Bound<'_, PyAny>) -> PyResult<PyArray> {
                let other = operand($what, other)?;
                ops::$op(other, &self.array()).map(PyArray::from).or_raise()
            }

            fn $in_place(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
                let other = operand(concat!("inplace ", $what), other)?;
                self.replace(ops::$op(&self.array(), other).or_raise()?);
                Ok(())
            }
        )*}
    };
}

arithmetic! {
    __add__, __radd__, __iadd__: add, "addition";
    __sub__, __rsub__, __isub__: subtract, "subtraction";
    __mul__, __rmul__, __imul__: multiply, "multiplication";
    __floordiv__, __rfloordiv__, __ifloordiv__: floor_divide, "floor division";
    __mod__, __rmod__, __imod__: remainder, "modulus";
}

macro_rules! bitwise {
    ($($name:ident, $in_place:ident: $op:ident, $what:literal;)*) => {
        #[pymethods]
        impl PyArray {$(
            fn $name(&self, other: &Bound<'_, PyAny>) -> PyResult<PyArray> {
                let other = operand($what, other)?;
                let array = self.array();
                no_floats($what, array.dtype(), &other)?;
                ops::$op(&array, other).map(PyArray::from).or_raise()
            }

            fn $in_place(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
                let other = operand(concat!("inplace ", $what), other)?;
                let array = self.array();
                no_floats($what, array.dtype(), &other)?;
                self.replace(ops::$op(&array, other).or_raise()?);
                Ok(())
            }
        )*}
    };
}

bitwise! {
    __and__, __iand__: bitwise_and, "bitwise and";
    __or__, __ior__: bitwise_or, "bitwise or";
    __xor__, __ixor__: bitwise_xor, "bitwise xor";
    __lshift__, __ilshift__: left_shift, "left shift";
    __rshift__, __irshift__: right_shift, "right shift";
}

/// What `==` and `!=` say of an object that is nothing like an array.
fn is_other(op: CompareOp, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let what = match op {
        CompareOp::Eq => return Ok(PyBool::new(other.py(), false).to_owned().into_any().unbind()),
        CompareOp::Ne => return Ok(PyBool::new(other.py(), true).to_owned().into_any().unbind()),
        CompareOp::Lt => "less than",
        CompareOp::Le => "less than or equal",
        CompareOp::Gt => "greater than",
        CompareOp::Ge => "greater than or equal",
    };
    operand(what, other).map(|_| other.clone().unbind())
}

#[pymethods]
impl PyArray {
    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let py = other.py();
        let Some(b) = Operand::of(other)? else { return is_other(op, other) };
        let a = &self.array();
        let result = match op {
            CompareOp::Eq => ops::equal(a, b),
            CompareOp::Ne => ops::not_equal(a, b),
            CompareOp::Lt => ops::less(a, b),
            CompareOp::Le => ops::less_equal(a, b),
            CompareOp::Gt => ops::greater(a, b),
            CompareOp::Ge => ops::greater_equal(a, b),
        };
        Ok(Py::new(py, PyArray::from(result.or_raise()?))?.into_any())
    }

    fn __truediv__(&self, other: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        let other = operand("division", other)?;
        ops::divide(self.array(), other).map(PyArray::from).or_raise()
    }

    fn __rtruediv__(&self, other: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        let other = operand("division", other)?;
        ops::divide(other, self.array()).map(PyArray::from).or_raise()
    }

    fn __itruediv__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        let other = operand("inplace division", other)?;
        let array = self.array();
        if !array.dtype().is_inexact() {
            let message = "In place division cannot cast to non-floating point type.";
            return Err(PyValueError::new_err(message));
        }
        self.replace(ops::divide(&array, other).or_raise()?);
        Ok(())
    }

    fn __div__(&self, other: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        self.__truediv__(other)
    }

    fn __rdiv__(&self, other: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        self.__rtruediv__(other)
    }

    fn __pow__(
        &self,
        other: &Bound<'_, PyAny>,
        modulo: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyArray> {
        let _ = modulo;
        let other = operand("power", other)?;
        ops::power(self.array(), other).map(PyArray::from).or_raise()
    }

    fn __rpow__(
        &self,
        other: &Bound<'_, PyAny>,
        modulo: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyArray> {
        let _ = modulo;
        let other = operand("power", other)?;
        ops::power(other, self.array()).map(PyArray::from).or_raise()
    }

    fn __ipow__(
        &self,
        other: &Bound<'_, PyAny>,
        modulo: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let _ = modulo;
        let other = operand("inplace power", other)?;
        self.replace(ops::power(self.array(), other).or_raise()?);
        Ok(())
    }

    // As arguments, other objects would be left to their own operators: numpy's would multiply in float64.
    fn __matmul__(&self, other: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        let other: ArrayArg = other.extract()?;
        ops::matmul(&self.array(), &other).map(PyArray::from).or_raise()
    }

    fn __imatmul__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        let other: ArrayArg = other.extract()?;
        self.replace(ops::matmul(&self.array(), &other).or_raise()?);
        Ok(())
    }

    fn __neg__(&self) -> PyResult<PyArray> {
        ops::negative(&self.array()).map(PyArray::from).or_raise()
    }

    fn __pos__(&self) -> PyResult<PyArray> {
        ops::positive(&self.array()).map(PyArray::from).or_raise()
    }

    fn __abs__(&self) -> PyResult<PyArray> {
        ops::abs(&self.array()).map(PyArray::from).or_raise()
    }

    fn __invert__(&self) -> PyResult<PyArray> {
        let array = self.array();
        if array.dtype().is_inexact() {
            let message = "Floating point types not allowed with bitwise inversion.";
            return Err(PyValueError::new_err(message));
        }
        match array.dtype() {
            Dtype::Bool => ops::logical_not(&array),
            _ => ops::bitwise_invert(&array),
        }
        .map(PyArray::from)
        .or_raise()
    }
}
