"""Quantization: affine, and in formats of small floats."""

import mlx.core as mx
import numpy as np

from draw import DTYPES, Input
from record import Call, DtypeName, to_numpy

EPSILON = 2.0**-24
SINGLE = ["float16", "bfloat16", "float32"]
MODES = ["mxfp4", "nvfp4", "mxfp8"]
# Groups have this many elements or half as many; upstream's CPU takes no odd number of the latter.
WIDTH = 32
# Sizes of the elements of four bits, by code; and the largest product of one with a scale of nvfp4.
ELEMENTS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
LARGEST = 448.0 * 6.0


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
    for _ in range(3):
        yield fp_quantize(draw)
        yield fp_dequantize(draw)
        yield fp_product(draw)
        yield gathered(draw)
    for name in ["qqmm", "gather_qqmm"]:
        yield both_quantized(draw, name)
    # Upstream takes the bytes of float64 for those of other numbers.
    others = [d for d in DTYPES if d != "float64"]
    a = draw.array(dtype=draw.one_of(SINGLE if draw.chance(0.9) else others), low=-600, high=600)
    yield Call("to_fp8", a, widen=False)
    a = draw.array(dtype="uint8" if draw.chance(0.95) else draw.dtype(), low=0, high=255)
    yield Call("from_fp8", a, dtype=DtypeName(draw.one_of(SINGLE if draw.chance(0.95) else others)))


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
    w = draw.dense(
        [*rows, shape["group_size"] * draw.integer(1, 3)],
        draw.dtype(["float16", "bfloat16", "float32"]),
        special=0,
    )
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
    weights = opened(w, scales, "affine", transpose, biases, **shape)
    largest = float(mx.max(mx.abs(biases.base.astype(mx.float32))).item())
    reference, error = against(weights, x.dtype, largest)
    return Call(
        "quantized_matmul",
        x,
        w,
        scales,
        biases,
        transpose=transpose,
        **shape,
        ulps=1,
        reference=reference,
        error=error,
    )


def mode_of(draw):
    return draw.one_of(MODES)


def global_scale(draw, mode):
    """A scale of everything, which one of the modes takes; now and then where it is refused."""
    if draw.chance(0.3 if mode == "nvfp4" else 0.03):
        return dict(global_scale=draw.array([], "float32", low=0.5, high=20, special=0))
    return {}


def fp_quantize(draw):
    mode = mode_of(draw)
    rows = draw.shape(least=0 if draw.chance(0.05) else 1, most=2, elements=12, empty=0)
    columns = WIDTH * draw.integer(1, 3) + (7 if draw.chance(0.04) else 0)
    w = draw.array([*rows, columns], draw.dtype(SINGLE), special=0)
    # Upstream's CPU rounds the scales of halves to their dtype on the way: they are widened first.
    return Call("quantize", w, mode=mode, **global_scale(draw, mode), run=coded)


def coded(w, mode, global_scale=None):
    """Words and scales. Of two elements that are equally near, upstream's CPU takes the smaller, and it
    forgets the sign of what becomes zero; ties to even and signed zeros are what its formats say."""
    words, scales = mx.quantize(w, mode=mode, global_scale=global_scale)
    if mode == "mxfp8":
        return words, scales
    size = (
        2.0 ** (np.array(scales) - 127.0)
        if mode == "mxfp4"
        else to_numpy(mx.from_fp8(scales, dtype=mx.float32))
    )
    if global_scale is not None:
        size = size * global_scale.item() / LARGEST
    x = to_numpy(w).reshape(*scales.shape, -1)
    x = np.divide(x, size[..., None], out=np.zeros_like(x), where=size[..., None] != 0)
    # Even codes stand first: the first of the nearest is taken.
    order = np.array([0, 2, 4, 6, 1, 3, 5, 7])
    codes = order[np.argmin(np.abs(np.abs(x)[..., None] - ELEMENTS[order]), axis=-1)] + 8 * np.signbit(x)
    codes = codes.reshape(*words.shape, 8).astype(np.uint32)
    return mx.array(np.sum(codes << np.arange(0, 32, 4, dtype=np.uint32), axis=-1, dtype=np.uint32)), scales


def small(draw, mode, shape, **named):
    """Words and scales, as quantizing numbers gives them."""
    w = draw.dense(shape, draw.dtype(SINGLE), special=0)
    return [Input(x) for x in mx.quantize(w, mode=mode, **named)]


def fp_dequantize(draw):
    mode = mode_of(draw)
    named = global_scale(draw, mode) if mode == "nvfp4" else {}
    rows = draw.shape(least=1, most=2, elements=24, empty=0)
    native = {name: x.value() for name, x in named.items()}
    w, scales = small(draw, mode, [*rows, WIDTH * draw.integer(1, 3)], **native)
    dtype = DtypeName(draw.one_of(SINGLE if draw.chance(0.95) else DTYPES))
    if named:
        # Upstream's CPU then gives float32, whatever is asked for.
        dtype = DtypeName("float32")
    elif draw.chance(0.3):
        return Call("dequantize", w, scales, mode=mode, ulps=1)
    return Call("dequantize", w, scales, mode=mode, **named, dtype=dtype, ulps=1)


