"""Sums of products over chosen axes."""

import mlx.core as mx
import numpy as np

from draw import DTYPES, INEXACT
from record import Call

EPSILON = 2.0**-24

SUBSCRIPTS = [
    "ij,jk->ik",
    "ij,jk",
    "bij,bjk->bik",
    "i,j->ij",
    "ij->ji",
    "ii->i",
    "ii",
    "ij,ij->",
    "...ij,...jk->...ik",
    "ijk->kj",
    "ab,bc,cd->ad",
    "i,i,i->i",
    "bhqd,bhkd->bhqk",
    "ij,k->kij",
    "...i->i...",
]

# Sums whose order matters: only their paths are compared.
LONG_SUBSCRIPTS = [
    "ab,bc,cd,de->ae",
    "ijk,jl,kl,lm->im",
    "ea,fb,abcd,gc,hd->efgh",
    "a,b,ab->",
    "ij,jk,kl,li->",
]


def calls(draw):
    for _ in range(2):
        yield tensordot(draw)
        yield inner(draw)
        yield outer(draw)
        yield vecdot(draw)
        yield kron(draw)
    for _ in range(4):
        yield einsum(draw)
    for _ in range(2):
        yield einsum_path(draw)


def pair(draw):
    """Two dtypes that are mostly the same."""
    first = draw.dtype(INEXACT if draw.chance(0.85) else DTYPES)
    return first, first if draw.chance(0.8) else draw.dtype(INEXACT)


def array(draw, shape, dtype):
    return draw.array(shape, dtype, special=0)


def size(draw):
    return draw.one_of([1, 2, 3, 5, 8, 17])


def tensordot(draw):
    first, second = pair(draw)
    shared = [size(draw) for _ in range(draw.integer(0, 2))]
    left, right = [size(draw) for _ in range(draw.integer(0, 2))], [
        size(draw) for _ in range(draw.integer(0, 2))
    ]
    if draw.chance(0.06) and shared:
        left = left + [shared.pop()]
        shared.append(4)
    a, b = array(draw, left + shared, first), array(draw, shared + right, second)
    count = len(shared)
    lists = [list(range(len(left), len(left) + count)), list(range(count))]
    axes = count if draw.chance(0.5) else lists
    if draw.chance(0.05):
        axes = 5
    reference = lambda a, b, axes: np.tensordot(a, b, axes)
    error = lambda a, b, axes: bound(shared) * np.tensordot(np.abs(a), np.abs(b), axes)
    return Call("tensordot", a, b, axes, reference=reference, error=error, ulps=1)


def bound(shared):
    return 8 * (int(np.prod(shared)) + 2) * EPSILON


def inner(draw):
    first, second = pair(draw)
    last = size(draw)
    a = array(draw, draw.one_of([[last], [2, last], [3, 2, last], []]), first)
    b = array(draw, draw.one_of([[last], [4, last], [last + 1] if draw.chance(0.2) else [last]]), second)
    error = lambda a, b: bound([last]) * np.inner(np.abs(a), np.abs(b))
    return Call("inner", a, b, reference=np.inner, error=error, ulps=1)


def outer(draw):
    first, second = pair(draw)
    a, b = (array(draw, draw.shape(most=2, elements=40), dtype) for dtype in [first, second])
    return Call("outer", a, b, ulps=1, either=True)


def vecdot(draw):
    first, second = pair(draw)
    shape = [size(draw) for _ in range(draw.integer(1, 3))]
    other = [d if i + 1 == len(shape) or draw.chance(0.7) else 1 for i, d in enumerate(shape)]
    a, b = array(draw, shape, first), array(draw, other, second)
    axis = -1 if draw.chance(0.8) else draw.axis(len(shape))
    # Integers wrap where their products do, before they are added.
    exact = {first, second} <= set(INEXACT)
    reference = (lambda a, b, axis: np.sum(np.conj(a) * b, axis=axis)) if exact else None
    error = lambda a, b, axis: bound([17]) * np.sum(np.abs(a) * np.abs(b), axis=axis)
    return Call("vecdot", a, b, axis=axis, reference=reference, error=error, ulps=1, either=True)


def kron(draw):
    first, second = pair(draw)
    a, b = (array(draw, draw.shape(most=3, elements=30), dtype) for dtype in [first, second])
    return Call("kron", a, b, ulps=1, either=True)


def operands(draw, text, dtype):
    """Arrays that fit the subscripts, and the sizes of the letters."""
    sizes, batch = {}, [2, 3] if draw.chance(0.5) else []

    def shape(operand):
        named = operand.replace("...", "")
        of = [sizes.setdefault(letter, size(draw)) for letter in named]
        return batch + of if operand.startswith("...") else of

    return [array(draw, shape(operand), dtype) for operand in text.split("->")[0].split(",")], sizes


def einsum(draw):
    text = draw.one_of(SUBSCRIPTS)
    arrays, sizes = operands(draw, text, draw.dtype(INEXACT))
    if draw.chance(0.05):
        text = text.replace("i", "i,", 1)
    reference = lambda text, *arrays: np.einsum(text, *arrays)
    terms = int(np.prod(list(sizes.values()))) if sizes else 1
    error = lambda text, *arrays: 8 * (terms + 4) * EPSILON * np.einsum(text, *[np.abs(x) for x in arrays])
    # Products of halves are rounded on the way where there are three operands.
    ulps = 1 if text.count(",") < 2 else 4
    return Call("einsum", text, *arrays, reference=reference, error=error, ulps=ulps, either=True)


def einsum_path(draw):
    text = draw.one_of([*SUBSCRIPTS, *LONG_SUBSCRIPTS, *LONG_SUBSCRIPTS])
    arrays, _ = operands(draw, text, "float32")
    if draw.chance(0.05):
        text = text.replace("i", "i,", 1)
    return Call("einsum_path", text, *arrays, run=path)


def path(text, *arrays):
    """Positions of the steps' operands, and the bytes of the summary."""
    steps, summary = mx.einsum_path(text, *arrays)
    return [
        *[mx.array(list(step), dtype=mx.int32) for step in steps],
        mx.array(list(summary.encode()), dtype=mx.uint8),
    ]
