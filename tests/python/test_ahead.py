"""Parts of a graph are evaluated while the rest of it is built, where the same graph came before."""

import mlx.core as mx

# Kernels of chains are there at once: until they are, bits are others.
LINKED = {"MLX_VK_PROGRAM_SIGHTINGS": "0"}
WHOLE = {**LINKED, "MLX_DISABLE_EARLY_EVALUATIONS": "1"}

NETWORK = """
    import mlx.nn as nn

    mx.random.seed(3)

    class Block(nn.Module):
        def __init__(self):
            self.norm, self.up, self.down = nn.RMSNorm(64), nn.Linear(64, 64), nn.Linear(64, 64)

        def __call__(self, x):
            return x + self.down(nn.silu(self.up(self.norm(x))))

    blocks = [Block() for _ in range(72)]
    for block in blocks:
        nn.quantize(block)
    mx.eval([block.parameters() for block in blocks])
    x = mx.random.normal((1, 64))
    # What the block calls is compiled first.
    mx.eval(x, blocks[0](x))
"""


def test_results_are_the_same_where_parts_are_evaluated_early(device, in_child):
    program = f"""{NETWORK}
    for _ in range(10):
        ends, before = [x], mx.get_active_memory()
        for block in blocks:
            ends.append(block(ends[-1]))
        print(mx.get_active_memory() > before, end=" ")
        mx.eval(ends)
        x = ends[-1]
        del ends
    print(bytes(x).hex())
    """
    *begun, result = in_child(program, **LINKED).split()
    assert ("True" in begun) == (device == mx.gpu), begun
    *begun, whole = in_child(program, **WHOLE).split()
    assert begun == 10 * ["False"]
    assert result == whole


def test_a_program_that_stops_in_the_middle_goes_on_as_ever(in_child):
    program = f"""{NETWORK}
    def run(x, blocks):
        for block in blocks:
            x = block(x)
        return x

    for _ in range(4):
        mx.eval(run(x, blocks))
    for stop in (20, 30, 71):
        try:
            y = run(x, blocks[:stop] + [None])
        except TypeError:
            y = run(x, blocks[:stop])
        print(bytes(y).hex())
    """
    assert in_child(program, **LINKED) == in_child(program, **WHOLE)


def test_memory_that_a_program_writes_to_is_read_when_it_evaluates(in_child):
    program = f"""{NETWORK}
    import numpy as np

    shown = np.array(x, copy=False)
    for value in range(6):
        y = x
        for block in blocks:
            y = block(y)
        mx.get_active_memory()
        shown[:] = value
        print(bytes(y).hex())
    """
    assert in_child(program, **LINKED) == in_child(program, **WHOLE)
