"""Running calls upstream and writing down what they gave."""

import json
import math
import os

import mlx.core as mx
import numpy as np

import safetensors
from draw import HALVES, Input, dtype_of, name_of, slice_text


class Call:
    """A call of one function, and how its results are compared.

    `ulps`: how far an element may be off, in units in the last place of its dtype; 0 means equal.
    `error`: a function of the arguments as float64 numpy arrays that gives what an element may be off beside
    that.
    `reference`: a function of the same arguments that gives what the results should be, where upstream is no
    judge.
    `run`: what stands for `mx.<function>`, for what is no function of that module or has no one result.
    `text`: the call as Python text, where it is no function call.
    `widen`: whether arrays of float16 and bfloat16 are widened to float32 for the reference.
    `either`: what upstream gives without widening is right too: where it rounds each step to the dtype.
    """

    def __init__(self, function, *args, ulps=0, error=None, reference=None, run=None, text=None,
                 widen=True, either=False, **kwargs):
        self.function, self.args, self.kwargs = function, list(args), kwargs
        self.ulps, self.error, self.reference = ulps, error, reference
        self.run, self.text, self.widen, self.either = run, text, widen, either

    def inputs(self):
        """The array arguments."""
        return [x for x in walk([self.args, self.kwargs]) if isinstance(x, Input)]

    def results(self, wide):
        """What upstream gives, evaluated."""
        args = transform(self.args, lambda x: native(x, wide))
        kwargs = transform(self.kwargs, lambda x: native(x, wide))
        out = (self.run or function_of(self.function))(*args, **kwargs)
        return [result(x) for x in (out if isinstance(out, (list, tuple)) else [out])]

    def judge(self, own):
        """What the results are compared with, and what each may be off, if it may."""
        wide = own
        if self.reference is not None:
            wide = referenced(self, own)
        elif self.widen and any(x.dtype in HALVES for x in self.inputs()):
            wide = self.results(True)
        return wide, errors_of(self, len(own))


class DtypeName(str):
    """A dtype as an argument."""


class Value:
    """A value of a program as an argument of one of its steps, by number."""

    def __init__(self, place):
        self.place = place


class Slice:
    """A slice as an argument."""

    def __init__(self, start, stop, step):
        self.parts = (start, stop, step)


def walk(value):
    """All leaves of nested lists and dictionaries."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from walk(item)
    elif isinstance(value, dict):
        yield from walk(list(value.values()))
    else:
        yield value


def transform(value, leaf):
    """The same nesting with every leaf replaced."""
    if isinstance(value, dict):
        return {key: transform(item, leaf) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(transform(item, leaf) for item in value)
    return leaf(value)


def native(value, wide):
    """An argument as upstream takes it."""
    if isinstance(value, Input):
        return value.value(mx.float32 if wide and value.dtype in HALVES else None)
    if isinstance(value, DtypeName):
        return dtype_of(value)
    if isinstance(value, Slice):
        return slice(*value.parts)
    return value


def as_numpy(value):
    """An argument as numpy's float64, complex128 or int64; other things as they are."""
    if isinstance(value, Input):
        return to_numpy(value.value())
    return value


def to_numpy(array):
    """An array in numpy's widest dtype of its kind."""
    name = name_of(array.dtype)
    if name == "bfloat16":
        array = array.astype(mx.float32)
    wide = {"bool": np.bool_, "complex64": np.complex128}.get(name)
    if wide is None:
        wide = np.float64 if "float" in name else np.uint64 if name == "uint64" else np.int64
    return np.array(array).astype(wide)


def text_of(value):
    """An argument as Python text."""
    if isinstance(value, Input):
        return value.text()
    if isinstance(value, DtypeName):
        return "mx.bool_" if value == "bool" else f"mx.{value}"
    if isinstance(value, Slice):
        return slice_text(*value.parts)
    if isinstance(value, Value):
        return f"v{value.place}"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(map(text_of, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner},)"
    return "..." if value is Ellipsis else repr(value)


def function_of(name):
    """`mx.<name>`, where the name may have dots."""
    function = mx
    for part in name.split("."):
        function = getattr(function, part)
    return function


