"""Drawing arguments at random: shapes, dtypes, values and views."""

import zlib

import mlx.core as mx
import numpy as np

INTEGERS = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
HALVES = ["float16", "bfloat16"]
FLOATS = [*HALVES, "float32", "float64"]
INEXACT = [*FLOATS, "complex64"]
DTYPES = ["bool", *INTEGERS, *INEXACT]

# Sizes on both sides of the widths of vectors, subgroups and workgroups.
SIZES = [1, 1, 2, 3, 3, 4, 5, 5, 7, 8, 9, 16, 17, 31, 33, 64, 65, 129, 257]
SPECIAL = [float("inf"), float("-inf"), float("nan"), 0.0, -0.0, 1.0, -1.0, 0.5]


def dtype_of(name):
    """The dtype with this name."""
    return mx.bool_ if name == "bool" else getattr(mx, name)


def name_of(dtype):
    """MLX's name of a dtype, without the module."""
    return str(dtype).rsplit(".", 1)[-1]


class Input:
    """An array argument: a dense array and the steps of a view of it."""

    def __init__(self, base, steps=(), name=""):
        self.base, self.steps, self.name = base, list(steps), name

    def value(self, dtype=None):
        """The view; of the array converted to `dtype` if one is given."""
        array = self.base if dtype is None else self.base.astype(dtype)
        for kind, argument in self.steps:
            if kind == "transpose":
                array = mx.transpose(array, argument)
            elif kind == "broadcast":
                array = mx.broadcast_to(array, argument)
            else:
                array = array[tuple(slice(*s) for s in argument)]
        return array

    @property
    def shape(self):
        return tuple(self.value().shape)

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def dtype(self):
        return name_of(self.base.dtype)

    def text(self):
        """The view as Python text."""
        text = self.name
        for kind, argument in self.steps:
            if kind == "transpose":
                text += f".transpose({argument})"
            elif kind == "broadcast":
                text = f"mx.broadcast_to({text}, {argument})"
            else:
                text += "[" + ", ".join(slice_text(*s) for s in argument) + "]"
        return text


def slice_text(start, stop, step):
    """A slice as it stands between brackets."""
    part = lambda x: "" if x is None else str(x)
    return f"{part(start)}:{part(stop)}" + ("" if step is None else f":{step}")


