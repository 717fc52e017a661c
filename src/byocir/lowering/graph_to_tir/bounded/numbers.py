"""Numbers that operators are given: as attributes, or as constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import I64, DenseArrayBase, IntegerAttr

from byocir.dialects.graph import ForeignOp
from byocir.dialects.graph.base import int_tuple
from byocir.lowering.graph_to_tir.bounded.bounds import constant_of


def integer_of(op: ForeignOp, name: str) -> int | None:
    """Gives an attribute that is an integer."""
    found = op.attrs.data.get(name)
    return cast("IntegerAttr", found).value.data if isinstance(found, IntegerAttr) else None


def integers_of(op: ForeignOp, name: str, place: int | None = None) -> Sequence[int] | None:
    """Gives an attribute of integers, or what a constant input has."""
    found = op.attrs.data.get(name)
    if isinstance(found, DenseArrayBase):
        return list(int_tuple(cast("DenseArrayBase[I64]", found)))
    if place is None or len(op.inputs) <= place:
        return None
    array = constant_of(op.inputs[place])
    return None if array is None else [int(n) for n in array.reshape(-1)]
