"""Holds the outcome of matching: what names are bound to, results of rules, and attempts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import numpy as np
from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    BoolAttr,
    BytesAttr,
    DenseArrayBase,
    FloatAttr,
    IntAttr,
    IntegerAttr,
    LocationAttr,
    StringAttr,
)
from xdsl.dialects.builtin import (
    ArrayAttr as BuiltinArrayAttr,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from byocir.dialects.array import Array, ArrayAttr, constant_array
from byocir.dialects.decisions import Gap
from byocir.dialects.tir import BlockOp
from byocir.dialects.types import Shape, element_type_of, shape_of
from byocir.errors import ByocirError
from byocir.patterns.dataflow import produced
from byocir.patterns.same_blocks import Alike, OutlineMisfit, Reason

_TRUE, _FALSE = BoolAttr.from_bool(True), BoolAttr.from_bool(False)


def python_value(attribute: Attribute) -> Any:
    """Gives an attribute as a plain Python value where it has one: number, string, bool, tuple."""
    if attribute in (_TRUE, _FALSE):
        return attribute == _TRUE
    if isinstance(attribute, IntegerAttr | FloatAttr):
        return attribute.value.data
    if isinstance(attribute, StringAttr):
        return attribute.data
    if isinstance(attribute, BytesAttr):  # text that is not UTF-8
        return attribute.data.decode(errors="replace")
    if isinstance(attribute, IntAttr):
        return cast(IntAttr[int], attribute).data
    if isinstance(attribute, DenseArrayBase):
        values = cast(DenseArrayBase[Any], attribute).get_values()
        return tuple(values)
    if isinstance(attribute, ArrayAttr) and attribute.data.size == 1 and attribute.data.present:
        return attribute.data.values().reshape(()).item()
    if isinstance(attribute, BuiltinArrayAttr):
        return tuple(python_value(a) for a in cast(BuiltinArrayAttr[Attribute], attribute))
    return attribute


@dataclass(frozen=True)
class TypeView:
    """Shows a tensor type as rules read it."""

    shape: Shape
    element: Attribute

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(frozen=True)
class Bound:
    """Holds the value that a name of a pattern is bound to, and the op that produced it if it
    matched."""

    value: SSAValue
    op: Operation | None = None

    @property
    def type(self) -> TypeView:
        """Gives the shape and element type, e.g. `m["w"].type.shape[1]`."""
        return TypeView(shape_of(self.value.type), element_type_of(self.value.type))

    @property
    def attrs(self) -> dict[str, Any]:
        """Gives the op's attributes as Python values, e.g. `m["conv"].attrs["strides"]`."""
        if self.op is None:
            return {}
        return {name: python_value(a) for name, a in self.op.properties.items()}

    @property
    def location(self) -> LocationAttr:
        """Gives the location of the op that matched."""
        return UNKNOWN_LOC if self.op is None else self.op.location

    @property
    def array(self) -> Array:
        """Gives the constant array behind the value; its `.values()` are the numbers."""
        array = constant_array(self.value)
        if array is None:
            raise ByocirError(
                "B107",
                "expected a name that the pattern binds to a constant in the composite, found "
                f"{self.value.type}",
                help='with constants = "argument" only calls know the numbers',
            )
        return array

    @property
    def numbers(self) -> np.ndarray:
        """Gives the numbers of the constant behind the value, which must not be written to. Raises
        ByocirError where they were not supplied."""
        return self.array.values()


@dataclass(frozen=True)
class BoundBlock(Bound):
    """Holds the block that the name of a block pattern is bound to, and how it reads its iterators.

    `block("m n | k", …) @ "gemm"` gives `m["gemm"].extents["m"]`. `iterators` has for each name and
    group of the pattern the positions of the block's iterators that stand for it: one for a name
    (none where the block does without an iterator of extent 1), any number for a group.
    `operands[i]` is which input of the block the pattern's access i is.
    """

    iterators: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    operands: tuple[int, ...] = ()

    @staticmethod
    def of(
        value: SSAValue,
        op: BlockOp,
        names: Mapping[str, int],
        groups: Mapping[str, tuple[int, ...]],
        operands: Sequence[int],
    ) -> BoundBlock:
        """Makes the record of a match with a block, where a name may be bound to no iterator of it:
        such names have numbers past the block's own.
        """
        named = {name: (i,) if i < len(op.extents) else () for name, i in names.items()}
        return BoundBlock(value, op, {**named, **groups}, tuple(operands))

    @property
    def block(self) -> BlockOp:
        """Gives the block itself."""
        assert isinstance(self.op, BlockOp)
        return self.op

    @property
    def extents(self) -> dict[str, int]:
        """Gives the extent of each iterator that the pattern names; of a group the product over its
        iterators.
        """
        return {
            name: math.prod(self.block.extents[i] for i in positions)
            for name, positions in self.iterators.items()
        }

    @property
    def pads(self) -> tuple[int | float | None, ...]:
        """Gives the number that each access of the pattern reads outside its array, None where all
        reads are inside.
        """
        values = [self.block.pad_values[operand] for operand in self.operands]
        return tuple(None if value is None else python_value(value) for value in values)


