"""Reading and writing elements at indices: functions, `a[...]`, `a[...] = v` and `a.at[...].add(v)`."""

import mlx.core as mx
import numpy as np

from draw import DTYPES, INTEGERS, Input
from record import Call, Slice, text_of

UPDATES = ["add", "subtract", "multiply", "divide", "maximum", "minimum"]


def calls(draw):
    for _ in range(2):
        yield take(draw)
        yield along(draw, "take_along_axis")
        yield along(draw, "put_along_axis")
    yield dynamic(draw, "slice")
    yield dynamic(draw, "slice_update")
    for _ in range(8):
        yield get(draw)
    for _ in range(5):
        yield put(draw)
    yield masked(draw)
    for name in UPDATES:
        yield update(draw, name)


def indices(draw, shape, size, distinct=False):
    """Indices into an axis of `size` elements, some of them negative; outside ones are undefined upstream."""
    count = int(np.prod(shape))
    if distinct:
        values = np.resize(draw.rng.permutation(max(size, 1)), count)
    else:
        values = draw.rng.integers(0, max(size, 1), count)
    dtype = draw.one_of(INTEGERS if size < 100 else ["int32", "uint32", "int64", "int16"])
    if dtype.startswith("int"):
        values = np.where(draw.rng.random(count) < 0.3, values - size, values)
    return Input(mx.array(values.reshape(shape).astype(dtype)))


def take(draw):
    a = draw.array()
    if draw.chance(0.1):
        size = int(np.prod(a.shape))
        return Call("take", a, indices(draw, draw.shape(most=2, elements=40), size))
    axis = draw.axis(a.ndim)
    size = a.shape[axis] if -a.ndim <= axis < a.ndim else 1
    # Upstream refuses one integer where any axis is empty, and an array of them where this axis is.
    if draw.chance(0.15) and 0 not in a.shape:
        return Call("take", a, draw.integer(0, size - 1), axis=axis)
    picks = indices(draw, draw.shape(most=2, elements=40), size)
    if draw.chance(0.05):
        picks = draw.array([2], "float32", low=0, high=0)
    return Call("take", a, picks, axis=axis)


def along(draw, name):
    a = draw.array(least=1, empty=0)
    axis = draw.axis(a.ndim)
    size = a.shape[axis] if -a.ndim <= axis < a.ndim else 1
    shape = [1 if draw.chance(0.1) else d for d in a.shape]
    # Two values for one place would leave either of them.
    put = name == "put_along_axis"
    shape[axis if -a.ndim <= axis < a.ndim else 0] = (
        draw.integer(1, max(size, 1)) if put else draw.integer(1, 9)
    )
    if put:
        places = distinct_along(draw, shape, axis if -a.ndim <= axis < a.ndim else 0, size)
        return Call(name, a, places, draw.array(draw.broadcasting(shape)), axis=axis)
    return Call(name, a, indices(draw, shape, size), axis=axis)


