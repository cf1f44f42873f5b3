"""Functions whose intermediate values are computed again for derivatives."""

from layers import transformed


def calls(draw):
    yield transformed(draw, ["checkpoint"])
    for _ in range(4):
        yield transformed(draw, ["checkpoint", "vjp"], ["checkpoint", "dot", "grad"], ["checkpoint", "jvp"])
    for _ in range(2):
        yield transformed(draw, ["checkpoint", "vmap", "dot", "grad"], ["compile", "checkpoint", "vjp"],
                          ["checkpoint", "dot", "grad", "dot", "grad"], ["checkpoint", "checkpoint", "vjp"])
