"""Every name that upstream's stubs declare is here, with the same parameters and defaults."""

import ast
import inspect
import pathlib

import mlx.core as mx
import numpy as np
import pytest

STUBS = pathlib.Path(mx.__file__).parent
MODULES = ["", "cuda", "distributed", "fast", "fft", "linalg", "metal", "random"]

# What stubs declare for type checkers alone.
TYPES_ONLY = {"P", "R", "DLPackCompatible", "scalar", "list_or_scalar", "StreamOrDevice", "bool_or_int"}


def stub(module):
    """The declarations of a module's stub."""
    path = STUBS / f"{module}.pyi" if module else STUBS / "__init__.pyi"
    return ast.parse(path.read_text()).body


def namespace(module):
    """The module as it is at run time."""
    return getattr(mx, module) if module else mx


def declared(body):
    """Names and their function declarations: several for overloads."""
    functions = {}
    for node in body:
        if isinstance(node, ast.FunctionDef) and not is_property(node):
            functions.setdefault(node.name, []).append(node)
    return functions


def is_property(node):
    """Whether a declaration is a property's."""
    names = [ast.unparse(decorator) for decorator in node.decorator_list]
    return any(name == "property" or name.endswith(".setter") for name in names)


def parameters(node):
    """Name, kind and default of each parameter of a declaration."""
    args = node.args
    positional = args.posonlyargs + args.args
    defaults = [None] * (len(positional) - len(args.defaults)) + args.defaults
    kinds = ["positional"] * len(args.posonlyargs) + ["any"] * len(args.args)
    found = [(a.arg, kind, text(d)) for a, kind, d in zip(positional, kinds, defaults)]
    if args.vararg:
        found.append((args.vararg.arg, "several", None))
    found += [(a.arg, "keyword", text(d)) for a, d in zip(args.kwonlyargs, args.kw_defaults)]
    if args.kwarg:
        found.append((args.kwarg.arg, "keywords", None))
    return [p for p in found if p[0] != "self"]


def text(default):
    """A default as it is written. Dtypes are shown as None here: Python reads no names from a builtin."""
    if default is None:
        return None
    written = ast.unparse(default).removeprefix("mlx.core.")
    return "None" if isinstance(getattr(mx, written, None), mx.Dtype) else written


KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "positional",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "any",
    inspect.Parameter.VAR_POSITIONAL: "several",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
    inspect.Parameter.VAR_KEYWORD: "keywords",
}


def here(function):
    """The same of a function at run time."""
    found = []
    for p in inspect.signature(function).parameters.values():
        default = None if p.default is p.empty else repr(p.default).removeprefix("mlx.core.")
        found.append((p.name, KINDS[p.kind], default))
    return [p for p in found if p[0] != "self"]


@pytest.mark.parametrize("module", MODULES)
def test_every_name_is_there(module):
    names = set()
    for node in stub(module):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            names.add(node.target.id)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
    public = {name for name in names - TYPES_ONLY if not name.startswith("_")}
    assert sorted(name for name in public if not hasattr(namespace(module), name)) == []


@pytest.mark.parametrize("module", MODULES)
def test_functions_take_the_same_parameters(module):
    different = {}
    for name, nodes in declared(stub(module)).items():
        function = getattr(namespace(module), name, None)
        wanted = [parameters(node) for node in nodes]
        if function is not None and len(wanted) == 1 and here(function) != wanted[0]:
            different[name] = {"here": here(function), "upstream": wanted[0]}
    assert different == {}


def classes():
    """The classes that stubs declare."""
    nodes = [node for node in stub("") if isinstance(node, ast.ClassDef)]
    return [node for node in nodes if node.name not in TYPES_ONLY]


@pytest.mark.parametrize("node", classes(), ids=lambda node: node.name)
def test_classes_have_the_same_members(node):
    cls = getattr(mx, node.name)
    members = {m.name for m in node.body if isinstance(m, ast.FunctionDef)}
    assert sorted(name for name in members if not hasattr(cls, name)) == []


def test_methods_of_arrays_take_the_same_parameters():
    node = next(node for node in classes() if node.name == "array")
    different = {}
    for name, nodes in declared(node.body).items():
        if name.startswith("__") or len(nodes) > 1 or not hasattr(mx.array, name):
            continue
        found = here(getattr(mx.array, name))
        if found != parameters(nodes[0]):
            different[name] = {"here": found, "upstream": parameters(nodes[0])}
    assert different == {}


@pytest.mark.parametrize("module", MODULES)
def test_everything_has_a_docstring(module):
    there = vars(namespace(module)).items()
    public = [(name, value) for name, value in there if callable(value) and not name.startswith("_")]
    bare = [name for name, value in public if not value.__doc__]
    assert bare == []


