"""What a call costs from Python, ours beside upstream's binding, in processes that take turns.

Run by `cargo xtask bench python`; `--json` prints one object. Everything runs on the CPU, where upstream's
binding runs, too, and nothing is evaluated but what the row says: graphs are built.
"""

import json
import os
import subprocess
import sys
import timeit

# Name and statement of each row; `setup` says what the names are.
CALLS = {
    "a + b": "a + b",
    "mx.add(a, b)": "add(a, b)",
    "abs(a)": "abs(a)",
    "mx.abs(a)": "mx_abs(a)",
    "a + 1.0": "a + 1.0",
    "a[0]": "a[0]",
    "a[:4]": "a[:4]",
    "a[2:4, ::2]": "a[2:4, ::2]",
    "a.reshape(-1)": "a.reshape(-1)",
    "a.astype(mx.float16)": "a.astype(half)",
    "a.sum()": "a.sum()",
    "a @ b": "a @ b",
    "mx.where(t, a, b)": "where(t, a, b)",
    "mx.array(1.0)": "array(1.0)",
    "mx.array([1.0, 2.0, 3.0])": "array([1.0, 2.0, 3.0])",
    "mx.array(numpy)": "array(n)",
    "numpy.array(a)": "to_numpy(a)",
    "a.shape": "a.shape",
    "a.item()": "one.item()",
    "mx.fast.rms_norm": "rms_norm(a, v, 1e-5)",
    "compiled(a, b)": "compiled(a, b)",
    "mx.grad(f)(a)": "gradient(a)",
    "mx.vmap(f)(a)": "mapped(a)",
    "(a + b) and mx.eval": "evaluate(a + b)",
}

# Processes of each binding, repetitions in each, and seconds that one takes.
ROUNDS, REPETITIONS, SECONDS = 3, 5, 0.02


def names():
    """What the statements use."""
    import mlx.core as mx
    import numpy as np

    mx.set_default_device(mx.cpu)
    a = mx.arange(16, dtype=mx.float32).reshape(4, 4)
    b, t, v, one = a / 16, a > 4, mx.ones(4), mx.array(1.0)
    mx.eval(a, b, t, v, one)
    return {
        "a": a,
        "b": b,
        "t": t,
        "v": v,
        "one": one,
        "n": np.arange(16, dtype=np.float32),
        "half": mx.float16,
        "add": mx.add,
        "mx_abs": mx.abs,
        "where": mx.where,
        "array": mx.array,
        "to_numpy": np.array,
        "rms_norm": mx.fast.rms_norm,
        "evaluate": mx.eval,
        "compiled": mx.compile(lambda a, b: mx.exp(a * b) + a),
        "gradient": mx.grad(lambda a: (a * a).sum()),
        "mapped": mx.vmap(lambda a: a * 2 + 1),
    }


def measure():
    """Microseconds of each call in this process: the quickest repetition."""
    known, times = names(), {}
    for name, statement in CALLS.items():
        timer = timeit.Timer(statement, globals=known)
        count, seconds = timer.autorange()
        count = max(1, int(count * SECONDS / seconds))
        times[name] = min(timer.repeat(REPETITIONS, count)) / count * 1e6
    return times


def in_turns():
    """The quickest of all processes, for ours and for upstream's binding."""
    best = ({}, {})
    for turn in range(2 * ROUNDS):
        environment = dict(os.environ, MLX_VULKAN_UPSTREAM=str(turn % 2))
        command = [sys.executable, __file__, "--one"]
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
        for name, time in json.loads(said.stdout).items():
            best[turn % 2][name] = min(time, best[turn % 2].get(name, time))
    return best


def main(arguments):
    if "--one" in arguments:
        return print(json.dumps(measure()))
    ours, upstream = in_turns()
    if "--json" in arguments:
        return print(json.dumps({"microseconds": {"ours": ours, "upstream": upstream}}))
    print(f"{'µs a call':<28}{'ours':>8}{'upstream':>10}")
    for name, time in ours.items():
        print(f"{name:<28}{time:>8.2f}{upstream[name]:>10.2f}{'' if time <= upstream[name] else '  slower'}")


main(sys.argv[1:])
