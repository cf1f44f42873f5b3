"""Views, movements, and elements at indices."""

import mlx.core as mx

from draw import Input
from families.indexing import distinct_along, index, indices
from programs import Unfit

SHAPES = ["reshape", "transpose", "swapaxes", "expand_dims", "flatten", "broadcast_to", "split",
          "concatenate", "stack", "squeeze", "unstack"]
MOVEMENTS = ["flip", "roll", "repeat", "tile", "pad", "tril", "triu", "diag", "diagonal", "diff"]
WRITES = ["setitem", "at.add", "at.multiply", "at.subtract", "put_along_axis", "slice_update"]


def shape(d):
    value = d.pick(1)
    x = d.of(value)
    name = d.draw.one_of(SHAPES)
    if name == "reshape":
        d.add(name, value, d.draw.one_of([[-1], [1, -1], [x.shape[0], -1], [-1, x.shape[-1]], [-1, 1]]))
    elif name == "transpose":
        d.add(name, value, axes=d.draw.some_of(range(x.ndim), x.ndim))
    elif name == "swapaxes":
        d.add(name, value, d.axis(value), d.axis(value))
    elif name == "expand_dims":
        d.add(name, value, d.draw.integer(-x.ndim - 1, x.ndim))
    elif name == "flatten":
        d.add(name, value, 0, -1)
    elif name == "broadcast_to":
        d.add(name, value, [2, *x.shape])
    elif name == "split":
        axis = d.axis(value)
        d.add(name, value, [d.draw.integer(1, max(1, x.shape[axis] - 1))], axis=axis)
    elif name == "unstack":
        d.add(name, value, axis=d.axis(value))
    elif name == "squeeze":
        d.add(name, d.add("expand_dims", value, 0), axis=0)
    else:
        other = d.constant(x.shape, d.dtype_of(value)) if d.draw.chance(0.5) else value
        d.add(name, [value, d.add("sin", value), other], axis=d.axis(value))


def movement(d):
    value = d.pick(1)
    x = d.of(value)
    name = d.draw.one_of(MOVEMENTS)
    if name == "flip":
        d.add(name, value, axis=d.axes(value))
    elif name == "roll":
        d.add(name, value, d.draw.integer(-3, 3), d.axis(value))
    elif name == "repeat":
        d.add(name, value, 2, axis=d.axis(value))
    elif name == "tile":
        d.add(name, value, [2])
    elif name == "pad":
        mode = d.draw.one_of(["constant", "edge"])
        d.add(name, value, [[1, d.draw.integer(0, 2)]] * x.ndim, mode=mode, constant_values=0.5)
    elif name in ["tril", "triu"]:
        d.add(name, d.pick(2), k=d.draw.integer(-1, 1))
    elif name == "diag":
        if x.ndim > 2:
            raise Unfit
        d.add(name, value, k=d.draw.integer(-1, 1))
    elif name == "diagonal":
        d.add(name, d.pick(2), offset=0, axis1=0, axis2=1)
    else:
        d.add(name, value, n=1, axis=d.axis(value))


def reading(d):
    """Elements at indices and slices."""
    value = d.pick(1)
    x = d.of(value)
    name = d.draw.one_of(["getitem", "getitem", "take", "take_along_axis", "slice"])
    axis = d.axis(value)
    if name == "getitem":
        d.add(name, value, index(d.draw, Input(x), d.draw.chance(0.6)))
    elif name == "take":
        d.add(name, value, indices(d.draw, d.shape(0, 2), x.shape[axis]), axis=axis)
    elif name == "take_along_axis":
        places = [*x.shape]
        places[axis] = d.draw.integer(1, 4)
        d.add(name, value, indices(d.draw, places, x.shape[axis]), axis=axis)
    else:
        axis %= x.ndim
        size = d.draw.integer(1, x.shape[axis])
        start = Input(mx.array([d.draw.integer(0, x.shape[axis] - size)], dtype=mx.int32))
        d.add(name, value, start, [axis], [size if i == axis else n for i, n in enumerate(x.shape)])


def writing(d):
    """Other elements at indices and slices."""
    value = d.pick(1)
    x, dtype = d.of(value), d.dtype_of(value)
    name = d.draw.one_of(WRITES)
    many = name in ["at.add", "at.subtract"]
    axis = d.axis(value)
    if name == "put_along_axis":
        places = [*x.shape]
        places[axis] = d.draw.integer(1, x.shape[axis])
        read = indices(d.draw, places, x.shape[axis])
        given = d.add("cos", d.add("take_along_axis", value, read, axis=axis))
        d.add(name, value, distinct_along(d.draw, places, axis, x.shape[axis]), given, axis=axis)
    elif name == "slice_update":
        axis %= x.ndim
        size = d.draw.integer(1, x.shape[axis])
        start = Input(mx.array([d.draw.integer(0, x.shape[axis] - size)], dtype=mx.int32))
        sizes = [size if i == axis else n for i, n in enumerate(x.shape)]
        d.add(name, value, d.constant(sizes, dtype), start, [axis])
    else:
        # New axes are left out: upstream misplaces them behind arrays of indices in updates.
        there = [i for i in index(d.draw, Input(x), d.draw.chance(0.6), distinct=not many) if i is not None]
        part = d.add("getitem", value, there)
        given = part if d.draw.chance(0.3) else d.add("sin", part)
        if d.draw.chance(0.4):
            given = d.constant(d.of(part).shape, dtype)
        d.add(name, value, there, given)
