"""Drawing the steps of programs. Each keeps its operands where it is smooth, or is not drawn."""

from drawing import Drawing
from programs import Program
from record import Value
from steps.along_axes import order, reduction, scan, softmax
from steps.elementwise import (
    binary, bounded, chosen, joint, parts, positive, precision, quotient, stopped, unary,
)
from steps.models import attention, cross_entropy, norm, rope
from steps.places import movement, reading, shape, writing
from steps.products import (
    contraction, convolution, fourier, gathered_product, hadamard, linear_algebra, product, quantized,
)

ALL = [
    *[unary] * 2, positive, bounded, parts, *[binary] * 2, quotient, joint, *[chosen] * 2,
    *[reduction] * 2, softmax, scan, order,
    *[product] * 2, contraction, gathered_product, quantized, convolution,
    *[shape] * 2, movement, *[reading] * 2, *[writing] * 2,
    norm, rope, attention, cross_entropy, fourier, hadamard, linear_algebra, precision, stopped,
]
# What may be traced once for arrays of several sizes.
SHAPELESS = [
    unary, positive, bounded, binary, quotient, joint, chosen,
    reduction, softmax, scan, product, norm, stopped,
]


def program(draw, sizes=(1, 2, 3, 4, 5), steps=ALL, views=True):
    """A program of a few steps that all work on its inputs."""
    dtype = draw.one_of(["float32"] * 6 + ["float16"] * 2 + ["bfloat16"] * 2 + ["complex64"] * 2)
    d = Drawing(draw, dtype, list(sizes), views)
    d.input(d.shape(least=1))
    for _ in range(draw.integer(0, 2)):
        narrow = dtype if dtype != "complex64" or draw.chance(0.5) else "float32"
        d.input(draw.broadcasting(d.of(Value(0)).shape), narrow if draw.chance(0.8) else "float32")
    for _ in range(draw.integer(1, 5)):
        draw.one_of(steps)(d)
    made = [i for i in d.numbers() if i >= len(d.inputs)]
    # Upstream loses cotangents of an array that is returned twice, and moves its mapped axis twice.
    results = [made[-1]] + ([draw.one_of(made[:-1])] if made[:-1] and draw.chance(0.25) else [])
    return Program(d.inputs, d.steps, results)
