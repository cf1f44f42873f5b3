"""Random numbers: the same for the same key."""

import mlx.core as mx
import numpy as np

from draw import DTYPES, FLOATS, INTEGERS, Input
from record import Call, DtypeName

FLOATING = [DtypeName(d) for d in FLOATS]


def calls(draw):
    yield Call("random.key", draw.integer(0, 2**40))
    yield Call("random.split", key(draw), draw.integer(0, 5))
    for _ in range(2):
        yield Call(
            "random.uniform",
            number(draw, -2, 0.5),
            number(draw, 1, 3),
            shape(draw),
            dtype=floating(draw),
            key=key(draw),
            ulps=1,
            widen=False,
        )
    for name in ["normal", "laplace"]:
        loc, scale = draw.one_of([(0.0, 1.0), (0.5, 2.0), (0.0, 3.0)])
        # The inverse error function and logarithms are within 4 units, and the products after them round.
        yield Call(
            f"random.{name}",
            shape=shape(draw),
            dtype=floating(draw),
            loc=loc,
            scale=scale,
            key=key(draw),
            ulps=8,
            error=lambda **_: 2.0**-22,
        )
    yield Call("random.gumbel", shape=shape(draw), dtype=floating(draw), key=key(draw), ulps=4,
               error=lambda **_: 2.0**-20, either=True)
    yield Call("random.truncated_normal", number(draw, -2, -0.5), number(draw, 0.5, 1.5), shape(draw),
               dtype=floating(draw), key=key(draw), ulps=16, error=lambda *_, **__: 2.0**-20, widen=False)
    yield Call("random.randint", draw.one_of([0, -5, 3]), draw.one_of([4, 100, 70000]), shape(draw),
               dtype=DtypeName(draw.one_of(["int32", "int64", "uint32", "float32", "int32"])), key=key(draw))
    yield Call("random.bernoulli", number(draw, 0.1, 0.9), shape(draw), key=key(draw), widen=False)
    yield Call("random.permutation", draw.integer(0, 40), key=key(draw))
    a = draw.array(empty=0)
    yield Call("random.permutation", a, axis=draw.axis(a.ndim), key=key(draw))
    yield from categorical(draw)
    yield multivariate(draw)


def key(draw):
    if draw.chance(0.03):
        return draw.one_of([draw.array([3], "uint32"), draw.array([2], "int32")])
    return Input(mx.random.key(draw.integer(0, 2**33)))


def shape(draw):
    return draw.shape(most=3, elements=1500)


def floating(draw):
    return DtypeName(
        draw.one_of(INTEGERS if draw.chance(0.05) else ["float16", "bfloat16", "float32", "float32"])
    )


def number(draw, low, high):
    """A number, or an array of no axes."""
    return draw.one_of([float(low), float(high), draw.array([], "float32", low=low, high=high, special=0)])


def categorical(draw):
    # Logits far apart, so that rounding does not decide between two of them.
    logits = draw.array(
        draw.shape(least=1, most=3, elements=200, empty=0), draw.one_of(["float32", "float16"]), special=0
    )
    axis = draw.axis(logits.ndim)
    yield Call("random.categorical", logits, axis=axis, key=key(draw))
    yield Call("random.categorical", logits, axis=axis, num_samples=draw.integer(0, 5), key=key(draw))
    rest = [d for i, d in enumerate(logits.shape) if i != axis % logits.ndim]
    yield Call("random.categorical", logits, axis=axis, shape=[draw.integer(1, 4), *rest], key=key(draw))


def multivariate(draw):
    n, batch = draw.integer(1, 5), draw.one_of([[], [], [2], [3, 1]])
    a = draw.rng.uniform(-1, 1, [*batch, n, n])
    # Far from singular: the root of a small singular value has no accuracy.
    cov = Input(mx.array((a @ np.swapaxes(a, -1, -2) + np.eye(n)).astype(np.float32)))
    mean = draw.array([*draw.broadcasting(batch), n + draw.chance(0.05)], "float32", special=0)
    shape = draw.one_of([[], [2, *batch], batch, [7]])
    dtype = DtypeName("float16" if draw.chance(0.05) else "float32")
    return Call("random.multivariate_normal", mean, cov, shape, dtype=dtype, key=key(draw),
                error=lambda *_, **__: 2.0**-14)
