"""Which functions there are, which families draw them, and which are no matter for this oracle."""

import mlx.core as mx

FAMILIES = [
    "unary",
    "binary",
    "select",
    "reduce",
    "scan",
    "sort",
    "indexing",
    "shape",
    "arrange",
    "creation",
    "dtypes",
    "random",
    "matmul",
    "gathered",
    "products",
    "convolution",
    "fft",
    "linalg",
    "softmax",
    "fast",
    "quantized",
    "grad",
    "vjp",
    "jvp",
    "vmap",
    "compile",
    "checkpoint",
    "export",
]

# Functions of functions, files, streams, devices and memory: there are no values to compare.
OUT_OF_SCOPE = {
    "async_eval",
    "eval",
    "synchronize",
    "stream",
    "default_device",
    "default_stream",
    "new_stream",
    "new_thread_local_stream",
    "new_thread_unsafe_stream",
    "clear_streams",
    "set_default_device",
    "set_default_stream",
    "device_count",
    "device_info",
    "is_available",
    "disable_compile",
    "enable_compile",
    "custom_function",
    "depends",
    "stop_gradient",
    "export_function",
    "export_to_dot",
    "exporter",
    "from_dlpack",
    "load",
    "save",
    "save_gguf",
    "save_safetensors",
    "savez",
    "savez_compressed",
    "clear_cache",
    "get_active_memory",
    "get_cache_memory",
    "get_memory_limit",
    "get_peak_memory",
    "reset_peak_memory",
    "set_cache_limit",
    "set_memory_limit",
    "set_wired_limit",
    "get_array_buffer_size",
    "get_printoptions",
    "printoptions",
    "set_printoptions",
    "fast.cuda_kernel",
    "fast.metal_kernel",
    "fast.precompiled_cuda_kernel",
    # Makes arrays of what Python's other libraries have.
    "asarray",
    # Not deterministic by itself: it seeds the global state, which the other
    # functions of `random` do not use here.
    "random.seed",
}

MODULES = ["fast", "linalg", "random", "fft"]


def functions():
    """Names of all functions of `mx` and of the modules that compute."""
    names = public(mx, "")
    for module in MODULES:
        names |= public(getattr(mx, module), f"{module}.")
    return names


def public(module, prefix):
    named = ((name, getattr(module, name)) for name in dir(module) if not name.startswith("_"))
    return {prefix + name for name, value in named if callable(value) and not isinstance(value, type)}
