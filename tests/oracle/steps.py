"""Drawing the steps of programs. Each keeps its operands where it is smooth, or is not drawn."""

import mlx.core as mx
import numpy as np

from draw import HALVES, Input
from drawing import MARGIN, Drawing, as_float
from families.indexing import distinct_along, index, indices
from programs import Program, Unfit
from record import DtypeName, Value

# Smooth everywhere.
SMOOTH = ["sin", "cos", "tanh", "sigmoid", "erf", "arctan", "arcsinh", "square", "negative", "expm1", "exp"]
COMPLEX = ["sin", "cos", "tanh", "exp", "square", "negative", "conjugate"]
# Smooth for positive numbers.
POSITIVE = ["sqrt", "rsqrt", "log", "log2", "log10", "log1p", "reciprocal"]
# Smooth between -1 and 1.
BOUNDED = ["arcsin", "arccos", "arctanh", "erfinv"]
SHAPES = ["reshape", "transpose", "swapaxes", "expand_dims", "flatten", "broadcast_to", "split",
          "concatenate", "stack", "squeeze", "unstack"]
MOVEMENTS = ["flip", "roll", "repeat", "tile", "pad", "tril", "triu", "diag", "diagonal", "diff"]
WRITES = ["setitem", "at.add", "at.multiply", "at.subtract", "put_along_axis", "slice_update"]


def unary(d):
    value = d.pick()
    d.add(d.draw.one_of(COMPLEX if d.is_complex(value) else SMOOTH), value)


def positive(d):
    d.add(d.draw.one_of(POSITIVE), d.positive())


def bounded(d):
    d.add(d.draw.one_of(BOUNDED), d.add("multiply", d.add("sin", d.real()), 0.7))


def parts(d):
    value = d.pick()
    if not d.is_complex(value):
        raise Unfit
    d.add(d.draw.one_of(["real", "imag", "abs"]), value)


def binary(d):
    value = d.pick()
    operands = [value, d.other(value)]
    if d.draw.chance(0.5):
        operands.reverse()
    d.add(d.draw.one_of(["add", "subtract", "multiply"]), *operands)


def quotient(d):
    value = d.pick()
    d.add("divide", value, d.add("add", d.add("square", d.real()), 0.5))


def joint(d):
    a, b = d.positive(), d.positive()
    d.add(d.draw.one_of(["power", "arctan2", "logaddexp"]), a, b)


def chosen(d):
    """Functions with kinks, away from these."""
    value = d.real()
    kind = d.draw.integer(0, 4)
    if kind == 0:
        d.add("abs", d.clear_of(value, 0))
    elif kind == 1:
        d.add("clip", d.clear_of(value, -1.0, 0.75), -1.0, 0.75)
    elif kind == 2:
        other = d.constant(d.draw.broadcasting(d.of(value).shape), d.dtype_of(value))
        if np.min(np.abs(as_float(d.of(value)) - as_float(other.value()))) < MARGIN:
            raise Unfit
        d.add(d.draw.one_of(["maximum", "minimum"]), value, other)
    elif kind == 3:
        mask = d.draw.array(d.draw.broadcasting(d.of(value).shape), "bool")
        d.add("where", mask, value, d.other(value))
    else:
        mask = d.add("greater", d.clear_of(value, 0.25), 0.25)
        d.add("where", mask, value, d.other(value))


def reduction(d):
    name = d.draw.one_of(["sum", "mean", "prod", "var", "max", "min", "logsumexp", "std"])
    value = d.pick() if name in ["sum", "mean"] else d.real()
    axes = d.axes(value)
    kwargs = dict(axis=axes, keepdims=d.draw.chance(0.4))
    if name in ["max", "min"]:
        d.spread_out(value)
    if name in ["var", "std"]:
        kwargs["ddof"] = 0
    if name == "std" and float(mx.min(mx.var(d.of(value), axis=axes)).item()) < MARGIN:
        raise Unfit
    d.add(name, value, **kwargs)


