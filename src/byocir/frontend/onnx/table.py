"""Holds THE op table: how each graph op and each ONNX operator correspond.

Import, export and evaluation all read it. To add an op that is one ONNX node, write one `regular`
line; what needs code of its own names a `read` and a `write` function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import cast

import onnx
from xdsl.ir import Operation

from byocir.dialects import graph as g
from byocir.frontend.onnx import (
    einsum,
    irregular,
    movement,
    qlinear,
    quantisation,
    recurrent,
    resize,
    signals,
)
from byocir.frontend.onnx import properties as p
from byocir.frontend.onnx.entry import Entry, Property, Read, Write, regular
from byocir.patterns.target_classes import operators_known

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


def _alpha(default: float) -> dict[str, Property]:
    return {"alpha": p.number("alpha", default)}


def _alike(*ops: type[g.GraphOp], operands: int = 1) -> list[Entry]:
    """Makes the entries of ops without properties that ONNX calls as we do."""
    return [regular(op.__name__.removesuffix("Op"), op, operands=operands) for op in ops]


_CONTRACTIONS = [
    regular("Conv", g.ConvOp, _CONV, operands=3, write=quantisation.write_conv),
    regular("MatMul", g.MatmulOp, operands=2, write=quantisation.write_matmul),
    regular(
        "ConvTranspose",
        g.ConvTransposeOp,
        {**_CONV, "pads": p.conv_transpose_pads, "output_padding": p.output_padding},
        operands=3,
    ),
    Entry("Gemm", irregular.read_gemm),
    Entry("Einsum", einsum.read_einsum),
    Entry("ConvInteger", qlinear.read_conv_integer),
    Entry("MatMulInteger", qlinear.read_matmul_integer),
    Entry("STFT", signals.read_stft),
]

_WINDOWS = [
    regular("MaxPool", g.MaxPoolOp, _POOL, ignored=["storage_order"]),
    regular(
        "AveragePool",
        g.AveragePoolOp,
        {**_POOL, "count_include_pad": p.integer("count_include_pad", 0)},
    ),
    regular("LpPool", g.LpPoolOp, {**_POOL, "p": p.integer("p", 2)}),
    *_alike(g.GlobalAveragePoolOp, g.GlobalMaxPoolOp),
    Entry("GlobalLpPool", irregular.read_global_lp_pool),
    Entry(op=g.SumPoolOp, write=quantisation.write_sum_pool),
]

_UNARY = [
    *_alike(g.AbsOp, g.AcosOp, g.AcoshOp, g.AsinOp, g.AsinhOp, g.AtanOp, g.AtanhOp, g.CeilOp),
    *_alike(g.CosOp, g.CoshOp, g.ErfOp, g.ExpOp, g.FloorOp, g.HardSwishOp, g.LogOp, g.MishOp),
    *_alike(g.NegOp, g.ReciprocalOp, g.ReluOp, g.RoundOp, g.SigmoidOp, g.SignOp, g.SinOp, g.SinhOp),
    *_alike(g.SoftplusOp, g.SoftsignOp, g.SqrtOp, g.TanOp, g.TanhOp),
]

_ACTIVATIONS = [
    regular(
        "Clip",
        g.ClipOp,
        {"min": p.bound(1), "max": p.bound(2)},
        as_inputs=["min", "max"],
        read=irregular.read_clip,
    ),
    regular("Celu", g.CeluOp, _alpha(1.0)),
    regular("Elu", g.EluOp, _alpha(1.0)),
    regular("Gelu", g.GeluOp, {"approximate": p.text("approximate", "none")}),
    regular("HardSigmoid", g.HardSigmoidOp, {**_alpha(0.2), "beta": p.number("beta", 0.5)}),
    regular("LeakyRelu", g.LeakyReluOp, _alpha(0.01)),
    regular("PRelu", g.PreluOp, operands=2),
    regular(
        "Selu",
        g.SeluOp,
        {
            **_alpha(1.67326319217681884765625),
            "gamma": p.number("gamma", 1.05070102214813232421875),
        },
    ),
    regular("Shrink", g.ShrinkOp, {"bias": p.number("bias", 0), "lambd": p.number("lambd", 0.5)}),
    regular("ThresholdedRelu", g.ThresholdedReluOp, _alpha(1.0)),
    Entry("Swish", irregular.read_swish),
]

_ARITHMETIC = [
    *_alike(g.AddOp, g.SubOp, g.MulOp, g.DivOp, g.PowOp, operands=2),
    regular("Mod", g.ModOp, {"fmod": p.integer("fmod", 0)}, operands=2),
    regular("Max", g.MaxOp, read=irregular.chain(g.MaxOp)),
    regular("Min", g.MinOp, read=irregular.chain(g.MinOp)),
    Entry("Sum", irregular.chain(g.AddOp)),
    Entry("Mean", irregular.read_mean),
    regular("Where", g.WhereOp, operands=3),
    regular("Cast", g.CastOp, {"to": irregular.element}),
    Entry("CastLike", irregular.read_cast_like),
]

_LOGIC = [
    *_alike(g.EqualOp, g.LessOp, g.LessOrEqualOp, g.GreaterOp, g.GreaterOrEqualOp, operands=2),
    *_alike(g.AndOp, g.OrOp, g.XorOp, g.BitwiseAndOp, g.BitwiseOrOp, g.BitwiseXorOp, operands=2),
    regular("IsNaN", g.IsNanOp),
    regular(
        "IsInf",
        g.IsInfOp,
        {name: p.integer(name, 1) for name in ("detect_negative", "detect_positive")},
    ),
    *_alike(g.NotOp, g.BitwiseNotOp),
    regular("BitShift", g.BitShiftOp, {"direction": p.text("direction", "")}, operands=2),
]


def _reduce(onnx: str, op: type[g.ReduceOp]) -> Entry:
    return regular(onnx, op, as_inputs=["axes"], read=irregular.read_reduce(op))


def _arg(onnx: str, op: type[g.GraphOp]) -> Entry:
    last, keepdims = p.integer("select_last_index", 0), p.integer("keepdims", 1)
    return regular(onnx, op, {"axis": p.axis(0), "keepdims": keepdims, "select_last_index": last})


_ALONG_DIMENSIONS = [
    _reduce("ReduceSum", g.ReduceSumOp),
    _reduce("ReduceMean", g.ReduceMeanOp),
    _reduce("ReduceMax", g.ReduceMaxOp),
    _reduce("ReduceMin", g.ReduceMinOp),
    _reduce("ReduceProd", g.ReduceProdOp),
    _reduce("ReduceL1", g.ReduceL1Op),
    _reduce("ReduceL2", g.ReduceL2Op),
    _reduce("ReduceSumSquare", g.ReduceSumSquareOp),
    _reduce("ReduceLogSum", g.ReduceLogSumOp),
    _reduce("ReduceLogSumExp", g.ReduceLogSumExpOp),
    _arg("ArgMax", g.ArgMaxOp),
    _arg("ArgMin", g.ArgMinOp),
    regular("Softmax", g.SoftmaxOp, {"axis": p.axis(-1)}),
    regular("LogSoftmax", g.LogSoftmaxOp, {"axis": p.axis(-1)}),
    regular("Hardmax", g.HardmaxOp, {"axis": p.axis(-1)}),
    regular("LpNormalization", g.LpNormOp, {"axis": p.axis(-1), "p": p.integer("p", 2)}),
    regular(
        "CumSum",
        g.CumSumOp,
        {
            "axis": movement.axis_given,
            "exclusive": p.integer("exclusive", 0),
            "reverse": p.integer("reverse", 0),
        },
        as_inputs=["axis"],
    ),
]

_EPSILON: dict[str, Property] = {"epsilon": p.number("epsilon", 1e-5)}

_NORMALISATIONS = [
    regular("BatchNormalization", g.BatchNormOp, read=irregular.read_batch_norm),
    regular("InstanceNormalization", g.InstanceNormOp, _EPSILON, operands=3),
    regular(
        "GroupNormalization",
        g.GroupNormOp,
        {**_EPSILON, "num_groups": p.integer("num_groups", 0)},
        operands=3,
        ignored=["stash_type"],
    ),
    regular("LayerNormalization", g.LayerNormOp, read=irregular.read_layer_norm),
    regular(
        "RMSNormalization",
        g.RmsNormOp,
        read=irregular.read_rms_norm,
        write=irregular.write_rms_norm,
    ),
    regular(
        "LRN",
        g.LrnOp,
        {
            "alpha": p.number("alpha", 1e-4),
            "beta": p.number("beta", 0.75),
            "bias": p.number("bias", 1.0),
            "size": p.integer("size", 0),
        },
    ),
]

_SHAPES = [
    regular("Reshape", g.ReshapeOp, read=irregular.read_reshape, write=irregular.write_reshape),
    regular("Flatten", g.FlattenOp, {"axis": p.axis(1, beyond=1)}),
    regular("Squeeze", g.SqueezeOp, as_inputs=["axes"], read=irregular.read_squeeze),
    regular("Unsqueeze", g.UnsqueezeOp, as_inputs=["axes"], read=irregular.read_unsqueeze),
    regular("Transpose", g.TransposeOp, {"perm": p.permutation}),
    regular("Concat", g.ConcatOp, {"axis": p.axis(0)}, operands=None),
    regular("Expand", g.ExpandOp, {"shape": movement.expanded}, as_inputs=["shape"]),
    regular(
        "Tile", g.TileOp, {"repeats": partial(movement.required, index=1)}, as_inputs=["repeats"]
    ),
    regular("Slice", g.SliceOp, read=movement.read_slice, write=movement.write_slice),
    regular("Split", g.SplitOp, as_inputs=["split"], read=movement.read_split),
    regular("Pad", g.PadOp, as_inputs=["pads", "value"], read=movement.read_pad),
    regular(
        "DepthToSpace",
        g.DepthToSpaceOp,
        {"blocksize": p.integer("blocksize", 0), "mode": p.text("mode", "DCR")},
    ),
    regular("SpaceToDepth", g.SpaceToDepthOp, {"blocksize": p.integer("blocksize", 0)}),
    regular("Resize", g.ResizeOp, read=resize.read_resize, write=resize.write_resize),
    regular(
        "Trilu",
        g.TriluOp,
        {"k": movement.diagonal, "upper": p.integer("upper", 1)},
        as_inputs=["k"],
    ),
    regular(
        "ReverseSequence",
        g.ReverseSequenceOp,
        {"batch_axis": p.integer("batch_axis", 1), "time_axis": p.integer("time_axis", 0)},
        operands=2,
    ),
]

_INDICES = [
    regular("Gather", g.GatherOp, {"axis": p.axis(0)}, operands=2),
    regular("GatherElements", g.GatherElementsOp, {"axis": p.axis(0)}, operands=2),
    regular("GatherND", g.GatherNdOp, {"batch_dims": p.integer("batch_dims", 0)}, operands=2),
    regular(
        "ScatterElements",
        g.ScatterElementsOp,
        {"axis": p.axis(0), "reduction": p.text("reduction", "none")},
        operands=3,
    ),
    regular("ScatterND", g.ScatterNdOp, {"reduction": p.text("reduction", "none")}, operands=3),
    regular("OneHot", g.OneHotOp, read=movement.read_one_hot, write=movement.write_one_hot),
    regular(
        "TopK",
        g.TopKOp,
        {
            "axis": p.axis(-1),
            "largest": p.integer("largest", 1),
            "sorted": p.integer("sorted", 1),
            "k": partial(movement.scalar, index=1),
        },
        write=movement.write_top_k,
    ),
]


def _recurrent(onnx: str, op: type[g.RecurrentOp]) -> Entry:
    write = partial(recurrent.write_recurrent, onnx)
    return regular(onnx, op, read=recurrent.recurrent(op), write=write)


_RECURRENT = [
    _recurrent("RNN", g.RnnOp),
    _recurrent("GRU", g.GruOp),
    _recurrent("LSTM", g.LstmOp),
]

_QUANTISATION = [
    regular("QuantizeLinear", g.QuantizeOp, read=quantisation.read_quantize),
    regular("DequantizeLinear", g.DequantizeOp, read=quantisation.read_dequantize),
    Entry(op=g.RequantizeOp, write=quantisation.write_requantize),
    Entry("DynamicQuantizeLinear", qlinear.read_dynamic_quantize),
    Entry("QLinearConv", qlinear.read_qlinear_conv),
    Entry("QLinearMatMul", qlinear.read_qlinear_matmul),
    Entry("com.microsoft.QGemm", qlinear.read_qgemm),
    Entry("com.microsoft.DynamicQuantizeMatMul", qlinear.read_dynamic_quantize_matmul),
    Entry("com.microsoft.MatMulIntegerToFloat", qlinear.read_matmul_integer_to_float),
    Entry("com.microsoft.MatMulNBits", qlinear.read_matmul_nbits),
    Entry("com.microsoft.QLinearAdd", qlinear.between_two(g.AddOp)),
    Entry("com.microsoft.QLinearMul", qlinear.between_two(g.MulOp)),
    Entry("com.microsoft.QLinearConcat", qlinear.read_qlinear_concat),
    Entry("com.microsoft.QLinearAveragePool", qlinear.between(qlinear.average_pool)),
    Entry("com.microsoft.QLinearGlobalAveragePool", qlinear.between(qlinear.global_average_pool)),
    Entry("com.microsoft.QLinearLeakyRelu", qlinear.between(qlinear.leaky_relu)),
    Entry("com.microsoft.QLinearSigmoid", qlinear.between(qlinear.sigmoid)),
    Entry("com.microsoft.QLinearSoftmax", qlinear.between(qlinear.softmax)),
    Entry("com.microsoft.QLinearWhere", qlinear.read_qlinear_where),
    Entry("com.microsoft.QuantizeLinear", quantisation.read_quantize),
    Entry("com.microsoft.DequantizeLinear", quantisation.read_dequantize),
]

_NO_OP_REMAINS = [
    Entry("Constant", irregular.read_constant),
    Entry("Identity", irregular.read_identity),
    Entry("Dropout", irregular.read_dropout),
    Entry("Shape", irregular.read_shape),
    Entry("Size", irregular.read_size),
    Entry("ConstantOfShape", movement.read_constant_of_shape),
    Entry("EyeLike", movement.read_eye_like),
    Entry("Range", movement.read_range),
]

TABLE: list[Entry] = [
    *_CONTRACTIONS,
    *_WINDOWS,
    *_UNARY,
    *_ACTIVATIONS,
    *_ARITHMETIC,
    *_LOGIC,
    *_ALONG_DIMENSIONS,
    *_NORMALISATIONS,
    *_SHAPES,
    *_INDICES,
    *_RECURRENT,
    *_QUANTISATION,
    *_NO_OP_REMAINS,
]

Readers = Mapping[str, Read]

READERS: Readers = {entry.onnx: entry.read for entry in TABLE if entry.onnx and entry.read}
"""The reader of each ONNX operator. Outside the default domain it is `domain.operator`."""

WRITERS = {entry.op: entry.write for entry in TABLE if entry.op and entry.write}
"""The writer of each graph op. A `graph.constant` is no node: it becomes an initializer."""


def readers_of(operators: Sequence[Entry]) -> Readers:
    """Lists readers by operator: those of the table and those of these operators; the first of a
    name counts.
    """
    own = {each.onnx: each.read for each in reversed(operators) if each.read}
    return {**own, **READERS}


def reader_of(node: onnx.NodeProto, readers: Readers = READERS) -> Read | None:
    """Finds the entry that reads a node; None for an operator that the table does not have."""
    default = node.domain in ("", "ai.onnx")
    return readers.get(node.op_type if default else f"{node.domain}.{node.op_type}")


def writer_of(op: Operation) -> Write | None:
    """Finds the entry that writes an op, in the table or among the operators of targets known in
    this process; None for an op without an ONNX form.
    """
    write = WRITERS.get(cast("type[g.GraphOp]", type(op)))
    if write is not None or op.name.startswith("graph."):
        return write
    return next((e.write for e in operators_known() if e.op is type(op)), None)