class Draw:
    """A stream of arguments that depends on nothing but family and seed."""

    def __init__(self, family, seed):
        self.rng = np.random.default_rng([seed, zlib.crc32(family.encode())])

    def integer(self, low, high):
        """An integer in `low..=high`."""
        return int(self.rng.integers(low, high + 1))

    def chance(self, p):
        """True with probability `p`."""
        return bool(self.rng.random() < p)

    def one_of(self, choices):
        """One of several values."""
        return choices[self.integer(0, len(choices) - 1)]

    def some_of(self, choices, count):
        """Several different values in random order."""
        return [choices[int(i)] for i in self.rng.permutation(len(choices))[:count]]

    def shape(self, least=0, most=4, elements=3000, empty=0.06):
        """A shape: seldom with nothing in it, now and then with nine axes."""
        if most >= 4 and self.chance(0.03):
            shape = [self.integer(1, 2) for _ in range(9)]
        else:
            ndim = self.integer(least, most)
            shape = [self.one_of(SIZES) for _ in range(ndim)]
        while int(np.prod(shape)) > elements:
            largest = shape.index(max(shape))
            shape[largest] = max(1, shape[largest] // 3)
        if shape and self.chance(empty):
            shape[self.integer(0, len(shape) - 1)] = 0
        return shape

    def dtype(self, choices=DTYPES):
        """A dtype: float32 more often than the others."""
        if "float32" in choices and self.chance(0.2):
            return "float32"
        return self.one_of(choices)

    def array(self, shape=None, dtype=None, low=-5.0, high=5.0, special=0.12, views=True, **kind):
        """An array of a random layout; `special` is the chance of infinities, NaN and zeros."""
        shape = list(self.shape(**kind)) if shape is None else list(shape)
        dtype = self.dtype() if dtype is None else dtype
        steps, stored = self.view(shape) if views and self.chance(0.45) else ([], shape)
        return Input(self.dense(stored, dtype, low, high, special), steps)

    def view(self, shape):
        """Steps that make an array of `shape`, and the shape that they start from."""
        if not shape:
            return [], shape
        kind = self.one_of(["transpose", "reverse", "stride", "middle", "broadcast"])
        if kind == "transpose":
            axes = [int(x) for x in self.rng.permutation(len(shape))]
            stored = [0] * len(shape)
            for place, axis in enumerate(axes):
                stored[axis] = shape[place]
            return [("transpose", axes)], stored
        if kind == "broadcast":
            stored = [1 if self.chance(0.5) else d for d in shape]
            return [("broadcast", shape)], stored
        slices, stored = [], []
        for d in shape:
            if kind == "reverse" and self.chance(0.6):
                slices.append((None, None, -1))
                stored.append(d)
            elif kind == "stride" and self.chance(0.6):
                slices.append((1, None, 2))
                stored.append(2 * d + 1 if d else 0)
            elif kind == "middle":
                slices.append((1, 1 + d, None))
                stored.append(d + 2)
            else:
                slices.append((None, None, None))
                stored.append(d)
        return [("slice", slices)], stored

    def dense(self, shape, dtype, low=-5.0, high=5.0, special=0.12):
        """A dense array."""
        values = self.values(shape, dtype, low, high, special)
        return values if isinstance(values, mx.array) else mx.array(values).astype(dtype_of(dtype))

    def values(self, shape, dtype, low, high, special):
        if dtype == "bool":
            return self.rng.random(shape) < 0.5
        if dtype in INTEGERS:
            return self.integers(shape, dtype, low, high)
        if dtype == "complex64":
            parts = [self.reals(shape, low, high, special) for _ in range(2)]
            return np.stack(parts, -1).astype(np.float32).view(np.complex64)[..., 0]
        reals = self.reals(shape, low, high, special)
        if dtype == "float64":
            return mx.array(reals, dtype=mx.float64)
        return reals.astype(np.float32)

    def integers(self, shape, dtype, low, high):
        """Small integers, or now and then any; unsigned ones start at 0."""
        limits = np.iinfo(dtype)
        if low < -4 and high > 4 and self.chance(0.15):
            return self.rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
        low, high = int(np.ceil(low)), int(np.floor(high))
        low, high = max(low, limits.min), max(min(high, limits.max), max(low, limits.min))
        return self.rng.integers(low, high, shape, endpoint=True).astype(dtype)

    def reals(self, shape, low, high, special):
        """Real numbers, a part of them halves of integers."""
        x = np.asarray(self.rng.uniform(low, high, shape))
        x = np.where(self.rng.random(shape) < 0.2, np.clip(np.round(2 * x) / 2, low, high), x)
        if x.size and self.chance(special):
            x = np.where(self.rng.random(shape) < 0.15, self.rng.choice(SPECIAL, shape), x)
        return x

    def axis(self, ndim, wrong=0.05):
        """An axis, as often negative; seldom one that is not there."""
        if ndim == 0 or self.chance(wrong):
            return self.one_of([ndim, -ndim - 1, ndim + 3])
        return self.integer(-ndim, ndim - 1)

    def axes(self, ndim, wrong=0.05):
        """None, an axis, or several different ones; seldom wrong ones."""
        kind = self.integer(0, 3)
        if kind == 0 or ndim == 0:
            return None
        if kind == 1:
            return self.axis(ndim, wrong)
        axes = self.some_of(range(ndim), self.integer(1, ndim))
        axes = [x - ndim if self.chance(0.4) else x for x in axes]
        if self.chance(wrong):
            axes.append(self.one_of([axes[0], ndim, -ndim - 1]))
        return axes

    def reduced(self, extreme=False, **kind):
        """An array and axes to reduce. Upstream does not always come back from sums of nothing, nor set their
        result: axes without elements are for extremes only, which are refused."""
        while True:
            a = self.array(**kind)
            axes = self.axes(a.ndim)
            gone = range(a.ndim) if axes is None else axes if isinstance(axes, list) else [axes]
            if extreme or all(a.shape[x] for x in gone if -a.ndim <= x < a.ndim):
                return a, axes

    def broadcasting(self, shape):
        """A shape that broadcasts with `shape`, or seldom does not."""
        other = [1 if self.chance(0.25) else d for d in shape]
        other = other[self.integer(0, len(other)) if other and self.chance(0.3) else 0 :]
        if other and self.chance(0.04):
            other[-1] = other[-1] + 1
        return other
