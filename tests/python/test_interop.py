"""Arrays of other libraries: the buffer protocol, numpy's own protocol, DLPack."""

import ml_dtypes
import mlx.core as mx
import numpy as np
import pytest

PAIRS = [
    (mx.bool_, np.bool_), (mx.uint8, np.uint8), (mx.uint16, np.uint16), (mx.uint32, np.uint32),
    (mx.uint64, np.uint64), (mx.int8, np.int8), (mx.int16, np.int16), (mx.int32, np.int32),
    (mx.int64, np.int64), (mx.float16, np.float16), (mx.float32, np.float32), (mx.complex64, np.complex64),
]


@pytest.mark.parametrize("ours, theirs", PAIRS, ids=lambda d: str(d))
def test_numpy_both_ways(ours, theirs):
    x = np.array([[0, 1, 1], [1, 0, 1]], dtype=theirs)
    a = mx.array(x)
    assert a.dtype == ours
    for back in (np.array(a), np.asarray(a), np.from_dlpack(a), np.array(memoryview(a))):
        assert back.dtype == theirs
        np.testing.assert_array_equal(back, x)


def test_wide_floats_become_narrow():
    assert mx.array(np.array([1.5])).dtype == mx.float32
    assert mx.array(np.array([1.5j])).dtype == mx.complex64
    assert mx.array(np.array([1.5]), dtype=mx.float16).dtype == mx.float16


def test_bfloat16_of_ml_dtypes():
    x = np.array([1.5, -2.0], dtype=ml_dtypes.bfloat16)
    a = mx.array(x)
    assert a.dtype == mx.bfloat16 and a.tolist() == [1.5, -2.0]
    # numpy by itself has no such type.
    with pytest.raises(ValueError, match="bfloat16"):
        np.array(a)


@pytest.mark.parametrize("make", [
    lambda x: x.T,
    lambda x: x[::2],
    lambda x: x[:, ::-1],
    lambda x: np.broadcast_to(x[0], (3, 4)),
    lambda x: x[:0],
])
def test_layouts_of_numpy(make):
    x = make(np.arange(12, dtype=np.float32).reshape(3, 4))
    np.testing.assert_array_equal(np.array(mx.array(x)), x)


@pytest.mark.parametrize("make", [
    lambda a: a.T,
    lambda a: a[::2],
    lambda a: a[:, ::-1],
    lambda a: mx.broadcast_to(a[0], (3, 4)),
    lambda a: a[:0],
])
def test_layouts_of_ours(make):
    a = make(mx.arange(12).reshape(3, 4))
    np.testing.assert_array_equal(np.array(a), np.array(a.tolist()).reshape(a.shape))


def test_a_view_shares_memory_and_keeps_it_alive():
    a = mx.array([1.0, 2.0, 3.0])
    view = np.asarray(a)
    view[1] = 7
    assert (a + 0).tolist() == [1.0, 7.0, 3.0]
    del a
    assert view.tolist() == [1.0, 7.0, 3.0]


def test_numpy_operands_and_scalars():
    a = mx.array([1.0, 2.0], dtype=mx.float16)
    b = a + np.array([1, 2])
    assert b.dtype == mx.float16 and b.tolist() == [2.0, 4.0]
    assert (a * np.float32(2)).tolist() == [2.0, 4.0]


def test_objects_that_say_how_to_become_an_array():
    class Box:
        def __mlx_array__(self):
            return mx.array([1, 2])

    assert (mx.array([1, 1]) + Box()).tolist() == [2, 3]
    assert mx.array(Box()).tolist() == [1, 2]