def distinct_along(draw, shape, axis, size):
    """Indices of which no two along the axis are equal."""
    rows = [
        draw.rng.permutation(max(size, 1))[: shape[axis]] for _ in range(int(np.prod(shape)) // shape[axis])
    ]
    moved = [
        *(shape[:axis] if axis >= 0 else shape[: len(shape) + axis]),
        *(shape[axis + 1 :] if axis != -1 else []),
    ]
    values = np.moveaxis(np.array(rows, dtype=np.int32).reshape([*moved, shape[axis]]), -1, axis)
    return Input(mx.array(np.ascontiguousarray(values)))


def dynamic(draw, name):
    a = draw.array(least=1, empty=0)
    axes = draw.some_of(range(a.ndim), draw.integer(1, a.ndim))
    sizes = [draw.integer(1, d) for d in a.shape]
    starts = [draw.integer(0, a.shape[x] - sizes[x]) for x in axes]
    sizes = [s if i in axes or name == "slice" else d for i, (s, d) in enumerate(zip(sizes, a.shape))]
    if draw.chance(0.05):
        axes = draw.one_of([[a.ndim] * len(axes), axes[1:]])
    start = Input(mx.array(starts, dtype=mx.int32))
    if name == "slice":
        return Call(name, a, start, axes, sizes)
    return Call(name, a, draw.array(sizes, a.dtype if draw.chance(0.7) else None), start, axes)


def part(draw, size):
    """An integer or a slice."""
    if size and draw.chance(0.3):
        return draw.integer(-size, size - 1)
    step = draw.one_of([None, None, 1, 2, 3, -1, -2])
    bound = lambda: None if draw.chance(0.4) else draw.integer(-size - 2, size + 2)
    return Slice(bound(), bound(), step)


def filled(draw, a, arrays, distinct=False):
    """Brackets for writing. Writing to none of the elements ends upstream's process if there are arrays of
    indices."""
    while True:
        parts = index(draw, a, arrays, distinct)
        if 0 not in target_shape(a, parts) or not any(isinstance(x, Input) for x in parts):
            return parts


def index(draw, a, arrays, distinct=False):
    """What stands between the brackets."""
    parts = [part(draw, d) for d in a.shape[: draw.integer(0, a.ndim)]]
    joint = draw.shape(least=1, most=2, elements=9, empty=0.02)
    for i in range(len(parts)):
        if arrays and a.shape[i] and draw.chance(0.5):
            shape = list(joint) if distinct else draw.broadcasting(joint)
            if distinct:
                joint = shape = [min(a.shape[i], *joint)] if int(np.prod(joint)) > a.shape[i] else shape
            parts[i] = indices(draw, shape, a.shape[i], distinct)
    if distinct and sum(isinstance(x, Input) for x in parts) > 1:
        return index(draw, a, arrays, distinct)
    for extra in [None, Ellipsis]:
        if draw.chance(0.2):
            parts.insert(draw.integer(0, len(parts)), extra)
    # An ellipsis moves what follows to the last axes, where other sizes are: whole slices fit everywhere.
    if Ellipsis in parts:
        behind = parts.index(Ellipsis) + 1
        parts[behind:] = [
            x if x is None else Slice(None, None, draw.one_of([None, 2, -1])) for x in parts[behind:]
        ]
    if draw.chance(0.04):
        parts += [Slice(None, None, None)] * (a.ndim + 1)
    return parts


def brackets(parts):
    return "[" + ", ".join("None" if x is None else text_of(x) for x in parts) + "]"


def get(draw):
    a = draw.array()
    parts = index(draw, a, draw.chance(0.6))
    return Call("getitem", a, parts, run=lambda a, i: a[tuple(i)], text=lambda: a.text() + brackets(parts))


def target_shape(a, parts):
    """The shape of `a[parts]`, or none if there is no such thing."""
    try:
        value = a.value()
        return list(
            value[
                tuple(
                    x.value() if isinstance(x, Input) else slice(*x.parts) if isinstance(x, Slice) else x
                    for x in parts
                )
            ].shape
        )
    except (ValueError, IndexError):
        return []


def value_for(draw, a, parts, dtype=None, leading=True, **values):
    shape = target_shape(a, parts)
    if draw.chance(0.2):
        return draw.one_of([2, 1])
    shape = draw.broadcasting(shape)
    # Upstream takes leading axes of size 1 off where it assigns, and not always where it updates.
    shape = [1, *shape] if leading and draw.chance(0.1) else shape
    return draw.array(shape, a.dtype if draw.chance(0.7) else dtype, **values)


def put(draw):
    # Conversions of what the array's dtype does not hold are undefined.
    # A scalar takes the dtype of what is assigned upstream.
    a = draw.array(least=1, empty=0.03)
    parts = filled(draw, a, draw.chance(0.5), distinct=True)
    value = value_for(draw, a, parts, low=0, high=50, special=0)
    text = lambda: f"{a.text()}{brackets(parts)} = {text_of(value)}"
    return Call("setitem", a, parts, value, run=assigned, text=text, widen=False)


def assigned(a, parts, value):
    a = mx.array(a)
    a[tuple(parts)] = value
    return a


def masked(draw):
    a = draw.array(empty=0.03)
    mask = draw.array(list(a.shape[: draw.integer(0, a.ndim)]), "bool")
    count = int(np.array(mask.value()).sum())
    shape = [count, *a.shape[mask.ndim :]]
    value = 1
    # Values for none of the elements end upstream's process.
    if count and draw.chance(0.7):
        value = draw.array(shape, a.dtype, low=0, high=50, special=0)
    text = lambda: f"{a.text()}[{mask.text()}] = {text_of(value)}"
    return Call("setitem", a, mask, value, run=masked_assigned, text=text, widen=False)


def masked_assigned(a, mask, value):
    a = mx.array(a)
    a[mask] = value
    return a


def update(draw, name):
    # Dividing by false ends upstream's process.
    dtype = draw.one_of([d for d in DTYPES if d != "bool"]) if name == "divide" else None
    # A scalar takes the dtype of what is joined with it upstream, other arrays keep theirs.
    a = draw.array(least=1, empty=0.03, dtype=dtype, low=-4, high=4, special=0)
    # The order in which updates of one place are made is not defined: these give the same in any.
    many = name in ["add", "subtract", "maximum", "minimum"]
    parts = filled(draw, a, draw.chance(0.7), distinct=not many)
    value = value_for(draw, a, parts, dtype, leading=False, low=1, high=3, special=0)
    # Upstream misplaces new axes behind arrays of indices in updates.
    if any(isinstance(x, Input) for x in parts):
        parts = [x for x in parts if x is not None]
        value = value_for(draw, a, parts, dtype, leading=False, low=1, high=3, special=0)
    text = lambda: f"{a.text()}.at{brackets(parts)}.{name}({text_of(value)})"
    run = lambda a, parts, value: getattr(a.at[tuple(parts)], name)(value)
    return Call(
        f"at.{name}", a, parts, value, run=run, text=text, ulps=4, error=lambda *_: 2.0**-16, either=True
    )
