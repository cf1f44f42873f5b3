"""Functions of two arrays, element by element; comparisons, logic and bits."""

import numpy as np

from draw import DTYPES, INEXACT, INTEGERS
from record import Call

ARITHMETIC = ["add", "subtract", "multiply", "maximum", "minimum"]
COMPARISONS = [
    "equal",
    "not_equal",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
]
BITS = ["bitwise_and", "bitwise_or", "bitwise_xor"]
SHIFTS = ["left_shift", "right_shift", "bitwise_left_shift", "bitwise_right_shift"]


def calls(draw):
    for name in ARITHMETIC:
        # Integers beside halves are rounded to them first.
        for _ in range(2):
            # A complex product has the error of a difference of products.
            special = 0 if name == "multiply" else 0.12
            yield Call(name, *pair(draw, special=special), ulps=4 if name == "multiply" else 0,
                       either=True)
    for name in COMPARISONS:
        yield Call(name, *pair(draw))
    for name in BITS:
        yield Call(name, *pair(draw, [*INTEGERS, "bool"] if draw.chance(0.85) else DTYPES))
    for name in SHIFTS:
        yield shift(draw, name)
    yield floating(draw, "divide", np.divide)
    yield floating(draw, "arctan2", np.arctan2)
    yield floating(draw, "atan2", np.arctan2)
    yield floating(draw, "logaddexp", np.logaddexp)
    for name in ["remainder", "floor_divide", "divmod"]:
        yield division(draw, name)
    for name in ["power", "pow"]:
        yield power(draw, name)
    for name in ["isclose", "allclose"]:
        yield close(draw, name)
    yield equality(draw)


def pair(draw, dtypes=DTYPES, **values):
    """Two arrays that broadcast, seldom not; now and then one of them is a number."""
    shape = draw.shape()
    shapes = [draw.broadcasting(shape), draw.broadcasting(shape)]
    dtype = draw.dtype(dtypes)
    second = dtype if draw.chance(0.5) else draw.dtype(dtypes)
    both = [draw.array(s, d, **values) for s, d in zip(shapes, [dtype, second])]
    if draw.chance(0.2):
        # A negative number beside unsigned integers is refused by Python's side of
        # upstream, not by its functions.
        both[draw.integer(0, 1)] = draw.one_of([2, 0.5, -1.25, True, 3])
    return both


def floating(draw, name, reference):
    a, b = pair(draw)
    if any(getattr(x, "dtype", "") == "complex64" for x in [a, b]):
        return Call(name, a, b, ulps=16)
    wide = lambda x, y: reference(np.asarray(x, np.float64), np.asarray(y, np.float64))
    # The logarithm of a sum is near zero where its arguments are not.
    error = (lambda x, y: 2.0**-22 * np.maximum(np.abs(x), np.abs(y))) if name == "logaddexp" else None
    return Call(name, a, b, ulps=4, reference=wide, error=error)


def division(draw, name):
    """Small operands. A quotient of integers by zero ends upstream's process for some of their dtypes."""
    shape = draw.shape()
    dtype = draw.dtype([d for d in DTYPES if d != "bool"])
    a = draw.array(shape, dtype, low=-4, high=60, special=0)
    b = draw.array(draw.broadcasting(shape), dtype, low=1, high=9, special=0.1 * (dtype in INEXACT))
    return Call(name, a, b, ulps=16 if dtype == "complex64" else 0, either=True)


def power(draw, name):
    dtype = draw.dtype()
    shape = draw.shape()
    if dtype in [*INTEGERS, "bool"]:
        return Call(
            name, draw.array(shape, dtype, low=-3, high=3), draw.array(draw.broadcasting(shape), dtype, 0, 4)
        )
    a = draw.array(shape, dtype, low=0.1, high=5, special=0.2)
    b = draw.array(draw.broadcasting(shape), dtype, low=-4, high=4, special=0.2)
    if dtype == "complex64":
        return Call(name, a, b, ulps=128)
    return Call(name, a, b, ulps=4, reference=np.power)


def shift(draw, name):
    dtype = draw.dtype([*INTEGERS, "bool"] if draw.chance(0.9) else DTYPES)
    shape = draw.shape()
    return Call(name, draw.array(shape, dtype), draw.array(draw.broadcasting(shape), dtype, low=0, high=7))


def close(draw, name):
    shape = draw.shape()
    dtype = draw.dtype(INEXACT if draw.chance(0.8) else DTYPES)
    grid = dict(low=-1, high=1, special=0.5)
    a, b = (draw.array(s, dtype, **grid) for s in [shape, draw.broadcasting(shape)])
    rtol, atol = draw.one_of([(1e-5, 1e-8), (0.5, 0.25), (0.0, 0.5)])
    return Call(name, a, b, rtol=rtol, atol=atol, equal_nan=draw.chance(0.5), widen=False)


def equality(draw):
    a = draw.array(special=0.5)
    other = draw.one_of(["same", "shape", "dtype"])
    b = {"same": a, "shape": draw.array(), "dtype": draw.array(list(a.shape), low=0, high=0)}[other]
    return Call("array_equal", a, b, equal_nan=draw.chance(0.5))
