"""Reductions, softmax, scans and order."""

import mlx.core as mx

from drawing import MARGIN
from programs import Unfit


def reduction(d):
    name = d.draw.one_of(["sum", "mean", "prod", "var", "max", "min", "logsumexp", "std"])
    value = d.pick() if name in ["sum", "mean"] else d.real()
    axes = d.axes(value)
    kwargs = dict(axis=axes, keepdims=d.draw.chance(0.4))
    if name in ["max", "min"]:
        d.spread_out(value)
    if name in ["var", "std"]:
        kwargs["ddof"] = 0
    if name == "std" and float(mx.min(mx.var(d.of(value), axis=axes)).item()) < MARGIN:
        raise Unfit
    d.add(name, value, **kwargs)


def softmax(d):
    value = d.real(1)
    d.add("softmax", value, axis=d.axes(value), precise=d.draw.chance(0.5))


def scan(d):
    name = d.draw.one_of(["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"])
    value = d.real(1)
    if name in ["cummax", "cummin"]:
        d.spread_out(value)
    # What is before the first is an infinity for the others.
    inclusive = name not in ["cumsum", "cumprod"] or d.draw.chance(0.6)
    d.add(name, value, axis=d.axis(value), reverse=d.draw.chance(0.5), inclusive=inclusive)


def order(d):
    value = d.spread_out(d.real(1))
    axis = d.axis(value)
    count = d.of(value).shape[axis]
    name = d.draw.one_of(["sort", "topk", "partition", "argsort"])
    if name == "sort":
        d.add("sort", value, axis=axis)
    elif name == "argsort":
        d.add("take_along_axis", value, d.add("argsort", value, axis=axis), axis=axis)
    else:
        d.add(name, value, d.draw.integer(1 if name == "topk" else 0, count - (name != "topk")), axis=axis)