class State(NamedTuple):
    """Keeps a match in the making. It is immutable, so that alternatives share what came before
    them, and a tuple, as matching makes many.
    """

    block: Block | None
    """The IR block all matched ops must be in."""
    ops: tuple[Operation, ...] = ()
    constants: tuple[Operation, ...] = ()
    exposed: frozenset[Operation] = frozenset()
    sources: frozenset[Operation] = frozenset()
    """The ops that produced the inputs; they must be outside the match."""
    nodes: Mapping[int, object] = MappingProxyType[int, object]({})
    """The node of each pattern object, by the object's id: one object binds one node."""
    names: Mapping[str, Bound | int | float] = MappingProxyType[str, Bound | int | float]({})
    passed: frozenset[SSAValue] = frozenset()
    """Arguments of a composite's body that stand for constants."""

    def with_node(self, pattern: object, thing: object) -> State | None:
        """Binds a pattern object to what it stands for; None when it already stands for something
        else.
        """
        known = self.nodes.get(id(pattern))
        if known is not None:
            return self if known is thing else None
        return self._replace(nodes={**self.nodes, id(pattern): thing})

    def with_name(self, name: str | None, thing: Bound | float) -> State | None:
        """Binds a name; None when it is bound to something else."""
        if name is None:
            return self
        known = self.names.get(name)
        if known is not None:
            return self if known == thing else None
        return self._replace(names={**self.names, name: thing})

    def with_op(self, op: Operation, *, exposed: bool = False) -> State:
        if op in self.ops:  # two nodes of the pattern stand for the same op
            return self.with_exposed(op) if exposed else self
        extra = self.exposed | {op} if exposed else self.exposed
        return self._replace(ops=(*self.ops, op), exposed=extra)

    def with_exposed(self, op: Operation) -> State:
        """Notes that the value of an op inside the match is one of its results."""
        return self._replace(exposed=self.exposed | {op})

    def with_constant(self, op: Operation) -> State:
        if op in self.constants:
            return self
        return self._replace(constants=(*self.constants, op))

    def with_source(self, op: Operation | None) -> State:
        """Notes the op, outside of the match, that produced an input."""
        return self if op is None else self._replace(sources=self.sources | {op})


@dataclass
class Progress:
    """Keeps how far the best alternative of an attempt came, and why it stopped there."""

    matched: tuple[Operation, ...] = ()
    near: int = 0
    """A measure of what fitted of an op that did not match: 0 for nothing but its kind."""
    gap: Gap = Gap.PART
    """Says what kept that op from matching."""
    alike: Alike = field(default_factory=Alike)
    """The findings of earlier attempts about blocks, where they share them."""
    by_outline: bool = True
    """Tells if all that was found follows from the outline of the block where matching began."""
    told: Reason = ""
    """The reason as blocks of the same outline share it."""
    op: BlockOp | None = None
    """The block that did not match, if it was one."""

    _further: tuple[int, int] = (0, 0)
    """Ranks that alternative: the one that came further has the greater key."""

    def miss(self, state: State, reason: str) -> None:
        """Keeps the reason of a miss if the attempt came further there than before."""
        if self._is_further(state, 0, len(state.ops)):
            self.told, self.op, self.gap = reason, None, Gap.PART

    def miss_block(self, op: BlockOp, state: State, misfit: OutlineMisfit) -> None:
        """Keeps the reason of a miss at a block if the attempt came further there than before."""
        fitted = len(state.ops) - (op in state.ops)
        if self._is_further(state, misfit.near, fitted):
            self.told, self.op, self.gap = misfit.reason, op, misfit.gap

    @property
    def reason(self) -> str:
        """Words the reason, which takes long: for most attempts nobody asks."""
        if isinstance(self.told, str):
            return self.told
        assert self.op is not None
        return self.told(self.op)

    def _is_further(self, state: State, near: int, fitted: int) -> bool:
        """Tells whether an attempt of which so many ops fitted came further than those before, and
        keeps how far it came. A block whose indices alone fit is reached, but does not count: one
        whose body fits is nearer.
        """
        further = (fitted, near) > self._further or not self.told
        if further:
            self.matched, self.near, self._further = state.ops, near, (fitted, near)
        return further

    def misfit(self) -> OutlineMisfit:
        """Gives the reason in the form that blocks of the same outline can share."""
        return OutlineMisfit(self.told, self.near, bool(self.matched), self.gap)


@dataclass(frozen=True)
class Match:
    """Holds a pattern that fits: what rules and code generators read.

    `m["x"]` is a `Bound` for a named wildcard, constant or op, and a number for a named unknown;
    `"b" in m` tells whether an optional part is there.
    """

    state: State
    root: Operation

    def __repr__(self) -> str:
        count = f"{len(self.ops)} op{'s' if len(self.ops) != 1 else ''}"
        return f"<Match of {count}, root {self.root.name}, names {', '.join(self) or 'none'}>"

    def __getitem__(self, name: str) -> Any:
        return self.state.names[name]

    def __contains__(self, name: object) -> bool:
        return name in self.state.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.state.names)

    def get(self, name: str, default: Any = None) -> Any:
        return self.state.names.get(name, default)

    @property
    def result(self) -> Bound:
        """Gives the first result of the root or, in buffer form, the memref it writes."""
        return Bound(produced(self.root)[0], self.root)

    @property
    def ops(self) -> tuple[Operation, ...]:
        """Lists the matched ops, without the constants, root first."""
        return self.state.ops
