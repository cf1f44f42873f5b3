"""Runs every test on the device that the variable DEVICE names; upstream's suite knows the same one."""

import os
import subprocess
import sys
import textwrap

import mlx.core as mx
import pytest


@pytest.fixture(autouse=True)
def device():
    """The device under test, which is the default one while a test runs."""
    before = mx.default_device()
    wanted = getattr(mx, os.environ.get("DEVICE", "cpu"))
    mx.set_default_device(wanted)
    yield wanted
    mx.set_default_device(before)


@pytest.fixture
def in_child(device):
    """Runs a program on the device in a process of its own, which must end well; what it printed."""

    def run(program):
        kind = "cpu" if device == mx.cpu else "gpu"
        start = f"import mlx.core as mx\nmx.set_default_device(mx.{kind})\n"
        command = [sys.executable, "-c", start + textwrap.dedent(program)]
        ended = subprocess.run(command, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    return run