class Writer:
    """Writes the calls of one family: `calls.jsonl` and `arrays.safetensors`."""

    def __init__(self, folder):
        os.makedirs(folder, exist_ok=True)
        self.arrays, self.folder = {}, folder
        self.lines = open(os.path.join(folder, "calls.jsonl"), "w")
        self.running = open(os.path.join(folder, "running"), "w")

    def close(self):
        self.lines.close()
        self.running.close()
        os.remove(self.running.name)
        safetensors.save(os.path.join(self.folder, "arrays.safetensors"), self.arrays)

    def array(self, array):
        """Keeps an array; returns its name."""
        name = f"{len(self.arrays)}"
        self.arrays[name] = mx.contiguous(array)
        return name

    def write(self, family, seed, number, call):
        """Runs a call and writes it down."""
        for i, array in enumerate(call.inputs()):
            array.name = f"a{i}"
        line = {"family": family, "seed": seed, "number": number, "function": call.function,
                "text": self.text(call), "args": transform(call.args, self.json),
                "kwargs": transform(call.kwargs, self.json), "ulps": call.ulps}
        self.say(family, seed, number, line["text"], call)
        try:
            own = call.results(False)
        except Exception as error:  # Whatever upstream raises is a refusal.
            line["raised"] = f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
        else:
            line["outputs"] = self.outputs(call, own)
        self.lines.write(json.dumps(line) + "\n")

    def say(self, family, seed, number, text, call):
        """Leaves a note of what is running, for the case that it does not end well."""
        inputs = ", ".join(f"{x.name}: {x.dtype} {list(x.base.shape)}" for x in call.inputs())
        self.running.seek(0)
        self.running.truncate()
        self.running.write(
            f"{text}\n    where {inputs}  (--family {family} --first {seed} --seeds 1, number {number})"
        )
        self.running.flush()

    def outputs(self, call, own):
        """The results with their own dtypes, and the values they are compared with."""
        outputs = []
        wide, errors = call.judge(own)
        for mine, want, error in zip(own, wide, errors):
            output = {"dtype": name_of(mine.dtype), "shape": list(mine.shape), "array": self.array(want)}
            if error is not None:
                output["error"] = self.array(error)
            if call.either:
                output["own"] = self.array(mine)
            outputs.append(output)
        return outputs

    def text(self, call):
        """The call as Python text."""
        if call.text is not None:
            return call.text()
        args = [text_of(x) for x in call.args]
        args += [f"{name}={text_of(x)}" for name, x in call.kwargs.items()]
        return f"mx.{call.function}({', '.join(args)})"

    def json(self, value):
        """An argument as JSON."""
        if isinstance(value, Input):
            return {"array": self.array(value.base), "view": [list(s) for s in value.steps]}
        if isinstance(value, DtypeName):
            return {"dtype": str(value)}
        if isinstance(value, Slice):
            return {"slice": list(value.parts)}
        if isinstance(value, Value):
            return {"value": value.place}
        if value is Ellipsis:
            return {"ellipsis": True}
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": str(value)}
        return value


def result(value):
    """A result as an evaluated array; numbers and dtypes become arrays too."""
    if isinstance(value, mx.Dtype):
        value = mx.zeros([0], dtype=value)
    array = value if isinstance(value, mx.array) else mx.array(value)
    mx.eval(array)
    return array


def referenced(call, own):
    """What numpy gives in float64, as float64 arrays (complex64 stays)."""
    args = transform(call.args, as_numpy)
    kwargs = transform(call.kwargs, as_numpy)
    with np.errstate(all="ignore"):
        out = call.reference(*args, **kwargs)
    out = out if isinstance(out, (list, tuple)) else [out]
    return [exact(want, mine) for want, mine in zip(out, own)]


def exact(want, mine):
    """A numpy result as an array: float64 for reals, the call's own dtype for the others."""
    want = np.broadcast_to(np.asarray(want), mine.shape)
    if name_of(mine.dtype) == "complex64":
        return mx.array(want.astype(np.complex64))
    if "float" in name_of(mine.dtype):
        return mx.array(want.astype(np.float64), dtype=mx.float64)
    return mx.array(want).astype(mine.dtype)


def errors_of(call, count):
    """What elements may be off, per output."""
    if call.error is None:
        return [None] * count
    args = transform(call.args, as_numpy)
    kwargs = transform(call.kwargs, as_numpy)
    with np.errstate(all="ignore"):
        errors = call.error(*args, **kwargs)
    # The part of a complex number beside an infinity or NaN may be anything.
    wide = np.nan_to_num(np.asarray(errors, dtype=np.float64), nan=np.inf, posinf=np.inf)
    return [mx.array(wide, dtype=mx.float64)] * count
