"""Choosing between arrays."""

from record import Call

NUMBERS = [0.5, -1.25, 2, 0, True]


def calls(draw):
    for _ in range(3):
        yield where(draw)
    for _ in range(3):
        yield clip(draw)


def where(draw):
    shape = draw.shape()
    condition = draw.array(draw.broadcasting(shape), "bool" if draw.chance(0.8) else draw.dtype())
    a, b = (draw.array(draw.broadcasting(shape)) for _ in range(2))
    if draw.chance(0.3):
        a = draw.one_of(NUMBERS)
    if draw.chance(0.3):
        b = draw.one_of(NUMBERS)
    return Call("where", condition, a, b)


def clip(draw):
    a = draw.array()
    limit = lambda low, high: draw.one_of(
        [
            None,
            draw.one_of([low, high]),
            draw.array(draw.broadcasting(a.shape), a.dtype, min(low, high), max(low, high)),
        ]
    )
    return Call("clip", a, limit(0, -0.5), limit(1, 2.5))
