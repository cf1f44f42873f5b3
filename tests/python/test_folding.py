"""What every evaluation computes anew from the same arrays is kept, but follows memory that is shown."""

import mlx.core as mx
import numpy as np


def step(weight, x):
    """What changes is computed in the same evaluation."""
    result = (weight + 1.0) * mx.cumsum(mx.array([x, 0.0, 0.0]))
    mx.eval(result)
    return result.tolist()


def test_writes_through_views_are_seen():
    for first in (0, 8):
        weight = mx.array([1.0, 2.0, 3.0])
        view = np.array(weight, copy=False) if first == 0 else None
        for i in range(16):
            want = ((np.array(weight.tolist()) + 1.0) * float(i)).tolist()
            assert step(weight, float(i)) == want
            if i >= first:
                view = np.array(weight, copy=False) if view is None else view
                view[0] = i


def test_results_of_others_are_their_own():
    weight = mx.array([1.0, 2.0, 3.0])
    for i in range(8):
        step(weight, float(i))
    mine = weight + 1.0
    product = mine * mx.cumsum(mx.array([1.0, 0.0, 0.0]))
    mx.eval(product, mine)
    np.array(mine, copy=False)[0] = 100.0
    assert mine.tolist() == [100.0, 3.0, 4.0]
    assert step(weight, 2.0) == [4.0, 6.0, 8.0]
