"""Questions about dtypes. Their answers are recorded as arrays: a dtype as an empty array of it."""

import mlx.core as mx

from draw import DTYPES
from record import Call, DtypeName

CATEGORIES = [
    "complexfloating",
    "floating",
    "inexact",
    "signedinteger",
    "unsignedinteger",
    "integer",
    "number",
    "generic",
]
KINDS = [
    "bool",
    "signed integer",
    "unsigned integer",
    "integral",
    "real floating",
    "complex floating",
    "numeric",
    "imaginary",
]


def calls(draw):
    dtype = lambda: DtypeName(draw.one_of(DTYPES))
    for _ in range(6):
        yield Call("result_type", *[dtype() for _ in range(draw.integer(1, 3))])
        yield Call("can_cast", dtype(), dtype())
        yield Call("isdtype", dtype(), draw.one_of([draw.one_of(KINDS), dtype()]))
        yield Call(
            "issubdtype", dtype(), draw.one_of(CATEGORIES), run=lambda a, b: mx.issubdtype(a, getattr(mx, b))
        )
    for _ in range(3):
        yield Call("finfo", dtype(), run=finfo)
        # Upstream has the limits of uint64 and fails to hand them over.
        yield Call("iinfo", DtypeName(draw.one_of([d for d in DTYPES if d != "uint64"])), run=iinfo)


def finfo(dtype):
    info = mx.finfo(dtype)
    limits = [info.min, info.max, info.eps, info.smallest_normal]
    return [mx.array(limits, dtype=mx.float64), mx.array(info.bits)]


def iinfo(dtype):
    info = mx.iinfo(dtype)
    return [mx.array(info.min, dtype=mx.int64), mx.array(info.max, dtype=mx.uint64)]
