"""The graph dialect: operators on ranked tensors, ONNX's semantics in normalised form."""

from xdsl.ir import Dialect

from byocir.dialects.array import ArrayAttr
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

Graph = Dialect(
    "graph",
    [
        AddOp,
        AveragePoolOp,
        ClipOp,
        ConcatOp,
        ConstantOp,
        ConvOp,
        DequantizeOp,
        DivOp,
        FlattenOp,
        GlobalAveragePoolOp,
        MatmulOp,
        MaxPoolOp,
        MulOp,
        QuantizeOp,
        ReduceMeanOp,
        ReluOp,
        RequantizeOp,
        ReshapeOp,
        SoftmaxOp,
        SqueezeOp,
        SubOp,
        SumPoolOp,
        TransposeOp,
        UnsqueezeOp,
    ],
    [ArrayAttr, FixedAttr, FloatHalfEvenAttr],
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
