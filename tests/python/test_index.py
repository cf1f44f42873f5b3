"""Reading and writing at an index, against numpy."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

SHAPE = (3, 4, 5)


def parts(size):
    """Indices of an axis."""
    bound = st.none() | st.integers(-size - 1, size + 1)
    return st.one_of(
        st.integers(-size, size - 1),
        st.builds(slice, bound, bound, st.sampled_from([None, 1, 2, -1, -2])),
    )


@st.composite
def indices(draw):
    """An index of an array of SHAPE: integers, slices, an ellipsis and new axes."""
    taken = draw(st.integers(0, len(SHAPE)))
    index = [draw(parts(size)) for size in SHAPE[:taken]]
    if draw(st.booleans()):
        index.append(Ellipsis)
    for _ in range(draw(st.integers(0, 2))):
        index.insert(draw(st.integers(0, len(index))), None)
    return tuple(index)


@settings(max_examples=150, deadline=None)
@given(indices())
def test_slices_are_those_of_numpy(index):
    x = np.arange(60).reshape(SHAPE)
    found = mx.array(x)[index]
    assert found.shape == x[index].shape
    np.testing.assert_array_equal(np.array(found), x[index])


@settings(max_examples=100, deadline=None)
@given(indices(), st.integers(-5, 5))
def test_assigning_is_that_of_numpy(index, value):
    x = np.arange(60).reshape(SHAPE)
    a = mx.array(x)
    a[index] = value
    x[index] = value
    np.testing.assert_array_equal(np.array(a), x)


@pytest.mark.parametrize("index", [
    ([0, 2],), ([[0, 1], [2, 0]],), (slice(None), [1, 3]), ([0, 1], [1, 2]), ([0, 1], slice(None), [1, 2]),
    (Ellipsis, [0, -1]), (1, [0, 3]), (None, [1, 1]),
])
def test_lists_gather(index):
    x = np.arange(60).reshape(SHAPE)
    np.testing.assert_array_equal(np.array(mx.array(x)[index]), x[index])
    a = mx.array(x)
    a[index] = 0
    x[index] = 0
    np.testing.assert_array_equal(np.array(a), x)


def test_a_mask_chooses_what_is_assigned():
    a = mx.array([1, 2, 3])
    a[a > 1] = 0
    assert a.tolist() == [1, 0, 0]


def test_updates_all_count():
    a = mx.zeros((3,))
    where = mx.array([0, 1, 0])
    assert a.at[where].add(1).tolist() == [2, 1, 0]
    assert a.at[where].subtract(1).tolist() == [-2, -1, 0]
    assert (a + 1).at[where].multiply(3).tolist() == [9, 3, 1]
    assert a.at[where].maximum(mx.array([1.0, 2.0, 3.0])).tolist() == [3, 2, 0]
    with pytest.raises(ValueError, match="Must give indices"):
        a.at.add(1)


class Two:
    def __index__(self):
        return 2


@pytest.mark.parametrize("bound", [Two(), np.int64(2), mx.array(2), True, -5, -1, None])
@pytest.mark.parametrize("step", [None, 1, -1, 2, Two()])
def test_bounds_of_slices_are_all_integers(bound, step):
    x = np.arange(5)
    plain = bound.item() if isinstance(bound, mx.array) else bound
    for index, same in ((slice(bound, None, step), slice(plain, None, step)),
                        (slice(None, bound, step), slice(None, plain, step))):
        assert mx.array(x)[index].tolist() == x[same].tolist()


def test_bad_indices_say_so():
    a = mx.zeros((2, 3))
    for index in (5, -3):
        with pytest.raises(IndexError):
            a[index]
    for index in ((0, 0, 0), "a", 1.5, (..., ...)):
        with pytest.raises(ValueError):
            a[index]
    wide = (2**40, -(2**40), 2**63 - 2, -(2**63) + 2)
    slices = [part for at in wide for part in (slice(at, None), slice(None, at), slice(None, None, at))]
    for index in slices:
        with pytest.raises(ValueError, match="32-bit"):
            a[index]
    with pytest.raises(ValueError, match="must be integers or None"):
        a[1.0:]
    with pytest.raises(ValueError, match="must not be zero"):
        a[::0]


def test_masks_of_numpy_choose_what_is_assigned():
    for mask, expected in [
        (np.True_, [7, 7, 7]), (np.False_, [1, 2, 3]), (np.array([True, False, True]), [7, 2, 7]),
    ]:
        a = mx.array([1, 2, 3])
        a[mask] = 7
        assert a.tolist() == expected
        with pytest.raises(ValueError):
            a[mask]
