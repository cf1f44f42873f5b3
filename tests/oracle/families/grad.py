"""Gradients of scalars, and gradients of those; and of what other transforms make."""

from layers import transformed


def calls(draw):
    for _ in range(3):
        yield transformed(draw, ["dot", "grad"])
        yield transformed(draw, ["dot", "value_and_grad"])
    for _ in range(2):
        yield transformed(draw, ["dot", "grad", "dot", "grad"], ["dot", "value_and_grad", "dot", "grad"])
    for _ in range(2):
        yield transformed(draw, ["vmap", "dot", "grad"], ["jvp", "dot", "grad"], ["vjp", "dot", "grad"])
    yield transformed(draw, ["compile", "dot", "grad"], ["checkpoint", "dot", "grad"])