def fp_product(draw):
    mode, transpose = mode_of(draw), draw.chance(0.6)
    batch = draw.shape(most=1, elements=3, empty=0) if draw.chance(0.3) else []
    w, scales = small(draw, mode, [*batch, draw.one_of([8, 32, 64]), WIDTH * draw.one_of([2, 4])])
    weights = opened(w, scales, mode, transpose)
    x = draw.array(
        [*batch, draw.one_of([1, 2, 7]), weights.shape[-2] + draw.chance(0.04)], draw.dtype(SINGLE), special=0
    )
    reference, error = against(weights, x.dtype)
    return Call(
        "quantized_matmul",
        x,
        w,
        scales,
        transpose=transpose,
        mode=mode,
        ulps=1,
        reference=reference,
        error=error,
    )


def opened(w, scales, mode, transpose, biases=None, **shape):
    """The dense matrices, float64."""
    scales, biases = (None if a is None else a.base if a.base.dtype == mx.uint8 else a.base.astype(mx.float32)
                      for a in [scales, biases])
    out = mx.dequantize(
        w.base, scales, biases, mode=mode, **shape, **({} if biases is not None else dict(dtype=mx.float32))
    )
    out = np.array(out).astype(np.float64)
    return np.swapaxes(out, -1, -2) if transpose else out


def against(weights, dtype, largest=0.0, pick=(Ellipsis, Ellipsis)):
    """What a product with these weights is, and what it may be off: upstream's CPU adds halves in half
    precision, this library in float32. Either may round the weights to the dtype of the product first, and
    what they are sums of, of which `largest` is the largest bias. `pick` says which matrices of both sides
    are multiplied."""
    step = {"float16": 2.0**-11, "bfloat16": 2.0**-8}.get(dtype, 0.0)
    left, right = pick
    magnitudes = np.abs(weights) + largest
    reference = lambda x, *_, **__: np.matmul(x[left], weights[right])
    bound = lambda x: np.matmul(np.abs(x[left]), magnitudes[right])
    error = lambda x, *_, **__: (4 * x.shape[-1] * EPSILON + step) * bound(x)
    return reference, error


def gathered(draw):
    mode, transpose = draw.one_of(["affine", *MODES]), draw.chance(0.6)
    count, rows, groups = draw.integer(1, 3), draw.one_of([8, 32, 64]), draw.one_of([2, 4])
    if mode == "affine":
        shape = sizes(draw)
        w = draw.dense([count, rows, shape["group_size"] * groups], draw.dtype(SINGLE), special=0)
        packed = [Input(x) for x in mx.quantize(w, **shape)]
    else:
        shape, packed = {}, small(draw, mode, [count, rows, WIDTH * groups])
    weights = opened(*packed[:2], mode, transpose, *packed[2:], **shape)
    dtype = packed[1].dtype if mode == "affine" else draw.dtype(SINGLE)
    matrices = draw.integer(1, 3)
    x = draw.array(
        [matrices, draw.one_of([1, 2, 7]), weights.shape[-2] + draw.chance(0.04)], dtype, special=0
    )
    picked, named = picks(draw, matrices, count)
    largest = float(np.max(np.abs(weights), initial=0)) if mode == "affine" else 0.0
    reference, error = against(weights, dtype, largest, picked)
    return Call(
        "gather_qmm",
        x,
        *packed,
        **named,
        transpose=transpose,
        mode=mode,
        **shape,
        ulps=1,
        reference=reference,
        error=error,
    )


def picks(draw, left, right):
    """Numbers of matrices on both sides, and the arguments that say so."""
    shape = draw.shape(most=2, elements=6, empty=0)
    lhs, rhs = (draw.rng.integers(0, count, shape).astype(np.uint32) for count in [left, right])
    named = dict(lhs_indices=Input(mx.array(lhs)), rhs_indices=Input(mx.array(rhs)))
    if draw.chance(0.3):
        # Without indices each matrix of that side is taken once.
        rhs = np.sort(draw.rng.integers(0, right, [left])).astype(np.uint32)
        return (np.arange(left), rhs), dict(rhs_indices=Input(mx.array(rhs)), sorted_indices=True)
    return (lhs, rhs), named


def both_quantized(draw, name):
    """Upstream's CPU has products of two quantized operands for no mode: they are made of the steps they
    stand for."""
    mode = draw.one_of(["nvfp4", "mxfp8"])
    inner, rows, several = WIDTH * draw.one_of([2, 4]), draw.one_of([8, 32]), name == "gather_qqmm"
    dtype, matrices, count = draw.dtype(SINGLE), draw.integer(1, 3), draw.integer(1, 3)
    x = draw.array([*([matrices] if several else []), draw.one_of([1, 2, 7]), inner], dtype, special=0)
    shape = [*([count] if several else []), rows, inner]
    quantized = draw.chance(0.6)
    w = small(draw, mode, shape) if quantized else [draw.array(shape, dtype, special=0)]
    _, named = picks(draw, matrices, count) if several else (None, {})
    error = lambda x, *_, **__: 64 * x.shape[-1] * EPSILON * np.max(np.abs(x), initial=0) * 8 * np.ones(1)
    return Call(name, x, *w, **named, mode=mode, run=steps, ulps=1, error=error)


def steps(x, w, scales=None, lhs_indices=None, rhs_indices=None, mode=None, sorted_indices=False):
    """Quantizes what is not, and multiplies what the operands then stand for."""
    opened = lambda *packed: mx.dequantize(*packed, mode=mode, dtype=mx.float32)
    left = opened(*coded(x, mode))
    right = opened(w, scales) if scales is not None else opened(*coded(w, mode))
    right = mx.swapaxes(right, -1, -2)
    if rhs_indices is None:
        return (left @ right).astype(x.dtype)
    return mx.gather_mm(left, right, lhs_indices, rhs_indices).astype(x.dtype)
