"""THE op table: how each graph op and each ONNX operator correspond.

Import, export and evaluation all read it. To add an op that is one ONNX node, write one `regular`
line; what needs code of its own names a `read` and a `write` function.
"""

from __future__ import annotations

from byocir.dialects.graph import (
    AddOp,
    AveragePoolOp,
    ClipOp,
    ConcatOp,
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
)
from byocir.frontend.onnx import irregular, quantisation
from byocir.frontend.onnx import properties as p
from byocir.frontend.onnx.entry import Entry, Property, regular

_CONV: dict[str, Property] = {
    "strides": p.strides,
    "pads": p.conv_pads,
    "dilations": p.dilations,
    "group": p.integer("group", 1),
}
_POOL: dict[str, Property] = {
    "kernel_shape": p.kernel_shape,
    "strides": p.strides,
    "pads": p.pads,
    "dilations": p.dilations,
    "ceil_mode": p.ceil_mode,
}

TABLE: list[Entry] = [
    # contractions and windows
    regular("Conv", ConvOp, _CONV, operands=3, write=quantisation.write_conv),
    regular("MatMul", MatmulOp, operands=2, write=quantisation.write_matmul),
    regular("MaxPool", MaxPoolOp, _POOL, ignored=["storage_order"]),
    regular(
        "AveragePool",
        AveragePoolOp,
        {**_POOL, "count_include_pad": p.integer("count_include_pad", 0)},
    ),
    regular("GlobalAveragePool", GlobalAveragePoolOp),
    Entry(op=SumPoolOp, write=quantisation.write_sum_pool),
    Entry("Gemm", irregular.read_gemm),
    Entry("ConvInteger", irregular.read_conv_integer),
    Entry("MatMulInteger", irregular.read_matmul_integer),
    # element by element
    regular("Add", AddOp, operands=2),
    regular("Sub", SubOp, operands=2),
    regular("Mul", MulOp, operands=2),
    regular("Div", DivOp, operands=2),
    regular("Relu", ReluOp),
    regular("Clip", ClipOp, {"min": p.bound(1), "max": p.bound(2)}, as_inputs=["min", "max"]),
    # along whole dimensions
    regular("ReduceMean", ReduceMeanOp, as_inputs=["axes"], read=irregular.read_reduce_mean),
    regular("Softmax", SoftmaxOp, {"axis": p.axis(-1)}),
    # shapes
    regular("Reshape", ReshapeOp, read=irregular.read_reshape, write=irregular.write_reshape),
    regular("Flatten", FlattenOp, {"axis": p.axis(1, beyond=1)}),
    regular("Squeeze", SqueezeOp, as_inputs=["axes"], read=irregular.read_squeeze),
    regular("Unsqueeze", UnsqueezeOp, as_inputs=["axes"], read=irregular.read_unsqueeze),
    regular("Transpose", TransposeOp, {"perm": p.permutation}),
    regular("Concat", ConcatOp, {"axis": p.axis(0)}, operands=None),
    # quantisation
    regular("QuantizeLinear", QuantizeOp, read=quantisation.read_quantize),
    regular("DequantizeLinear", DequantizeOp, read=quantisation.read_dequantize),
    Entry(op=RequantizeOp, write=quantisation.write_requantize),
    # no op remains
    Entry("Constant", irregular.read_constant),
    Entry("Identity", irregular.read_identity),
    Entry("Dropout", irregular.read_dropout),
    Entry("Shape", irregular.read_shape),
    Entry("Size", irregular.read_size),
]

READERS = {entry.onnx: entry.read for entry in TABLE if entry.onnx and entry.read}
"""By ONNX operator of the default domain: how it comes in."""

WRITERS = {entry.op: entry.write for entry in TABLE if entry.op and entry.write}
"""By graph op: how it goes out. A `graph.constant` is no node: it becomes an initializer."""
