"""Devices, streams, threads that have their own, and memory functions."""

import copy
import pickle
import threading

import mlx.core as mx
import pytest


def test_devices_compare_with_their_kinds(device):
    assert mx.default_device() == device
    assert mx.Device(mx.cpu, 0) == mx.cpu and mx.Device(mx.cpu) != mx.gpu
    assert mx.cpu == mx.DeviceType.cpu and mx.cpu != mx.gpu
    assert mx.is_available(mx.cpu) and mx.device_count(mx.cpu) == 1
    assert "architecture" in mx.device_info()


def test_a_device_says_how_much_memory_it_has(device):
    info = mx.device_info(device)
    assert 0 < info["max_recommended_working_set_size"] <= info["memory_size"]


def test_processes_work_alone():
    assert not mx.distributed.is_available()
    group = mx.distributed.init()
    assert (group.rank(), group.size()) == (0, 1)
    with pytest.raises(RuntimeError, match="Couldn't initialize any backend"):
        mx.distributed.init(strict=True)
    with pytest.raises(ValueError, match="The only valid values for backend are 'any', 'mpi'"):
        mx.distributed.init(backend="pigeons")


def test_a_context_chooses_where_operations_run():
    before = mx.default_device()
    with mx.stream(mx.cpu):
        assert mx.default_device() == mx.cpu
        own = mx.new_stream(mx.cpu)
        with mx.stream(own):
            assert mx.default_stream(mx.cpu) == own
            assert (mx.ones(3) + 1).tolist() == [2, 2, 2]
    assert mx.default_device() == before
    with pytest.raises(TypeError):
        mx.add(1, 2, stream="cpu")


def test_a_stream_is_its_threads(device):
    stream = mx.new_stream(device)
    raised = []

    def use():
        try:
            mx.eval(mx.add(1, 2, stream=stream))
        except RuntimeError as error:
            raised.append(str(error))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert len(raised) == 1 and "There is no Stream" in raised[0]


def test_a_thread_local_stream_is_everybodys(device):
    stream = mx.new_thread_local_stream(device)
    results = []

    def use():
        with mx.stream(stream):
            results.append((mx.ones(4) * 3).sum().item())

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [12] * 4


def test_memory_is_counted_and_comes_back():
    mx.eval(mx.zeros(1))
    before = mx.get_active_memory()
    a = mx.zeros((1 << 20,)) + 1
    mx.eval(a)
    mx.synchronize()
    assert mx.get_active_memory() >= before + (4 << 20)
    assert mx.get_peak_memory() >= before + (4 << 20)
    del a
    mx.synchronize()
    assert mx.get_active_memory() < before + (4 << 20)
    limit = mx.set_cache_limit(0)
    assert mx.get_cache_memory() == 0
    mx.set_cache_limit(limit)


def test_a_key_that_is_written_is_where_the_generator_goes_on():
    mx.random.seed(3)
    kept = mx.array(mx.random.state[0])
    first = mx.random.uniform(shape=(4,)).tolist()
    mx.random.state[0][:] = kept
    assert mx.random.uniform(shape=(4,)).tolist() == first


def twice(a, stream=None):
    """A call of a kernel that is written for Metal."""
    kernel = mx.fast.metal_kernel(
        "twice", ["a"], ["out"], "out[0] = T(a[0]) * 2;", compile_options={"math_mode": "fast"}
    )
    return kernel(
        inputs=[a],
        output_shapes=[(1,)],
        output_dtypes=[mx.float32],
        grid=(1, 1, 1),
        threadgroup=(1, 1, 1),
        template=[("T", mx.float16)],
        init_value=0.5,
        stream=stream,
    )[0]


@pytest.mark.parametrize("call", [twice, mx.compile(twice)])
def test_a_kernel_from_source_runs_on_a_gpu(call):
    if mx.default_device().type == mx.gpu:
        assert call(mx.ones(1)).item() == 2
    else:
        with pytest.raises(ValueError, match="Only supports the GPU"):
            mx.eval(call(mx.ones(1)))


def test_a_kernel_from_source_is_exported(tmp_path):
    told = []
    mx.export_function(told.append, twice, mx.ones(1))
    arguments = told[-1]["arguments"]
    # Name, program, threads, and then whether the input's shape, strides and number of axes are read.
    assert arguments[0] == "custom_kernel_twice__float16_t_floatc_float"
    assert "const constant float* a [[buffer(0)]]" in arguments[1]
    assert arguments[2:] == [1] * 6 + [[(False,) * 3], True, [], False, 0, 2]
    path = str(tmp_path / "twice.mlxfn")
    mx.export_function(path, twice, mx.ones(1))
    assert mx.import_function(path)
    with pytest.raises(ValueError, match="Only supports the GPU"):
        mx.export_function(path, lambda a: twice(a, mx.cpu), mx.ones(1))


def test_devices_that_are_not_there():
    with pytest.raises(ValueError, match="is not available"):
        mx.new_stream(mx.Device(mx.gpu, 99))
    with pytest.raises(ValueError, match=r"Device\(cpu, 1\) is not available: .* has no number 1"):
        mx.new_stream(mx.Device(mx.cpu, 1))


def test_seeds_have_64_bits():
    for bad in (-1, 2**64, 1.5, None, "1"):
        with pytest.raises(TypeError):
            mx.random.seed(bad)
        with pytest.raises(TypeError):
            mx.random.key(bad)
    assert mx.random.key(2**64 - 1).tolist() == [2**32 - 1, 2**32 - 1]


def test_a_key_is_pickled_as_an_array():
    key = mx.random.state[0]
    for other in (pickle.loads(pickle.dumps(key)), copy.copy(key), copy.deepcopy(key)):
        assert type(other) is mx.array and other.dtype == mx.uint32 and other.tolist() == key.tolist()


def test_other_threads_run_while_streams_are_given_back(in_child):
    printed = in_child("""
        import sys, threading

        def work():
            with mx.stream(mx.new_stream(mx.default_device())):
                y = x = mx.eye(512)
                for _ in range(500):
                    y = y @ x
            mx.async_eval(y)
            begun.set()
            mx.clear_streams()
            done.set()

        begun, done = threading.Event(), threading.Event()
        sys.setswitchinterval(10)
        thread = threading.Thread(target=work)
        thread.start()
        begun.wait()
        print(done.is_set())
        thread.join()
    """)
    assert printed == "False\n"
