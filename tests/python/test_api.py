"""Every name that upstream's stubs declare is here, with the same parameters and defaults."""

import ast
import inspect
import pathlib

import mlx.core as mx
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
