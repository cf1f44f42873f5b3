"""Reductions over axes, and the places of extremes."""

import numpy as np

from record import Call

EPSILON = 2.0**-24


def calls(draw):
    for name in ["sum", "prod", "max", "min", "all", "any", "mean", "minmax", "count_nonzero", "median"]:
        for _ in range(2):
            yield reduction(draw, name)
    for name in ["var", "std"]:
        for _ in range(2):
            yield spread(draw, name)
    for name in ["argmax", "argmin"]:
        for _ in range(2):
            a = draw.array()
            axis = None if draw.chance(0.2) else draw.axis(a.ndim)
            # Upstream fails on a scalar whose axes are kept, by an accident with the length of its shape.
            yield Call(name, a, axis=axis, keepdims=draw.chance(0.5) and a.ndim > 0)


def reduction(draw, name):
    # Upstream's mean of integers is that of their sum, which may wrap around: small ones only.
    kind = dict(low=-4, high=9) if name == "mean" else {}
    a, axis = draw.reduced(extreme=name in ["max", "min", "minmax", "median"], **kind)
    kwargs = {"axis": axis, "keepdims": draw.chance(0.5)}
    error = {"sum": sum_error, "mean": mean_error, "prod": prod_error}.get(name)
    # Means and medians round each of their steps to the dtype.
    return Call(name, a, **kwargs, error=error, ulps=2 if name in ["mean", "median", "sum", "prod"] else 0,
                either=name in ["mean", "median"])


def spread(draw, name):
    a, axis = draw.reduced(special=0.03)
    kwargs = {"axis": axis, "keepdims": draw.chance(0.5), "ddof": draw.one_of([0, 0, 1, 2])}
    return Call(
        name, a, **kwargs, ulps=4, error=lambda *x, **k: spread_error(name, a.dtype, *x, **k), either=True
    )


def axes_of(axis):
    return tuple(axis) if isinstance(axis, list) else axis


def terms(a, axis):
    """Elements that go into one result."""
    axis = axes_of(axis)
    axes = range(a.ndim) if axis is None else axis if isinstance(axis, tuple) else [axis]
    return int(np.prod([a.shape[x] for x in axes]))


def sum_error(a, axis=None, keepdims=False):
    """Each addition rounds once (Higham, Accuracy and Stability of Numerical Algorithms, 4.2)."""
    magnitude = np.sum(np.abs(a.astype(np.complex128)), axis=axes_of(axis), keepdims=keepdims)
    return terms(a, axis) * EPSILON * magnitude


def mean_error(a, axis=None, keepdims=False):
    return sum_error(a, axis, keepdims) / max(1, terms(a, axis))


def prod_error(a, axis=None, keepdims=False):
    magnitude = np.prod(np.abs(a.astype(np.complex128)), axis=axes_of(axis), keepdims=keepdims)
    return 2 * terms(a, axis) * EPSILON * magnitude


def spread_error(name, dtype, a, axis=None, keepdims=False, ddof=0):
    """The mean rounds, and so do differences from it and their squares, in the array's dtype."""
    step = {"float16": 2.0**-11, "bfloat16": 2.0**-8}.get(dtype, EPSILON)
    a = a.astype(np.complex128)
    square = np.max(np.abs(a) ** 2, axis=axes_of(axis), keepdims=keepdims, initial=0)
    n = terms(a, axis)
    error = (8 * step + n * EPSILON) * square * n / max(1, n - ddof)
    return error if name == "var" else np.sqrt(error)
