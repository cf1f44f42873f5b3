"""Functions that give the elements another shape, and joins and splits."""

import mlx.core as mx
import numpy as np

from draw import DTYPES
from record import Call, DtypeName


def calls(draw):
    yield from reshapes(draw)
    yield from axis_orders(draw)
    yield from broadcasts(draw)
    yield from joins(draw)
    yield from splits(draw)
    yield from conversions(draw)


def reshapes(draw):
    a = draw.array()
    yield Call("reshape", a, factors(draw, a))
    for name in ["squeeze", "flatten", "unflatten", "expand_dims"]:
        a = draw.array()
        if name == "squeeze":
            ones = [i for i, d in enumerate(a.shape) if d == 1]
            axes = (
                draw.some_of(ones, draw.integer(1, len(ones)))
                if ones and draw.chance(0.7)
                else draw.axes(a.ndim)
            )
            yield Call(name, a, axis=axes)
        elif name == "flatten":
            yield Call(name, a, draw.axis(a.ndim, 0.1), draw.axis(a.ndim, 0.1))
        elif name == "unflatten":
            axis = draw.axis(a.ndim)
            size = a.shape[axis] if -a.ndim <= axis < a.ndim else 6
            parts = draw.one_of([[1, -1], [-1], [size], [1, size, 1], [2, -1], [-1, size], [-1, -1]])
            yield Call(name, a, axis, parts)
        else:
            count = draw.integer(1, 3)
            yield Call(name, a, [draw.integer(-a.ndim - count, a.ndim + count - 1) for _ in range(count)])
    for name in ["atleast_1d", "atleast_2d", "atleast_3d"]:
        yield Call(name, draw.array(most=4))


def factors(draw, a):
    """A shape for as many elements, seldom for others."""
    rest, shape = int(np.prod(a.shape)), []
    while rest > 1 and draw.chance(0.8):
        d = draw.one_of([x for x in [1, 2, 3, 5, 7, 9, 16] if rest % x == 0])
        shape.append(d)
        rest //= d
    shape.append(rest if draw.chance(0.6) else -1)
    if draw.chance(0.06):
        shape.append(draw.one_of([2, -1, 0]))
    return shape


def axis_orders(draw):
    for name in ["transpose", "permute_dims"]:
        a = draw.array()
        axes = [x - a.ndim * draw.chance(0.3) for x in draw.some_of(range(a.ndim), a.ndim)]
        if axes and draw.chance(0.1):
            axes = draw.one_of([axes[1:], [axes[0], *axes[:-1]], [*axes, 0]])
        yield Call(name, a, axes=axes or None)
    for name in ["swapaxes", "moveaxis"]:
        a = draw.array()
        yield Call(name, a, draw.axis(a.ndim), draw.axis(a.ndim))
    yield Call("matrix_transpose", draw.array())
    yield Call("contiguous", draw.array(), allow_col_major=draw.chance(0.5))
    yield strided(draw)


def strided(draw):
    """Windows of the flattened array, none of which reaches outside."""
    a = draw.array(empty=0)
    shape, strides, reach = [], [], a.base.size if not a.steps else int(np.prod(a.shape))
    for _ in range(draw.integer(0, 3)):
        size, stride = draw.integer(1, 4), draw.integer(0, 3)
        if (size - 1) * stride < reach:
            shape.append(size)
            strides.append(stride)
            reach -= (size - 1) * stride
    return Call("as_strided", a, shape=shape, strides=strides, offset=draw.integer(0, reach - 1))


def broadcasts(draw):
    shape = draw.shape()
    yield Call("broadcast_to", draw.array(draw.broadcasting(shape)), shape)
    yield Call("broadcast_arrays", *[draw.array(draw.broadcasting(shape)) for _ in range(draw.integer(1, 3))])
    shapes = [draw.broadcasting(shape) for _ in range(draw.integer(1, 3))]
    yield Call(
        "broadcast_shapes", *shapes, run=lambda *s: mx.array(list(mx.broadcast_shapes(*s)), dtype=mx.int32)
    )


def joins(draw):
    for name in ["concatenate", "concat", "stack"]:
        a = draw.array()
        axis = draw.axis(a.ndim)
        arrays = [a]
        for _ in range(draw.integer(0, 3)):
            shape = list(a.shape)
            if name != "stack" and -a.ndim <= axis < a.ndim:
                shape[axis] = draw.integer(0, 9)
            if shape and draw.chance(0.04):
                shape[0] += 1
            arrays.append(draw.array(shape, None if draw.chance(0.3) else a.dtype))
        yield Call(name, arrays, axis=axis)
    vectors = [draw.array([draw.integer(1, 6)]) for _ in range(draw.integer(1, 3))]
    indexing = draw.one_of(["xy", "ij", "xy", "ij", "yx"])
    yield Call("meshgrid", *vectors, sparse=draw.chance(0.5), indexing=indexing)


def splits(draw):
    for _ in range(2):
        a = draw.array()
        axis = draw.axis(a.ndim)
        size = a.shape[axis] if -a.ndim <= axis < a.ndim else 4
        parts = [d for d in range(1, 10) if size % d == 0]
        at = sorted(draw.integer(-2, size) for _ in range(draw.integer(0, 3)))
        yield Call("split", a, draw.one_of([draw.one_of(parts), draw.integer(1, 4), at]), axis=axis)
    a = draw.array([draw.integer(1, 5), *draw.shape(most=2)])
    yield Call("unstack", a, axis=draw.axis(a.ndim))


def conversions(draw):
    for _ in range(4):
        # A cast of what the other dtype does not hold is undefined in C++.
        a = draw.array(low=0, high=100, special=0)
        yield Call("astype", a, DtypeName(draw.one_of(DTYPES)), widen=False)
    for _ in range(3):
        a = draw.array()
        yield Call("view", a, DtypeName(draw.one_of([d for d in DTYPES if d != "bool"])), widen=False)
