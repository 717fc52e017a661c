"""ONNX to graph level.

Requires nothing of the model but that onnx's checker accepts it (opset 13 or newer). Guarantees: a
module with one public function `main` of graph ops on ranked tensors of static shape, every op
located at its ONNX node, inputs and outputs named by `byoc.name`, no opset left, and at its end a
`byoc.source` op that lists the nodes of the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from byocir.dialects.byoc import NAME, SourceOp
from byocir.dialects.graph import ConstantOp
from byocir.dialects.types import Shape, element_of, tensor
from byocir.errors import ByocirError
from byocir.frontend.onnx.fold import fold_integers
from byocir.frontend.onnx.load import Model, load_model, unsupported, unsupported_operator
from byocir.frontend.onnx.macs import macs
from byocir.frontend.onnx.reader import NodeReader, Value
from byocir.frontend.onnx.shapes import input_shapes
from byocir.frontend.onnx.table import reader_of
from byocir.frontend.onnx.tensors import Unsupported, array_of, numpy_dtype, type_name


def import_onnx(model: Model, *, shapes: Mapping[str, Sequence[int]] | None = None) -> ModuleOp:
    """The module of an ONNX model, given as a path, as bytes or as a ModelProto.

    `shapes` pins inputs whose shape the model leaves open: input name to shape. Raises ByocirError
    B101 to B106; see `byocir.frontend.onnx.load`.
    """
    loaded = load_model(model)
    importer = _Importer(loaded.proto.graph)
    function = importer.function(shapes or {})
    nodes = [(name, operator, importer.macs.get(name, 0)) for name, operator in loaded.nodes]
    return ModuleOp([function, SourceOp.of(nodes)])


class _Importer:
    """One import: what each ONNX name stands for, the block in the making, MACs by node."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.graph = graph
        self.block = Block()
        self.values: dict[str, Value] = {}
        self.weights = {tensor.name: tensor for tensor in graph.initializer}
        self.macs: dict[str, int] = {}

    def function(self, shapes: Mapping[str, Sequence[int]]) -> FuncOp:
        """The function `main` of the whole graph."""
        if self.graph.sparse_initializer:
            raise ByocirError("B105", "expected dense initializers, found a sparse one")
        inputs = [value for value in self.graph.input if value.name not in self.weights]
        for name, shape in input_shapes(inputs, shapes).items():
            self._add_input(next(v for v in inputs if v.name == name), shape)
        for node in self.graph.node:
            self._add_node(node)
        results = [self._result(value.name) for value in self.graph.output]
        self.block.add_op(ReturnOp(*results))
        return FuncOp(
            "main",
            ([a.type for a in self.block.args], [value.type for value in results]),
            Region(self.block),
            visibility="public",
            arg_attrs=_names(inputs),
            res_attrs=_names(self.graph.output),
        )

    def _add_input(self, value: onnx.ValueInfoProto, shape: Shape) -> None:
        dtype = numpy_dtype(value.type.tensor_type.elem_type)
        if dtype is None:
            raise ByocirError(
                "B105",
                f"expected an input of numbers, found {_kind(value)}",
                where=f"input '{value.name}'",
            )
        argument = self.block.insert_arg(tensor(element_of(dtype), shape), len(self.block.args))
        argument.name_hint = value.name if value.name.isidentifier() else None
        self.values[value.name] = argument

    def _add_node(self, node: onnx.NodeProto) -> None:
        sources = [self._value(name, node) for name in node.input]
        folded = fold_integers(node, sources)
        if folded is not None:
            self.values[node.output[0]] = folded
            return
        read = reader_of(node)
        if read is None:
            raise unsupported_operator(node)
        reader = NodeReader(node, sources, self._insert)
        try:
            read_values = read(reader)
            reader.check_all_read()
        except (Unsupported, VerifyException) as error:
            raise unsupported(node, str(error)) from error
        outputs = read_values if isinstance(read_values, Sequence) else [read_values]
        self.values.update(zip(node.output, outputs, strict=False))
        self.macs[node.name] = sum(map(macs, reader.emitted))

    def _insert(self, op: Operation) -> None:
        self.block.add_op(op)

    def _value(self, name: str, user: onnx.NodeProto) -> Value | None:
        """What a name stands for; None for the empty name. Weights are converted when used."""
        if not name:
            return None
        if name in self.values:
            return self.values[name]
        if name not in self.weights:
            # Checked models have no other undefined names.
            raise unsupported(user, f"expected a supported output of its producer, found '{name}'")
        try:
            array = array_of(self.weights[name])
        except Unsupported as error:
            raise unsupported(user, f"{error} in '{name}'") from error
        self.values[name] = array
        return array

    def _result(self, name: str) -> SSAValue:
        """The value of a model output."""
        value = self._value(name, onnx.NodeProto(name=name, op_type="output"))
        assert value is not None
        if isinstance(value, SSAValue):
            return value
        constant = ConstantOp.of(value)
        self.block.add_op(constant)
        return constant.result


def _kind(value: onnx.ValueInfoProto) -> str:
    kind = value.type.WhichOneof("value")
    if kind == "tensor_type":
        return type_name(value.type.tensor_type.elem_type)
    return str(kind).removesuffix("_type")


def _names(values: Sequence[onnx.ValueInfoProto]) -> ArrayAttr[DictionaryAttr]:
    return ArrayAttr([DictionaryAttr({NAME: StringAttr(value.name)}) for value in values])
