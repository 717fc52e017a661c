"""Imports one graph, the model's own or one inside a node, and single nodes again once more is
known of their inputs.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Sequence
from typing import NamedTuple

import onnx
from xdsl.dialects.builtin import UnitAttr, UnrankedTensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from byocir.dialects.array import Array
from byocir.dialects.graph import ConstantOp, ForeignOp, YieldOp
from byocir.dialects.graph.base import macs
from byocir.dialects.graph.foreign import FAILS
from byocir.dialects.graph.values import Strings, UnknownType
from byocir.dialects.locations import named, names
from byocir.dialects.uses import erase
from byocir.frontend.onnx.bodies import (
    GUESSED_DEPTH,
    argument_type,
    carries_its_types,
    guess,
    settled,
)
from byocir.frontend.onnx.contradictions import contradiction
from byocir.frontend.onnx.detached_weights import graphs_in
from byocir.frontend.onnx.entry import Read
from byocir.frontend.onnx.fold import fold_shape_arithmetic
from byocir.frontend.onnx.foreign import attributes_of, constant_of, node_of
from byocir.frontend.onnx.forms import same_form
from byocir.frontend.onnx.infer import free_names, infer_types, why_invalid
from byocir.frontend.onnx.load import Loaded, unsupported
from byocir.frontend.onnx.names import listed_nodes, used_names
from byocir.frontend.onnx.older_opsets import adapt, joins, read_joined
from byocir.frontend.onnx.opset import OPSET
from byocir.frontend.onnx.quantisation import dequantized_as_bytes
from byocir.frontend.onnx.reader import NodeReader, Value
from byocir.frontend.onnx.table import Readers, reader_of
from byocir.frontend.onnx.tensors import NoForm, Unsupported
from byocir.frontend.onnx.types import type_of, why_not_static


class Context:
    """Holds the state that all graphs of an import share."""

    def __init__(self, loaded: Loaded, readers: Readers) -> None:
        self.readers = readers
        self.opsets, self.weights = loaded.opsets, loaded.weights
        self.graph = loaded.proto.graph
        self.macs: dict[str, int] = {}
        """Multiply-accumulates by node."""
        self.listed_nodes = list(listed_nodes(self.graph))
        self.used = used_names(loaded.proto)
        self.declared = {
            value.name: value.type
            for graph in graphs_in(loaded.proto)
            for value in (*graph.value_info, *graph.output)
        }
        """The types that the model itself gives for its values."""

    def opset(self, node: onnx.NodeProto) -> int:
        """Finds the opset of a node's domain."""
        return self.opsets.get("" if node.domain == "ai.onnx" else node.domain, 1)

    def declared_type(self, name: str) -> Attribute:
        """Finds the type that the model declares for a value."""
        try:
            return type_of(self.declared.get(name, onnx.TypeProto()))
        except Unsupported:
            return UnknownType()


