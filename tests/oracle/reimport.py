"""Calls upstream what the library wrote into files.

    python reimport.py DIR

Each file is a call of a family as a function of its arrays, by their names. What it gives upstream is held
against what the call gave: a file with another operation, axis or size is far off, so that the tolerances are
wide enough for upstream's own rounding.
"""

import json
import os
import sys

import mlx.core as mx
import numpy as np

from draw import name_of
from safetensors import load

# How far a value may be off, as a part of the largest one.
SLACK = {"float16": 0.02, "bfloat16": 0.1}
OTHER = 2e-3


def main():
    mx.set_default_device(mx.cpu)
    folder = sys.argv[1]
    equal, failed = 0, 0
    for family in sorted(os.listdir(folder)):
        path = os.path.join(folder, family)
        if not os.path.isfile(os.path.join(path, "calls.jsonl")):
            continue
        arrays = load(os.path.join(path, "arrays.safetensors"))
        with open(os.path.join(path, "calls.jsonl")) as lines:
            for number, line in enumerate(lines):
                file = os.path.join(path, f"{number}.mlxfn")
                if os.path.exists(file):
                    what = check(file, json.loads(line), arrays)
                    if what is None:
                        equal += 1
                    else:
                        failed += 1
                        print(f"{file}: {what}\n    {line[:300]}")
    print(f"written here and called upstream: {equal} equal, {failed} different")
    sys.exit(1 if failed else 0)


def check(file, call, arrays):
    """What is wrong, if something is. A file's own bytes are no argument of its function."""
    known = call["function"] == "import_function"
    names = set(inputs([call["args"][known:], call["kwargs"]]))
    try:
        got = mx.import_function(file)((), {name: arrays[name] for name in names})
        mx.eval(got)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    wants = call["outputs"]
    if len(got) != len(wants):
        return f"{len(got)} results, not {len(wants)}"
    for mine, want in zip(got, wants):
        if (name_of(mine.dtype), list(mine.shape)) != (want["dtype"], want["shape"]):
            return f"{mine.dtype} {mine.shape}, not {want['dtype']} {want['shape']}"
        expected = arrays[want.get("own", want["array"])]
        error = arrays[want["error"]] if "error" in want else None
        what = difference(wide(mine), wide(expected), error, SLACK.get(want["dtype"], OTHER))
        if what:
            return what
    return None


def difference(got, want, error, slack):
    """What is wrong, if something is."""
    finite = np.isfinite(want)
    largest = np.max(np.abs(want[finite]), initial=1.0)
    allowed = slack * largest + (0 if error is None else np.array(error))
    with np.errstate(all="ignore"):
        same = (got == want) | (np.isnan(want) & np.isnan(got))
        off = np.where(finite, np.abs(got - want) > allowed, ~same)
    if not np.any(off):
        return None
    place = tuple(int(i) for i in np.argwhere(off)[0])
    return f"{got[place]}, not {want[place]}, at {list(place)}"


def inputs(value):
    """Names of the arrays among the arguments."""
    if isinstance(value, list):
        for item in value:
            yield from inputs(item)
    elif isinstance(value, dict):
        if "array" in value:
            yield value["array"]
        else:
            yield from inputs(list(value.values()))


def wide(array):
    """The numbers in numpy's widest dtype."""
    if name_of(array.dtype) == "complex64":
        return np.array(array).astype(np.complex128)
    return np.array(array.astype(mx.float64))


if __name__ == "__main__":
    main()
