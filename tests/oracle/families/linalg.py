"""Linear algebra. Of factors that are not unique, what does not depend on the choice is compared."""

import mlx.core as mx
import numpy as np

from draw import DTYPES, Input
from record import Call

EPSILON = 2.0**-24
INEXACT_MATRICES = ["float32", "complex64", "float64"]


def calls(draw):
    for _ in range(4):
        yield norm(draw)
    for _ in range(2):
        yield cross(draw)
    for name in ["inv", "det", "slogdet", "pinv"]:
        yield of_matrix(draw, name, regular(draw))
    yield of_matrix(draw, "cholesky", definite(draw), upper=draw.chance(0.5))
    yield of_matrix(draw, "cholesky_inv", triangle(draw, upper=False), upper=False)
    upper = draw.chance(0.5)
    yield of_matrix(draw, "tri_inv", triangle(draw, upper), upper=upper)
    yield of_matrix(draw, "eigvalsh", definite(draw), UPLO=draw.one_of(["L", "U"]))
    singular = lambda a: mx.linalg.svd(a, compute_uv=False)
    yield of_matrix(draw, "svd", regular(draw), run=singular)
    a = regular(draw)
    n, batch = a.shape[-1], list(a.shape[:-2])
    b = draw.array(
        [*batch, n, draw.integer(1, 3)] if draw.chance(0.7) or batch else [n], "float32", special=0
    )
    yield Call("linalg.solve", a, b, error=near(200.0))
    upper = draw.chance(0.5)
    yield Call("linalg.solve_triangular", triangle(draw, upper, n, batch), b, upper=upper, error=near(400.0))
    yield of_matrix(draw, "lu_factor", regular(draw))
    yield of_matrix(draw, "lu", oblong(draw))
    yield of_matrix(draw, "qr", oblong(draw))
    uplo = dict(UPLO=draw.one_of(["L", "U"]))
    yield of_matrix(draw, "eigh", regular(draw, INEXACT_MATRICES), **uplo, run=self_adjoint)
    yield of_matrix(draw, "eigvals", regular(draw, INEXACT_MATRICES), run=spectrum)
    # Upstream's vectors of complex matrices are conjugated: what they fulfil is known without it.
    yield of_matrix(draw, "eig", regular(draw, INEXACT_MATRICES), run=eigenpairs, reference=known_eigenpairs)


def near(size):
    """The matrices are well conditioned: errors stay some thousand roundings."""
    return lambda *_, **__: 2000 * EPSILON * size * np.ones(1)


def of_matrix(draw, name, a, **kwargs):
    size = {"det": 2000.0, "lu": 4.0, "qr": 4.0, "eigh": 4.0, "eig": 4.0, "eigvals": 4.0}.get(name, 40.0)
    return Call(f"linalg.{name}", a, **kwargs, error=near(size))


def self_adjoint(a, UPLO):
    """Eigenvalues, and what the eigenvectors make of them: vectors may be turned."""
    values, vectors = mx.linalg.eigh(a, UPLO)
    adjoint = mx.conj(mx.swapaxes(vectors, -1, -2))
    return [values, (vectors * values[..., None, :]) @ adjoint, adjoint @ vectors]


def spectrum(a):
    """Eigenvalues in no order: their sorted parts and the sums of their powers."""
    return in_any_order(mx.linalg.eigvals(a))


def in_any_order(values):
    # Eigenvalues are up to some eight: powers of an eighth stay of the size of one.
    sums = [mx.sum((values / 8) ** power, axis=-1) for power in [1, 2, 3]]
    return [mx.sort(mx.real(values), axis=-1), mx.sort(mx.imag(values), axis=-1), *sums]


def eigenpairs(a):
    """Eigenvalues in no order, what is left of the equation that vectors fulfil, and their norms."""
    values, vectors = mx.linalg.eig(a)
    rest = a.astype(mx.complex64) @ vectors - vectors * values[..., None, :]
    return [*in_any_order(values), mx.abs(rest), mx.linalg.norm(vectors, axis=-2)]