class Scope:
    """Holds the import of one graph: the value of each name, and the block that is being built."""

    def __init__(
        self, context: Context, graph: onnx.GraphProto, outer: Scope | None = None
    ) -> None:
        self.context, self.graph, self.block = context, graph, Block()
        self.depth: int = 0 if outer is None else outer.depth + 1
        self.fails = False
        """Tells if it holds a node that no run of it gets past."""
        self.values: ChainMap[str, Value] = outer.values.new_child() if outer else ChainMap()
        self.tensors: ChainMap[str, onnx.TensorProto | onnx.SparseTensorProto]
        self.tensors = outer.tensors.new_child() if outer else ChainMap()
        self.tensors.update((each.name, each) for each in graph.initializer)
        self.tensors.update((each.values.name, each) for each in graph.sparse_initializer)

    def add_argument(self, name: str, type_: Attribute) -> None:
        """Adds the next input of the graph."""
        argument = self.block.insert_arg(type_, len(self.block.args))
        argument.name_hint = name if name.isidentifier() and name.isascii() else None
        self.values[name] = argument

    def run(self) -> list[SSAValue]:
        """Imports all nodes and gives the graph's outputs."""
        for node in self.graph.node:
            self._add_node(node)
        results: list[SSAValue] = []
        for output in self.graph.output:
            marker = onnx.NodeProto(name=output.name, op_type="output")
            value = self._value(output.name, marker)
            if value is None:
                raise unsupported(marker, "expected a name of each output, found none")
            results.append(value if isinstance(value, SSAValue) else self._constant(value))
        return results

    # -- values

    def _insert(self, op: Operation) -> None:
        self.block.add_op(op)

    def _constant(self, value: Array) -> SSAValue:
        constant = ConstantOp.of(value)
        self._insert(constant)
        return constant.result

    def _value(self, name: str, user: onnx.NodeProto) -> Value | None:
        """Looks up a name; None for the empty one. Weights are converted when they are first
        used.
        """
        if not name:
            return None
        if name in self.values:
            return self.values[name]
        if name not in self.tensors:
            raise unsupported(user, f"expected a name that is defined before, found '{name}'")
        try:
            self.values[name] = self._weight(self.tensors[name], user)
        except Unsupported as error:
            raise unsupported(user, f"{error} in '{name}'") from error
        return self.values[name]

    def _weight(
        self, tensor: onnx.TensorProto | onnx.SparseTensorProto, user: onnx.NodeProto
    ) -> Value:
        constant = self.constant_of(tensor)
        return constant if isinstance(constant, Array) else self._strings(constant, user)

    def constant_of(self, tensor: onnx.TensorProto | onnx.SparseTensorProto) -> Array | Strings:
        """Reads the numbers or texts of an initializer."""
        if isinstance(tensor, onnx.SparseTensorProto):
            return self.context.weights.dense(tensor)
        return self.context.weights.constant(tensor)

    def _strings(self, strings: Strings, user: onnx.NodeProto) -> SSAValue:
        properties, type_ = constant_of(strings, self.context.opsets.get("", OPSET))
        op = ForeignOp.create(
            result_types=[type_], properties=properties, location=named(user.name)
        )
        self._insert(op)
        return op.results[0]

    # -- nodes

    def _add_node(self, node: onnx.NodeProto) -> None:
        known = self._known_at_import(node)
        if known is not None:
            self.values[node.output[0]] = known
            return
        sources = [self._value(name, node) for name in node.input]
        if self._inline_branch(node, sources):
            return
        folded = fold_shape_arithmetic(node, sources, self.context.opset(node))
        if folded is not None:
            self.values[node.output[0]] = folded
            return
        failed = self.fails
        outputs, reason = self._read(node, sources)
        if outputs is None:
            op = self._foreign(node, sources, reason)
            if self.fails and not failed:
                op.attributes[FAILS] = UnitAttr()
            self.values.update(zip(filter(None, node.output), op.results, strict=True))
        else:
            self.values.update(zip(node.output, outputs, strict=False))

    def _known_at_import(self, node: onnx.NodeProto) -> Value | None:
        """Reads the value of a Constant node that holds a tensor."""
        if node.op_type != "Constant" or node.domain not in ("", "ai.onnx"):
            return None
        if len(node.attribute) > 1:
            raise unsupported(node, f"expected one value, found {len(node.attribute)}")
        (attribute,) = node.attribute or (onnx.AttributeProto(),)
        try:
            if attribute.name == "value":
                return self._weight(attribute.t, node)
            if attribute.name == "sparse_value":
                return self._weight(attribute.sparse_tensor, node)
            if attribute.name in ("value_string", "value_strings"):
                texts = attribute.strings if attribute.name.endswith("s") else [attribute.s]
                shape = (len(texts),) if attribute.name.endswith("s") else ()
                return self._strings(Strings(shape, tuple(t.decode() for t in texts)), node)
        except (Unsupported, UnicodeDecodeError) as error:
            raise unsupported(node, str(error)) from error
        return None

    def _inline_branch(self, node: onnx.NodeProto, sources: Sequence[Value | None]) -> bool:
        """Imports the branch of an If whose condition is known at import; tells if it did."""
        if node.op_type != "If" or node.domain not in ("", "ai.onnx"):
            return False
        condition = sources[0] if sources else None
        if not isinstance(condition, Array) or condition.size != 1:
            return False
        wanted = "then_branch" if condition.values().reshape(-1)[0] else "else_branch"
        graph = next((a.g for a in node.attribute if a.name == wanted), onnx.GraphProto())
        inner = Scope(self.context, graph, self)
        inner.block = self.block
        for each in graph.node:
            inner._add_node(each)
        self.fails |= inner.fails
        for name, output in zip(node.output, graph.output, strict=False):
            value = inner._value(output.name, node)
            if name and value is not None:
                self.values[name] = value
        return True

    def _read(
        self, node: onnx.NodeProto, sources: Sequence[Value | None]
    ) -> tuple[Sequence[Value] | None, str]:
        """Reads a node as graph ops and gives its outputs; else None, and the reason."""
        if node.op_type == "DequantizeLinear":
            sources = [*map(dequantized_as_bytes, sources)]
        reason = why_not_static(value.type for value in sources if value is not None)
        if reason and reader_of(node, self.context.readers) is not None:
            return None, reason
        if _is_default(node) and node.op_type == "Dropout":
            node = self._without_unused(node)
        wrong = contradiction(node, sources, self.context.opset(node))
        if wrong:
            return None, self._invalid(node, wrong)
        before = self.block.last_op
        try:
            read = reader_of(node, self.context.readers)
            opset = self.context.opset(node)
            outputs, emitted = read_node(node, sources, opset, self._insert, read)
        except NoForm as error:
            return None, str(error)
        except REFUSED as error:
            self._roll_back(before)
            return None, self._checked_reason(node, sources, str(error))
        missing = [n for n in node.output[len(outputs) :] if n and n in self.context.used]
        if missing:
            self._roll_back(before)
            return None, f"expected its first outputs to be used only, found '{missing[0]}'"
        self.context.macs[node.name] = sum(map(macs, emitted))
        return outputs, ""

    def _without_unused(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """Removes trailing outputs of a node that nothing uses, such as the mask of a Dropout."""
        kept = onnx.NodeProto()
        kept.CopyFrom(node)
        while len(kept.output) > 1 and kept.output[-1] not in self.context.used:
            kept.output.pop()
        return kept

    def _roll_back(self, before: Operation | None) -> None:
        """Removes the ops after this one."""
        while (op := self.block.last_op) is not None and op is not before:
            erase(op)

    def _checked_reason(
        self, node: onnx.NodeProto, sources: Sequence[Value | None], reason: str
    ) -> str:
        """Gives the reason back if the node is valid; raises ByocirError B105 if it is not. An
        invalid node is allowed in an inner graph, as the branch for inputs of other shapes than the
        pinned ones does not run.
        """
        inputs = {n: v for n, v in zip(node.input, sources, strict=False) if v is not None}
        if len(sources) == len(node.input) and why_invalid(node, inputs, self.context.opsets):
            self._invalid(node, reason)
        return reason

    def _invalid(self, node: onnx.NodeProto, reason: str) -> str:
        """Gives back the reason for which a node is not valid; raises ByocirError B105 with it
        where the node is sure to run.
        """
        if not self.depth:
            raise unsupported(node, reason)
        self.fails = True
        return reason

    # -- what stays as it is

    def _foreign(
        self, node: onnx.NodeProto, sources: Sequence[Value | None], reason: str
    ) -> ForeignOp:
        """Makes a foreign op for a node."""
        node, sources, opset = self._newer(node, sources)
        try:
            attributes = attributes_of(node, self.context.weights)
            types = self._foreign_types(node, sources, opset)
        except Unsupported as error:
            raise unsupported(node, str(error)) from error
        operands = [
            self._located(value, node) if isinstance(value, Array) else value for value in sources
        ]
        graphs = [(a.name, a.g) for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
        scopes = [self._graph(node, graph, operands) for _, graph in graphs]
        blocks = [scope.block for scope in scopes]
        if _is_default(node):
            taken = [None if value is None else value.type for value in operands]
            failing = [scope.block for scope in scopes if scope.fails]
            types = settled(node, types, blocks, taken, failing)
        op = ForeignOp.create(
            operands=[value for value in operands if value is not None],
            result_types=self._result_types(node, types),
            properties=ForeignOp.properties_of(
                node.op_type,
                opset,
                attributes,
                domain="" if node.domain == "ai.onnx" else node.domain,
                inputs=[value is not None for value in operands],
                outputs=[bool(name) for name in node.output],
                graph_names=[name for name, _ in graphs],
                reason=reason,
            ),
            regions=[Region(block) for block in blocks],
            location=named(node.name),
        )
        self._insert(op)
        return op

    def _result_types(self, node: onnx.NodeProto, types: Sequence[Attribute]) -> list[Attribute]:
        """Finds the types of the results that a node has."""
        named_types = zip(node.output, types, strict=True)
        return [self._type(name, type_) for name, type_ in named_types if name]

    def _foreign_types(
        self, node: onnx.NodeProto, sources: Sequence[Value | None], opset: int
    ) -> list[Attribute]:
        """Infers the types of a node's results from its inputs and the values that its graphs
        capture. Raises Unsupported.
        """
        opsets = {**self.context.opsets, "": opset} if _is_default(node) else self.context.opsets
        inputs = {n: v for n, v in zip(node.input, sources, strict=True) if v is not None}
        for name in free_names(node):
            value = self._value(name, node)
            if value is not None:
                inputs.setdefault(name, value)
        return infer_types(node, inputs, opsets)

    def _newer(
        self, node: onnx.NodeProto, sources: Sequence[Value | None]
    ) -> tuple[onnx.NodeProto, Sequence[Value | None], int]:
        """Adapts a node to the working opset if its operator changed since the node's own, so that
        it can be exported beside graph ops; else leaves it.
        """
        opset = self.context.opset(node)
        if opset >= OPSET or not _is_default(node) or same_form(node, opset, OPSET):
            return node, sources, opset
        adapted = adapt(node, sources, opset)
        if adapted is None:
            return node, sources, opset
        return adapted.node, adapted.sources, OPSET

    def _located(self, value: Array, node: onnx.NodeProto) -> SSAValue:
        constant = ConstantOp.of(value, named(node.name))
        self._insert(constant)
        return constant.result

    def _type(self, name: str, inferred: Attribute) -> Attribute:
        """Chooses the type of a foreign op's result: the declared one where nothing else is
        known.
        """
        declared = self.context.declared_type(name)
        if isinstance(inferred, UnknownType):
            return declared
        if isinstance(inferred, UnrankedTensorType) and not isinstance(declared, UnknownType):
            return declared
        return inferred

    def _graph(
        self, node: onnx.NodeProto, graph: onnx.GraphProto, operands: Sequence[SSAValue | None]
    ) -> Scope:
        """Imports a graph inside a node."""
        inputs = [None if value is None else value.type for value in operands]
        types: list[Attribute] = []
        for index, value in enumerate(graph.input):
            try:
                types.append(argument_type(node, index, type_of(value.type), inputs))
            except Unsupported as error:
                raise unsupported(node, f"{error} as input '{value.name}'") from error
        guessed = guess(node, types, inputs)
        if self.depth < GUESSED_DEPTH and guessed != types:
            inner = self._inner(graph, guessed)
            if carries_its_types(node, inner.block):
                return inner
            inner._roll_back(None)
        return self._inner(graph, types)

    def _inner(self, graph: onnx.GraphProto, types: Sequence[Attribute]) -> Scope:
        """Makes the scope of a graph inside and imports it."""
        inner = Scope(self.context, graph, self)
        for value, type_ in zip(graph.input, types, strict=True):
            inner.add_argument(value.name, type_)
        inner.block.add_op(YieldOp.create(operands=inner.run()))
        return inner


def _is_default(node: onnx.NodeProto) -> bool:
    return node.domain in ("", "ai.onnx")


REFUSED = (Unsupported, VerifyException, TypeError, ValueError, LookupError, ArithmeticError)
"""Readers of a valid model raise the first two; hostile values may break them elsewhere."""


class Made(NamedTuple):
    """Holds the outputs that a node becomes, and the ops other than constants that make them."""

    outputs: Sequence[Value]
    emitted: Sequence[Operation]


def read_node(
    node: onnx.NodeProto,
    sources: Sequence[Value | None],
    opset: int,
    insert: Callable[[Operation], None],
    read: Read | None,
) -> Made:
    """Makes the graph ops that stand for a node of this opset, by the reader of its operator;
    `insert` takes each op as it is made. Raises one of `REFUSED`, when ops may have been made
    already.
    """
    if read is None:
        raise NoForm("no graph op stands for this operator")
    default = node.domain in ("", "ai.onnx")
    joined = default and joins(node, opset)
    if default and not joined:
        adapted = adapt(node, sources, opset)
        if adapted is None:
            raise NoForm(f"its form of opset {opset} differs from that of {OPSET}")
        node, sources = adapted
    reader = NodeReader(node, sources, insert)
    made = read_joined(reader, read) if joined else read(reader)
    if made is None:
        raise Unsupported("expected an axis of the input, found another")
    if not joined:
        reader.check_all_read()
    return Made(made if isinstance(made, Sequence) else [made], reader.emitted)


def read_again(
    op: ForeignOp, sources: Sequence[Value | None]
) -> tuple[list[Operation], list[Value]] | None:
    """Makes the ops, in no block yet, that an ONNX operator without graphs becomes on these inputs,
    and the outputs that it has; None where no graph ops stand for it.
    """
    if op.graphs:
        return None
    inputs = [f"input_{i}" if source is not None else "" for i, source in enumerate(sources)]
    present = op.present_outputs()
    outputs = [f"output_{i}" if there else "" for i, there in enumerate(present)]
    node = node_of(op, inputs, outputs, "+".join(names(op.location)), lambda _: onnx.GraphProto())
    made: list[Operation] = []
    opset = op.opset.value.data
    try:
        found = read_node(node, sources, opset, made.append, reader_of(node)).outputs
    except REFUSED:
        found = ()
    if not any(present[len(found) :]):
        return made, [value for value, there in zip(found, present, strict=False) if there]
    for each in reversed(made):
        each.erase()
    return None
