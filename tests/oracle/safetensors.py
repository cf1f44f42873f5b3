"""Writing and reading safetensors: upstream's own functions refuse float64."""

import json

import mlx.core as mx
import numpy as np

from draw import dtype_of, name_of

NAMES = {
    "bool": "BOOL",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
}


def data_of(array):
    """The elements' bytes in row-major order."""
    if name_of(array.dtype) == "bfloat16":  # numpy has no such dtype.
        array = array.view(mx.uint16)
    return np.array(array).tobytes()


def save(path, arrays):
    """Writes arrays by name."""
    header, parts, offset = {}, [], 0
    # Larger elements first, so that each array is aligned for its dtype.
    for name, array in sorted(arrays.items(), key=lambda item: -item[1].dtype.size):
        data = data_of(array)
        header[name] = {"dtype": NAMES[name_of(array.dtype)], "shape": list(array.shape),
                        "data_offsets": [offset, offset + len(data)]}
        parts.append(data)
        offset += len(data)
    text = json.dumps(header)
    text = text.encode() + b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.writelines(parts)


def load(path):
    """Reads arrays by name."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        content = file.read()
    return {name: array_of(content, **fields) for name, fields in header.items()}


def array_of(content, dtype, shape, data_offsets):
    """An array of these bytes."""
    name = next(name for name, known in NAMES.items() if known == dtype)
    stored = {"bool": "bool_", "bfloat16": "uint16"}.get(name, name)
    start, end = data_offsets
    array = np.frombuffer(content[start:end], getattr(np, stored)).reshape(shape)
    if name == "bfloat16":
        return mx.array(array).view(mx.bfloat16)
    return mx.array(array, dtype=dtype_of(name))
