"""The graph dialect: operators on ranked tensors, ONNX's semantics in normalised form."""

from xdsl.ir import Dialect, Operation

from byocir.dialects.array import ArrayAttr
from byocir.dialects.graph import const, elementwise, nn, quant, reduce, shape, values
from byocir.dialects.graph.base import GraphOp
from byocir.dialects.graph.const import ConstantOp
from byocir.dialects.graph.elementwise import (
    AddOp,
    BinaryOp,
    ClipOp,
    DivOp,
    MulOp,
    ReluOp,
    SubOp,
)
from byocir.dialects.graph.foreign import ForeignOp, YieldOp
from byocir.dialects.graph.nn import (
    AveragePoolOp,
    ConvOp,
    GlobalAveragePoolOp,
    MatmulOp,
    MaxPoolOp,
    PoolOp,
    SumPoolOp,
)
from byocir.dialects.graph.quant import (
    DequantizeOp,
    FixedAttr,
    FloatHalfEvenAttr,
    QuantizeOp,
    RequantizeOp,
)
from byocir.dialects.graph.reduce import ReduceMeanOp, SoftmaxOp
from byocir.dialects.graph.shape import (
    ConcatOp,
    FlattenOp,
    ReshapeOp,
    ShapeOp,
    SqueezeOp,
    TransposeOp,
    UnsqueezeOp,
)

_FAMILIES = (elementwise, nn, quant, reduce, shape, const)


def _ops() -> list[type[Operation]]:
    """The ops of all families, in order of name: every class that has an op name of its own."""
    classes: set[type[Operation]] = {
        value
        for family in _FAMILIES
        for value in vars(family).values()
        if isinstance(value, type) and issubclass(value, GraphOp) and "name" in vars(value)
    }
    return sorted(classes, key=lambda op: op.name)


Graph = Dialect(
    "graph",
    [*_ops(), ForeignOp, YieldOp],
    [ArrayAttr, FixedAttr, FloatHalfEvenAttr, *values.ATTRIBUTES, *values.TYPES],
)

__all__ = [
    "AddOp",
    "ArrayAttr",
    "AveragePoolOp",
    "BinaryOp",
    "ClipOp",
    "ConcatOp",
    "ConstantOp",
    "ConvOp",
    "DequantizeOp",
    "DivOp",
    "FixedAttr",
    "FlattenOp",
    "FloatHalfEvenAttr",
    "ForeignOp",
    "GlobalAveragePoolOp",
    "Graph",
    "GraphOp",
    "MatmulOp",
    "MaxPoolOp",
    "MulOp",
    "PoolOp",
    "QuantizeOp",
    "ReduceMeanOp",
    "ReluOp",
    "RequantizeOp",
    "ReshapeOp",
    "ShapeOp",
    "SoftmaxOp",
    "SqueezeOp",
    "SubOp",
    "SumPoolOp",
    "TransposeOp",
    "UnsqueezeOp",
]
