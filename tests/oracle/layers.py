"""Drawing layers of transforms around programs."""

from draw import name_of
from programs import Layer, Transformed, Unfit
from steps import SHAPELESS, program

# A size of inputs that another call of a shapeless function has another one for.
OLD_SIZE, NEW_SIZE = 7, 5
# Upstream refuses some transforms of some functions; here they may work.
REFUSALS = (Unfit, ValueError, RuntimeError, IndexError)
# Some programs in a hundred fit the most demanding layers.
ATTEMPTS = 2000


def transformed(draw, *stacks):
    """A program in one of the stacks of layers, the innermost layer first, that upstream takes and whose
    results can be compared."""
    for _ in range(ATTEMPTS):
        try:
            call = attempt(draw, draw.one_of(stacks))
            call.prepare()
        except REFUSALS as refusal:
            last = refusal
            continue
        return call
    raise RuntimeError("upstream took none of the programs") from last


def attempt(draw, kinds):
    shapeless = kinds == ["shapeless"]
    inner = program(draw, (1, 3, OLD_SIZE), SHAPELESS) if shapeless else program(draw)
    if is_misjudged(inner, kinds):
        raise Unfit
    inputs, layers, f = inner.inputs, [], inner.function()
    for kind in kinds:
        outputs = f(*[x.value() for x in inputs])
        layer, inputs = LAYERS[kind](draw, inputs, outputs)
        layers.append(layer)
        f = layer.around(f, False)
    again = None
    if kinds[-1] in ["compile", "shapeless"]:
        shapes = [[NEW_SIZE if shapeless and n == OLD_SIZE else n for n in x.shape] for x in inputs]
        again = [like(draw, shape, x.dtype, 2) for shape, x in zip(shapes, inputs)]
    return Transformed(inner, layers, inputs, again)


def is_misjudged(inner, kinds):
    """Whether upstream gives something wrong: derivatives of `addmm` along tangents forget its factors,
    those of products with slices of complex numbers do not conjugate, and a mapped `slice_update` writes for
    one index only."""
    functions = {step.function for step in inner.steps}
    scaled = any(step.kwargs.get("alpha", 1.0) != 1.0 for step in inner.steps)
    is_complex = any(x.dtype == "complex64" for x in inner.inputs)
    return (
        ("jvp" in kinds and scaled)
        or ("at.multiply" in functions and is_complex)
        or ("vmap" in kinds and "slice_update" in functions)
    )


def like(draw, shape, dtype, size=1):
    return draw.array(shape, dtype, low=-size, high=size, special=0)


def dot(draw, inputs, outputs):
    return Layer("dot", weights=[like(draw, x.shape, name_of(x.dtype)) for x in outputs]), inputs


def gradient(kind):
    def layer(draw, inputs, _):
        every = range(len(inputs))
        return Layer(kind, arguments=sorted(draw.some_of(every, draw.integer(1, len(inputs))))), inputs

    return layer


def vjp(draw, inputs, outputs):
    return Layer("vjp", cotangents=[like(draw, x.shape, name_of(x.dtype)) for x in outputs]), inputs


def jvp(draw, inputs, _):
    return Layer("jvp", tangents=[like(draw, x.shape, x.dtype) for x in inputs]), inputs


def vmap(draw, inputs, outputs):
    count = draw.integer(1, 3)
    in_axes = [draw.integer(0, x.ndim) if draw.chance(0.75) else None for x in inputs]
    if all(axis is None for axis in in_axes):
        in_axes[0] = 0
    mapped = []
    for x, axis in zip(inputs, in_axes):
        shape = list(x.shape)
        if axis is not None:
            shape.insert(axis, count)
        mapped.append(x if axis is None else like(draw, shape, x.dtype, 2))
    out_axes = [draw.integer(0, x.ndim) for x in outputs]
    turned = lambda axis, ndim: axis if axis is None or draw.chance(0.7) else axis - ndim - 1
    in_axes = [turned(axis, x.ndim) for axis, x in zip(in_axes, inputs)]
    out_axes = [turned(axis, x.ndim) for axis, x in zip(out_axes, outputs)]
    return Layer("vmap", in_axes=in_axes, out_axes=out_axes), mapped


LAYERS = {
    "dot": dot,
    "grad": gradient("grad"),
    "value_and_grad": gradient("value_and_grad"),
    "vjp": vjp,
    "jvp": jvp,
    "vmap": vmap,
    "compile": lambda _, inputs, __: (Layer("compile", shapeless=False), inputs),
    "shapeless": lambda _, inputs, __: (Layer("compile", shapeless=True), inputs),
    "checkpoint": lambda _, inputs, __: (Layer("checkpoint"), inputs),
}
