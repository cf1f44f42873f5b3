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


@pytest.mark.parametrize("dtype", ["i2", "u4", "i8", "f2", "f4", "c8"])
@pytest.mark.parametrize("order", "CF")
def test_big_endian_numbers(dtype, order):
    numbers = np.array([[1, 2, 300], [4, 5, 6]], ">" + dtype, order=order)
    for save, kind in ((np.save, "npy"), (lambda file, a: np.savez(file, a=a), "npz")):
        file = io.BytesIO()
        save(file, numbers)
        file.seek(0)
        loaded = mx.load(file, format=kind)
        loaded = loaded if kind == "npy" else loaded["a"]
        np.testing.assert_array_equal(np.array(loaded), numbers)
        assert np.array(loaded).dtype == np.dtype(dtype)


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


def test_what_is_loaded_takes_memory_when_it_is_evaluated(tmp_path):
    path, n = str(tmp_path / "a.npy"), 1 << 16
    mx.save(path, mx.arange(n, dtype=mx.float32))
    with mx.stream(mx.cpu):
        before = mx.get_active_memory()
        a = mx.load(path)
        assert mx.get_active_memory() == before
        mx.eval(a)
        assert mx.get_active_memory() == before + a.nbytes
        mx.reset_peak_memory()
        del a
        doubled = mx.load(path) * mx.array(2.0)
        mx.eval(doubled)
        assert mx.get_peak_memory() < before + 1.5 * doubled.nbytes
        assert doubled[-1].item() == 2 * (n - 1)
        # What was written over its mapping is not in the file.
        assert mx.load(path)[-1].item() == n - 1


def test_compiled_functions_keep_what_was_loaded(tmp_path):
    path = str(tmp_path / "a.npy")
    mx.save(path, mx.arange(4))
    a = mx.load(path)
    add = mx.compile(lambda x: x + a)
    assert add(mx.ones(4, mx.int32)).tolist() == [1, 2, 3, 4]
    assert add(a).tolist() == [0, 2, 4, 6]
    mapped = mx.vmap(lambda x: x * a)(mx.ones((2, 4), mx.int32))
    assert mapped.tolist() == [[0, 1, 2, 3]] * 2


def test_an_exporter_is_not_closed_by_what_it_exports(tmp_path):
    def function(x):
        with pytest.raises(RuntimeError, match="tracing"):
            exporter.close()
        return x + 1

    exporter = mx.exporter(str(tmp_path / "function.mlxfn"), function)
    exporter(mx.array(1))
    exporter.close()
    (result,) = mx.import_function(str(tmp_path / "function.mlxfn"))(mx.array(1))
    assert result.item() == 2
