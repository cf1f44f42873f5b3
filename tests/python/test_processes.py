"""Interrupts, exits in the middle of work, forks, and cycles of references."""

import gc
import subprocess
import sys
import textwrap
import weakref

import mlx.core as mx


def test_ctrl_c_ends_a_long_evaluation(in_child):
    printed = in_child("""
        import os, signal, threading

        x = y = mx.eye(64)
        for _ in range(200_000):
            y = y @ x
        try:
            threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            mx.eval(y)
            print("came to its end")
        except KeyboardInterrupt:
            print("interrupted", (mx.ones(3) * 2).tolist())
    """)
    assert printed == "interrupted [2.0, 2.0, 2.0]\n"


def test_a_process_may_end_in_the_middle_of_work(in_child):
    printed = in_child("""
        x = mx.random.normal((256, 256))
        for _ in range(50):
            x = x @ x
        mx.async_eval(x)
        print("leaving")
    """)
    assert printed == "leaving\n"


def test_threads_may_still_work_when_a_process_ends(in_child):
    printed = in_child("""
        import threading

        started = threading.Event()

        def work():
            stream = mx.new_stream(mx.default_device())
            with mx.stream(stream):
                while True:
                    mx.eval(mx.ones((64, 64)) @ mx.ones((64, 64)))
                    started.set()

        threading.Thread(target=work, daemon=True).start()
        started.wait()
        print("leaving")
    """)
    assert printed == "leaving\n"


def test_a_forked_process_has_its_own_numbers(in_child):
    # Devices and threads do not survive a fork; what a child may do is end, and use what is no array.
    printed = in_child("""
        import os

        x = (mx.ones(4) * 2).sum()
        before = x.item()
        child = os.fork()
        if child == 0:
            os._exit(int(before))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), (x + 1).item())
    """)
    assert printed == "8 9.0\n"


def test_cycles_of_functions_and_arrays_are_collected():
    class Model:
        pass

    model = Model()
    model.weight = mx.ones((4, 4))
    model.loss = mx.grad(lambda w: (model.weight * w).sum())
    model.compiled = mx.compile(lambda x: x @ model.weight)
    mx.eval(model.loss(mx.ones((4, 4))), model.compiled(mx.ones((4, 4))))
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_memory_comes_back():
    mx.clear_cache()
    before = mx.get_active_memory()
    arrays = [mx.random.normal((256, 256)) for _ in range(8)]
    mx.eval(arrays)
    assert mx.get_active_memory() >= before + 8 * 256 * 256 * 4
    del arrays
    mx.synchronize()
    assert mx.get_active_memory() <= before + 256 * 256 * 4


def test_the_module_is_imported_once_more(in_child):
    printed = in_child("""
        import sys

        for name in [name for name in sys.modules if name.split(".")[0] == "mlx"]:
            del sys.modules[name]
        import mlx.core as again

        print((again.ones(2) + 1).tolist(), again.quantized_matmul.__name__)
    """)
    assert printed == "[2.0, 2.0] quantized_matmul\n"


def test_functions_at_the_end_wait_for_threads_that_evaluate(device):
    # They are called after ours if they were there before it.
    program = """
        import atexit, sys, threading

        def work():
            leaving.wait()
            for _ in range(100):
                (mx.ones(100) + 1).sum().item()
            print("done")

        def wait():
            leaving.set()
            thread.join()
            print((mx.ones(2) + 1).tolist())

        atexit.register(wait)
        import mlx.core as mx
        mx.set_default_device(getattr(mx, sys.argv[1]))
        leaving = threading.Event()
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
    """
    kind = "cpu" if device == mx.cpu else "gpu"
    command = [sys.executable, "-c", textwrap.dedent(program), kind]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "done\n[2.0, 2.0]\n"