def range_of(numbers):
    """A range of these numbers, which follow one another."""
    return range(numbers[0], numbers[-1] + 1)


@pytest.mark.parametrize("several", [
    np.array, range_of, list, tuple, mx.array, lambda numbers: [np.int64(n) for n in numbers],
])
def test_integers_may_be_of_any_library(several):
    x = mx.zeros((2, 3, 4))
    axes, two = several([0, 1]), several([1, 2])
    assert mx.sum(x, axis=axes).shape == x.sum(axes).shape == mx.median(x, axes).shape == (4,)
    assert mx.softmax(x, axes).shape == mx.flip(x, axes).shape == mx.roll(x, two, axes).shape == x.shape
    assert mx.linalg.norm(x, axis=axes).shape == (4,)
    assert mx.expand_dims(x, axes).shape == (1, 1, 2, 3, 4)
    assert mx.squeeze(x[None, None], axes).shape == x.shape
    assert mx.fft.fftn(x, two, axes).shape == (1, 2, 4)
    assert mx.reshape(x, several([24])).shape == x.reshape(several([24])).shape == (24,)
    assert x.transpose(several([0, 1, 2])).shape == x.shape
    assert [part.shape for part in mx.split(x, two, 1)] == [(2, 1, 4)] * 3
    assert mx.pad(x, two).shape == (5, 6, 7) and mx.pad(x, [two] * 3).shape == (5, 6, 7)
    assert mx.tile(x, two).shape == (2, 3, 8) and mx.zeros(two).shape == (1, 2)
    assert mx.tensordot(x, x, [axes, axes]).shape == (4, 4)
    image, weight = mx.ones((1, 5, 5, 2)), mx.ones((3, 2, 2, 2))
    assert mx.conv2d(image, weight, two, two).shape == (1, 6, 4, 3)
    assert mx.conv_general(image, weight, 1, [two, axes]).shape == (1, 5, 7, 3)
    assert mx.slice(x, mx.array([0]), several([0]), several([1, 2, 3])).shape == (1, 2, 3)


@pytest.mark.parametrize("one", [np.int32, np.array, mx.array, int], ids=str)
def test_an_integer_may_be_of_any_library(one):
    x = mx.zeros((2, 3, 4))
    assert mx.sum(x, axis=one(1)).shape == (2, 4) and mx.pad(x, one(1)).shape == (4, 5, 6)
    assert mx.tile(x, one(2)).shape == (2, 3, 8) and mx.roll(x, one(1), one(1)).shape == x.shape
    assert mx.tensordot(x, x, one(3)).shape == () and mx.zeros(one(3)).shape == (3,)
    assert len(mx.split(x, one(2))) == 2 and x.reshape(one(24)).shape == (24,)
    assert mx.linspace(one(0), one(4), 3).tolist() == [0.0, 2.0, 4.0]
    assert mx.conv1d(mx.ones((1, 5, 2)), mx.ones((3, 2, 2)), one(1), one(1)).shape == (1, 6, 3)
    for float in (1.0, np.float32(1), mx.array(1.0)):
        with pytest.raises(TypeError):
            mx.sum(x, axis=float)


@pytest.mark.parametrize("far", [2**63 - 1, -(2**63 - 1), -2**63])
def test_numbers_near_the_end_of_64_bits(far):
    x = mx.arange(12.0).reshape(3, 4)
    lower, upper = (x.tolist(), [[0] * 4] * 3)[:: 1 if far > 0 else -1]
    assert mx.tril(x, far).tolist() == lower and mx.triu(x, far).tolist() == upper
    assert mx.tri(2, k=far).tolist() == [[far > 0] * 2] * 2 and mx.eye(2, k=far).tolist() == [[0, 0], [0, 0]]
    assert mx.diag(x, far).size == mx.diagonal(x, far).size == mx.trace(x, far).item() == 0
    assert mx.var(x, ddof=far).item() == (float("inf") if far > 0 else pytest.approx(0, abs=1e-12))
    frames = mx.ones((3, 5)).astype(mx.complex64)
    calls = [
        lambda: mx.repeat(x, far), lambda: mx.diag(x[0], far), lambda: mx.fft.stft(x, n_fft=far),
        lambda: mx.fft.stft(x, n_fft=4, hop_length=far), lambda: mx.fft.stft(x, n_fft=4, win_length=far),
        lambda: mx.fft.istft(frames, n_fft=far), lambda: mx.fft.istft(frames, hop_length=far),
        lambda: mx.fft.istft(frames, win_length=far), lambda: mx.fft.istft(frames, length=far),
        lambda: mx.conv_transpose1d(mx.ones((1, 5, 2)), mx.ones((3, 2, 2)), 1, 0, 1, far),
    ]
    for call in calls:
        with pytest.raises((ValueError, OverflowError)):
            call()
