"""Orders."""

import mlx.core as mx

from record import Call


def calls(draw):
    for name in ["sort", "argsort"]:
        for _ in range(2):
            a = draw.array()
            yield Call(name, a, axis=axis_of(draw, a))
    for name in ["partition", "argpartition"]:
        for _ in range(2):
            yield partition(draw, name)
    a = draw.array()
    yield Call("topk", a, draw.integer(0, 5), axis=axis_of(draw, a), run=sorted_topk)
    yield search(draw)
    yield unique(draw)


def axis_of(draw, a):
    return None if draw.chance(0.15) else draw.axis(a.ndim)


def partition(draw, name):
    a = draw.array()
    axis = axis_of(draw, a)
    return Call(
        name,
        a,
        draw.integer(-3, 3),
        axis=axis,
        run=sorted_partition if name == "partition" else arg_partition,
    )


def flat(a, axis):
    return (mx.flatten(a), 0) if axis is None else (a, axis)


def sorted_topk(a, k, axis):
    """The largest elements come in no particular order."""
    return mx.sort(mx.topk(a, k, axis=axis), axis=-1 if axis is None else axis)


def sorted_partition(a, kth, axis):
    """The elements on both sides of the place come in no particular order."""
    return sides(mx.partition(a, kth, axis=axis), kth, 0 if axis is None else axis)


def arg_partition(a, kth, axis):
    """Which of equal elements comes first is not defined: the elements are compared, not their places."""
    places = mx.argpartition(a, kth, axis=axis)
    a, axis = flat(a, axis)
    return sides(mx.take_along_axis(a, places, axis), kth, axis)


def sides(a, kth, axis):
    n = a.shape[axis]
    kth += n if kth < 0 else 0
    low, middle, high = mx.split(a, [kth, kth + 1], axis=axis)
    return mx.concatenate([mx.sort(low, axis=axis), middle, mx.sort(high, axis=axis)], axis=axis)


def search(draw):
    dtype = draw.dtype()
    list_ = draw.array([draw.integer(0, 70)], dtype, special=0, views=False)
    list_.base = mx.sort(list_.base)
    return Call("searchsorted", list_, draw.array(dtype=dtype if draw.chance(0.7) else None, special=0),
                side=draw.one_of(["left", "right", "left", "right", "middle"]))


def unique(draw):
    a = draw.array(low=-3, high=3, special=0, most=3)
    fill = draw.one_of([None, None, draw.array([], a.dtype, views=False)])
    return Call("unique", a, draw.integer(0, 12), return_index=True, return_inverse=True, return_counts=True,
                fill_value=fill)
