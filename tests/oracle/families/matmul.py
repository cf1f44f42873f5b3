"""Products of matrices."""

import numpy as np

from draw import DTYPES, INEXACT
from record import Call

EPSILON = 2.0**-24


def calls(draw):
    for _ in range(4):
        a, b = operands(draw)
        yield Call("matmul", a, b, reference=np.matmul, error=product_error, ulps=1)
    for _ in range(4):
        a, b = operands(draw)
        alpha, beta = draw.one_of([(1.0, 1.0), (0.5, 2.0), (-1.5, 0.0), (0.0, 1.0)])
        c = draw.array(draw.broadcasting(product_shape(a, b)), a.dtype, special=0)
        yield Call("addmm", c, a, b, alpha=alpha, beta=beta, reference=addmm, error=addmm_error, ulps=1)


def operands(draw):
    dtype = draw.dtype(INEXACT if draw.chance(0.9) else DTYPES)
    m, k, n = (draw.one_of([1, 2, 3, 5, 8, 16, 17, 31, 33, 64, 65, 129]) for _ in range(3))
    if draw.chance(0.08):
        m, k, n = draw.one_of([(0, k, n), (m, 0, n), (m, k, 0)])
    batch = draw.shape(most=2, elements=6, empty=0.03)
    a = [] if draw.chance(0.15) else [m]
    b = [] if draw.chance(0.15) else [n]
    left = draw.broadcasting(batch) + a + [k] if a else [k]
    right = draw.broadcasting(batch) + [k] + b if b else [k]
    if draw.chance(0.05):
        left[-1] += 1
    second = dtype if draw.chance(0.8) else draw.dtype(INEXACT)
    # Products of complex infinities are numbers or not by how the product is written.
    special = 0.02 * ("complex64" not in [dtype, second])
    return draw.array(left, dtype, special=special), draw.array(right, second, special=special)


def product_shape(a, b):
    try:
        return list(np.matmul(np.zeros(a.shape), np.zeros(b.shape)).shape)
    except ValueError:
        return list(a.shape)


def product_error(a, b):
    """Each addition rounds once (Higham, Accuracy and Stability of Numerical Algorithms, 3.5)."""
    return 4 * (a.shape[-1] + 1) * EPSILON * np.matmul(np.abs(a), np.abs(b))


def addmm(c, a, b, alpha, beta):
    return alpha * np.matmul(a, b) + beta * c


def addmm_error(c, a, b, alpha, beta):
    return abs(alpha) * product_error(a, b) + 4 * EPSILON * np.abs(beta * c)
