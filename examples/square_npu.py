"""A device with an operator of its own: its dialect, what its op computes, its ONNX operator.

Models call it `com.foo.Square`. It is read, inferred, checked, saved and exported like any other:

    byocir run model.onnx --target square_npu.py --check-each

`docs/new-target.md` says what each part is for.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Dialect
from xdsl.irdl import irdl_op_definition, prop_def

from byocir.dialects.graph.base import FLOAT, number_of
from byocir.dialects.graph.unary import UnaryOp
from byocir.dialects.tir.scalar import Emitted
from byocir.frontend.onnx.entry import regular
from byocir.frontend.onnx.properties import number
from byocir.patterns import composite, op, optional, wildcard
from byocir.targets.json import JsonTarget, Step


@irdl_op_definition
class SquareOp(UnaryOp):
    """`scale * x * x`, e.g. `foo.square %x {scale = 0.5 : f32} : (tensor<8xf32>) ->
    tensor<8xf32>`. As its base says, the result has the type of its input."""

    name = "foo.square"

    scale = prop_def(FLOAT)

    def body(self, x: Emitted) -> Emitted:
        """Says what the op computes of each element: on the host in C, and in the evaluator."""
        return x * x * number_of(self.scale)


Foo = Dialect("foo", [SquareOp])


def kernel(step: Step, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Computes the op on the device."""
    (x,) = arrays
    wide = x.astype(np.promote_types(x.dtype, np.float32))
    return (wide * wide * step.attributes["scale"]).astype(x.dtype)


@composite("npu.square")
def square():
    """A square, and a relu behind it."""
    return optional(op("foo.square", wildcard("x")), lambda value: op("graph.relu", value))


@dataclass(frozen=True)
class SquareNpu(JsonTarget):
    """A device that squares numbers."""

    name = "npu"
    patterns = (square,)
    dialects = (Foo,)
    operators = (regular("com.foo.Square", SquareOp, {"scale": number("scale", 1.0)}),)
    kernels = {**JsonTarget.kernels, "foo.square": kernel}
