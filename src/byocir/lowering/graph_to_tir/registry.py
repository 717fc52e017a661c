"""The table of functions that lower graph ops, by class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from xdsl.ir import Operation, SSAValue
from xdsl.utils.str_enum import StrEnum

from byocir.dialects.graph import ForeignOp, GraphOp
from byocir.dialects.graph.foreign import YieldOp
from byocir.dialects.locations import names
from byocir.dialects.tir.emit import Emitter
from byocir.dialects.uses import replace_op
from byocir.errors import ByocirError

Lowered = SSAValue | Sequence[SSAValue]
"""An op's only result, or all its results."""

Lowering = Callable[[Emitter, Any], Lowered]
"""Emits what computes an op's results and returns them."""

LOWERINGS: dict[type[Operation], Lowering] = {}


class Way(StrEnum):
    """The form that an op is lowered to."""

    BLOCKS = "blocks"
    """Blocks, one after the other."""
    LOOP = "for"
    """A loop that carries values, with blocks inside and around."""
    EXTERN = "extern"
    """A call of a routine of the runtime's C sources."""


WAYS: dict[type[Operation], Way] = {}
"""Maps op classes to their lowerings."""

STAYS: dict[type[Operation], str] = {
    ForeignOp: "an operator of ONNX beyond the core set, which runs by its name",
    YieldOp: "the end of a graph inside a foreign op",
}
"""The ops of the graph level that have no lowering, and why."""

_LoweringT = TypeVar("_LoweringT", bound=Callable[..., Lowered])


def lowers(*kinds: type[GraphOp], way: Way = Way.BLOCKS) -> Callable[[_LoweringT], _LoweringT]:
    """Registers the decorated function as the lowering of these op classes, which go down in this
    way."""

    def register(lowering: _LoweringT) -> _LoweringT:
        for kind in kinds:
            LOWERINGS[kind], WAYS[kind] = lowering, way
        return lowering

    return register


def cannot_lower(op: Operation, reason: str) -> ByocirError:
    """The error for an op that has no form at the tensor level."""
    return ByocirError(
        "B305",
        f"expected an op with a tensor-level form, found {op.name}: {reason}",
        where=", ".join(names(op.location)),
        help="give it to a target that takes it at graph level",
    )


def lower_op(op: Operation) -> None:
    """Replaces one graph op by what it lowers to; raises ByocirError B305 for an op that has no
    lowering."""
    lowering = LOWERINGS.get(type(op))
    if lowering is None:
        raise cannot_lower(op, STAYS.get(type(op), "it has no lowering"))
    emitter = Emitter(op.location)
    lowered = lowering(emitter, op)
    results = [lowered] if isinstance(lowered, SSAValue) else list(lowered)
    replace_op(op, emitter.ops, results)
