"""Compiled functions, called twice: with inputs of the same shapes, or of others if they are shapeless."""

from layers import transformed


def calls(draw):
    for _ in range(3):
        yield transformed(draw, ["compile"])
    for _ in range(3):
        yield transformed(draw, ["shapeless"])
    for _ in range(4):
        yield transformed(draw, ["dot", "grad", "compile"], ["vjp", "compile"], ["jvp", "compile"],
                          ["vmap", "compile"], ["checkpoint", "dot", "grad", "compile"],
                          ["dot", "grad", "vmap", "compile"])
