"""Runs every test on the device that the variable DEVICE names; upstream's suite knows the same one."""

import os

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
