"""Copies ops, for when the same ops are made time and again.

A template lists ops as plain data, so that it does not change with the ops that it was read from.
Copies share their attributes and types, by which the verifier sees that they are right alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from byocir.dialects.locations import fuse
from byocir.dialects.new_ops import fill_block, new_block, new_op


@dataclass(frozen=True)
class _Op:
    kind: type[Operation]
    operands: Sequence[int]
    """Numbers of values: first the inputs of the template, then what is made, in that order."""
    results: Sequence[Attribute]
    """Their types."""
    properties: Mapping[str, Attribute]
    attributes: Mapping[str, Attribute]
    regions: Sequence[Sequence[_Block]]


@dataclass(frozen=True)
class _Block:
    arguments: Sequence[Attribute]
    """Their types."""
    ops: Sequence[_Op]


@dataclass(frozen=True)
class Template:
    """Makes ops that always are the same, but for their inputs and location."""

    ops: Sequence[_Op]
    results: Sequence[int]
    """The numbers of the values that the ops are made for."""

    @staticmethod
    def of(
        inputs: Sequence[SSAValue], ops: Sequence[Operation], results: Sequence[SSAValue]
    ) -> Template | None:
        """Reads a template off some ops; None if they use values that are neither inputs nor made
        by them.
        """
        reader = _Reader()
        for value in inputs:
            reader.add(value)
        try:
            read = [reader.op(op) for op in ops]
            return Template(read, [reader.numbers[value] for value in results])
        except KeyError:
            return None

    def make(
        self, inputs: Sequence[SSAValue], location: LocationAttr, sources: Sources | None = None
    ) -> tuple[list[Operation], list[SSAValue]]:
        """Makes the ops; gives the values for which they are made. Ops that `sources` has from an
        earlier copy are not made again.
        """
        values, ops = list(inputs), list[Operation]()
        for op in self.ops:
            found = sources.reuse(op, location) if sources is not None else None
            if found is not None:
                values += found.results
                continue
            ops.append(_made(op, values, location))
            if sources is not None:
                sources.keep(op, ops[-1])
        return ops, [values[i] for i in self.results]


@dataclass
class Sources:
    """Shares among a template's copies in one block the ops without operands and regions: fills,
    empty tensors and constants, which need not be made twice.
    """

    _made: dict[int, tuple[Operation, list[LocationAttr]]] = field(
        default_factory=dict[int, "tuple[Operation, list[LocationAttr]]"]
    )
    """By identity of what the template says of it: the op, and where it was used again."""

    def keep(self, op: _Op, made: Operation) -> None:
        """Keeps an op for later copies if it is one that can be shared."""
        if not (op.operands or op.regions):
            self._made[id(op)] = made, []

    def reuse(self, op: _Op, location: LocationAttr) -> Operation | None:
        """Gives the op that was kept, and notes that it now stands for one at this location,
        too.
        """
        if id(op) not in self._made:
            return None
        made, locations = self._made[id(op)]
        locations.append(location)
        return made

    def locate(self) -> None:
        """Gives each shared op the locations of all ops that it stands for."""
        for made, locations in self._made.values():
            if locations:
                made.location = fuse(made, *locations)


@dataclass
class _Reader:
    numbers: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    count: int = 0

    def add(self, value: SSAValue) -> None:
        self.numbers.setdefault(value, self.count)
        self.count += 1

    def op(self, op: Operation) -> _Op:
        operands = [self.numbers[value] for value in op.operands]
        regions = [[self.block(block) for block in region.blocks] for region in op.regions]
        for result in op.results:
            self.add(result)
        types = [result.type for result in op.results]
        return _Op(type(op), operands, types, dict(op.properties), dict(op.attributes), regions)

    def block(self, block: Block) -> _Block:
        for argument in block.args:
            self.add(argument)
        return _Block([argument.type for argument in block.args], [*map(self.op, block.ops)])


def _made(op: _Op, values: list[SSAValue], location: LocationAttr) -> Operation:
    regions = [
        Region([_made_block(block, values, location) for block in region]) for region in op.regions
    ]
    operands = [values[i] for i in op.operands]
    made = new_op(
        op.kind,
        operands=operands,
        result_types=op.results,
        properties=op.properties,
        attributes=op.attributes,
        location=location,
        regions=regions,
    )
    values += made.results
    return made


def _made_block(block: _Block, values: list[SSAValue], location: LocationAttr) -> Block:
    made = new_block(block.arguments)
    values += made.args
    fill_block(made, [_made(op, values, location) for op in block.ops])
    return made
