"""Arrays whose shape only a run tells, of which the largest is known, in both forms that C has.

*Packed* an array is of open shape and lies at the start of memory that holds the largest; routines
make and take it so. *Held* it is the part at the start of an array of the largest shape, which
graph ops can compute with: what lies beside the part is any number, and is replaced by one that
does no harm where an op would let it into the part.

Numbers that operators are given, as attributes or as constants, are read here, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import cast

import numpy as np
from xdsl.dialects.builtin import I64, DenseArrayBase, IntegerAttr
from xdsl.ir import Attribute, Operation, SSAValue

from byocir.dialects import graph as g
from byocir.dialects import tir
from byocir.dialects.graph import ForeignOp
from byocir.dialects.graph.base import int_tuple
from byocir.dialects.graph.open_sizes import Dim, OpenSize
from byocir.dialects.tir.emit import Emitter
from byocir.dialects.types import (
    DYNAMIC,
    Shape,
    dtype_of,
    element_type_of,
    has_element,
    i64,
    shape_of,
    static_shape,
    tensor,
)

MOST_BYTES = 2**28
"""The bytes that the largest form of an array may take."""
MOST_DIMENSIONS = 15


@dataclass(eq=False)
class Size(OpenSize):
    """A size that a run tells; two are the same number if they are the same object. It is told by a
    number, or by an array that has it along an axis."""

    bound: int
    _number: SSAValue | None = None
    _array: Bounded | None = None
    _axis: int = 0

    def number(self) -> SSAValue:
        """Gives the size as an array [1] of i64."""
        if self._number is None:
            assert self._array is not None
            value, start = self._array.packed(), self._axis
            with self._array.inserted() as emit:
                types = [tensor(i64, [1])]
                (self._number,) = emit.extern(
                    "sizes_of", [value], types, start=start, end=start + 1
                )
        return self._number

    def is_number(self, number: SSAValue) -> None:
        """Says that this array [1] of i64 is the size."""
        self._number = number

    def is_told_by(self, array: Bounded, axis: int) -> None:
        """Says what has this size, unless it is known."""
        if self._number is None and self._array is None:
            self._array, self._axis = array, axis


def bound_of(dim: Dim) -> int:
    """Gives the largest that a size can be."""
    return dim if isinstance(dim, int) else dim.bound


def bounds_of(dims: Sequence[Dim]) -> Shape:
    """Gives the shape of the largest."""
    return tuple(map(bound_of, dims))


def fits(type_: Attribute, dims: Sequence[Dim]) -> bool:
    """Tells if values of a type can have these sizes, and be held."""
    if not hasattr(type_, "get_shape") or not has_element(element_type_of(type_)):
        return False
    element, bound, shape = element_type_of(type_), bounds_of(dims), shape_of(type_)
    if len(shape) != len(dims) or len(dims) > MOST_DIMENSIONS:
        return False
    agrees = all(size in (DYNAMIC, dim) for size, dim in zip(shape, dims, strict=True))
    return agrees and prod(bound) * dtype_of(element).itemsize <= MOST_BYTES


@dataclass(eq=False)
class Bounded:
    """An array, with what is made of it when it is asked for: that stands behind what it was made
    by, so before all that may ask."""

    type: Attribute
    dims: tuple[Dim, ...]
    before: Operation | None
    """The op that it was made for; None for an array of static shape."""
    _packed: SSAValue | None = None
    _held: SSAValue | None = None

    @staticmethod
    def static(value: SSAValue) -> Bounded:
        """Gives an array of static shape."""
        return Bounded(value.type, shape_of(value.type), None, value, value)

    @property
    def is_static(self) -> bool:
        return all(isinstance(dim, int) for dim in self.dims)

    @property
    def is_packed(self) -> bool:
        """Tells if it is at hand as an array of its type."""
        return self._packed is not None

    def packed(self) -> SSAValue:
        """Gives the array of its type."""
        if self._packed is None:
            assert self._held is not None
            numbers = [dim.number() for dim in self.dims if isinstance(dim, OpenSize)]
            open_ = sum(1 << i for i, dim in enumerate(self.dims) if isinstance(dim, OpenSize))
            bounds = [bounds_of(self.dims)]
            inputs = [self._held, *numbers]
            with self.inserted() as emit:
                (self._packed,) = emit.bounded("pack", inputs, [self.type], bounds, open=open_)
        return self._packed

    def held(self) -> SSAValue:
        """Gives the array at the start of one of the largest shape."""
        if self._held is None:
            assert self._packed is not None
            shape = bounds_of(self.dims)
            type_ = tensor(element_type_of(self.type), shape)
            with self.inserted() as emit:
                most = emit.constant(np.array(shape, np.int64))
                (self._held,) = emit.extern("unpack", [self._packed, most], [type_])
        return self._held

    def inserted(self) -> Inserted:
        """Gives an emitter whose ops stand right behind the op that made the array."""
        assert self.before is not None
        return Inserted(self.before)


class Inserted:
    """An emitter whose ops come before an op at last: `with Inserted(op) as emit: …`."""

    def __init__(self, before: Operation) -> None:
        self._before = before
        self.emit = Emitter(before.location)

    def __enter__(self) -> Emitter:
        return self.emit

    def __exit__(self, *_: object) -> None:
        block = self._before.parent
        assert block is not None
        block.insert_ops_before(self.emit.ops, self._before)


class Arrays:
    """The arrays that hold the values of a function, as far as they are known."""

    def __init__(self) -> None:
        self._known: dict[SSAValue, Bounded] = {}

    def of(self, value: SSAValue | None) -> Bounded | None:
        """Gives the array of a value; None where nobody knows how large it can be."""
        if value is None:
            return None
        if value in self._known:
            return self._known[value]
        if static_shape(value.type) is None or not has_element(element_type_of(value.type)):
            return None
        return Bounded.static(value)

    def all_of(self, values: Sequence[SSAValue]) -> list[Bounded] | None:
        """Gives the same of several; None where one is unknown."""
        found = [self.of(value) for value in values]
        return cast("list[Bounded]", found) if None not in found else None

    def add(self, value: SSAValue, made: Bounded) -> None:
        """Says what a result will be replaced by."""
        self._known[value] = made

    def __iter__(self) -> Iterator[tuple[SSAValue, Bounded]]:
        return iter(self._known.items())


def made(op: Operation, index: int, value: SSAValue, dims: Sequence[Dim]) -> Bounded:
    """Gives a result of an op, given as an array of its type or of the largest shape. Sizes that
    are new are those of this array."""
    type_ = op.results[index].type
    packed = value if value.type == type_ else None
    held = value if value.type != type_ or static_shape(type_) is not None else None
    array = Bounded(type_, tuple(dims), op, packed, held)
    for axis, dim in enumerate(dims):
        if isinstance(dim, Size):
            dim.is_told_by(array, axis)
    return array


def number_of(emit: Emitter, dim: Dim) -> SSAValue:
    """Gives a size as an array [1] of i64."""
    return dim.number() if isinstance(dim, OpenSize) else emit.constant(np.array([dim], np.int64))


def constant_of(value: SSAValue | None) -> np.ndarray | None:
    """Gives the array of a constant."""
    made = None if value is None else value.owner
    return made.value.data.values() if isinstance(made, g.ConstantOp | tir.ConstantOp) else None


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