def softmax(d):
    value = d.real(1)
    d.add("softmax", value, axis=d.axes(value), precise=d.draw.chance(0.5))


def scan(d):
    name = d.draw.one_of(["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"])
    value = d.real(1)
    if name in ["cummax", "cummin"]:
        d.spread_out(value)
    # What is before the first is an infinity for the others.
    inclusive = name not in ["cumsum", "cumprod"] or d.draw.chance(0.6)
    d.add(name, value, axis=d.axis(value), reverse=d.draw.chance(0.5), inclusive=inclusive)


def order(d):
    value = d.spread_out(d.real(1))
    axis = d.axis(value)
    count = d.of(value).shape[axis]
    name = d.draw.one_of(["sort", "topk", "partition", "argsort"])
    if name == "sort":
        d.add("sort", value, axis=axis)
    elif name == "argsort":
        d.add("take_along_axis", value, d.add("argsort", value, axis=axis), axis=axis)
    else:
        d.add(name, value, d.draw.integer(1 if name == "topk" else 0, count - (name != "topk")), axis=axis)


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


def shape(d):
    value = d.pick(1)
    x = d.of(value)
    name = d.draw.one_of(SHAPES)
    if name == "reshape":
        d.add(name, value, d.draw.one_of([[-1], [1, -1], [x.shape[0], -1], [-1, x.shape[-1]], [-1, 1]]))
    elif name == "transpose":
        d.add(name, value, axes=d.draw.some_of(range(x.ndim), x.ndim))
    elif name == "swapaxes":
        d.add(name, value, d.axis(value), d.axis(value))
    elif name == "expand_dims":
        d.add(name, value, d.draw.integer(-x.ndim - 1, x.ndim))
    elif name == "flatten":
        d.add(name, value, 0, -1)
    elif name == "broadcast_to":
        d.add(name, value, [2, *x.shape])
    elif name == "split":
        axis = d.axis(value)
        d.add(name, value, [d.draw.integer(1, max(1, x.shape[axis] - 1))], axis=axis)
    elif name == "unstack":
        d.add(name, value, axis=d.axis(value))
    elif name == "squeeze":
        d.add(name, d.add("expand_dims", value, 0), axis=0)
    else:
        other = d.constant(x.shape, d.dtype_of(value)) if d.draw.chance(0.5) else value
        d.add(name, [value, d.add("sin", value), other], axis=d.axis(value))


def movement(d):
    value = d.pick(1)
    x = d.of(value)
    name = d.draw.one_of(MOVEMENTS)
    if name == "flip":
        d.add(name, value, axis=d.axes(value))
    elif name == "roll":
        d.add(name, value, d.draw.integer(-3, 3), d.axis(value))
    elif name == "repeat":
        d.add(name, value, 2, axis=d.axis(value))
    elif name == "tile":
        d.add(name, value, [2])
    elif name == "pad":
        mode = d.draw.one_of(["constant", "edge"])
        d.add(name, value, [[1, d.draw.integer(0, 2)]] * x.ndim, mode=mode, constant_values=0.5)
    elif name in ["tril", "triu"]:
        d.add(name, d.pick(2), k=d.draw.integer(-1, 1))
    elif name == "diag":
        if x.ndim > 2:
            raise Unfit
        d.add(name, value, k=d.draw.integer(-1, 1))
    elif name == "diagonal":
        d.add(name, d.pick(2), offset=0, axis1=0, axis2=1)
    else:
        d.add(name, value, n=1, axis=d.axis(value))


def reading(d):
    """Elements at indices and slices."""
    value = d.pick(1)
    x = d.of(value)
    name = d.draw.one_of(["getitem", "getitem", "take", "take_along_axis", "slice"])
    axis = d.axis(value)
    if name == "getitem":
        d.add(name, value, index(d.draw, Input(x), d.draw.chance(0.6)))
    elif name == "take":
        d.add(name, value, indices(d.draw, d.shape(0, 2), x.shape[axis]), axis=axis)
    elif name == "take_along_axis":
        places = [*x.shape]
        places[axis] = d.draw.integer(1, 4)
        d.add(name, value, indices(d.draw, places, x.shape[axis]), axis=axis)
    else:
        axis %= x.ndim
        size = d.draw.integer(1, x.shape[axis])
        start = Input(mx.array([d.draw.integer(0, x.shape[axis] - size)], dtype=mx.int32))
        d.add(name, value, start, [axis], [size if i == axis else n for i, n in enumerate(x.shape)])


