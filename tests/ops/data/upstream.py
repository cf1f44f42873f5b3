"""Makes index.json and draws.json: what MLX 0.32.4 answers to `a[...]`, `a[...] = v`, `a.at[...].add(v)` and
to its random functions with a key. Run it with a Python that has mlx 0.32.4: `python upstream.py`."""

import json
import os
import random

import mlx.core as mx

HERE = os.path.dirname(os.path.abspath(__file__))
mx.set_default_device(mx.cpu)


def part(rng, n, used):
    """A part of an index for an axis of n elements, as JSON and as Python has it."""
    kind = rng.choice(["int", "slice", "slice", "whole", "array", "array"])
    if kind == "int":
        i = rng.randrange(n)
        return ["int", i], i
    if kind == "whole":
        return ["slice", None, None, None], slice(None)
    if kind == "slice":
        step = rng.choice([None, 1, 1, 2, -1, -2])
        bounds = sorted(rng.sample(range(n + 1), 2))
        if step is not None and step < 0:
            bounds = [min(bounds[1], n - 1), bounds[0] - 1 if bounds[0] else None]
        start = rng.choice([bounds[0], None])
        return ["slice", start, bounds[1], step], slice(start, bounds[1], step)
    shape = used.setdefault("shape", rng.choice([[3], [2, 2], [2, 1]]))
    own = rng.choice([shape, shape, shape[1:] or shape, []])
    count = 1
    for d in own:
        count *= d
    values = [rng.randrange(-n, n) for _ in range(count)]
    return ["array", own, values], mx.array(values, mx.int32).reshape(own)


def indices(rng, shape):
    """A random index for an array of this shape."""
    used, parts, i = {}, [], 0
    ellipsis = rng.random() < 0.3
    named = rng.randint(0, len(shape))
    split = rng.randint(0, named)
    for k in range(named):
        if ellipsis and k == split:
            parts.append((["ellipsis"], Ellipsis))
            i = len(shape) - (named - k)
        if rng.random() < 0.15:
            parts.append((["new"], None))
        parts.append(part(rng, shape[i], used))
        i += 1
    if ellipsis and split == named:
        parts.append((["ellipsis"], Ellipsis))
    if rng.random() < 0.1:
        parts.append((["new"], None))
    return [p[0] for p in parts], tuple(p[1] for p in parts)


def index_case(rng):
    shape = rng.choice([[4, 3, 5], [4, 3, 5], [3, 4], [6], [2, 3, 2, 4]])
    described, index = indices(rng, shape)
    size = 1
    for d in shape:
        size *= d
    a = mx.arange(size).reshape(shape)
    got = a[index]
    case = {"shape": shape, "index": described, "get": [list(got.shape), got.flatten().tolist()]}
    counted = mx.zeros(shape, mx.int32).at[index].add(1)
    case["add"] = counted.flatten().tolist()
    # Integers between arrays move the arrays' axes when reading, not when writing.
    try:
        value = -1 - mx.arange(got.size).reshape(got.shape)
        c = mx.array(a)
        c[index] = value
        mx.eval(c)
        if max(case["add"], default=0) <= 1:
            case["set"] = c.flatten().tolist()
    except ValueError:
        pass
    return case


def draws():
    cases = []

    def case(name, arguments, result):
        flat = result.flatten()
        if result.dtype == mx.complex64:
            flat = flat.view(mx.float32)
        kind = str(result.dtype).split(".")[-1]
        values = flat.astype(mx.float32).tolist() if mx.issubdtype(flat.dtype, mx.floating) else flat.tolist()
        cases.append(
            {
                "name": name,
                "arguments": arguments,
                "dtype": kind,
                "shape": list(result.shape),
                "values": values,
            }
        )

    for seed in (3, 2**33 + 5):
        key = mx.random.key(seed)
        for low, high, dtype in [
            (0, 10, "int32"),
            (-5, 5, "int8"),
            (0, 10, "uint32"),
            (0, 2, "bool_"),
            (-3, 2000000000, "int32"),
        ]:
            r = mx.random.randint(low, high, (31,), getattr(mx, dtype), key=key)
            case("randint", [seed, low, high], r)
        for p in (0.0, 0.3, 0.999, 1.0):
            case("bernoulli", [seed, p], mx.random.bernoulli(p, (33,), key=key))
        for dtype in ("float32", "float16", "bfloat16"):
            d = getattr(mx, dtype)
            case("normal", [seed, 0.0, 1.0], mx.random.normal((21,), d, key=key))
            case("normal", [seed, 2.0, 0.5], mx.random.normal((3, 5), d, loc=2.0, scale=0.5, key=key))
            case(
                "truncated_normal",
                [seed, -1.0, 2.0],
                mx.random.truncated_normal(-1.0, 2.0, (21,), d, key=key),
            )
            case("laplace", [seed, 0.0, 1.0], mx.random.laplace((21,), d, key=key))
            case("laplace", [seed, 1.0, 2.0], mx.random.laplace((4, 5), d, 1.0, 2.0, key=key))
            case("gumbel", [seed], mx.random.gumbel((21,), d, key=key))
        case("normal", [seed, 0.0, 1.0], mx.random.normal((3, 4), mx.complex64, key=key))
        case("normal", [seed, 1.0, 2.0], mx.random.normal((3, 4), mx.complex64, loc=1.0, scale=2.0, key=key))
        for n in (0, 1, 9, 500):
            case("permutation", [seed, n], mx.random.permutation(n, key=key))
        case(
            "permutation_axis", [seed, 1], mx.random.permutation(mx.arange(15).reshape(3, 5), axis=1, key=key)
        )
        logits = (mx.arange(35) * 7 % 11).astype(mx.float32).reshape(5, 7) / 4
        for axis in (0, 1):
            case("categorical", [seed, axis], mx.random.categorical(logits, axis, key=key))
            case(
                "categorical_samples",
                [seed, axis, 6],
                mx.random.categorical(logits, axis, num_samples=6, key=key),
            )
        case("categorical_shape", [seed, 1, [4, 5]], mx.random.categorical(logits, 1, shape=(4, 5), key=key))
        case("categorical_row", [seed, -1], mx.random.categorical(logits[:1], -1, key=key))
        case(
            "categorical_row_samples",
            [seed, -1, 40],
            mx.random.categorical(logits[0], -1, num_samples=40, key=key),
        )
    return cases


rng = random.Random(11)
index = [index_case(rng) for _ in range(220)]
for name, cases in [("index", index), ("draws", draws())]:
    with open(os.path.join(HERE, name + ".json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
