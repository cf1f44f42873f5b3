"""What models are made of."""

import mlx.core as mx
import numpy as np

from draw import Input
from drawing import MARGIN
from programs import Unfit
from record import Value


def norm(d):
    value = d.real(1)
    if d.is_complex(value):
        raise Unfit
    last, dtype = d.of(value).shape[-1], d.dtype_of(value)
    given = lambda: d.draw.one_of([None, d.constant([last], dtype), d.vector(value)])
    if d.draw.chance(0.5):
        d.add("fast.rms_norm", value, given(), 1e-3)
    else:
        if last < 3 or float(mx.min(mx.var(d.of(value), axis=-1)).item()) < MARGIN:
            raise Unfit
        weight = given()
        d.add("fast.layer_norm", value, weight, given() if weight is not None else None, 1e-3)


def rope(d):
    value = d.real(2)
    rows, width = d.of(value).shape[-2:]
    flat = d.add("reshape", value, [1, -1, rows, width])
    if width % 2:
        flat, width = d.add("concatenate", [flat, d.add("sin", flat)], axis=-1), 2 * width
    dims = width if d.draw.chance(0.6) or width < 4 else width // 2 // 2 * 2
    base, freqs = 100.0, None
    if d.draw.chance(0.3):
        base, freqs = None, d.constant([dims // 2], "float32", low=1, high=20)
    kwargs = dict(base=base, scale=d.draw.one_of([1.0, 0.5]), offset=d.draw.one_of([0, 3]), freqs=freqs)
    d.add("fast.rope", flat, dims, traditional=d.draw.chance(0.5), **kwargs)


def attention(d):
    value = d.real(2)
    rows, width = d.of(value).shape[-2:]
    heads = d.draw.integer(1, 2)
    q = d.add("reshape", value, [1, -1, rows, width])
    repeats = d.of(q).shape[1]
    heads = 1 if repeats % 2 or d.draw.chance(0.5) else repeats // 2
    keys, dtype = d.draw.one_of([rows, rows + 2]), d.dtype_of(value)
    k = d.constant([1, heads, keys, width], dtype)
    if heads == repeats and keys == rows and d.draw.chance(0.5):
        k = d.add("cos", q)
    v = d.constant([1, heads, keys, width], dtype)
    if isinstance(k, Value) and d.draw.chance(0.5):
        v = d.add("multiply", k, 0.5)
    mask = d.draw.one_of([None, "causal", d.constant([rows, keys], dtype), "bool"])
    if mask == "bool":
        kept = d.draw.rng.random([rows, keys]) < 0.6
        kept[:, 0] = True
        mask = Input(mx.array(kept))
    d.add("fast.scaled_dot_product_attention", q, k, v, scale=0.5, mask=mask)


def cross_entropy(d):
    value = d.real(1)
    *rows, classes = d.of(value).shape
    targets = Input(mx.array(d.draw.rng.integers(0, classes, rows).astype(np.int32)))
    d.add("fast.cross_entropy", value, targets)
