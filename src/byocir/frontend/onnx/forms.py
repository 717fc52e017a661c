"""Compares the versions of an operator: tells if a node means the same at two opsets.

Most versions of an operator only add types, or attributes whose defaults keep the old meaning. A
node then is read, written and run at any opset between, without conversion.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import onnx

from byocir.frontend.onnx.opset import OPSET

CHANGED: Mapping[str, int] = {
    "DFT": 20,
    "GridSample": 20,
    "GroupNormalization": 21,
    "Hardmax": 13,
    "LogSoftmax": 13,
    "RoiAlign": 16,
    "Softmax": 13,
}
"""Operators that the opset given here changed the meaning of, where their signature does not tell
(or not for all nodes): Softmax joined the dimensions behind its axis, GroupNormalization had a
scale for each group, RoiAlign and DFT had other defaults, GridSample other names of modes."""


DROPPED: Mapping[tuple[str, str, bytes], int] = {
    ("Resize", "coordinate_transformation_mode", b"tf_half_pixel_for_nn"): 13
}
"""Values of attributes that are not known from the opset on that is given here."""


WANTED: Mapping[str, tuple[int, int]] = {"Split": (18, 2)}
"""Operators that want this many inputs from the opset given here on, or an attribute in place of
the last: Split without sizes made equal parts by itself, and then wants `num_outputs`."""


class OperatorForm(NamedTuple):
    """Describes a version of an operator: the names of its inputs, and the default of each
    attribute.
    """

    since: int
    inputs: tuple[str, ...]
    variadic: bool
    attributes: Mapping[str, tuple[int, bytes | None]]
    """Type and default, serialised."""


@lru_cache(maxsize=4096)
def form_of(op_type: str, domain: str, opset: int) -> OperatorForm | None:
    """Finds the form of an operator at an opset of its domain; None if it has none there."""
    try:
        schema = onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None
    if schema.deprecated:
        return None
    inputs = tuple(each.name.removeprefix("input_") for each in schema.inputs)
    last = schema.inputs[-1].option if schema.inputs else None
    return OperatorForm(
        schema.since_version,
        inputs,
        last == onnx.defs.OpSchema.FormalParameterOption.Variadic,
        {name: _default(each) for name, each in schema.attributes.items()},
    )


def _default(attribute: onnx.defs.OpSchema.Attribute) -> tuple[int, bytes | None]:
    default = attribute.default_value
    has_default = default.type != onnx.AttributeProto.UNDEFINED
    kind: Any = attribute.type
    return int(kind), default.SerializeToString() if has_default else None


def same_form(node: onnx.NodeProto, old: int, new: int) -> bool:
    """Tells if a node of opset `old` of its domain means the same at opset `new`."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    before, after = form_of(node.op_type, domain, old), form_of(node.op_type, domain, new)
    if before is None or after is None:
        return before is after and old == new
    if before.since == after.since:
        return True
    changed = CHANGED.get(node.op_type, 0) if not domain else 0
    turns = [changed, _wants_more(node)]
    turns += [DROPPED.get((node.op_type, each.name, each.s), 0) for each in node.attribute]
    older, newer = sorted((before.since, after.since))
    if any(older < turn <= newer for turn in turns):
        return False
    return _same_inputs(node, before, after) and _same_attributes(node, before, after)


def _wants_more(node: onnx.NodeProto) -> int:
    """Gives the opset from which on a node lacks an input that it may leave out before, or 0."""
    since, count = WANTED.get(node.op_type, (0, 0)) if node.domain in ("", "ai.onnx") else (0, 0)
    return since if sum(map(bool, node.input)) < count else 0


def _same_inputs(node: onnx.NodeProto, before: OperatorForm, after: OperatorForm) -> bool:
    count = len(node.input)
    if before.variadic != after.variadic:
        return False
    if before.variadic:
        return len(before.inputs) == len(after.inputs)
    return before.inputs[:count] == after.inputs[:count] and count <= len(after.inputs)


def _same_attributes(node: onnx.NodeProto, before: OperatorForm, after: OperatorForm) -> bool:
    given = {attribute.name for attribute in node.attribute}
    for name in given:
        kind = before.attributes.get(name)
        if name not in after.attributes or kind is None or kind[0] != after.attributes[name][0]:
            return False
    shared = (before.attributes.keys() & after.attributes.keys()) - given
    return all(before.attributes[name] == after.attributes[name] for name in shared)


def is_newcomer(node: onnx.NodeProto, opset: int) -> bool:
    """Tells whether a node's operator came after the working opset and still means what it did when
    it came; the op table then reads its first form.
    """
    first = _first(node.op_type, "" if node.domain == "ai.onnx" else node.domain)
    return first > OPSET and same_form(node, opset, first)


@lru_cache(maxsize=4096)
def _first(op_type: str, domain: str) -> int:
    """Finds the opset in which an operator was introduced; 0 if that is not known."""
    known = onnx.defs.get_all_schemas_with_history()
    named = (each for each in known if each.name == op_type and each.domain == domain)
    return min((each.since_version for each in named), default=0)


Versioned = tuple[onnx.NodeProto, int]
"""A node and the opset of its domain that it is written for."""


def common_opset(nodes: Sequence[Versioned], candidates: Iterable[int]) -> int | None:
    """Finds the first of these opsets at which all nodes, of one domain, keep the meaning they have
    at their own.
    """
    for opset in candidates:
        if all(same_form(node, version, opset) for node, version in nodes):
            return opset
    return None
