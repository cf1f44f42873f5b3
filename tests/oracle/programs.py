"""Functions of several operations, drawn at random, and transforms of them.

A program is a list of steps. A step is a call of a function of another family, whose arguments may be values:
the program's inputs, and what earlier steps gave. Transforms stand around it in layers, the innermost first.
"""

import mlx.core as mx
import numpy as np

from draw import HALVES, Input, dtype_of, name_of
from families.indexing import assigned
from families.sort import sorted_partition, sorted_topk
from record import Call, DtypeName, Slice, Value, function_of, text_of, transform

# What each step of a program is moved by, relative to its size: what functions are promised to be off for
# float32 (4 units here, as many upstream), half a unit for the others.
NUDGE = {"float32": 2.0**-21, "complex64": 2.0**-21, "float16": 2.0**-11, "bfloat16": 2.0**-8}
# How often the steps are moved, and how much farther than that a result may be off.
NUDGES, SAFETY = 4, 4
# What a result may be off beside the largest of its array, for the program to be worth comparing.
WORTH = {"float32": 0.02, "complex64": 0.02, "float16": 0.2, "bfloat16": 0.35}
# Larger numbers leave the range of halves soon.
LARGEST = 100.0

# Steps that are no function of `mx`, or none with one order of results.
RUNS = {
    "getitem": lambda a, index: a[tuple(index)],
    "setitem": assigned,
    "topk": sorted_topk,
    "partition": sorted_partition,
}


class Unfit(Exception):
    """What was drawn cannot be compared: another program is drawn instead."""


class Step:
    """A call in a program."""

    def __init__(self, function, args, kwargs):
        self.function, self.args, self.kwargs = function, list(args), kwargs

    def run(self, values, wide):
        """What the step gives, as a list."""
        leaf = lambda leaf: native(leaf, values, wide)
        args, kwargs = transform(self.args, leaf), transform(self.kwargs, leaf)
        if self.function.startswith("at."):
            a, index, value = args
            out = getattr(a.at[tuple(index)], self.function[3:])(value)
        else:
            out = (RUNS.get(self.function) or function_of(self.function))(*args, **kwargs)
        return list(out) if isinstance(out, (list, tuple)) else [out]

    def described(self):
        return {"function": self.function, "args": self.args, "kwargs": self.kwargs}

    def text(self):
        args = [*map(text_of, self.args), *(f"{name}={text_of(x)}" for name, x in self.kwargs.items())]
        return f"{self.function}({', '.join(args)})"


def native(leaf, values, wide):
    """A part of an argument as upstream takes it."""
    if isinstance(leaf, Value):
        return values[leaf.place]
    if isinstance(leaf, Input):
        return leaf.value(mx.float32 if wide and leaf.dtype in HALVES else None)
    if isinstance(leaf, DtypeName):
        return mx.float32 if wide and leaf in HALVES else dtype_of(leaf)
    return slice(*leaf.parts) if isinstance(leaf, Slice) else leaf


class Program:
    """Steps on some inputs, and which values they result in."""

    def __init__(self, inputs, steps, results):
        self.inputs, self.steps, self.results = inputs, steps, results

    def function(self, wide=False, nudge=None):
        """The program as a function of arrays; every value moved a little by `nudge`."""

        def run(*inputs):
            values = []
            for x in inputs:
                values.append(moved(x, nudge, len(values)))
            for step in self.steps:
                for x in step.run(values, wide):
                    values.append(moved(x, nudge, len(values)))
            return tuple(values[i] for i in self.results)

        return run

    def text(self):
        lines, place = [], len(self.inputs)
        values = [f"v{i}" for i in range(place)]
        shown = [x.value() for x in self.inputs]
        for step in self.steps:
            given = step.run(shown, False)
            names = [f"v{place + i}" for i in range(len(given))]
            shown, place = shown + given, place + len(given)
            lines.append(f"{', '.join(names)} = {step.text()}")
        returned = ", ".join(f"v{i}" for i in self.results)
        return f"({', '.join(values)}): {'; '.join(lines)}; return {returned}"


def moved(x, nudge, place):
    """A value with each element moved up or down; the same way whenever it is computed."""
    if nudge is None or not mx.issubdtype(x.dtype, mx.inexact):
        return x
    run, size = nudge
    signs = np.random.default_rng([run, place]).choice([-1.0, 1.0], x.shape)
    return x * mx.array((1 + size * signs).astype(np.float32)).astype(x.dtype)


