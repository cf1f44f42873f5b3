"""Running sums and their like, and differences."""

import numpy as np

from record import Call

EPSILON = 2.0**-24


def calls(draw):
    for name in [
        "cumsum",
        "cumprod",
        "cummax",
        "cummin",
        "cumulative_sum",
        "cumulative_prod",
        "logcumsumexp",
    ]:
        for _ in range(2):
            yield scan(draw, name)
    a = draw.array()
    yield Call("diff", a, n=draw.integer(0, 3), axis=draw.axis(a.ndim), either=True)


def scan(draw, name):
    # A running product of large numbers is soon infinite.
    bounds = dict(low=-1.2, high=1.2) if "prod" in name else {}
    dtype = draw.dtype()
    # Products of complex infinities are numbers or not by how the product is written.
    a = draw.array(dtype=dtype, **bounds, special=0.05 * (dtype != "complex64"))
    axis = None if draw.chance(0.15) else draw.axis(a.ndim)
    kwargs = dict(axis=axis, reverse=draw.chance(0.5), inclusive=draw.chance(0.5))
    errors = {
        "cumsum": sum_error,
        "cumulative_sum": sum_error,
        "cumprod": prod_error,
        "cumulative_prod": prod_error,
        "logcumsumexp": log_error,
    }
    # Upstream's running sums of halves round each step to the dtype.
    return Call(name, a, **kwargs, error=errors.get(name), ulps=2 if name in errors else 0, either=True)


def along(a, axis):
    return (a.reshape(-1), 0) if axis is None else (a, axis)


def sum_error(a, axis=None, **_):
    """Each of the additions rounds once."""
    a, axis = along(np.abs(a), axis)
    return 2 * a.shape[axis] * EPSILON * np.sum(a, axis=axis, keepdims=True) * np.ones(a.shape)


def prod_error(a, axis=None, **_):
    a, axis = along(np.abs(a), axis)
    largest = np.max(np.cumprod(np.maximum(a, 1), axis=axis), axis=axis, keepdims=True, initial=0)
    return 4 * a.shape[axis] * EPSILON * largest * np.ones(a.shape)


def log_error(a, axis=None, **_):
    a, axis = along(np.abs(a), axis)
    return 8 * (a.shape[axis] + np.nan_to_num(np.max(a, axis=axis, keepdims=True, initial=0), posinf=0)) \
        * EPSILON * np.ones(a.shape)
