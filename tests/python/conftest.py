"""Runs every test on the device that the variable DEVICE names; upstream's suite knows the same one.

What the validation layers report while a test runs, where they are on, fails it.
"""

import os
import subprocess
import sys
import textwrap

import mlx.core as mx
import pytest

# Kernels from source run on a GPU; that a CPU has none is tried in test_streams.
collect_ignore = [] if os.environ.get("DEVICE") == "gpu" else ["test_metal_kernel.py"]


def expect_valid(printed):
    """Fails if the validation layers told of something; a broken guard is an exception."""
    assert "Vulkan validation error" not in printed, printed


@pytest.fixture(autouse=True)
def device(capfd):
    """The device under test, which is the default one while a test runs."""
    before = mx.default_device()
    wanted = getattr(mx, os.environ.get("DEVICE", "cpu"))
    mx.set_default_device(wanted)
    yield wanted
    mx.set_default_device(before)
    expect_valid(capfd.readouterr().err)


@pytest.fixture
def in_child(device):
    """Runs a program on the device in a process of its own, which must end well, with more variables in its
    environment; what it printed."""

    def run(program, **variables):
        kind = "cpu" if device == mx.cpu else "gpu"
        start = f"import mlx.core as mx\nmx.set_default_device(mx.{kind})\n"
        command = [sys.executable, "-c", start + textwrap.dedent(program)]
        environment = {**os.environ, **variables}
        ended = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert ended.returncode == 0, ended.stderr
        expect_valid(ended.stderr)
        return ended.stdout

    return run
