"""The class array: creation, conversion, operators, and what Python asks of any object."""

import bisect
import copy
import gc
import operator
import pathlib
import pickle
import threading
import weakref

import mlx.core as mx
import numpy as np
import pytest

DTYPES = [
    mx.bool_, mx.uint8, mx.uint16, mx.uint32, mx.uint64, mx.int8, mx.int16, mx.int32, mx.int64,
    mx.float16, mx.bfloat16, mx.float32, mx.complex64,
]


def test_kinds_of_numbers_choose_the_dtype():
    assert mx.array(True).dtype == mx.bool_
    assert mx.array(1).dtype == mx.int32
    assert mx.array(2**40).dtype == mx.int64
    assert mx.array(1.5).dtype == mx.float32
    assert mx.array(1j).dtype == mx.complex64
    assert mx.array([True, 2]).dtype == mx.int32
    assert mx.array([1, 2.5]).dtype == mx.float32
    assert mx.array([]).dtype == mx.float32
    assert mx.array([mx.array(1), mx.array(2)]).tolist() == [1, 2]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_elements_come_back(dtype):
    a = mx.array([[0, 1, 1], [1, 0, 1]], dtype=dtype)
    assert a.shape == (2, 3) and a.ndim == 2 and a.size == 6
    assert a.nbytes == 6 * dtype.size
    assert a.tolist() == [[0, 1, 1], [1, 0, 1]]
    assert a[0, 1].item() == 1


def test_wide_integers_keep_their_bits():
    assert mx.array(2**63 - 1).item() == 2**63 - 1
    assert mx.array(2**64 - 1, dtype=mx.uint64).item() == 2**64 - 1
    assert mx.array([2**53 + 1]).tolist() == [2**53 + 1]


def test_ragged_and_foreign_lists_are_refused():
    for bad in ([[1, 2], [3]], [1, [2]], ["a"], object()):
        with pytest.raises(ValueError):
            mx.array(bad)


def test_scalars_follow_the_array_beside_them():
    a = mx.array([1, 2], dtype=mx.float16)
    assert (a + 1).dtype == mx.float16
    assert (2.5 * a).dtype == mx.float16
    b = mx.array([1, 2], dtype=mx.int8)
    assert (b + 1).dtype == mx.int8
    assert (b + 1.0).dtype == mx.float32
    assert (mx.array([True]) + 1).dtype == mx.int32
    with pytest.raises(ValueError, match="overflow"):
        b + 1000


def test_operators_are_those_of_numpy():
    x = np.array([[7.0, -3.0, 2.5]], dtype=np.float32)
    y = np.array([[2.0, 4.0, -1.5]], dtype=np.float32)
    a, b = mx.array(x), mx.array(y)
    for name in ["add", "sub", "mul", "truediv", "floordiv", "mod", "lt", "ge", "eq"]:
        op = getattr(operator, name)
        np.testing.assert_allclose(np.array(op(a, b)), op(x, y), rtol=1e-6)
    np.testing.assert_allclose(np.array(3 - a), 3 - x)
    np.testing.assert_allclose(np.array(2.0 / b), 2.0 / y)
    np.testing.assert_allclose(np.array(abs(a) ** 2), abs(x) ** 2, rtol=1e-6)
    assert np.array(~mx.array([1, 2])).tolist() == [-2, -3]


def test_in_place_operators_keep_the_object():
    a = mx.array([1.0, 2.0])
    same = a
    a += 1
    a *= mx.array([2.0, 3.0])
    a[0] = 7
    assert same is a
    assert same.tolist() == [7.0, 9.0]


def test_objects_that_are_no_arrays():
    a = mx.array([1, 2])
    assert (a == "a") is False
    assert (a != None) is True  # noqa: E711
    with pytest.raises(ValueError, match="Cannot perform addition on an mlx.core.array and str"):
        a + "a"
    with pytest.raises(ValueError, match="mlx.core.array and pathlib.*Path"):
        a + pathlib.Path()
    with pytest.raises(ValueError, match="numpy.datetime64"):
        a + np.datetime64("2020-01-01")
    with pytest.raises(ValueError):
        a & 1.5


def test_truth_numbers_and_text():
    assert bool(mx.array(3)) and not mx.array(0.0)
    assert int(mx.array(2.7)) == 2 and float(mx.array(2)) == 2.0
    assert [10, 20, 30][mx.array(1)] == 20
    with pytest.raises(ValueError):
        bool(mx.array([1, 2]))
    assert repr(mx.array([1, 2])) == "array([1, 2], dtype=int32)"
    assert f"{mx.array(1.25):.1f}" == "1.2"
    with pytest.raises(TypeError):
        f"{mx.array([1.0]):.1f}"


