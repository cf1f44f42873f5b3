"""Functions in files: upstream writes one, and both call it."""

import os
import tempfile

import mlx.core as mx
import numpy as np

from draw import Input
from record import Call


def calls(draw):
    for kind in KINDS:
        yield kind(draw)


def exported(fun, *traced, called=None, shapeless=False, slack=2.0**-16, **keywords):
    """The call of a file that has `fun`, traced for some arguments, with these or others."""
    arguments = traced if called is None else called
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "fn.mlxfn")
        mx.export_function(
            path, fun, tuple(x.value() for x in traced), {k: x.value() for k, x in keywords.items()},
            shapeless=shapeless,
        )
        imported = mx.import_function(path)
        with open(path, "rb") as file:
            content = np.frombuffer(file.read(), dtype=np.uint8)

    def run(_, *args, **kwargs):
        return imported(args, kwargs)

    def error(_, *args, **kwargs):
        """Sums and products of a function's steps round differently."""
        floats = [x for x in (*args, *kwargs.values()) if x.dtype.kind in "fc"]
        return slack * max((np.max(np.abs(x), initial=1.0) for x in floats), default=1.0) ** 2

    return Call("import_function", Input(mx.array(content)), *arguments, run=run, ulps=4, error=error,
                widen=False, **keywords)


def small(draw, shape, dtype="float32", **kind):
    return draw.array(shape, dtype, low=-2.0, high=2.0, special=0, views=False, **kind)


def indices(draw, shape, bound, dtype="int32"):
    return Input(mx.array(draw.rng.integers(-bound, bound, shape), dtype=getattr(mx, dtype)))


def sizes(draw, count):
    return [draw.integer(1, 6) for _ in range(count)]


def elementwise(draw):
    a, b = small(draw, shape := sizes(draw, 2)), small(draw, shape[1:])
    functions = [mx.sigmoid, mx.square, mx.erf, mx.expm1, mx.arctan, mx.logical_not, mx.sign, mx.floor]
    join = [mx.add, mx.maximum, mx.less, mx.logaddexp, mx.arctan2, mx.floor_divide, mx.not_equal]
    f, g, h = draw.one_of(functions), draw.one_of(join), draw.one_of(functions)
    return exported(lambda x, y: [g(f(x), y), h(x).astype(mx.int32), mx.where(x > y, x, y)], a, b)


def bits(draw):
    a = draw.array(sizes(draw, 2), draw.one_of(["uint8", "int16", "int32", "uint32"]), views=False)
    return exported(lambda x: [x & 3, x | 1, x ^ 7, x << 2, x >> 1, x.view(mx.uint8), *mx.divmod(x, 3)], a)


def complex_numbers(draw):
    a = small(draw, sizes(draw, 2), "complex64")
    return exported(lambda x: [mx.abs(x), mx.conj(x) * x, mx.real(x) + mx.imag(x)], a)


def reductions(draw):
    a = small(draw, sizes(draw, 3))
    axis = draw.integer(-3, 2)
    return exported(
        lambda x: [mx.mean(x, axis=axis), mx.argmax(x, axis=axis), mx.cumsum(x, axis=axis, reverse=True),
                   mx.softmax(x, axis=axis), mx.logsumexp(x, axis=axis), mx.sort(x, axis=axis),
                   mx.all(x > 0, axis=axis)], a)


def shapes(draw):
    a = small(draw, [2, 3, draw.integer(2, 5)])
    return exported(
        lambda x: [mx.flatten(x, 1, 2), mx.unflatten(x, 1, (3, 1)),
                   mx.pad(x, [(0, 1), (2, 0), (1, 1)], constant_values=0.5),
                   x[:, ::-1, 1:], x.transpose(2, 0, 1), mx.as_strided(x, (2, 2), (1, 2), 1),
                   *mx.split(x, 3, axis=1), mx.roll(x, 2, axis=2), mx.concatenate([x, x], axis=1)], a)


def indexing(draw):
    a = small(draw, shape := [draw.integer(2, 5), draw.integer(2, 5)])
    rows = indices(draw, sizes(draw, 2), shape[0])
    places = indices(draw, [3, shape[1]], shape[0])
    return exported(
        lambda x, i, p: [mx.take(x, i, axis=0), mx.take_along_axis(x, p, axis=0), x[i, 0], mx.diag(x),
                         mx.put_along_axis(x, p[:1], mx.array(9.0), axis=0)], a, rows, places)


def updates(draw):
    a, b = small(draw, [4, 5]), small(draw, [2, 5])
    rows = Input(mx.array([3, 1]))
    mask = Input(mx.array(draw.rng.random([4, 5]) < 0.5))

    def fun(x, u, i, m):
        masked = x + 0
        masked[m] = mx.arange(20.0)[: int(np.sum(np.array(mask.value())))]
        return [x.at[1:3].add(u), x.at[i].maximum(u), x.at[i].multiply(u), masked,
                mx.slice(x, i[1:], (0,), (2, 3)), mx.slice_update(x, u, i[1:], (0,))]

    return exported(fun, a, b, rows, mask)


