"""Helps passes to write blocks: named iteration spaces, reads, and an emitter of ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar, cast

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, LocationAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.array import Array
from byocir.dialects.tir import (
    BlockOp,
    ConstantOp,
    EmptyOp,
    ExternOp,
    FillOp,
    ForOp,
    IteratorAttr,
    IteratorKind,
    YieldOp,
)
from byocir.dialects.tir.affine import beyond
from byocir.dialects.tir.linear import spans
from byocir.dialects.tir.scalar import Emitted, Number, emit_body, number_attr
from byocir.dialects.types import Shape, element_type_of, shape_of, tensor

_OpT = TypeVar("_OpT", bound=Operation)

Index = Sequence[AffineExpr]
"""One expression for each dimension of an array."""

ZERO = AffineExpr.constant(0)

ScalarBody = (
    Callable[[Emitted], Emitted]
    | Callable[[Emitted, Emitted], Emitted]
    | Callable[[Emitted, Emitted, Emitted], Emitted]
    | Callable[[Emitted, Emitted, Emitted, Emitted], Emitted]
)
"""A block's body as a function of the elements it reads."""


class Space:
    """Describes an iteration space; `space["n"]` is iterator n as an index expression."""

    def __init__(
        self, parallel: Mapping[str, int], reduction: Mapping[str, int] | None = None
    ) -> None:
        kinds = (
            (IteratorKind.PARALLEL, parallel),
            (IteratorKind.REDUCTION, reduction or {}),
        )
        self.iterators = ArrayAttr(
            [
                IteratorAttr.of(name, kind, extent)
                for kind, extents in kinds
                for name, extent in extents.items()
            ]
        )
        self.extents = (*parallel.values(), *(reduction or {}).values())
        self.parallel = tuple([AffineExpr.dimension(i) for i in range(len(parallel))])
        """The parallel iterators in their order."""
        names = [*parallel, *(reduction or {})]
        self._dims = {name: AffineExpr.dimension(i) for i, name in enumerate(names)}

    @staticmethod
    @lru_cache(maxsize=1024)  # the pieces of a split have one of thousands
    def over(shape: Shape) -> Space:
        """Gives the space of an array's elements, with iterators named i0, i1, …"""
        return Space({f"i{axis}": size for axis, size in enumerate(shape)})

    def __getitem__(self, name: str) -> AffineExpr:
        return self._dims[name]

    def map(self, index: Index) -> AffineMap:
        return AffineMap(len(self.extents), 0, tuple(index))


@dataclass(frozen=True)
class Read:
    """Describes an input of a block: an array, where it is read, and what is read outside of it."""

    value: SSAValue
    index: Index
    pad: Number | None = None

    @staticmethod
    def whole(value: SSAValue) -> Read:
        """Reads an array, with dimensions, as a whole: the body looks elements up in it."""
        return Read(value, ())

    @property
    def argument(self) -> Attribute:
        """Gives the type of the body's argument for this input."""
        is_whole = not self.index and shape_of(self.value.type)
        return self.value.type if is_whole else element_type_of(self.value.type)


