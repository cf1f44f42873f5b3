"""Arrays of other libraries: the buffer protocol, numpy's own protocol, DLPack."""

import ctypes

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


# What the C API calls the ways to ask for a buffer.
SIMPLE, ND, STRIDES, C_CONTIGUOUS, F_CONTIGUOUS, ANY_CONTIGUOUS = 0x00, 0x08, 0x18, 0x38, 0x58, 0x98


@pytest.mark.parametrize("make, in_rows, in_columns", [
    (lambda a: a, True, False),
    (lambda a: a[1], True, True),
    (lambda a: a.T, False, True),
    (lambda a: a[:, ::2], False, False),
    (lambda a: mx.broadcast_to(a[0, 0], (3, 4)), False, False),
    (lambda a: a[:0], True, True),
])
def test_buffers_are_dense_where_no_strides_are_asked_for(make, in_rows, in_columns):
    array = make(mx.arange(12).reshape(3, 4))
    given = {
        SIMPLE: in_rows, ND: in_rows, STRIDES: True, C_CONTIGUOUS: in_rows, F_CONTIGUOUS: in_columns,
        ANY_CONTIGUOUS: in_rows or in_columns,
    }
    for flags, is_given in given.items():
        view = ctypes.create_string_buffer(256)
        call = ctypes.pythonapi.PyObject_GetBuffer, ctypes.py_object(array), view, flags
        if is_given:
            assert call[0](*call[1:]) == 0
            ctypes.pythonapi.PyBuffer_Release(view)
        else:
            with pytest.raises(BufferError, match="side by side"):
                call[0](*call[1:])
    elements = np.array(array)
    assert bytes(memoryview(array)) == bytes(array) == elements.tobytes()
    if in_rows:
        assert b"".join([array]) == elements.tobytes()
    else:
        with pytest.raises(TypeError):
            b"".join([array])


@pytest.mark.parametrize("dtype", [mx.int32, mx.int64, mx.uint32, mx.float64], ids=str)
@pytest.mark.parametrize("make", [
    lambda x: x,
    lambda x: x.reshape(2, 2).T,
    lambda x: x[::-1],
    lambda x: x[1],
    lambda x: dlpack_alone(x),
])
def test_wide_floats_keep_their_digits(make, dtype):
    x = make(np.array([16777217.0, 3.0, 2.0**24 + 5, 7.0]))
    expected = np.from_dlpack(x) if not isinstance(x, (np.ndarray, float)) else x
    assert mx.array(x, dtype).tolist() == expected.tolist()
    if dtype != mx.float64:
        assert (mx.array(0, dtype) + x).tolist() == expected.tolist()


def dlpack_alone(x):
    """An array that shows itself by DLPack in no other way."""

    class Alone:
        def __dlpack__(self, **options):
            return x[::2].__dlpack__(**options)

        def __dlpack_device__(self):
            return x.__dlpack_device__()

    return Alone()


def test_arrays_of_text_are_nothing_like_arrays():
    a, text = mx.array([1]), np.array(["a"])
    assert (a == text) is False and (a != text) is True
    for call in (lambda: a < text, lambda: a + text, lambda: mx.add(a, text), lambda: a.at[0].add(text)):
        with pytest.raises(ValueError):
            call()


def test_products_of_matrices_are_of_our_arrays_alone():
    for a in (mx.array([1, 2]), mx.array([1.0, 2.0])):
        for other in (np.array([3, 4]), np.array([3.0, 4.0]), [3, 4], 3, None):
            with pytest.raises(TypeError):
                a @ other
            with pytest.raises(TypeError):
                a @= other
