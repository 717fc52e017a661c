"""Writes ops as text, by what decides how long they take: these are the keys of measured costs.

`NAME {ATTRIBUTES} (OPERAND TYPES) -> RESULT TYPES {BODY}`: attributes by name, and none or no body
without braces; of a body its ops with their result types. Numbers that are only computed with are
left out, as they leave the time alone: floats, zero points, shifts of a requantisation, what is
read outside of arrays, and the values of constants, of which the type stays. So are names.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import ArrayAttr as ListAttr
from xdsl.dialects.builtin import DictionaryAttr, FloatAttr, NoneAttr
from xdsl.ir import Attribute, Operation

from byocir.dialects.array import ArrayAttr
from byocir.dialects.graph import FixedAttr
from byocir.dialects.tir import BlockOp, IteratorAttr
from byocir.dialects.traits import is_constant, is_terminator

_LEFT_OUT = frozenset(("zero_point", "reason", "graph_names", "operandSegmentSizes"))


def text_of(op: Operation) -> str:
    """Writes an op as text, which is equal for ops that take the same time."""
    operands, results = (
        ", ".join(str(value.type) for value in values) for values in (op.operands, op.results)
    )
    attributes, body = _braced(_attributes(op)), _braced(_body(op))
    return f"{op.name}{attributes} ({operands}) -> {results}{body}"


def _braced(parts: list[str]) -> str:
    return f" {{{', '.join(parts)}}}" if parts else ""


def _attributes(op: Operation) -> list[str]:
    found = dict(op.properties)
    if isinstance(op, BlockOp):
        kinds = ["none" if pad is None else "number" for pad in op.pad_values]
        return [*_entries(found, _LEFT_OUT | {"pads"}), f"pads = [{', '.join(kinds)}]"]
    return _entries(found, _LEFT_OUT)


def _entries(attributes: dict[str, Attribute], left_out: frozenset[str] = frozenset()) -> list[str]:
    return [
        f"{name} = {_text(attribute)}"
        for name, attribute in sorted(attributes.items())
        if name not in left_out and not isinstance(attribute, FloatAttr | NoneAttr)
    ]


def _text(attribute: Attribute) -> str:
    if isinstance(attribute, ArrayAttr):
        return str(attribute.data.type)
    if isinstance(attribute, FixedAttr):
        return f"fixed {attribute.ties.data}"
    if isinstance(attribute, IteratorAttr):
        return f"{attribute.kind.data} {attribute.extent.data}"
    if isinstance(attribute, ListAttr):
        each = cast("ListAttr[Attribute]", attribute)
        return f"[{', '.join(_text(inner) for inner in each.data)}]"
    if isinstance(attribute, DictionaryAttr):
        return f"{{{', '.join(_entries(dict(attribute.data)))}}}"
    return str(attribute)


def _body(op: Operation) -> list[str]:
    """Lists the ops of an op's regions in their order, without constants and terminators."""
    inner = [each for region in op.regions for each in region.walk()]
    kept = [e for e in inner if not is_constant(e) and not is_terminator(e)]
    return [" ".join([each.name, *(str(r.type) for r in each.results)]) for each in kept]
