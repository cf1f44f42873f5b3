"""A plugin of pytest for upstream's tests: each starts from the same seed, whichever binding it runs on.

Some compare roundings of whatever is drawn, and fail now and then.
"""

import mlx.core as mx
import numpy as np
import pytest


@pytest.fixture(autouse=True)
def seeded():
    mx.random.seed(0)
    np.random.seed(0)
