"""Products of matrices, convolutions, transforms and linear algebra."""

import mlx.core as mx
import numpy as np

from draw import HALVES, Input
from programs import Unfit
from record import DtypeName


def product(d):
    value = d.pick(1)
    shape = d.of(value).shape
    columns = d.draw.one_of(d.sizes)
    kind = d.draw.integer(0, 4)
    if kind == 0 and len(shape) >= 2:
        d.add("matmul", value, d.add("swapaxes", d.add("sin", value), -1, -2))
    elif kind == 1:
        bias = d.constant([columns], d.dtype_of(value))
        d.add("addmm", bias, value, d.constant([shape[-1], columns], d.dtype_of(value)), alpha=0.5, beta=2.0)
    elif kind == 2:
        d.add("inner", value, d.constant([columns, shape[-1]], d.dtype_of(value)))
    elif kind == 3 and len(shape) >= 2:
        batch = [x if d.draw.chance(0.5) else 1 for x in shape[:-2]]
        d.add("matmul", d.constant([*batch, columns, shape[-2]], d.dtype_of(value)), value)
    else:
        d.add("matmul", value, d.constant([shape[-1], columns], d.dtype_of(value)))


def contraction(d):
    value = d.real(2)
    rows, columns = d.of(value).shape[-2:]
    d.add("einsum", "...ij,jk->...ki", value, d.constant([columns, 3], d.dtype_of(value)))


def gathered_product(d):
    value = d.real(2)
    rows, columns = d.of(value).shape[-2:]
    if d.dtype_of(value) != "float32":
        # Upstream's CPU takes no other dtype here.
        raise Unfit
    picks = Input(mx.array(d.draw.rng.integers(0, 3, [2]).astype(np.uint32)))
    flat = d.add("reshape", value, [-1, rows, columns])
    first = d.of(flat).shape[0]
    left = Input(mx.array(d.draw.rng.integers(0, first, [2]).astype(np.uint32)))
    weights = d.constant([3, columns, 4], d.dtype_of(value))
    d.add("gather_mm", flat, weights, left, picks, sorted_indices=False)


def quantized(d):
    """Columns are brought to a group's by a product."""
    value = d.real(1)
    if d.is_complex(value):
        raise Unfit
    last, dtype = d.of(value).shape[-1], d.dtype_of(value)
    transpose, bits = d.draw.chance(0.5), d.draw.one_of([2, 4, 8])
    inner = 32 if transpose else 8
    x = d.add("tanh", d.add("matmul", value, d.constant([last, inner], dtype, low=-1, high=1)))
    weights = d.draw.dense([8, 32], dtype, low=-0.5, high=0.5, special=0)
    w, scales, biases = (Input(part) for part in mx.quantize(weights, group_size=32, bits=bits))
    d.add("quantized_matmul", x, w, scales, biases, transpose=transpose, group_size=32, bits=bits)


def convolution(d):
    value = d.real(2)
    rows, channels = d.of(value).shape[-2:]
    dtype = d.dtype_of(value)
    x = d.add("reshape", value, [-1, rows, channels])
    axes = d.draw.integer(1, 2)
    if axes == 2:
        x = d.add("reshape", x, [1, -1, rows, channels])
    transposed = d.draw.chance(0.3)
    groups = channels if not transposed and d.draw.chance(0.3) else 1
    outputs = groups * d.draw.integer(1, 2)
    kernel = [d.draw.integer(1, 2) for _ in range(axes)]
    w = d.constant([outputs, *kernel, channels // groups], dtype, low=-1, high=1)
    if d.draw.chance(0.4):
        w = d.add("multiply", w, d.add("cos", d.add("mean", value, axis=None, keepdims=False)))
    several = lambda low, high: [d.draw.integer(low, high) for _ in range(axes)]
    single = lambda values: values[0] if axes == 1 else values
    padding = several(0, 0) if transposed else several(1, 2)
    kwargs = dict(stride=single(several(1, 2)), padding=single(padding), dilation=single(several(1, 2)))
    if transposed:
        kwargs["output_padding"] = single(several(0, 1))
    d.add(f"conv_transpose{axes}d" if transposed else f"conv{axes}d", x, w, **kwargs, groups=groups)


def fourier(d):
    value = d.pick(1)
    if d.dtype_of(value) in HALVES:
        value = d.add("astype", value, DtypeName("float32"))
    norm = d.draw.one_of(["backward", "ortho", "forward"])
    of_real = "irfft" if d.is_complex(value) else d.draw.one_of(["rfft", "rfftn"])
    name = d.draw.one_of(["fft", "ifft", of_real])
    if name == "rfftn":
        d.add("fft.rfftn", value, norm=norm)
    else:
        n = None if d.draw.chance(0.6) else d.draw.integer(2, 6)
        if name == "irfft" and d.of(value).shape[-1] < 2:
            n = 4
        d.add(f"fft.{name}", value, n, axis=-1, norm=norm)


def hadamard(d):
    value = d.real(1)
    x = d.add("matmul", value, d.constant([d.of(value).shape[-1], 4], d.dtype_of(value)))
    d.add("hadamard_transform", x, scale=None)


def linear_algebra(d):
    """Of a matrix whose eigenvalues are well above 0."""
    value = d.real(2)
    if d.dtype_of(value) != "float32":
        value = d.add("astype", value, DtypeName("float32"))
    rows = d.of(value).shape[-2]
    square = d.add("matmul", value, d.add("swapaxes", value, -1, -2))
    a = d.add("add", square, Input(mx.eye(rows) * 2.0))
    name = d.draw.one_of(["linalg.inv", "linalg.cholesky", "linalg.norm", "linalg.tri_inv", "linalg.solve"])
    if name == "linalg.inv":
        d.add(name, a)
    elif name == "linalg.norm":
        d.add(name, a, None, axis=d.draw.one_of([None, [-1], [-2, -1]]), keepdims=d.draw.chance(0.5))
    elif name == "linalg.cholesky":
        d.add(name, a, upper=d.draw.chance(0.5))
    elif name == "linalg.tri_inv":
        d.add(name, d.add("tril", a, k=0), upper=False)
    else:
        d.add(name, a, d.constant([rows, 2], "float32"))
