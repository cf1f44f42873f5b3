"""Times in numpy what examples/bandwidth.rs times."""

import time

import numpy as np


def report(name, nbytes, f):
    best = min(timed(f) for _ in range(15))
    print(f"{name:24} {best * 1e3:8.2f} ms {nbytes / best / 1e9:8.2f} GB/s")


def timed(f):
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


n = 1 << 24
a = np.arange(n, dtype=np.float32) / np.float32(n)
b = a + np.float32(1)
out = np.empty_like(a)
matrix = a.reshape(4096, 4096)
report("a + b", 12 * n, lambda: np.add(a, b, out=out))
report("a + b, new memory", 12 * n, lambda: a + b)
report("a + 1", 8 * n, lambda: np.add(a, 1, out=out))
report("matrix + row", 8 * n, lambda: np.add(matrix, b[:4096], out=out.reshape(4096, 4096)))
report("exp(a)", 8 * n, lambda: np.exp(a, out=out))
report("tanh(a)", 8 * n, lambda: np.tanh(a, out=out))
report("sum(a)", 4 * n, lambda: a.sum())
report("sum of rows", 4 * n, lambda: matrix.sum(1))
report("sum of columns", 4 * n, lambda: matrix.sum(0))
report("max(a)", 4 * n, lambda: a.max())
report("transposed copy", 8 * n, lambda: np.copyto(out.reshape(4096, 4096), matrix.T))
report("argmax of rows", 4 * n, lambda: matrix.argmax(1))
