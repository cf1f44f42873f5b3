"""A program while it is drawn."""

import mlx.core as mx
import numpy as np

from draw import name_of
from programs import LARGEST, Step, Unfit
from record import Value

# How far operands stay from where a function has no derivative.
MARGIN = 0.05
ELEMENTS = 300


class Drawing:
    """A program while it is drawn: its steps so far, and what their values are."""

    def __init__(self, draw, dtype, sizes, views=True):
        self.draw, self.dtype, self.sizes, self.views = draw, dtype, sizes, views
        self.inputs, self.steps, self.values = [], [], []

    def input(self, shape, dtype=None):
        """One more input of the program."""
        self.inputs.append(self.constant(shape, dtype))
        self.values.append(self.inputs[-1].value())
        return Value(len(self.values) - 1)

    def constant(self, shape, dtype=None, low=-2.0, high=2.0):
        """An array that is no input."""
        return self.draw.array(shape, dtype or self.dtype, low=low, high=high, special=0, views=self.views)

    def shape(self, least=0, most=3):
        return [self.draw.one_of(self.sizes) for _ in range(self.draw.integer(least, most))]

    def of(self, value):
        return self.values[value.place]

    def add(self, function, *args, **kwargs):
        """Adds a step; what it gives, the first of several."""
        step = Step(function, args, kwargs)
        given = step.run(self.values, False)
        mx.eval(given)
        for x in given:
            if x.size > ELEMENTS or x.size == 0 or not sound(x):
                raise Unfit
        self.steps.append(step)
        self.values += given
        return Value(len(self.values) - len(given))

    def numbers(self):
        """Which values are real or complex numbers."""
        return [i for i, x in enumerate(self.values) if mx.issubdtype(x.dtype, mx.inexact)]

    def pick(self, least=0):
        """A value of at least so many axes and of moderate size: more often a late one."""
        fit = [i for i in self.numbers() if self.values[i].ndim >= least]
        if not fit:
            raise Unfit
        late = self.draw.chance(0.8)
        value = Value(fit[-1] if late else self.draw.one_of(fit))
        if float(mx.max(mx.abs(self.of(value))).item()) > 5:
            value = self.add("multiply", value, 0.125)
        return value

    def real(self, least=0):
        """The same, of a real dtype."""
        value = self.pick(least)
        return self.add("real", value) if self.is_complex(value) else value

    def positive(self):
        return self.add("add", self.add("square", self.real()), 0.5)

    def clear_of(self, value, *points):
        """The value, if none of its elements is near one of the points."""
        x = as_float(self.of(value))
        if any(np.min(np.abs(x - point)) < MARGIN for point in points):
            raise Unfit
        return value

    def spread_out(self, value, axis=None):
        """The value, if no two of its elements along the axis are near each other."""
        x = np.sort(as_float(self.of(value)), axis=axis)
        if np.min(np.diff(x, axis=-1 if axis is None else axis), initial=1) < 0.02:
            raise Unfit
        return value

    def is_complex(self, value):
        return self.of(value).dtype == mx.complex64

    def dtype_of(self, value):
        return name_of(self.of(value).dtype)

    def other(self, value):
        """Something that broadcasts with the value: another one, a constant, or a number."""
        kind = self.draw.integer(0, 3)
        x = self.of(value)
        if kind == 0:
            return self.draw.one_of([0.5, -1.25, 2.0])
        if kind == 1:
            return self.constant(self.draw.broadcasting(x.shape), self.dtype_of(value))
        fit = [i for i in self.numbers() if joins(x.shape, self.values[i].shape)]
        return Value(self.draw.one_of(fit))

    def vector(self, value):
        """A value with an element for each of the value's last axis, if there is one."""
        last = self.of(value).shape[-1]
        there = lambda x: x.shape == (last,) and x.dtype != mx.complex64
        fit = [i for i in self.numbers() if there(self.values[i])]
        return Value(self.draw.one_of(fit)) if fit else None

    def axis(self, value):
        return self.draw.axis(self.of(value).ndim, wrong=0)

    def axes(self, value):
        return self.draw.axes(self.of(value).ndim, wrong=0)


def joins(a, b):
    return all(x == y or 1 in (x, y) for x, y in zip(reversed(a), reversed(b)))


def as_float(x):
    return np.array(x.astype(mx.float32)).astype(np.float64)


def sound(x):
    """Whether all of it are numbers of moderate size."""
    if not mx.issubdtype(x.dtype, mx.inexact):
        return True
    largest = float(mx.max(mx.abs(x)).astype(mx.float32).item())
    return np.isfinite(largest) and largest < LARGEST
