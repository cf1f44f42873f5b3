"""Derivatives of results along cotangents."""

from layers import transformed


def calls(draw):
    for _ in range(6):
        yield transformed(draw, ["vjp"])
    for _ in range(3):
        yield transformed(draw, ["jvp", "vjp"], ["vjp", "vjp"], ["vmap", "vjp"], ["compile", "vjp"])
