"""MLX's arrays on any GPU with a Vulkan driver, and on the CPU.

This package stands before upstream's ``mlx.core`` on the import path. Set ``MLX_VULKAN_UPSTREAM=1`` to load
upstream's binding instead, for comparison.
"""

import os as _os
import sys as _sys


def _load_upstream():
    """Makes the binding of upstream's wheel, whose file lies beside this folder, this module's contents."""
    import importlib.machinery
    import importlib.util

    parent = _os.path.dirname(_os.path.dirname(__file__))
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = _os.path.join(parent, "core" + suffix)
        if _os.path.exists(path):
            spec = importlib.util.spec_from_file_location("mlx.core", path)
            module = importlib.util.module_from_spec(spec)
            _sys.modules["mlx.core"] = module
            spec.loader.exec_module(module)
            return
    raise ImportError(f"MLX_VULKAN_UPSTREAM is set, but {parent} has no binding of upstream's")


if _os.environ.get("MLX_VULKAN_UPSTREAM", "0") not in ("", "0"):
    _load_upstream()
else:
    from . import _native
    from mlx.__array_api_info import __array_namespace_info__

    for _name, _value in vars(_native.core).items():
        if not _name.startswith("__"):
            globals()[_name] = _value
    for _name in ("cuda", "distributed", "fast", "fft", "linalg", "metal", "random"):
        _sys.modules["mlx.core." + _name] = globals()[_name]
    __version__ = _native.core.__version__
    del _name, _value
