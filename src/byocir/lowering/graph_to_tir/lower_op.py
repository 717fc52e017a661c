"""Replaces graph ops by their definitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, SSAValue

from byocir.dialects.array import Array, constant_array
from byocir.dialects.graph import ForeignOp, GraphOp, YieldOp
from byocir.dialects.graph.base import is_defined, undefined
from byocir.dialects.template import Sources, Template
from byocir.dialects.tir.emit import Emitter
from byocir.dialects.uses import replace_op

STAYS: dict[type[Operation], str] = {
    ForeignOp: "an operator of ONNX beyond the core set, which runs by its name",
    YieldOp: "the end of a graph inside a foreign op",
}
"""The ops of the graph dialect that have no definition, and why."""


@dataclass
class Definitions:
    """Replaces graph ops by their definitions. Of ops that are alike the first two are defined, the
    others get copies of what was made for the second; in a block they share fills and empty
    tensors, which have no operands.
    """

    _known: dict[Hashable, tuple[Template | None, Sequence[Array | None]]] = field(
        default_factory=dict[Hashable, "tuple[Template | None, Sequence[Array | None]]"]
    )
    """The definition of each `_likeness`, with the constants that this tells apart by identity,
    to keep them alive."""
    _sources: dict[Block | None, Sources] = field(
        default_factory=lambda: defaultdict[Block | None, Sources](Sources)
    )

    def lower(self, op: Operation) -> None:
        """Replaces one graph op by what defines it; raises ByocirError B305 for an op that has no
        definition."""
        if not isinstance(op, GraphOp) or not is_defined(type(op)):
            raise undefined(op, STAYS.get(type(op), "it has no definition"))
        replace_op(op, *self._defined(op))

    def finish(self) -> None:
        """Gives ops that several definitions share the locations of all, once all graph ops are
        replaced.
        """
        for sources in self._sources.values():
            sources.locate()

    def _defined(self, op: GraphOp) -> tuple[Sequence[Operation], Sequence[SSAValue]]:
        if not op.operands or op.regions:
            return _define(op)
        constants = [constant_array(value) for value in op.operands]
        likeness = _likeness(op, constants)
        template, _ = self._known.get(likeness, (None, ()))
        if template is not None:
            return template.make(op.operands, op.location, self._sources[op.parent])
        ops, results = _define(op)
        # Most definitions of a model are made once: to read them for copies would be in vain.
        again = likeness in self._known
        template = Template.of(op.operands, ops, results) if again else None
        self._known[likeness] = (template, constants)
        return ops, results


def _define(op: GraphOp) -> tuple[Sequence[Operation], Sequence[SSAValue]]:
    emitter = Emitter(op.location)
    defined = op.define(emitter)
    return emitter.ops, [defined] if isinstance(defined, SSAValue) else list(defined)


def _likeness(op: GraphOp, constants: Sequence[Array | None]) -> Hashable:
    """Makes a key that ops share if their definitions are equal: see `GraphOp.define`."""
    first: dict[SSAValue, int] = {}
    same = tuple(first.setdefault(value, i) for i, value in enumerate(op.operands))
    return (
        type(op),
        tuple(op.properties.items()),
        tuple(op.attributes.items()),
        tuple(value.type for value in op.operands),
        tuple(result.type for result in op.results),
        same,
        tuple(map(id, constants)),
    )