class Emitter:
    """Collects the ops that replace one op, and gives all of them its location."""

    def __init__(self, location: LocationAttr) -> None:
        self.location = location
        self.ops: list[Operation] = []

    def add(self, op: _OpT) -> _OpT:
        self.ops.append(op)
        return op

    def constant(self, values: np.ndarray | Array) -> SSAValue:
        array = values if isinstance(values, Array) else Array.of(values)
        return self.add(ConstantOp.of(array, location=self.location)).result

    def empty(self, element: Attribute, shape: Shape) -> SSAValue:
        return self.add(EmptyOp.of(tensor(element, shape), self.location)).results[0]

    def fill(self, number: Number, element: Attribute, shape: Shape) -> SSAValue:
        value = number_attr(number, element)
        return self.add(FillOp.of(value, tensor(element, shape), self.location)).results[0]

    def block(
        self,
        space: Space,
        reads: Sequence[Read],
        init: SSAValue,
        body: ScalarBody,
        out: Index | None = None,
        where: Sequence[AffineExpr] = (),
        bases: Mapping[str, SSAValue] | None = None,
    ) -> SSAValue:
        """Emits a block that updates `init` at `out`, by default one element for each parallel
        point, where none of the expressions `where` is negative. `body` takes the elements read and
        the one updated. Iterators in `bases` start there, the others at 0. Gives the result; a
        space without points needs no block.
        """
        if 0 in space.extents:
            return init
        written = space.parallel if out is None else out
        types = [*(read.argument for read in reads), element_type_of(init.type)]
        region = emit_body(types, cast(Callable[..., Emitted], body), self.location)
        op = BlockOp(
            space.iterators,
            [read.value for read in reads],
            [init],
            [space.map(index) for index in (*(r.index for r in reads), written)],
            region,
            pads=[_pad(space, read) for read in reads],
            where=space.map(where) if where else None,
            bases=self._bases(space, bases) if bases else (),
            location=self.location,
        )
        return self.add(op).results[0]

    def _bases(self, space: Space, bases: Mapping[str, SSAValue]) -> list[SSAValue]:
        zero = self.add(arith.ConstantOp(IntegerAttr.from_index_int_value(0)))
        zero.location = self.location
        names = [iterator.iterator_name.data for iterator in space.iterators]
        return [bases.get(name, zero.result) for name in names]

    def loop(
        self,
        extent: int,
        initial: Sequence[SSAValue],
        body: Callable[[Emitter, SSAValue | None, Sequence[SSAValue]], Sequence[SSAValue]],
    ) -> Sequence[SSAValue]:
        """Emits a serial loop that carries values: `body` takes an emitter, the index and the
        values so far, and gives the next values. Gives the last values. What runs once needs no
        loop, and its index is None.
        """
        if extent == 1:
            return body(self, None, initial)
        op = ForOp.of(extent, location=self.location, initial=initial)
        inside = Emitter(self.location)
        next_ = body(inside, op.index, op.carried)
        end = YieldOp.create(operands=list(next_), location=self.location)
        op.body.block.add_ops([*inside.ops, end])
        return self.add(op).results

    def extern(
        self,
        routine: str,
        inputs: Sequence[SSAValue],
        types: Sequence[Attribute],
        **numbers: int,
    ) -> Sequence[SSAValue]:
        """Emits a call of a routine; gives its results, which have these types."""
        results = cast("Sequence[TensorType]", types)
        return self.add(ExternOp.of(routine, inputs, results, numbers, self.location)).results

    def bounded(
        self,
        routine: str,
        inputs: Sequence[SSAValue],
        types: Sequence[Attribute],
        bounds: Sequence[Shape],
        **numbers: int,
    ) -> Sequence[SSAValue]:
        """Emits a call of a routine whose results have at most the shapes `bounds`; gives the
        results.
        """
        results = cast("Sequence[TensorType]", types)
        op = ExternOp.of(routine, inputs, results, numbers, self.location, bounds)
        return self.add(op).results

    def elementwise(
        self,
        shape: Shape,
        element: Attribute,
        operands: Sequence[SSAValue | Read],
        body: ScalarBody,
    ) -> SSAValue:
        """Emits a block over `shape`, whose operands broadcast as numpy's do; `body` takes their
        elements. Gives the result.
        """
        space = Space.over(shape)
        reads = [
            operand
            if isinstance(operand, Read)
            else Read(operand, broadcast_index(shape_of(operand.type), shape))
            for operand in operands
        ]
        init = self.empty(element, shape)

        def without_init(*scalars: Emitted) -> Emitted:
            return cast(Callable[..., Emitted], body)(*scalars[:-1])

        return self.block(space, reads, init, without_init)


def _pad(space: Space, read: Read) -> Attribute | None:
    """Gives the pad of a read that goes outside its array; None for others, which need no pad."""
    if read.pad is None:
        return None
    reach = beyond(read.index, shape_of(read.value.type), spans(space.extents))
    if not any(map(any, reach)):
        return None
    return number_attr(read.pad, element_type_of(read.value.type))


def broadcast_index(own: Shape, shape: Shape) -> list[AffineExpr]:
    """Gives the index at which an array of shape `own` is read that broadcasts to `shape`, over
    which the first iterators run: trailing dimensions align, sizes of 1 stay at index 0. [4, 1] to
    [2, 4, 8] → [d1, 0].
    """
    start = len(shape) - len(own)
    return [
        AffineExpr.dimension(start + axis) if size == shape[start + axis] else ZERO
        for axis, size in enumerate(own)
    ]
