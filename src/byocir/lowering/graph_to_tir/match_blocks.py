"""Lowers a copy of matched graph ops, so that a target sees their blocks before it takes them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xdsl.ir import Operation, SSAValue

from byocir.dialects.graph.base import is_defined
from byocir.dialects.new_ops import copied_body
from byocir.dialects.traits import is_constant_value
from byocir.dialects.walk import makers_first
from byocir.lowering.graph_to_tir.lower_op import Definitions


def blocks_of_match(
    ops: Sequence[Operation], inside: Collection[Operation] | None
) -> Sequence[Operation]:
    """Copies the ops of a match into a body of their own, lowers them there, and gives what the
    body has then; nothing where an op has no blocks. The constants `inside` are copied, by default
    all that are read; others, and all else that is read, become arguments of the body.
    """
    if not all(is_defined(type(op)) and not op.regions for op in ops):
        return ()

    def copies(value: SSAValue) -> bool:
        return is_constant_value(value) and (inside is None or value.owner in inside)

    body, _ = copied_body(makers_first(ops), copies)
    definitions = Definitions()
    for op in list(body.ops):
        definitions.lower(op)
    return list(body.ops)
