"""Draws calls of upstream's functions and writes down what they give.

    python generate.py --out DIR [--family F] [--seeds N] [--first S]

For each family the folder DIR/F has `calls.jsonl`, a call a line, and `arrays.safetensors`. A call depends on
nothing but its family, seed and number, so that one seed can be had again by itself.

Some calls end upstream's process or never come back. Each family therefore has a process of its own, and the
call in which one ended is named.
"""

import argparse
import concurrent.futures
import faulthandler
import importlib
import json
import os
import subprocess
import sys

import mlx.core as mx

from draw import Draw
from record import Writer
from scope import FAMILIES, OUT_OF_SCOPE, functions

# Seconds that a single call may take; all of them are small.
PATIENCE = 20


def main():
    options = parse()
    mx.set_default_device(mx.cpu)
    if options.family is not None:
        generate(options.family, options)
        return
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        survived = list(pool.map(lambda family: by_itself(family, options), FAMILIES))
    with open(os.path.join(options.out, "uncovered.json"), "w") as file:
        json.dump(uncovered(options.out), file)
    sys.exit(0 if all(survived) else 1)


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--family", choices=FAMILIES)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    return parser.parse_args()


def by_itself(family, options):
    """Generates a family in another process; says in which call that ended, if it did not survive."""
    command = [sys.executable, "-B", __file__, "--out", options.out, "--family", family]
    command += ["--seeds", str(options.seeds), "--first", str(options.first)]
    child = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if child.returncode == 0:
        return True
    with open(os.path.join(options.out, family, "running")) as file:
        print(f"{family}: upstream did not survive\n{file.read()}\n{child.stderr}", file=sys.stderr)
    return False


def generate(family, options):
    """Writes the calls of a family."""
    module = importlib.import_module(f"families.{family}")
    writer = Writer(os.path.join(options.out, family))
    for seed in range(options.first, options.first + options.seeds):
        for number, call in enumerate(module.calls(Draw(family, seed))):
            faulthandler.dump_traceback_later(PATIENCE, exit=True)
            writer.write(family, seed, number, call)
    faulthandler.cancel_dump_traceback_later()
    writer.close()


def uncovered(folder):
    """Functions that no family has drawn."""
    drawn = set()
    for family in FAMILIES:
        with open(os.path.join(folder, family, "calls.jsonl")) as file:
            drawn |= {json.loads(line)["function"] for line in file}
    return sorted(functions() - drawn - set(OUT_OF_SCOPE))


if __name__ == "__main__":
    main()
