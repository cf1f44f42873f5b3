"""Functions of arrays with one more axis."""

from layers import transformed


def calls(draw):
    for _ in range(6):
        yield transformed(draw, ["vmap"])
    yield transformed(draw, ["vmap", "vmap"])
    for _ in range(3):
        yield transformed(draw, ["dot", "grad", "vmap"], ["vjp", "vmap"], ["jvp", "vmap"],
                          ["compile", "vmap"], ["checkpoint", "vmap"])