def writing(d):
    """Other elements at indices and slices."""
    value = d.pick(1)
    x, dtype = d.of(value), d.dtype_of(value)
    name = d.draw.one_of(WRITES)
    many = name in ["at.add", "at.subtract"]
    axis = d.axis(value)
    if name == "put_along_axis":
        places = [*x.shape]
        places[axis] = d.draw.integer(1, x.shape[axis])
        read = indices(d.draw, places, x.shape[axis])
        given = d.add("cos", d.add("take_along_axis", value, read, axis=axis))
        d.add(name, value, distinct_along(d.draw, places, axis, x.shape[axis]), given, axis=axis)
    elif name == "slice_update":
        axis %= x.ndim
        size = d.draw.integer(1, x.shape[axis])
        start = Input(mx.array([d.draw.integer(0, x.shape[axis] - size)], dtype=mx.int32))
        sizes = [size if i == axis else n for i, n in enumerate(x.shape)]
        d.add(name, value, d.constant(sizes, dtype), start, [axis])
    else:
        # New axes are left out: upstream misplaces them behind arrays of indices in updates.
        there = [i for i in index(d.draw, Input(x), d.draw.chance(0.6), distinct=not many) if i is not None]
        part = d.add("getitem", value, there)
        given = part if d.draw.chance(0.3) else d.add("sin", part)
        if d.draw.chance(0.4):
            given = d.constant(d.of(part).shape, dtype)
        d.add(name, value, there, given)


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


def precision(d):
    value = d.real()
    names = [x for x in ["float32", d.dtype] if x != d.dtype_of(value) and x != "complex64"]
    d.add("astype", value, DtypeName(d.draw.one_of(names)) if names else DtypeName("float16"))


def stopped(d):
    value = d.pick()
    d.add("multiply", value, d.add("stop_gradient", d.add("cos", value)))


ALL = [
    *[unary] * 2, positive, bounded, parts, *[binary] * 2, quotient, joint, *[chosen] * 2,
    *[reduction] * 2, softmax, scan, order,
    *[product] * 2, contraction, gathered_product, quantized, convolution,
    *[shape] * 2, movement, *[reading] * 2, *[writing] * 2,
    norm, rope, attention, cross_entropy, fourier, hadamard, linear_algebra, precision, stopped,
]
# What may be traced once for arrays of several sizes; not softmax over several axes, which are flattened
# here.
SHAPELESS = [
    unary, positive, bounded, binary, quotient, joint, chosen,
    reduction, scan, product, norm, stopped,
]


def program(draw, sizes=(1, 2, 3, 4, 5), steps=ALL, views=True):
    """A program of a few steps that all work on its inputs."""
    dtype = draw.one_of(["float32"] * 6 + ["float16"] * 2 + ["bfloat16"] * 2 + ["complex64"] * 2)
    d = Drawing(draw, dtype, list(sizes), views)
    d.input(d.shape(least=1))
    for _ in range(draw.integer(0, 2)):
        narrow = dtype if dtype != "complex64" or draw.chance(0.5) else "float32"
        d.input(draw.broadcasting(d.of(Value(0)).shape), narrow if draw.chance(0.8) else "float32")
    for _ in range(draw.integer(1, 5)):
        draw.one_of(steps)(d)
    made = [i for i in d.numbers() if i >= len(d.inputs)]
    # Upstream loses cotangents of an array that is returned twice, and moves its mapped axis twice.
    results = [made[-1]] + ([draw.one_of(made[:-1])] if made[:-1] and draw.chance(0.25) else [])
    return Program(d.inputs, d.steps, results)
