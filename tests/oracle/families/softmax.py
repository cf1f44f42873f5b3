"""Softmax and its logarithm."""

import numpy as np

from draw import INEXACT
from record import Call

EPSILON = 2.0**-24


def calls(draw):
    for _ in range(4):
        yield softmax(draw)
    for _ in range(4):
        a, axis = reduced(draw)
        # Upstream's sums over several axes stay in the dtype: a bool's is true.
        # Float64 decides for what is no float.
        reference = None if a.dtype in INEXACT else logsumexp
        yield Call("logsumexp", a, axis=axis, keepdims=draw.chance(0.5), ulps=4, error=log_rounding,
                   either=True, reference=reference)


def reduced(draw):
    """An array and axes. Differences of complex infinities are numbers or not by which is taken off."""
    dtype = draw.dtype()
    return draw.reduced(dtype=dtype, special=0.05 * (dtype != "complex64"))


def softmax(draw):
    a, axis = reduced(draw)
    if a.dtype not in INEXACT:
        # Over any axis but the last upstream gives integers their own dtype, in which all is 0.
        a, axis = draw.array(least=1, dtype=a.dtype), -1
    return Call("softmax", a, axis=axis, precise=draw.chance(0.5), ulps=4, error=rounding, either=True)


def logsumexp(a, axis, keepdims):
    axis = tuple(axis) if isinstance(axis, list) else axis
    largest = np.max(a.astype(np.float64), axis=axis, keepdims=True, initial=-np.inf)
    total = np.sum(np.exp(a - largest), axis=axis, keepdims=True)
    out = np.log(total) + largest
    return out if keepdims else np.squeeze(out, tuple(range(a.ndim)) if axis is None else axis)


def rounding(a, **_):
    """The exponents' error is relative to their size, and sums round at each addition."""
    return (64 + a.size) * EPSILON


def log_rounding(a, **_):
    finite = np.abs(a)[np.isfinite(a)]
    return (16 + a.size) * EPSILON * (1 + np.max(finite, initial=0))
