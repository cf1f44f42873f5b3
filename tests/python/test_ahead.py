"""Parts of a graph are evaluated while the rest of it is built, where the same graph came before."""

import mlx.core as mx

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
    for _ in range(5):
        ends, before = [x], mx.get_active_memory()
        for block in blocks:
            ends.append(block(ends[-1]))
        print(mx.get_active_memory() > before, end=" ")
        mx.eval(ends)
        x = ends[-1]
        del ends
    print(bytes(x).hex())
    """
    *begun, result = in_child(program).split()
    assert begun == ["False", "False"] + 3 * [str(device == mx.gpu)]
    *begun, whole = in_child(program, MLX_DISABLE_EARLY_EVALUATIONS="1").split()
    assert begun == 5 * ["False"]
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
    assert in_child(program) == in_child(program, MLX_DISABLE_EARLY_EVALUATIONS="1")