def known_eigenpairs(a):
    """What `eigenpairs` gives: nothing is left of the equation, and norms are one."""
    values = np.linalg.eigvals(a)
    sums = [np.sum((values / 8) ** power, axis=-1) for power in [1, 2, 3]]
    return [
        np.sort(values.real, axis=-1),
        np.sort(values.imag, axis=-1),
        *sums,
        np.zeros(a.shape),
        np.ones(values.shape),
    ]


def oblong(draw):
    """Matrices of any two sizes, of full rank; seldom what is none."""
    if draw.chance(0.1):
        return regular(draw)
    (m, batch), (n, _) = size(draw), size(draw)
    a = draw.rng.uniform(-1, 1, [*batch, m, n]) + 3 * np.eye(m, n)
    return Input(mx.array(a, dtype=mx.float64) if draw.chance(0.2) else mx.array(a.astype(np.float32)))


def size(draw):
    return draw.integer(1, 6), draw.one_of([[], [], [2], [2, 3]])


def regular(draw, dtypes=None):
    """Square matrices with a heavy diagonal; seldom what is none."""
    n, batch = size(draw)
    if draw.chance(0.06):
        return draw.array(draw.one_of([[n], [n, n + 1]]), "float32", special=0)
    if draw.chance(0.06):
        return draw.array([n, n], draw.dtype(["float16", "int32"]), special=0)
    a = draw.rng.uniform(-1, 1, [*batch, n, n]) + 3 * np.eye(n)
    dtype = draw.dtype(dtypes or ["float32"])
    if dtype == "float64":
        return Input(mx.array(a, dtype=mx.float64))
    if dtype == "complex64":
        a = a + 1j * draw.rng.uniform(-1, 1, a.shape)
    return Input(mx.array(a.astype(dtype)))


def definite(draw):
    n, batch = size(draw)
    a = draw.rng.uniform(-1, 1, [*batch, n, n])
    return Input(mx.array((a @ np.swapaxes(a, -1, -2) + 2 * np.eye(n)).astype(np.float32)))


def triangle(draw, upper, n=None, batch=None):
    drawn, of = size(draw)
    n, batch = n or drawn, of if batch is None else batch
    a = draw.rng.uniform(-1, 1, [*batch, n, n]) + 2 * np.eye(n)
    return Input(mx.array((np.triu(a) if upper else np.tril(a)).astype(np.float32)))


def norm(draw):
    a = draw.array(
        draw.shape(least=0 if draw.chance(0.1) else 1, most=3, elements=200, empty=0),
        draw.dtype(DTYPES),
        special=0,
    )
    kind = draw.integer(0, 2)
    if kind == 0 or a.ndim < 2:
        axis = draw.axis(a.ndim) if draw.chance(0.6) else None
        orders = (
            [None, None, 2, 1, 3, 0.5, 0, -1, float("inf"), float("-inf")]
            if axis is not None or a.ndim == 1
            else [None]
        )
    else:
        axis = draw.some_of(range(a.ndim), 2)
        orders = [None, "fro", 1, -1, float("inf"), float("-inf"), "bad" if draw.chance(0.1) else "fro"]
    order = draw.one_of(orders)
    # A negative order takes reciprocals, which zeros make infinite; all sums round as often as they have
    # terms.
    bound = lambda a, *_, **__: 1000 * EPSILON * (1 + np.sum(np.abs(a) ** 2)) * np.ones(1)
    return Call(
        draw.one_of(["linalg.norm", "linalg.norm", "matrix_norm"]),
        a,
        order,
        axis=axis,
        keepdims=draw.chance(0.4),
        error=bound,
        ulps=2,
        either=True,
    )


def cross(draw):
    last = draw.one_of([3, 3, 3, 2, 4 if draw.chance(0.2) else 3])
    shape = [*draw.shape(most=2, elements=12, empty=0), last]
    dtype = draw.dtype(["float32", "float16", "int32", "complex64"])
    a, b = (draw.array(draw.broadcasting(shape[:-1]) + [last], dtype, special=0) for _ in range(2))
    return Call("linalg.cross", a, b, error=lambda *_, **__: 400 * EPSILON * np.ones(1), ulps=2, either=True)
