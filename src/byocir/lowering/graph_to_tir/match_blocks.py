"""Lowers a copy of matched graph ops, so that a target sees their blocks before it takes them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xdsl.ir import Block, Operation, SSAValue

from byocir.dialects.graph.base import is_defined
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
    body, known = Block(), dict[SSAValue, SSAValue]()
    for op in makers_first(ops):
        for value in op.operands:
            if value in known:
                continue
            moves = inside is None or value.owner in inside
            if is_constant_value(value) and isinstance(value.owner, Operation) and moves:
                body.add_op(copied := value.owner.clone())
                known[value] = copied.results[0]
            else:
                known[value] = body.insert_arg(value.type, len(body.args))
        body.add_op(copied := op.clone(known))
        known.update(zip(op.results, copied.results, strict=True))
    definitions = Definitions()
    for op in list(body.ops):
        definitions.lower(op)
    return list(body.ops)
