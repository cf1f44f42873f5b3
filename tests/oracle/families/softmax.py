"""Softmax and its logarithm."""

import numpy as np

from record import Call

EPSILON = 2.0**-24


def calls(draw):
    for _ in range(4):
        a = draw.array(special=0.05)
        yield Call("softmax", a, axis=draw.axes(a.ndim), precise=draw.chance(0.5), ulps=4, error=rounding, either=True)
    for _ in range(4):
        a = draw.array(special=0.05)
        yield Call("logsumexp", a, axis=draw.axes(a.ndim), keepdims=draw.chance(0.5), ulps=4, error=log_rounding,
                   either=True)


def rounding(a, **_):
    """The exponents' error is relative to their size, and sums round at each addition."""
    return (64 + a.size) * EPSILON


def log_rounding(a, **_):
    finite = np.abs(a)[np.isfinite(a)]
    return (16 + a.size) * EPSILON * (1 + np.max(finite, initial=0))
