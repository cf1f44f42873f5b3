"""Gradients, mapping and compiling, as Python sees them: trees, state, exceptions, the garbage collector."""

import gc
import weakref
from functools import partial

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import pytest


def test_gradients_have_the_structure_of_their_argument():
    def loss(params, scale, *, bias):
        return (params["layers"][0] * scale).sum() + params["layers"][1] * bias

    params = {"layers": [mx.ones((2, 2)), mx.array(3.0)]}
    value, grads = mx.value_and_grad(loss)(params, 2.0, bias=mx.array(5.0))
    assert value.item() == 23
    assert grads["layers"][0].tolist() == [[2, 2], [2, 2]] and grads["layers"][1].item() == 5
    _, by_name = mx.value_and_grad(loss, argnames="bias")(params, 2.0, bias=mx.array(5.0))
    assert by_name[1]["bias"].item() == 3


def test_exceptions_come_through():
    class Own(Exception):
        pass

    def fails(x):
        raise Own("inside")

    for transform in (mx.grad, mx.compile, mx.vmap, mx.checkpoint):
        with pytest.raises(Own, match="inside"):
            transform(fails)(mx.ones(3))
    assert mx.compile(lambda x: x + 1)(mx.array(1.0)).item() == 2


def test_compiled_functions_read_and_write_state():
    state = {"n": mx.array(0), "key": mx.random.state}
    calls = []

    @partial(mx.compile, inputs=state, outputs=state)
    def step(x):
        calls.append(x)
        state["n"] = state["n"] + 1
        return x + mx.random.uniform()

    mx.random.seed(3)
    first = [step(mx.array(0.0)).item() for _ in range(3)]
    assert state["n"].item() == 3 and len(calls) == 1
    assert len(set(first)) == 3
    mx.random.seed(3)
    assert [step(mx.array(0.0)).item() for _ in range(3)] == first


def test_custom_functions():
    @mx.custom_function
    def clipped(x):
        return mx.minimum(x, 1.0)

    @clipped.vjp
    def through(primals, cotangent, output):
        return cotangent * 7

    assert mx.grad(clipped)(mx.array(5.0)).item() == 7


def test_models_learn():
    mx.random.seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = optim.AdamW(learning_rate=1e-2)
    x = mx.random.normal((64, 4))
    y = x.sum(axis=1, keepdims=True)
    state = [model.state, optimizer.state]

    @partial(mx.compile, inputs=state, outputs=state)
    def step(x, y):
        loss, grads = nn.value_and_grad(model, lambda m, x, y: nn.losses.mse_loss(m(x), y))(model, x, y)
        optimizer.update(model, grads)
        return loss

    losses = [step(x, y).item() for _ in range(60)]
    assert losses[-1] < losses[0] / 10


def test_cycles_are_collected():
    class Model:
        def __init__(self):
            self.weight = mx.zeros((1000,))
            self.step = mx.compile(lambda x: x * self.weight)

    model = Model()
    mx.eval(model.step(mx.ones((1000,))))
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
