"""Lowers composites to the blocks by which their target defines them, in place of those of their
ops.
"""

from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from byocir.dialects.byoc import CompositeOp
from byocir.dialects.tir.emit import Emitter
from byocir.dialects.uses import erase
from byocir.errors import ByocirError
from byocir.patterns.target_classes import TargetProtocol
from byocir.rewrites.driver import is_dead
from byocir.vendor.hooks import ask


def lower_composites(top: Operation, target: TargetProtocol) -> None:
    """Gives each composite of a region function the body that its target's `lower` makes, if it
    makes one. Raises ByocirError B219 where that fails, B306 where it gives values of other types.
    """
    for composite in [op for op in top.walk() if isinstance(op, CompositeOp)]:
        emitter = Emitter(composite.location)
        results = _lowered(composite, target, emitter)
        if results is None:
            continue
        block = composite.body.block
        end = block.last_op
        assert end is not None
        block.insert_ops_before(emitter.ops, end)
        end.operands = results
        for op in reversed([*block.ops]):
            if is_dead(op):
                erase(op)


def _lowered(composite: CompositeOp, target: TargetProtocol, emitter: Emitter) -> list[Any] | None:
    results = ask(target, "lower", composite, emitter)
    if results is None:
        return None
    expected = [output.type for output in composite.outputs]
    found = [getattr(result, "type", type(result).__name__) for result in results]
    if found != expected:
        raise ByocirError(
            "B306",
            f"expected target '{target.name}' to lower {composite.pattern.data} to "
            f"{', '.join(map(str, expected))}, found {', '.join(map(str, found)) or 'nothing'}",
        )
    return list(results)
