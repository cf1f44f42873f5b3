"""Derivatives of results along tangents of the inputs."""

from layers import transformed


def calls(draw):
    for _ in range(6):
        yield transformed(draw, ["jvp"])
    for _ in range(3):
        yield transformed(draw, ["vjp", "jvp"], ["jvp", "jvp"], ["vmap", "jvp"], ["dot", "grad", "jvp"])
