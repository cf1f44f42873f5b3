"""Fourier transforms, and the Hadamard transform."""

import numpy as np

from draw import DTYPES, Input
from record import Call

EPSILON = 2.0**-24
LENGTHS = [1, 2, 3, 4, 5, 8, 12, 17, 32, 60]


def calls(draw):
    for name in ["fft", "ifft", "rfft", "irfft"]:
        yield transform(draw, name)
    for name in ["fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"]:
        yield several(draw, name)
    for name in ["fftshift", "ifftshift"]:
        a = draw.array(draw.shape(least=0, most=3, elements=60), special=0)
        axes = draw.axes(a.ndim)
        yield Call(f"fft.{name}", a, axes=[axes] if isinstance(axes, int) else axes)
    for name in ["fftfreq", "rfftfreq"]:
        yield Call(
            f"fft.{name}",
            draw.integer(0 if draw.chance(0.1) else 1, 12),
            d=draw.one_of([1.0, 0.5, 0.1]),
            ulps=2,
        )
    yield hadamard(draw)
    for _ in range(2):
        yield frames(draw)
        yield signal(draw)


def dtype_for(draw, name):
    if name.startswith("r"):
        return draw.dtype(["float32", "float16", "int32", "bool"])
    return draw.dtype(["complex64", "float32", "complex64", "bfloat16", "uint8"])


def error(count):
    """Rounding grows with the logarithm of the length, beside the norm of all elements."""
    def of(a, *_, **__):
        return 40 * EPSILON * (1 + np.log2(count)) * (np.linalg.norm(a.ravel()) + 1e-30) * np.ones(1)
    return of


def transform(draw, name):
    shape = [*draw.shape(most=2, elements=6, empty=0), draw.one_of(LENGTHS)]
    a = draw.array(shape, dtype_for(draw, name), special=0)
    axis = -1 if draw.chance(0.6) else draw.axis(len(shape))
    n = None if draw.chance(0.6) else draw.integer(0 if draw.chance(0.1) else 1, 20)
    norm = draw.one_of(["backward", "ortho", "forward"])
    return Call(f"fft.{name}", a, n, axis=axis, norm=norm, error=error(64))


def several(draw, name):
    two = name.endswith("2")
    shape = [draw.one_of([1, 2, 3, 4, 5, 8]) for _ in range(draw.integer(1 if draw.chance(0.05) else 2, 3))]
    a = draw.array(shape, dtype_for(draw, name), special=0)
    kwargs = {} if draw.chance(0.4) else dict(axes=draw.some_of(range(len(shape)), min(len(shape), 2)))
    if draw.chance(0.3):
        count = len(kwargs.get("axes", [0, 0] if two else shape))
        kwargs["s"] = [draw.integer(1, 9) for _ in range(count)]
        kwargs.setdefault("axes", list(range(-count, 0)))
    norm = draw.one_of(["backward", "ortho", "forward"])
    return Call(f"fft.{name}", a, **kwargs, norm=norm, error=error(512))


def hadamard(draw):
    last = draw.one_of([1, 2, 8, 12, 20, 28, 64, 24, 7])
    a = draw.array([draw.integer(1, 3), last], draw.dtype(["float32", "float16", "bfloat16"]), special=0)
    scale = None if draw.chance(0.5) else 0.5
    bound = lambda a, **_: 8 * EPSILON * np.sum(np.abs(a), axis=-1, keepdims=True) * np.ones(a.shape)
    return Call("hadamard_transform", a, scale=scale, error=bound, ulps=2, either=True)


def frame(draw):
    """What `stft` and `istft` are given beside the array."""
    n = draw.one_of([1, 4, 7, 8, 12, 16])
    win = draw.integer(1, n) if draw.chance(0.4) else None
    window = None
    if draw.chance(0.5):
        # Away from zero: `istft` divides by the squares.
        length = win or n
        window = draw.array([length], "float32", low=0.5, high=1.5, special=0)
    hop = draw.integer(0 if draw.chance(0.05) else 1, win or n)
    if draw.chance(0.05):
        win = n + 1
    named = dict(hop_length=hop if n < 4 or draw.chance(0.7) else None, win_length=win, window=window,
                 center=draw.chance(0.6), norm=draw.one_of(["backward", "ortho", "forward"]),
                 onesided=draw.one_of([None, True, False]))
    return n, named


def frames(draw):
    n, named = frame(draw)
    length = draw.integer(1, 40) if draw.chance(0.1) else draw.integer(n, 60)
    batch = draw.one_of([[], [2], [2, 3]])
    x = draw.array(
        [*batch, length], draw.dtype(["float32", "float32", "complex64", "float16", "int32"]), special=0
    )
    if x.dtype == "complex64" and named["onesided"]:
        # Upstream then forgets the imaginary parts, where its documentation promises half of the spectrum.
        named["onesided"] = False
    return Call(
        "fft.stft", x, n, **named, pad_mode=draw.one_of(["reflect", "constant", "edge"]), error=error(64)
    )


def signal(draw):
    n, named = frame(draw)
    frequencies = n if named["onesided"] is False else n // 2 + 1
    shape = [*draw.one_of([[], [2]]), frequencies, draw.integer(1, 9)]
    x = draw.array(shape, "complex64", special=0)
    # Where few windows reach, their squares enlarge what was rounded: at least a
    # quarter, once divided by the window.
    return Call(
        "fft.istft", x, n, **named, length=draw.one_of([None, None, draw.integer(1, 50)]), error=error(2**12)
    )
