"""Affine quantization."""

import mlx.core as mx
import numpy as np

from draw import Input
from record import Call

EPSILON = 2.0**-24


def calls(draw):
    for _ in range(3):
        yield quantize(draw)
    for _ in range(3):
        w, scales, biases, shape = packed(draw)
        # Upstream may or may not fuse the product and the sum.
        error = lambda w, scales, biases, **_: 4 * EPSILON * np.max(np.abs(biases), initial=0)
        yield Call("dequantize", w, scales, biases, **shape, ulps=1, either=True, error=error)
    for _ in range(4):
        yield product(draw)


def sizes(draw):
    return dict(group_size=draw.one_of([32, 64, 128]), bits=draw.one_of([2, 3, 4, 5, 6, 8]))


def quantize(draw):
    shape = sizes(draw)
    if draw.chance(0.06):
        shape = draw.one_of([dict(group_size=16, bits=4), dict(group_size=64, bits=7)])
    columns = shape["group_size"] * draw.integer(1, 3) + (7 if draw.chance(0.04) else 0)
    rows = draw.shape(least=0 if draw.chance(0.05) else 1, most=2, elements=12, empty=0)
    w = draw.array([*rows, columns], draw.dtype(["float16", "bfloat16", "float32"]), special=0)
    return Call("quantize", w, **shape, widen=False)


def packed(draw, rows=None):
    """Words, scales and biases, as quantizing numbers gives them."""
    shape = sizes(draw)
    rows = draw.shape(least=1, most=2, elements=24, empty=0) if rows is None else rows
    w = draw.dense([*rows, shape["group_size"] * draw.integer(1, 3)], draw.dtype(["float16", "bfloat16", "float32"]),
                   special=0)
    return *[Input(x) for x in mx.quantize(w, **shape)], shape


def product(draw):
    batch = draw.shape(most=1, elements=3, empty=0) if draw.chance(0.3) else []
    w, scales, biases, shape = packed(draw, [*batch, draw.one_of([8, 16, 32, 64])])
    transpose = draw.chance(0.6)
    columns = scales.shape[-1] * shape["group_size"]
    inner = columns if transpose else w.shape[-2]
    if draw.chance(0.04):
        inner += 1
    x = draw.array([*batch, draw.one_of([1, 1, 2, 7, 17]), inner], scales.dtype, special=0)
    # Upstream's CPU adds products of halves in half precision; this library adds in float32.
    weights = dense(w, scales, biases, shape, transpose)
    reference = lambda x, *_, **__: np.matmul(x, weights)
    magnitudes = np.abs(weights) + float(mx.max(mx.abs(biases.base.astype(mx.float32))).item())
    error = lambda x, *_, **__: 4 * x.shape[-1] * EPSILON * np.matmul(np.abs(x), magnitudes)
    return Call("quantized_matmul", x, w, scales, biases, transpose=transpose, **shape, ulps=1, reference=reference,
                error=error)


def dense(w, scales, biases, shape, transpose):
    wide = [x.base.astype(mx.float32) for x in [scales, biases]]
    out = np.array(mx.dequantize(w.base, *wide, **shape)).astype(np.float64)
    return np.swapaxes(out, -1, -2) if transpose else out

