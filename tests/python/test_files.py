"""Saving and loading: every format, by path and by file object."""

import io

import mlx.core as mx
import numpy as np
import pytest

ARRAYS = {"a": mx.arange(6.0).reshape(2, 3), "b": mx.array([1, 2, 3], dtype=mx.int32)}


def same(found):
    assert sorted(found) == sorted(ARRAYS)
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype and found[name].tolist() == array.tolist()


@pytest.mark.parametrize("save, suffix", [
    (lambda path: mx.savez(path, **ARRAYS), ".npz"),
    (lambda path: mx.savez_compressed(path, **ARRAYS), ".npz"),
    (lambda path: mx.save_safetensors(path, ARRAYS), ".safetensors"),
    (lambda path: mx.save_gguf(path, ARRAYS), ".gguf"),
])
def test_archives_come_back(tmp_path, save, suffix):
    path = str(tmp_path / f"arrays{suffix}")
    save(path)
    same(mx.load(path))


def test_arrays_of_numpy_and_for_numpy(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(4, dtype=np.int16))
    assert mx.load(path).tolist() == [0, 1, 2, 3]
    mx.save(str(path), ARRAYS["a"])
    np.testing.assert_array_equal(np.load(path), np.array(ARRAYS["a"]))


def test_file_objects_and_metadata(tmp_path):
    path = tmp_path / "a.safetensors"
    with open(path, "wb") as file:
        mx.save_safetensors(file, ARRAYS, {"who": "me"})
    with open(path, "rb") as file:
        arrays, metadata = mx.load(file, format="safetensors", return_metadata=True)
        same(arrays)
    assert metadata["who"] == "me"
    buffer = io.BytesIO()
    mx.save(buffer, ARRAYS["b"])
    buffer.seek(0)
    assert mx.load(buffer, format="npy").tolist() == [1, 2, 3]


def test_what_is_no_file_says_so(tmp_path):
    with pytest.raises(RuntimeError):
        mx.load(str(tmp_path / "missing.safetensors"))
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(b"\xff" * 64)
    with pytest.raises(RuntimeError):
        mx.load(str(broken))