def products(draw):
    a, b = small(draw, [2, 3, 4]), small(draw, [4, 5])
    c = small(draw, [5])
    return exported(
        lambda x, y, z: [x @ y, mx.addmm(z, x, y, 0.5, 2.0), mx.inner(x, x), mx.einsum("bij,jk->ki", x, y)],
        a, b, c)


def masked_products(draw):
    a, b = small(draw, [64, 32]), small(draw, [32, 64])
    rows, columns = Input(mx.array([[True], [False]])), Input(mx.array([[False, True]]))
    return exported(lambda x, y, m, n: mx.block_masked_mm(x, y, 32, None, m, n), a, b, rows, columns)


def quantized(draw):
    mode, size, bits = draw.one_of(
        [("affine", 64, 4), ("affine", 32, 3), ("affine", 32, 8), ("mxfp4", 32, 4), ("mxfp8", 32, 8)])
    x, w = small(draw, [3, 64]), small(draw, [8, 64])
    parts = mx.quantize(w.value(), group_size=size, bits=bits, mode=mode)

    def fun(x, *parts):
        how = {"group_size": size, "bits": bits, "mode": mode}
        biases = parts[2] if mode == "affine" else None
        product = mx.quantized_matmul(x, parts[0], parts[1], biases, **how)
        # Upstream cannot write what makes floats of 8 bits wider.
        return [product] if mode == "mxfp8" else [product, mx.dequantize(parts[0], parts[1], biases, **how)]

    return exported(fun, x, *map(Input, parts))


def convolutions(draw):
    x, w = small(draw, [2, 7, 8, 4]), small(draw, [6, 3, 2, 2])
    return exported(
        lambda x, w: mx.conv2d(x, w, stride=(1, 2), padding=(1, 0), dilation=(2, 1), groups=2), x, w)


def transforms_of_fourier(draw):
    a = small(draw, [3, n := draw.integer(4, 9)])
    return exported(
        lambda x: [mx.fft.fft(x), mx.fft.rfft(x), mx.fft.irfft(mx.fft.rfft(x), n=n), mx.fft.ifft2(x)], a)


def linear_algebra(draw):
    a = small(draw, [4, 4])

    def fun(x):
        square = x @ x.T + 4 * mx.eye(4)
        return [mx.linalg.inv(square), mx.linalg.cholesky(square), mx.linalg.eigvalsh(square),
                mx.linalg.svd(x, compute_uv=False), mx.linalg.norm(x)]

    return exported(fun, a, slack=2.0**-12)


def fused(draw):
    x, w = small(draw, [2, 4, 3, 8]), small(draw, [8])
    return exported(
        lambda x, w: [mx.fast.rms_norm(x, w, 1e-5), mx.fast.layer_norm(x, w, None, 1e-5),
                      mx.fast.rope(x, 8, traditional=False, base=1e4, scale=1.0, offset=3),
                      mx.fast.scaled_dot_product_attention(x, x, x, scale=0.5, mask="causal"),
                      mx.hadamard_transform(x)], x, w)


def random_numbers(draw):
    key = Input(mx.random.key(draw.integer(0, 1000)))
    return exported(
        lambda key: [mx.random.uniform(shape=(3, 2), key=key), mx.random.randint(0, 9, (5,), key=key),
                     mx.random.normal((4,), key=mx.random.split(key)[1])], key)


def gradients(draw):
    x, w = small(draw, [3, 4]), small(draw, [4, 2])
    loss = lambda x, w: mx.mean(mx.square(mx.tanh(x @ w)))
    return exported(mx.grad(loss, argnums=(0, 1)), x, w)


def by_name(draw):
    x, y = small(draw, shape := sizes(draw, 2)), small(draw, shape)
    return exported(lambda x, y, z=None: x - 2 * y + (z if z is not None else 0), x, y, z=small(draw, shape))


def of_any_size(draw):
    def fun(x, w):
        centered = x - mx.mean(x, axis=-1, keepdims=True)
        flat = mx.flatten(centered, 0, 1) @ w
        return [flat, mx.softmax(x, axis=-1) * 2, mx.var(x), x.reshape(-1)]

    traced = small(draw, [2, 3, 4]), small(draw, [4, 5])
    # Upstream does not survive some sizes of one that were larger when it traced.
    outer, inner = [draw.integer(2, 5), draw.integer(2, 5)], draw.integer(2, 7)
    called = small(draw, [*outer, inner]), small(draw, [inner, draw.integer(2, 5)])
    return exported(fun, *traced, called=called, shapeless=True)


def of_other_arguments(draw):
    """No function of the file takes them."""
    a, b = small(draw, [2, 3]), small(draw, [3, 2])
    return exported(lambda x: mx.abs(x), a, called=(b,))


KINDS = [
    elementwise, bits, complex_numbers, reductions, shapes, indexing, updates, products, masked_products,
    quantized, convolutions, transforms_of_fourier, linear_algebra, fused, random_numbers, gradients, by_name,
    of_any_size, of_other_arguments,
]