class Layer:
    """A transform around a function of several arrays with several results."""

    def __init__(self, kind, **parts):
        self.kind, self.parts = kind, parts

    def around(self, f, wide):
        """The transformed function."""
        parts = transform(self.parts, lambda leaf: native(leaf, [], wide))
        return getattr(self, self.kind)(f, **parts)

    def described(self):
        return {"kind": self.kind, **self.parts}

    @staticmethod
    def dot(f, weights):
        """The sum of all results times weights: a scalar."""

        def scalar(*inputs):
            total = None
            for x, weight in zip(f(*inputs), weights):
                product = x * weight
                part = mx.sum(mx.real(product) if product.dtype == mx.complex64 else product)
                total = part if total is None else total + part
            return (total,)

        return scalar

    @staticmethod
    def grad(f, arguments):
        gradient = mx.grad(lambda *inputs: f(*inputs)[0], argnums=arguments)
        return lambda *inputs: as_tuple(gradient(*inputs))

    @staticmethod
    def value_and_grad(f, arguments):
        both = mx.value_and_grad(lambda *inputs: f(*inputs)[0], argnums=arguments)

        def flat(*inputs):
            value, gradient = both(*inputs)
            return (value, *as_tuple(gradient))

        return flat

    @staticmethod
    def vjp(f, cotangents):
        return lambda *inputs: joined(mx.vjp(f, list(inputs), list(cotangents)))

    @staticmethod
    def jvp(f, tangents):
        return lambda *inputs: joined(mx.jvp(f, list(inputs), list(tangents)))

    @staticmethod
    def vmap(f, in_axes, out_axes):
        return mx.vmap(f, in_axes=tuple(in_axes), out_axes=tuple(out_axes))

    @staticmethod
    def compile(f, shapeless):
        """The function itself: compiling changes no value, but C++ that upstream compiles takes seconds, and
        ends its process now and then."""
        return f

    @staticmethod
    def checkpoint(f):
        return mx.checkpoint(f)


def as_tuple(gradient):
    """The gradient by one argument alone is no tuple."""
    return (gradient,) if isinstance(gradient, mx.array) else tuple(gradient)


def joined(pair):
    return tuple(x for part in pair for x in part)


class Transformed(Call):
    """A call of a program in layers of transforms; `again`: other inputs for another call of the same."""

    def __init__(self, program, layers, inputs, again=None):
        kind = layers[-1].kind
        self.program, self.layers = program, layers
        self.calls = [inputs] if again is None else [inputs, again]
        super().__init__(kind, *self.calls, steps=[step.described() for step in program.steps],
                         results=program.results, layers=[layer.described() for layer in layers],
                         text=self.shown)
        self.precision = coarsest(self)

    def shown(self):
        around = " of ".join(map(layer_text, reversed(self.layers)))
        calls = ", then ".join("(" + ", ".join(map(text_of, inputs)) + ")" for inputs in self.calls)
        return f"{around} of {self.program.text()}; at {calls}"

    def prepare(self):
        """Runs the call and judges it.

        Raises `Unfit` where it cannot be compared, and what upstream raises."""
        self.own = self.computed(False)
        self.judged = self.compared(self.own)

    def results(self, wide):
        return self.own

    def judge(self, own):
        return self.judged

    def computed(self, wide, nudge=None):
        """The results; with every value of the program moved a little by `nudge`."""
        f = self.program.function(wide, nudge)
        for layer in self.layers:
            f = layer.around(f, wide)
        out = []
        for inputs in self.calls:
            given = (native(x, [], wide) for x in inputs)
            out += f(*given)
        mx.eval(out)
        return out

    def compared(self, own):
        """The results in float32, and how far they move with the steps of the program: what another order of
        rounding may be off. A program where that is much, or that is not finite, is not compared."""
        self.either = self.precision in HALVES
        wide = self.computed(True)
        wants = [as_numpy(x) for x in wide]
        runs = [self.computed(True, (run, NUDGE[self.precision])) for run in range(NUDGES)]
        spreads = [np.max([np.abs(as_numpy(x[i]) - want) for x in runs], axis=0)
                   for i, want in enumerate(wants)]
        # Derivatives whose terms cancel keep the rounding of these, which are about 1 as what is drawn.
        largest = max(np.max(np.abs(want), initial=0) for want in wants)
        cancelled = NUDGE[self.precision] * max(1, largest)
        errors = []
        for mine, want, spread in zip(own, wants, spreads):
            if want.size == 0:
                raise Unfit
            error = SAFETY * (spread + np.mean(spread) + cancelled)
            size = np.max(np.abs(want))
            if not (np.all(np.isfinite(as_numpy(mine))) and size < LARGEST * 10):
                raise Unfit
            if size > 0 and np.mean(error) > WORTH[self.precision] * size:
                raise Unfit
            errors.append(mx.array(error.astype(np.float64), dtype=mx.float64))
        return wide, errors


def layer_text(layer):
    parts = ", ".join(f"{name}={text_of(x)}" for name, x in layer.parts.items())
    return f"{layer.kind}({parts})"


def coarsest(call):
    """The dtype of all that are computed with that holds the fewest digits."""
    found = {x.dtype for x in call.inputs()}
    for step in call.program.steps:
        found |= {str(x) for x in [*step.args, *step.kwargs.values()] if isinstance(x, DtypeName)}
    return next(x for x in ["bfloat16", "float16", "float32", "complex64"] if x in found)


def as_numpy(x):
    """An array in numpy's widest dtype of its kind."""
    if name_of(x.dtype) == "complex64":
        return np.array(x).astype(np.complex128)
    return np.array(x.astype(mx.float32)).astype(np.float64)
