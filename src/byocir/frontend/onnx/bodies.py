"""Finds the types of values where the graphs of control flow meet the graph around them.

ONNX's inference leaves the shapes open that a loop carries, since a turn may change them. Most
turns do not: then values inside and behind the loop have static shapes, as graph ops need.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import cast

import onnx
from xdsl.dialects.builtin import TensorType, UnrankedTensorType
from xdsl.ir import Attribute, Block

from byocir.dialects.graph.values import UnknownType
from byocir.dialects.types import (
    DYNAMIC,
    element_type_of,
    i1,
    i64,
    shape_of,
    static_shape,
    tensor,
)

GUESSED_DEPTH = 3
"""Limits how deep in each other loops are whose carried types are guessed: a wrong guess means to
import a graph again."""

Types = Sequence[Attribute | None]
"""The types of a node's inputs; None for one that is absent."""


def argument_type(
    node: onnx.NodeProto, index: int, declared: Attribute, inputs: Types
) -> Attribute:
    """Finds the type of an input of a loop's graph; unknown where the model does not settle it."""
    if not isinstance(declared, UnknownType):
        return declared
    if node.op_type != "Loop":
        return UnknownType()
    if index < 2:
        return tensor((i64, i1)[index], [])
    carried = inputs[index] if index < len(inputs) else None
    if carried is None or not isinstance(carried, TensorType):
        return UnknownType()
    # A loop may change the shape of what it carries.
    return UnrankedTensorType(element_type_of(cast(Attribute, carried)))


def guess(node: onnx.NodeProto, types: Sequence[Attribute], inputs: Types) -> list[Attribute]:
    """Guesses that types of a loop's inputs that are not static are those of the first turn, where
    these are.
    """
    first = _first_turn(node, inputs)
    return [
        known
        if static_shape(known) is not None or found is None or static_shape(found) is None
        else found
        for known, found in zip(types, [*first, *[None] * len(types)], strict=False)
    ]


def _first_turn(node: onnx.NodeProto, inputs: Types) -> list[Attribute | None]:
    """Finds the types of the inputs of a loop's graph in the first turn."""
    if node.op_type == "Loop":
        return [None, None, *inputs[2:]]
    if node.op_type != "Scan":
        return []
    attributes = {a.name: a for a in node.attribute}
    count = attributes["num_scan_inputs"].i if "num_scan_inputs" in attributes else 0
    if "scan_input_axes" in attributes or count > len(inputs):
        return []
    states, scanned = inputs[: len(inputs) - count], inputs[len(inputs) - count :]
    return [*states, *map(_slice, scanned)]


def _slice(type_: Attribute | None) -> Attribute | None:
    shape = None if type_ is None else static_shape(type_)
    return tensor(element_type_of(type_), shape[1:]) if type_ is not None and shape else None


def carries_its_types(node: onnx.NodeProto, block: Block) -> bool:
    """Tells if every turn gives what the next one takes."""
    skipped = 2 if node.op_type == "Loop" else 0
    taken = [argument.type for argument in block.args][skipped:]
    assert block.last_op is not None
    given = list(block.last_op.operand_types)[skipped // 2 :]
    if node.op_type == "Scan":
        count = next((a.i for a in node.attribute if a.name == "num_scan_inputs"), 0)
        taken = taken[: len(taken) - count]
    return given[: len(taken)] == taken


def settled(
    node: onnx.NodeProto,
    inferred: Sequence[Attribute],
    blocks: Sequence[Block],
    inputs: Types,
    failing: Collection[Block] = (),
) -> list[Attribute]:
    """Finds the types of a node's results: those that were inferred, or finer ones that its graphs
    settle. Graphs that fail whenever they run settle nothing.
    """
    yields = [list(b.last_op.operand_types) for b in blocks if b.last_op is not None]
    found: list[Attribute | None] = []
    if node.op_type == "If" and len(yields) == 2:
        runs = [list(b.last_op.operand_types) for b in blocks if b.last_op and b not in failing]
        found = [_agreed(types[0], types[-1]) for types in zip(*runs or yields, strict=False)]
    elif node.op_type == "Loop" and len(yields) == 1 and carries_its_types(node, blocks[0]):
        count = len(inputs) - 2
        found = [_agreed(a, b) for a, b in zip(yields[0][1 : 1 + count], inputs[2:], strict=False)]
        found += [_stack(type_) for type_ in yields[0][1 + count :]]
    return [
        known
        if static_shape(known) is not None or better is None or not _is_finer(better, known)
        else better
        for known, better in zip(inferred, [*found, *[None] * len(inferred)], strict=False)
    ]


def _agreed(a: Attribute, b: Attribute | None) -> Attribute | None:
    """Gives the type of a value that comes from one of two places: that of both, if it is one
    static type.
    """
    return a if a == b and static_shape(a) is not None else None


def _stack(type_: Attribute) -> Attribute | None:
    """Gives the type of an array that holds the values of all turns along a new first axis; None if
    they have no static shape.
    """
    if static_shape(type_) is None:
        return None
    return tensor(element_type_of(type_), [DYNAMIC, *shape_of(type_)])


def _is_finer(better: Attribute, known: Attribute) -> bool:
    """Tells if a type of a tensor says more than the inferred one, and does not contradict it."""
    if isinstance(known, UnknownType):
        return True
    if not isinstance(known, TensorType | UnrankedTensorType):
        return False
    if cast("TensorType", known).element_type != element_type_of(better):
        return False
    if isinstance(known, UnrankedTensorType):
        return True
    sizes, found = shape_of(cast(Attribute, known)), shape_of(better)
    return len(sizes) == len(found) and all(
        size in (DYNAMIC, other) for size, other in zip(sizes, found, strict=True)
    )
