"""Tracks arrays whose shape only a run tells, and of which the largest is known, in the two forms
that C has for them.

A *packed* array has its open shape and lies at the start of memory that holds its largest shape;
routines make and take it in this form. A *held* array is the part at the start of an array of the
largest shape, with which graph ops can compute: elements beside the part are arbitrary, and are
replaced by a neutral number where an op would let them into the part.

Numbers that operators are given, as attributes or as constants, are read here, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import cast

import numpy as np
from xdsl.dialects.builtin import I64, DenseArrayBase, IntegerAttr
from xdsl.ir import Attribute, Operation, SSAValue

from byocir.dialects.array import constant_values
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
    """Stands for a size that only a run tells. Two are the same number if they are the same object.
    It is read from a number, or from an array that has it along an axis.
    """

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
        """Notes that this array [1] of i64 holds the size."""
        self._number = number

    def is_told_by(self, array: Bounded, axis: int) -> None:
        """Notes that this array has the size along an axis, unless something is noted already."""
        if self._number is None and self._array is None:
            self._array, self._axis = array, axis


def bound_of(dim: Dim) -> int:
    """Gives the largest number that a size can be."""
    return dim if isinstance(dim, int) else dim.bound


def bounds_of(dims: Sequence[Dim]) -> Shape:
    """Gives the largest shape that these sizes can be."""
    return tuple(map(bound_of, dims))


def fits(type_: Attribute, dims: Sequence[Dim]) -> bool:
    """Tells if values of a type can have these sizes, and if C can hold them."""
    if not hasattr(type_, "get_shape") or not has_element(element_type_of(type_)):
        return False
    element, bound, shape = element_type_of(type_), bounds_of(dims), shape_of(type_)
    if len(shape) != len(dims) or len(dims) > MOST_DIMENSIONS:
        return False
    agrees = all(size in (DYNAMIC, dim) for size, dim in zip(shape, dims, strict=True))
    return agrees and prod(bound) * dtype_of(element).itemsize <= MOST_BYTES


@dataclass(eq=False)
class Bounded:
    """Holds an array in both of its forms; a form that is missing is made when it is asked for,
    right behind the op that made the array, and so before all that may ask.
    """

    type: Attribute
    dims: tuple[Dim, ...]
    before: Operation | None
    """The op that it was made for; None for an array of static shape."""
    _packed: SSAValue | None = None
    _held: SSAValue | None = None

    @staticmethod
    def static(value: SSAValue) -> Bounded:
        """Describes an array of static shape."""
        return Bounded(value.type, shape_of(value.type), None, value, value)

    @property
    def is_static(self) -> bool:
        return all(isinstance(dim, int) for dim in self.dims)

    @property
    def is_packed(self) -> bool:
        """Tells if the array is there in its own type."""
        return self._packed is not None

    def packed(self) -> SSAValue:
        """Gives the array in its own type."""
        if self._packed is None:
            assert self._held is not None
            numbers = [dim.number() for dim in self.dims if isinstance(dim, OpenSize)]
            open_ = sum(1 << i for i, dim in enumerate(self.dims) if isinstance(dim, OpenSize))
            bounds = [bounds_of(self.dims)]
            inputs = [self._held, *numbers]
            with self.inserted() as emit:
                (self._packed,) = emit.bounded("pack", inputs, [self.type], bounds, open=open_)
        return self._packed

    def in_max_shape(self) -> SSAValue:
        """Gives the array as the start of an array of the largest shape."""
        if self._held is None:
            assert self._packed is not None
            shape = bounds_of(self.dims)
            type_ = tensor(element_type_of(self.type), shape)
            with self.inserted() as emit:
                most = emit.constant(np.array(shape, np.int64))
                (self._held,) = emit.extern("unpack", [self._packed, most], [type_])
        return self._held

    def inserted(self) -> Inserted:
        """Gives an emitter that puts ops right behind the op that made the array."""
        assert self.before is not None
        return Inserted(self.before)


class Inserted:
    """Collects ops and, at the end of a `with`, puts them in front of an op: `with Inserted(op) as
    emit: …`.
    """

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
    """Holds the arrays that values of a function stand for, as far as they are known."""

    def __init__(self) -> None:
        self._known: dict[SSAValue, Bounded] = {}

    def of(self, value: SSAValue | None) -> Bounded | None:
        """Gives the array of a value; None where no bound of its size is known."""
        if value is None:
            return None
        if value in self._known:
            return self._known[value]
        if static_shape(value.type) is None or not has_element(element_type_of(value.type)):
            return None
        return Bounded.static(value)

    def all_of(self, values: Sequence[SSAValue]) -> list[Bounded] | None:
        """Gives the arrays of several values; None where one of them is not known."""
        found = [self.of(value) for value in values]
        return cast("list[Bounded]", found) if None not in found else None

    def add(self, value: SSAValue, made: Bounded) -> None:
        """Notes the array that will replace a result."""
        self._known[value] = made


def bounded_result(op: Operation, index: int, value: SSAValue, dims: Sequence[Dim]) -> Bounded:
    """Describes a result of an op that was made as an array of its own type, or of the largest
    shape. Sizes that are new are read from it.
    """
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
    array = constant_values(op.inputs[place])
    return None if array is None else [int(n) for n in array.reshape(-1)]
