"""Calls as users write them, made here and by upstream's own binding in a process of its own."""

import json
import os
import pathlib
import subprocess
import sys

import mlx.core as mx
import numpy as np
import pytest

CALLS = pathlib.Path(__file__).with_name("calls.txt").read_text().splitlines()
CALLS = [call for call in CALLS if call and not call.startswith("#")]

# Evaluates the calls on its input and prints, for each, what came out.
CHILD = """
import json, sys
sys.path.insert(0, sys.argv[1])
from calling import outcome
print(json.dumps([outcome(call) for call in json.load(sys.stdin)]))
"""


@pytest.fixture(scope="session")
def upstream():
    """What upstream returns for each call."""
    here = str(pathlib.Path(__file__).parent)
    environment = dict(os.environ, MLX_VULKAN_UPSTREAM="1", PYTHONDONTWRITEBYTECODE="1")
    command = [sys.executable, "-c", CHILD, here]
    options = {"input": json.dumps(CALLS), "env": environment, "stdout": subprocess.PIPE, "text": True}
    said = subprocess.run(command, check=True, **options)
    return dict(zip(CALLS, json.loads(said.stdout)))


@pytest.mark.parametrize("call", CALLS)
def test_calls_return_what_upstream_returns(call, upstream):
    from calling import outcome

    found, expected = outcome(call), upstream[call]
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected):
        ours, theirs = dict(ours), dict(theirs)
        a, b = ours.pop("value", None), theirs.pop("value", None)
        assert ours == theirs
        if a is None or isinstance(a, str):
            assert a == b
        else:
            np.testing.assert_allclose(np.array(a), np.array(b), rtol=2e-5, atol=2e-6)
