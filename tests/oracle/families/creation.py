"""Arrays from nothing."""

from draw import DTYPES, FLOATS, INEXACT, INTEGERS
from record import Call, DtypeName


def calls(draw):
    for _ in range(3):
        yield arange(draw)
    for _ in range(2):
        yield linspace(draw)
    for name in ["zeros", "ones", "empty"]:
        yield Call(name, shape_of(draw), dtype=DtypeName(draw.one_of(DTYPES)))
    for name in ["zeros_like", "ones_like", "empty_like"]:
        yield Call(name, draw.array())
    for _ in range(2):
        yield full(draw)
    a = draw.array()
    yield Call("full_like", a, draw.one_of([3, 0.5, True]), dtype=maybe_dtype(draw))
    for name in ["tri", "eye"]:
        yield Call(
            name,
            draw.integer(-1 if draw.chance(0.05) else 0, 20),
            draw.one_of([None, draw.integer(0, 20)]),
            draw.integer(-4, 4),
            dtype=DtypeName(draw.one_of(DTYPES)),
        )
    yield Call("identity", draw.integer(0, 20), dtype=DtypeName(draw.one_of(DTYPES)))
    for name in ["bartlett", "blackman", "hamming", "hanning"]:
        yield Call(name, draw.one_of([-1, 0, 1, 2, 3, 17, 64]), ulps=4, error=lambda *_: 2.0**-22)


def maybe_dtype(draw):
    return draw.one_of([None, DtypeName(draw.one_of(DTYPES))])


def shape_of(draw):
    shape = draw.shape()
    if shape and draw.chance(0.04):
        shape[0] = -2
    return shape


def arange(draw):
    dtype = DtypeName(draw.one_of([*INTEGERS, "float32", "float32", "float16", "bfloat16", "float64"]))
    if dtype in INTEGERS:
        start, step = draw.integer(0, 9), draw.one_of([1, 2, 3])
    else:
        start, step = draw.one_of([-3.0, 0.25, 0.0, 4.5]), draw.one_of([1.0, 0.5, -0.75, 0.125])
    stop = start + step * draw.integer(-2, 40)
    if stop < 0 and dtype.startswith("uint"):
        stop = 0
    # Upstream adds the step in the dtype: each addition of a half rounds.
    return Call("arange", start, stop, step, dtype=dtype, ulps=1)


def linspace(draw):
    start, stop = draw.one_of([0.0, -3.0, 1.5, 7]), draw.one_of([1.0, 10.0, -2.5, 7])
    num = draw.one_of([0, 1, 2, 3, 10, 50, 129, -1 if draw.chance(0.2) else 4])
    return Call(
        "linspace",
        start,
        stop,
        num,
        endpoint=draw.chance(0.5),
        dtype=DtypeName(draw.one_of(FLOATS)),
        ulps=2,
        error=lambda *_, **__: 2.0**-23 * max(abs(start), abs(stop)),
    )


def full(draw):
    # Upstream ignores the dtype where it cannot hold the value's kind, and for arrays: neither is drawn.
    shape = shape_of(draw)
    dtype = draw.one_of(DTYPES)
    value = draw.one_of([True, 3 if dtype != "bool" else False, 0.5 if dtype in INEXACT else True, None])
    if value is None:
        value = draw.array(draw.broadcasting(shape) if -2 not in shape else [], dtype)
    return Call("full", shape, value, dtype=DtypeName(dtype))
