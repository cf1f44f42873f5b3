"""Fused functions of `mx.fast`."""

import mlx.core as mx
import numpy as np

from draw import DTYPES, FLOATS, INTEGERS, Input
from record import Call

EPSILON = 2.0**-24
SINGLE = ["float16", "bfloat16", "float32"]


def calls(draw):
    for _ in range(2):
        yield norm(draw, "fast.rms_norm", 1)
        yield norm(draw, "fast.layer_norm", 2)
    for _ in range(3):
        yield rope(draw)
    for _ in range(3):
        yield attention(draw)
    for _ in range(2):
        yield cross_entropy(draw)
        yield gated_delta(draw)


def norm(draw, name, parameters):
    dtype = draw.dtype(FLOATS if draw.chance(0.93) else DTYPES)
    x = draw.array(draw.shape(least=0 if draw.chance(0.05) else 1), dtype, special=0.02)
    last = x.shape[-1] if x.ndim else 1
    if draw.chance(0.04):
        last += 1
    given = [
        draw.array([last], dtype if draw.chance(0.8) else "float32", special=0) if draw.chance(0.6) else None
        for _ in range(parameters)
    ]
    if given[0] is None and len(given) == 2 and given[1] is not None:
        # A bias alone is converted to the dtype, which rounds it.
        given[1] = draw.array([last], dtype, special=0)
    # Upstream rounds the normalized value to the dtype before the weight: two
    # roundings of up to half a unit each.
    return Call(name, x, *given, draw.one_of([1e-5, 1e-3]), ulps=4, error=norm_error, either=True)


def norm_error(x, *rest):
    """What is left of equal elements is rounding, which small deviations enlarge."""
    *given, eps = rest
    largest = max([1.0, *[float(np.max(np.abs(g), initial=0)) for g in given if g is not None]])
    numbers = np.abs(x)[np.isfinite(x)]
    return (
        8
        * EPSILON
        * largest
        * max(1.0, float(np.max(numbers, initial=0)))
        * np.sqrt(max(1, x.shape[-1]) / eps)
    )


def rope(draw):
    heads, length, width = draw.integer(1, 4), draw.integer(1, 9), draw.one_of([4, 8, 10, 64])
    batch = draw.integer(1, 3)
    shape = draw.one_of([[batch, heads, length, width], [batch, length, width], [length, width]])
    x = draw.array(shape, draw.dtype(SINGLE if draw.chance(0.95) else DTYPES), special=0)
    dims = draw.one_of([width, width // 2, width - 1 if draw.chance(0.2) else width])
    offset = draw.one_of([0, 5, 100, draw.array([], "int32", low=0, high=50),
                          draw.array([shape[0]], "int32", low=0, high=50)])
    base, freqs = 10000.0, None
    if draw.chance(0.25):
        base, freqs = None, draw.array([dims // 2], "float32", low=1, high=100, special=0)
    # The angle's rounding turns by that much.
    return Call("fast.rope", x, dims, traditional=draw.chance(0.5), base=base, scale=draw.one_of([1.0, 0.5]),
                offset=offset, freqs=freqs, ulps=2, error=lambda *_, **__: 200 * 8 * EPSILON, either=True)


def attention(draw):
    batch, groups, kv_heads = draw.integer(1, 2), draw.integer(1, 3), draw.integer(1, 2)
    length, keys = draw.one_of([1, 1, 3, 8, 17]), draw.one_of([1, 5, 17, 40])
    width, value_width = draw.one_of([16, 32, 64, 80]), None
    dtype = draw.dtype(SINGLE)
    q = draw.array([batch, kv_heads * groups, length, width], dtype, low=-1, high=1, special=0)
    k = draw.array([batch, kv_heads, keys, width], dtype, low=-1, high=1, special=0)
    v = draw.array(
        [batch, kv_heads, keys + draw.chance(0.04), value_width or width], dtype, low=-1, high=1, special=0
    )
    scores = [batch, kv_heads * groups, length, keys]
    # A row in which nothing is kept has no defined result: the first key always is.
    mask = draw.one_of(
        [
            None,
            "causal" if keys >= length else None,
            draw.array(draw.broadcasting(scores), "bool"),
            draw.array(draw.broadcasting(scores), dtype, special=0),
        ]
    )
    if getattr(mask, "dtype", None) == "bool":
        mask = kept(mask)
    return Call(
        "fast.scaled_dot_product_attention",
        q,
        k,
        v,
        scale=draw.one_of([0.125, 0.25, 1.0]),
        mask=mask,
        ulps=2,
        error=lambda *_, **__: 2.0**-15,
        either=True,
    )


def kept(mask):
    """The mask with the first column true."""
    value = np.array(mask.value())
    if value.ndim:
        value[..., 0] = True
    else:
        value = np.array(True)
    mask.base, mask.steps = mx.array(value), []
    return mask


def cross_entropy(draw):
    # Upstream's CPU reduces in the dtype of the logits, its GPUs in float32: float64 is not for this
    # comparison.
    dtype = draw.dtype(SINGLE if draw.chance(0.95) else ["int32", "complex64"])
    logits = draw.array(draw.shape(least=0 if draw.chance(0.05) else 1, most=3, empty=0), dtype, special=0)
    shape = list(logits.shape[:-1])
    classes = logits.shape[-1] if logits.ndim else 1
    if draw.chance(0.05):
        shape.append(1)
    kind = draw.one_of(INTEGERS) if draw.chance(0.95) else "float32"
    targets = Input(mx.array(draw.rng.integers(0, min(classes, 128), shape).astype(kind)))
    error = lambda logits, _: 16 * EPSILON * (5 + np.max(np.abs(logits), initial=0)) * np.ones(1)
    return Call("fast.cross_entropy", logits, targets, error=error, ulps=1)


def gated_delta(draw):
    batch, time, key_heads, group = (
        draw.integer(1, 2),
        draw.integer(1, 6),
        draw.integer(1, 2),
        draw.integer(1, 3),
    )
    key_width, width, heads = draw.one_of([32, 64]), draw.one_of([8, 16]), key_heads * group
    dtype = draw.dtype(SINGLE)
    part = lambda shape, low, high: draw.array(shape, dtype, low=low, high=high, special=0)
    # Keys short enough that the state does not grow.
    q, k = (part([batch, time, key_heads, key_width], -0.2, 0.2) for _ in range(2))
    v = part([batch, time, heads, width], -1, 1)
    gamma, beta = (part([batch, time, heads], 0.1, 1) for _ in range(2))
    state = draw.array([batch, heads, width, key_width], "float32", low=-1, high=1, special=0)
    mask = draw.array([batch, time], "bool") if draw.chance(0.4) else None
    return Call(
        "fast.gated_delta_update",
        q,
        k,
        v,
        gamma,
        beta,
        state if draw.chance(0.5) else None,
        mask,
        ulps=1,
        error=lambda *_: 2.0**-15,
    )
