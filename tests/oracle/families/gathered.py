"""Products of picked matrices, of masked blocks and of segments."""

import mlx.core as mx
import numpy as np

from draw import HALVES, INEXACT, Input
from record import Call

EPSILON = 2.0**-24
SIZES = [1, 2, 3, 5, 8, 17, 33, 64]


def calls(draw):
    for _ in range(4):
        yield picked(draw)
    for _ in range(3):
        yield masked(draw)
    for _ in range(3):
        yield segmented(draw)


def dtype_of_product(draw):
    """A dtype that may be multiplied; seldom one that is refused."""
    return draw.one_of(["complex64", "int32"]) if draw.chance(0.05) else draw.dtype([*HALVES, "float32"])


def in_single(function):
    """Upstream's CPU has some products in float32 only: these are made there, and rounded to the dtype they
    promise."""
    def run(a, b, *rest, **named):
        dtype = mx.result_type(a, b)
        if dtype not in (mx.float16, mx.bfloat16):
            return function(a, b, *rest, **named)
        return function(a.astype(mx.float32), b.astype(mx.float32), *rest, **named).astype(dtype)
    return run


def magnitude(a, b):
    """Bound of all elements of products: rows of `a` and columns of `b` may be any that are there."""
    largest = np.max(np.abs(a), initial=0) * np.max(np.abs(b), initial=0)
    return 4 * (a.shape[-1] + 1) ** 2 * EPSILON * largest * np.ones(1)


def picked(draw):
    m, k, n = (draw.one_of(SIZES) for _ in range(3))
    counts = [draw.one_of([[3], [2, 2], [1], []]) for _ in range(2)]
    dtype = dtype_of_product(draw)
    a = draw.array([*counts[0], m, k + draw.chance(0.04)], dtype, special=0)
    b = draw.array([*counts[1], k, n], dtype if draw.chance(0.85) else "float32", special=0)
    lhs, rhs, named = indices(draw, counts)
    return Call("gather_mm", a, b, lhs, rhs, **named, run=in_single(mx.gather_mm), ulps=1,
                error=lambda a, b, *_, **__: magnitude(a, b))


def indices(draw, counts):
    """Indices of the matrices of two operands, each perhaps none; and whether they ascend."""
    shape = draw.shape(most=2, elements=8, empty=0.05)
    shapes = [shape, draw.broadcasting(shape)]
    given = [draw.chance(0.8), draw.chance(0.8)]
    if not all(given):
        # What is not given has the shape of the batch axes, with which the other broadcasts.
        shapes = [[*draw.one_of([[], [2]]), *counts[1 - i]] for i in range(2)]
    of = [
        (
            Input(
                mx.array(
                    draw.rng.integers(0, int(np.prod(counts[i])), shapes[i]).astype(
                        draw.one_of(["uint32", "int32"])
                    )
                )
            )
            if given[i]
            else None
        )
        for i in range(2)
    ]
    if sum(given) == 1 and draw.chance(0.5):
        array = of[given.index(True)]
        array.base = mx.sort(array.base.reshape(-1)).reshape(array.base.shape)
        return *of, dict(sorted_indices=True)
    return *of, {}


def masked(draw):
    block = draw.one_of([32, 64, 16 if draw.chance(0.1) else 32])
    m, k, n = (draw.one_of([1, 5, 31, 32, 33, 64, 70]) for _ in range(3))
    batch = draw.one_of([[], [], [2], [2, 1]])
    dtype = dtype_of_product(draw)
    a, b = draw.array([*batch, m, k], dtype, special=0), draw.array(
        [*draw.broadcasting(batch), k, n], dtype, special=0
    )
    blocks = lambda *sizes: [-(-d // block) for d in sizes]
    # Factors of halves are rounded where a backend likes; bools round nothing.
    kind = "bool" if dtype in HALVES or draw.chance(0.4) else "float32"
    sides = [[m, n], [m, k], [k, n]]
    # Upstream frees what it did not allocate for masks of some strides: these are dense.
    masks = [
        (
            Input(draw.dense([*batch, *blocks(*side)], kind, low=-2, high=2, special=0))
            if draw.chance(0.6)
            else None
        )
        for side in sides
    ]
    # Factors of both operands and of the result.
    error = lambda a, b, *_, **__: 8 * magnitude(a, b)
    # Upstream takes other masks than those of the batch where operands are broadcast: numpy decides.
    return Call(
        "block_masked_mm",
        a,
        b,
        block,
        *masks,
        run=in_single(mx.block_masked_mm),
        ulps=1,
        error=error,
        reference=masked_product,
    )


def masked_product(a, b, block, out, lhs, rhs):
    product = np.matmul(spread(a, lhs, block), spread(b, rhs, block))
    return spread(product, out, block)


def spread(a, mask, block):
    """An array times its mask, of which each element is a block."""
    if mask is None:
        return a
    whole = np.repeat(np.repeat(mask, block, axis=-2), block, axis=-1)
    return a * whole[..., : a.shape[-2], : a.shape[-1]]


def segmented(draw):
    m, k, n = (draw.one_of(SIZES) for _ in range(3))
    dtype = draw.dtype(INEXACT if draw.chance(0.06) else [*HALVES, "float32"])
    a = draw.array([m, k], dtype, special=0)
    b = draw.array([k, n], dtype, special=0)
    # Upstream compares no inner sizes, and reads what is not there where a segment reaches over the end.
    ends = np.sort(draw.rng.integers(0, k + 1, [*draw.shape(most=2, elements=6, empty=0.05), 2]), axis=-1)
    segments = Input(mx.array(ends.astype(draw.one_of(["uint32", "int32"]))))
    return Call("segmented_mm", a, b, segments, ulps=1, error=lambda a, b, *_: magnitude(a, b))
