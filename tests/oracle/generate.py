"""Draws calls of upstream's functions and writes down what they give.

    python generate.py --out DIR [--family F] [--seeds N] [--first S]

For each family the folder DIR/F has `calls.jsonl`, a call a line, and `arrays.safetensors`. A call depends on nothing
but its family, seed and number, so that one seed can be had again by itself.
"""

import argparse
import importlib
import json
import os

import mlx.core as mx

from draw import Draw
from record import Writer
from scope import FAMILIES, OUT_OF_SCOPE, functions


def main():
    options = parse()
    mx.set_default_device(mx.cpu)
    families = FAMILIES if options.family is None else [options.family]
    drawn = set()
    for family in families:
        drawn |= generate(family, options)
    if options.family is None:
        uncovered = sorted(functions() - drawn - set(OUT_OF_SCOPE))
        with open(os.path.join(options.out, "uncovered.json"), "w") as file:
            json.dump(uncovered, file)


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--family", choices=FAMILIES)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    return parser.parse_args()


def generate(family, options):
    """Writes the calls of a family; returns the names of its functions."""
    module = importlib.import_module(f"families.{family}")
    writer = Writer(os.path.join(options.out, family))
    names = set()
    for seed in range(options.first, options.first + options.seeds):
        for number, call in enumerate(module.calls(Draw(family, seed))):
            writer.write(family, seed, number, call)
            names.add(call.function)
    writer.close()
    return names


if __name__ == "__main__":
    main()
