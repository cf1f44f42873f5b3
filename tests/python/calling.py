"""Evaluates a call and says what came out, in words that JSON has."""

from decimal import Decimal
from fractions import Fraction

import mlx.core as mx
import numpy as np


def arguments():
    """What calls may use."""
    ramp = mx.arange(12, dtype=mx.float32).reshape(3, 4)
    return {
        "mx": mx,
        "np": np,
        "Decimal": Decimal,
        "Fraction": Fraction,
        "a": ramp / 7 - 0.6,
        "b": mx.cos(ramp),
        "v": mx.array([0.5, -1.5, 2.0, 3.25]),
        "m": mx.array([[4.0, 1.0, 0.5], [1.0, 3.0, -1.0], [0.5, -1.0, 2.0]]),
        "i": mx.array([[3, -2, 7], [0, 5, -9]]),
        "u": mx.array([1, 2, 250], dtype=mx.uint8),
        "h": mx.array([1.5, -2.25, 0.125], dtype=mx.float16),
        "t": mx.array([True, False, True]),
        "c": mx.array([1 + 2j, -0.5j, 3]),
        "x": mx.sin(mx.arange(2 * 8 * 8 * 3, dtype=mx.float32)).reshape(2, 8, 8, 3),
        "w": mx.cos(mx.arange(4 * 3 * 3 * 3, dtype=mx.float32)).reshape(4, 3, 3, 3),
        "q": mx.sin(mx.arange(64 * 64, dtype=mx.float32)).reshape(64, 64),
        "k": mx.random.key(7),
    }


def outcome(call):
    """What a call returns, flattened, or which exception it raises."""
    try:
        return described(eval(call, arguments()))
    except Exception as error:
        # Classes of our own count as what they are derived from.
        known = [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins"]
        return [{"raised": known[0]}]


def described(value):
    """A description of each leaf of a result."""
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in described(item)]
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in described(value[key])]
    if isinstance(value, mx.array):
        real = value
        if value.dtype == mx.complex64:
            real = mx.stack([mx.real(value), mx.imag(value)])
        elements = real.astype(mx.float32) if value.dtype == mx.bfloat16 else real
        return [{"dtype": str(value.dtype), "shape": list(value.shape), "value": elements.tolist()}]
    plain = isinstance(value, (int, float, str, bool))
    return [{"type": type(value).__name__, "value": value if plain else repr(value)}]