def test_iteration_length_and_hash():
    a = mx.arange(12).reshape(12, 1)
    assert len(a) == 12
    assert [row.item() for row in a] == list(range(12))
    assert [row.shape for row in mx.zeros((3, 2))] == [(2,)] * 3
    with pytest.raises(TypeError):
        len(mx.array(1))
    assert len({a, a, mx.array(1)}) == 2


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_copies_and_pickles(dtype):
    a = mx.array([0, 1, 1], dtype=dtype)
    for b in (copy.copy(a), copy.deepcopy(a), pickle.loads(pickle.dumps(a))):
        assert b.dtype == dtype and b.tolist() == a.tolist()
        b[0] = 1
        assert a.tolist() == [0, 1, 1]
    assert pickle.loads(pickle.dumps(dtype)) == dtype


def test_weak_references_die_with_the_array():
    a = mx.array(1)
    ref = weakref.ref(a)
    assert ref() is a
    del a
    assert ref() is None


def test_subclasses_and_array_namespace():
    class Own(mx.array):
        pass

    assert (Own([1, 2]) + 1).tolist() == [2, 3]
    assert mx.array(1).__array_namespace__() is mx
    info = mx.__array_namespace_info__()
    assert info.default_device() == mx.default_device() and mx.Device(mx.cpu) in info.devices()
    assert info.dtypes(kind="bool") == {"bool": mx.bool_}


def test_threads_compute_at_once():
    results = [None] * 8

    def work(i):
        x = mx.full((64, 64), i)
        for _ in range(20):
            x = x + 1
        results[i] = x.sum().item()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [64 * 64 * (i + 20) for i in range(8)]


def test_integers_that_do_not_fit_are_refused():
    for wide in (2**63, 2**64 - 1, 2**70, -2**63 - 1):
        calls = [
            lambda: mx.array(wide), lambda: mx.array([1, wide]), lambda: mx.array(wide, mx.float32),
            lambda: mx.array([1.5, wide]), lambda: mx.array([wide], mx.int32), lambda: mx.array(5) + wide,
            lambda: mx.array(5.0) == wide, lambda: mx.full((2,), wide), lambda: mx.array([1]).at[0].add(wide),
        ]
        for call in calls:
            with pytest.raises(RuntimeError, match="overflow"):
                call()
        with pytest.raises(TypeError):
            mx.arange(wide)
    # Of lists, also what the dtype has no room for; narrow dtypes are read as int32.
    for value, dtype in [(-1, mx.uint32), (-1, mx.uint64), (2**32, mx.uint32), (2**31, mx.int8)]:
        with pytest.raises(RuntimeError, match="overflow"):
            mx.array([value], dtype)
    assert mx.array([300, -1], mx.uint8).tolist() == [44, 255]
    assert mx.array(2**32 + 5, mx.int32).item() == 5 and mx.array(-1, mx.uint32).item() == 2**32 - 1
    assert mx.array([2**64 - 1], mx.uint64).tolist() == [2**64 - 1]
    # Beside booleans an integer is an int32, and wraps.
    assert (mx.array([True]) == 2**31).tolist() == [False]
    assert (mx.array(True) + 2**31).item() == 1 - 2**31


def test_nothing_is_no_array():
    a = mx.array([1, 2])
    calls = [
        lambda: mx.array(None), lambda: mx.array(), lambda: a + None, lambda: a < None,
        lambda: mx.add(a, None), lambda: a.at[0].add(None), lambda: a.__setitem__(0, None),
    ]
    for call in calls:
        with pytest.raises(TypeError):
            call()


def test_arrays_are_sequences():
    a = mx.array([[1, 2], [3, 4]])
    assert [row.tolist() for row in reversed(a)] == [[3, 4], [1, 2]]
    assert bisect.bisect(mx.array([1, 2, 3]), 2) == 2
    assert operator.getitem(a, -1).tolist() == [3, 4]
    with pytest.raises(TypeError):
        reversed(mx.array(1))


def test_subclasses_are_initialized_as_they_like():
    class Named(mx.array):
        def __init__(self, value, *, name):
            super().__init__(value, mx.float32)
            self.name = name

    named = Named([1, 2], name="a")
    assert named.name == "a" and named.tolist() == [1.0, 2.0] and type(named + 1) is mx.array
    assert type(copy.copy(named)) is mx.array
    assert pickle.loads(pickle.dumps(mx.array([1.5]))).tolist() == [1.5]

    class Plain(mx.array):
        pass

    assert Plain(val=[1, 2], dtype=mx.float32).tolist() == [1.0, 2.0]
    # An array is what it was made of, until something is assigned.
    with pytest.raises(TypeError):
        named.__init__([3], name="b")
    assert named.tolist() == [1.0, 2.0]


def test_a_collection_may_ask_for_the_shape_that_is_asked_for():
    a = mx.zeros((2, 3))
    # New tuples, not ones that were used before, begin collections, up to Python 3.11 at once.
    seen, shapes = [], []

    class Cycle:
        def __init__(self):
            self.itself = self

        def __del__(self):
            seen.append((a.shape, a.dtype, len(a)))

    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(1000):
            Cycle()
            shapes.append(a.shape)
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert len(seen) == 1000 and set(shapes) == {(2, 3)}
