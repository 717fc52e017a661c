"""The graph dialect has operators on ranked tensors, with ONNX's semantics in normalised form.

Each family of ops has a module, whose public names are names of this package, too.
"""

# ruff: noqa: F403
from xdsl.ir import Dialect, Operation

from byocir.dialects.array import ArrayAttr
from byocir.dialects.graph import values
from byocir.dialects.graph.activation import *
from byocir.dialects.graph.base import GraphOp
from byocir.dialects.graph.const import *
from byocir.dialects.graph.elementwise import *
from byocir.dialects.graph.foreign import ForeignOp, YieldOp
from byocir.dialects.graph.gather import *
from byocir.dialects.graph.logic import *
from byocir.dialects.graph.movement import *
from byocir.dialects.graph.nn import *
from byocir.dialects.graph.norm import *
from byocir.dialects.graph.pool import *
from byocir.dialects.graph.quant import *
from byocir.dialects.graph.quant import FixedAttr, FloatHalfEvenAttr
from byocir.dialects.graph.recurrent import *
from byocir.dialects.graph.reduce import *
from byocir.dialects.graph.resize import *
from byocir.dialects.graph.shape import *
from byocir.dialects.graph.unary import *


def _ops() -> list[type[Operation]]:
    """Lists the ops of all families, in order of name: every class that has an op name of its
    own.
    """
    classes: set[type[Operation]] = {
        value
        for value in globals().values()
        if isinstance(value, type) and issubclass(value, GraphOp) and "name" in vars(value)
    }
    return sorted(classes, key=lambda op: op.name)


Graph = Dialect(
    "graph",
    [*_ops(), ForeignOp, YieldOp],
    [ArrayAttr, FixedAttr, FloatHalfEvenAttr, *values.ATTRIBUTES, *values.TYPES],
)
