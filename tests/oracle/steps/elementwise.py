"""Elementwise functions, where they are smooth."""

import numpy as np

from drawing import MARGIN, as_float
from programs import Unfit
from record import DtypeName

# Smooth everywhere.
SMOOTH = ["sin", "cos", "tanh", "sigmoid", "erf", "arctan", "arcsinh", "square", "negative", "expm1", "exp"]
COMPLEX = ["sin", "cos", "tanh", "exp", "square", "negative", "conjugate"]
# Smooth for positive numbers.
POSITIVE = ["sqrt", "rsqrt", "log", "log2", "log10", "log1p", "reciprocal"]
# Smooth between -1 and 1.
BOUNDED = ["arcsin", "arccos", "arctanh", "erfinv"]


def unary(d):
    value = d.pick()
    d.add(d.draw.one_of(COMPLEX if d.is_complex(value) else SMOOTH), value)


def positive(d):
    d.add(d.draw.one_of(POSITIVE), d.positive())


def bounded(d):
    d.add(d.draw.one_of(BOUNDED), d.add("multiply", d.add("sin", d.real()), 0.7))


def parts(d):
    value = d.pick()
    if not d.is_complex(value):
        raise Unfit
    d.add(d.draw.one_of(["real", "imag", "abs"]), value)


def binary(d):
    value = d.pick()
    operands = [value, d.other(value)]
    if d.draw.chance(0.5):
        operands.reverse()
    d.add(d.draw.one_of(["add", "subtract", "multiply"]), *operands)


def quotient(d):
    value = d.pick()
    d.add("divide", value, d.add("add", d.add("square", d.real()), 0.5))


def joint(d):
    a, b = d.positive(), d.positive()
    d.add(d.draw.one_of(["power", "arctan2", "logaddexp"]), a, b)


def chosen(d):
    """Functions with kinks, away from these."""
    value = d.real()
    kind = d.draw.integer(0, 4)
    if kind == 0:
        d.add("abs", d.clear_of(value, 0))
    elif kind == 1:
        d.add("clip", d.clear_of(value, -1.0, 0.75), -1.0, 0.75)
    elif kind == 2:
        other = d.constant(d.draw.broadcasting(d.of(value).shape), d.dtype_of(value))
        if np.min(np.abs(as_float(d.of(value)) - as_float(other.value()))) < MARGIN:
            raise Unfit
        d.add(d.draw.one_of(["maximum", "minimum"]), value, other)
    elif kind == 3:
        mask = d.draw.array(d.draw.broadcasting(d.of(value).shape), "bool")
        d.add("where", mask, value, d.other(value))
    else:
        mask = d.add("greater", d.clear_of(value, 0.25), 0.25)
        d.add("where", mask, value, d.other(value))


def precision(d):
    value = d.real()
    names = [x for x in ["float32", d.dtype] if x != d.dtype_of(value) and x != "complex64"]
    d.add("astype", value, DtypeName(d.draw.one_of(names)) if names else DtypeName("float16"))


def stopped(d):
    value = d.pick()
    d.add("multiply", value, d.add("stop_gradient", d.add("cos", value)))
