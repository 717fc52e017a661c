"""Which function lowers which graph op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from xdsl.ir import Operation, SSAValue
from xdsl.utils.str_enum import StrEnum

from byocir.dialects.graph import GraphOp
from byocir.dialects.locations import names
from byocir.errors import ByocirError
from byocir.lowering.graph_to_tir.emit import Emitter

Lowered = SSAValue | Sequence[SSAValue] | None
"""An op's only result, all its results, or None for an op that stays as it is."""

Lowering = Callable[[Emitter, Any], Lowered]
"""Emits what computes an op's results and returns them; None, before anything is emitted, for a
case that has no form at the tensor level."""

LOWERINGS: dict[type[Operation], Lowering] = {}


class Way(StrEnum):
    """What an op becomes."""

    BLOCKS = "blocks"
    """Blocks, one after the other."""
    LOOP = "for"
    """A loop that carries values, with blocks inside and around."""
    EXTERN = "extern"
    """A call of a routine of the runtime's C sources."""


WAYS: dict[type[Operation], Way] = {}
"""How each op goes down that has a lowering."""

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
