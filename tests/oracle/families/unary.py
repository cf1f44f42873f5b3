"""Functions of one array, element by element."""

import math
import statistics

import numpy as np

from record import Call


def elementwise(f):
    """A function of numbers as one of arrays."""
    return lambda x: np.vectorize(f, otypes=[np.float64])(x) if np.size(x) else np.zeros(np.shape(x))


def erfinv(x):
    """By the quantile of the normal distribution, and Newton's steps from there."""
    if not -1 < x < 1:
        return math.copysign(math.inf, x) if abs(x) == 1 else math.nan
    if x == 0:
        return x
    # The complement keeps its digits where |x| is near 1.
    tail = statistics.NormalDist().inv_cdf((1 - abs(x)) / 2)
    y = -tail / math.sqrt(2)
    for _ in range(3):
        y -= (math.erf(y) - abs(x)) / (2 / math.sqrt(math.pi) * math.exp(-y * y))
    return math.copysign(y, x)


# Upstream computes these in float32 with approximations that differ by processor; 4 units is what this
# library promises (ARCHITECTURE.md, "4 ULP"), so float64 decides.
TRANSCENDENTAL = {
    "arccos": (np.arccos, 1),
    "arccosh": (np.arccosh, 20),
    "arcsin": (np.arcsin, 1),
    "arcsinh": (np.arcsinh, 20),
    "arctan": (np.arctan, 20),
    "arctanh": (np.arctanh, 1),
    "cos": (np.cos, 100),
    "cosh": (np.cosh, 12),
    "erf": (elementwise(math.erf), 4),
    "erfinv": (elementwise(erfinv), 1),
    "exp": (np.exp, 20),
    "expm1": (np.expm1, 12),
    "log": (np.log, 20),
    "log10": (np.log10, 20),
    "log1p": (np.log1p, 20),
    "log2": (np.log2, 20),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 20),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), 20),
    "sin": (np.sin, 100),
    "sinh": (np.sinh, 12),
    "sqrt": (np.sqrt, 20),
    "tan": (np.tan, 20),
    "tanh": (np.tanh, 9),
}
ALIASES = {"acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
           "atanh": "arctanh"}
REAL_ONLY = ["erf", "erfinv"]

EXACT = [
    "abs",
    "ceil",
    "floor",
    "trunc",
    "negative",
    "positive",
    "sign",
    "square",
    "logical_not",
    "bitwise_invert",
    "conjugate",
    "conj",
    "real",
    "imag",
    "isnan",
    "isinf",
    "isfinite",
    "isposinf",
    "isneginf",
]
# Composed of products with rounded constants.
COMPOSED = ["radians", "degrees", "reciprocal"]


def calls(draw):
    for name in [*TRANSCENDENTAL, *ALIASES]:
        yield transcendental(draw, name)
    for name in EXACT:
        yield Call(name, draw.array(), ulps=4 if name in ["abs", "sign", "square"] else 0)
    for name in COMPOSED:
        yield Call(name, draw.array(), ulps=4, either=True)
    for _ in range(2):
        a = draw.array(low=-30, high=30)
        # Upstream's factor is a float32, and a tenth is none: ties of float64 fall to the wrong side.
        decimals = draw.one_of([0, 0, 1, 2, 0 if a.dtype == "float64" else -1])
        yield Call("round", a, decimals, ulps=2, either=True)
    yield Call(
        "nan_to_num",
        draw.array(special=0.6),
        nan=draw.one_of([0.0, 1.5]),
        posinf=draw.one_of([None, 7.0]),
        neginf=draw.one_of([None, -3.0]),
        widen=False,
    )


def transcendental(draw, name):
    reference, reach = TRANSCENDENTAL[ALIASES.get(name, name)]
    dtype = draw.dtype()
    # What complex functions give at infinities differs from one C++ library to the next.
    special = 0 if dtype == "complex64" else 0.12
    a = draw.array(dtype=dtype, low=-reach, high=reach, special=special)
    if a.dtype == "complex64":
        return Call(name, a, ulps=32)
    return Call(name, a, ulps=4, reference=float_of(reference))


def float_of(f):
    """Integers are rounded to float32 first."""
    return lambda x: f(x if x.dtype == np.float64 else x.astype(np.float32).astype(np.float64))
