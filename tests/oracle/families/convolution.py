"""Convolutions."""

import mlx.core as mx
import numpy as np

from record import Call

EPSILON = 2.0**-24
DTYPES = ["float32", "float16", "bfloat16"]


def calls(draw):
    for _ in range(2):
        for axes in [1, 2, 3]:
            yield plain(draw, axes)
    for axes in [1, 2, 3]:
        yield transposed(draw, axes)
    for _ in range(4):
        yield general(draw)
    for _ in range(2):
        a, v = (draw.array([draw.integer(0 if draw.chance(0.05) else 1, 12)], draw.dtype(DTYPES), special=0)
                for _ in range(2))
        bound = (
            lambda a, v, **_: 16
            * 12
            * EPSILON
            * (np.sum(np.abs(a)) * np.max(np.abs(v), initial=0) + 1e-30)
            * np.ones(1)
        )
        yield Call(
            "convolve", a, v, mode=draw.one_of(["full", "same", "valid"]), error=bound, ulps=2, either=True
        )


def operands(draw, axes, transposed=False):
    groups = draw.one_of([1, 1, 1, 2, 3])
    channels, outputs = draw.one_of([1, 2, 4, 8]), draw.one_of([1, 2, 5, 16])
    spatial = [draw.integer(3, 9 if axes < 3 else 5) for _ in range(axes)]
    kernel = [draw.integer(1, 3) for _ in range(axes)]
    dtype = draw.dtype(DTYPES)
    given = channels * groups + (draw.chance(0.05))
    # Upstream's products are of halves where the operands are.
    a = draw.array([draw.integer(1, 2), *spatial, given], dtype, low=-2, high=2, special=0)
    w = draw.array([outputs * groups, *kernel, channels], dtype, low=-2, high=2, special=0)
    return a, w, groups


def bound(a, w, *_, **__):
    terms = int(np.prod(w.shape[1:]))
    return 8 * (terms + 1) * EPSILON * terms * 4 * np.ones(1)


def several(draw, axes, low, high):
    return [draw.integer(low, high) for _ in range(axes)]


def single(draw, axes, values):
    return values[0] if axes == 1 else values


def show_misfits(a, w, stride, padding, dilation, spread):
    """Upstream takes a window that does not fit where the stride hides it, and reads what is not there."""
    for axis in range(len(stride)):
        room = (a.shape[axis + 1] - 1) * spread[axis] + 1 + padding[0][axis] + padding[1][axis]
        if room < (w.shape[axis + 1] - 1) * dilation[axis] + 1:
            stride[axis] = 1


def plain(draw, axes):
    a, w, groups = operands(draw, axes)
    kwargs = dict(
        stride=several(draw, axes, 1, 2),
        padding=several(draw, axes, 0, 2),
        dilation=several(draw, axes, 1, 2),
    )
    show_misfits(a, w, kwargs["stride"], [kwargs["padding"]] * 2, kwargs["dilation"], [1] * axes)
    kwargs = {name: single(draw, axes, values) for name, values in kwargs.items()}
    return Call(f"conv{axes}d", a, w, **kwargs, groups=groups, error=bound, ulps=2, either=True)


def transposed(draw, axes):
    a, w, groups = operands(draw, axes)
    kwargs = dict(
        stride=several(draw, axes, 1, 2),
        padding=several(draw, axes, 0, 1),
        dilation=several(draw, axes, 1, 2),
        output_padding=several(draw, axes, 0, 1),
    )
    kwargs = {name: single(draw, axes, values) for name, values in kwargs.items()}
    return Call(f"conv_transpose{axes}d", a, w, **kwargs, groups=groups, error=bound, ulps=2, either=True)


def general(draw):
    axes = draw.integer(1, 3)
    a, w, groups = operands(draw, axes)
    kwargs = dict(
        stride=several(draw, axes, 1, 3),
        padding=[several(draw, axes, 0, 2), several(draw, axes, 0, 2)],
        kernel_dilation=several(draw, axes, 1, 2),
        input_dilation=several(draw, axes, 1, 3),
    )
    show_misfits(
        a, w, kwargs["stride"], kwargs["padding"], kwargs["kernel_dilation"], kwargs["input_dilation"]
    )
    return Call(
        "conv_general", a, w, **kwargs, groups=groups, flip=draw.chance(0.3), error=bound, ulps=2, either=True
    )
