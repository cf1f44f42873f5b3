"""Functions that move elements: flips, rolls, repeats, padding, triangles and diagonals."""

from draw import DTYPES
from record import Call, DtypeName


def calls(draw):
    a = draw.array()
    yield Call("flip", a, axis=draw.axes(a.ndim))
    for _ in range(2):
        yield roll(draw)
    a = draw.array(elements=400)
    yield Call("repeat", a, draw.integer(-1 if draw.chance(0.1) else 0, 4), axis=axis_of(draw, a))
    yield Call("tile", draw.array(elements=100), [draw.integer(0, 3) for _ in range(draw.integer(1, 4))])
    for _ in range(3):
        yield pad(draw)
    for name in ["tril", "triu"]:
        yield Call(name, draw.array(), k=draw.integer(-3, 3))
    yield Call("diag", draw.array(most=3, elements=200), k=draw.integer(-3, 3))
    a = draw.array()
    yield Call("diagonal", a, offset=draw.integer(-3, 3), axis1=draw.axis(a.ndim), axis2=draw.axis(a.ndim))
    yield trace(draw)


def axis_of(draw, a):
    return None if draw.chance(0.2) else draw.axis(a.ndim)


def roll(draw):
    a = draw.array()
    if draw.chance(0.2):
        return Call("roll", a, draw.integer(-20, 20))
    if draw.chance(0.5):
        return Call("roll", a, draw.integer(-20, 20), draw.axis(a.ndim))
    axes = [draw.axis(a.ndim) for _ in range(draw.integer(1, 2))]
    return Call("roll", a, tuple(draw.integer(-9, 9) for _ in axes), tuple(axes))


def pad(draw):
    a = draw.array(most=3, elements=300, empty=0.1)
    width = lambda: draw.integer(-1 if draw.chance(0.02) else 0, 4)
    pairs = [(width(), width()) for _ in range(a.ndim + draw.chance(0.05))]
    # One number for all sides, a pair for all axes, or a pair for each.
    widths = draw.one_of([width(), (width(), width()), pairs])
    mode = draw.one_of(["constant", "constant", "edge", "reflect", "symmetric", "wrap"])
    value = draw.one_of([0, 1.5, 2, draw.array([], a.dtype, views=False)])
    return Call("pad", a, widths, mode=mode, constant_values=value)


def trace(draw):
    a = draw.array(low=-3, high=3, special=0, empty=0)
    axes = [draw.axis(a.ndim), draw.axis(a.ndim)]
    offset = draw.integer(-2, 2)
    if all(-a.ndim <= x < a.ndim for x in axes):
        # Upstream does not come back from some sums of an empty diagonal.
        rows, columns = (a.shape[x] for x in axes)
        offset = min(max(offset, 1 - rows), columns - 1)
    return Call("trace", a, offset=offset, axis1=axes[0], axis2=axes[1],
                dtype=draw.one_of([None, None, DtypeName(draw.one_of(DTYPES))]), ulps=4, either=True)
