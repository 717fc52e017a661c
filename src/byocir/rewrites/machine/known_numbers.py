"""Finds known numbers among what a block reads, for instructions that want them as constants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr

from byocir.dialects.intervals import integer_range
from byocir.dialects.tir import BlockOp, ConstantOp
from byocir.dialects.types import dtype_of, element_type_of, shape_of
from byocir.patterns.scalars import constant_number
from byocir.rewrites.machine.pieces import Made
from byocir.rewrites.machine.restate_bodies import is_signed


class KnownNumbers:
    """Finds the numbers of those values in the body of a block that are constants, or elements of
    constant arrays; `inputs` has the position of each value that is an element of an array.
    """

    def __init__(self, op: BlockOp, inputs: Mapping[SSAValue, int]) -> None:
        self._op, self._inputs = op, inputs
        self._result = op.out_maps[0].results
        self._shape = shape_of(op.outs[0].type)

    def of(self, value: SSAValue) -> np.ndarray | None:
        """Gives the number that a value is for each lane of the result; None if that is not
        known.
        """
        number, position = constant_number(value), self._inputs.get(value)
        if number is not None:
            return np.full(self._shape[-1:], number)
        source = None if position is None else self._op.ins[position].owner
        if position is None or not isinstance(source, ConstantOp) or not source.value.data.present:
            return None
        in_lanes = self._op.in_maps[position].results == self._result[-1:]
        plain = position not in self._op.whole and self._op.pad_values[position] is None
        return source.value.data.values() if in_lanes and plain else None

    def made(self, value: SSAValue, element: Attribute) -> Made | None:
        """Makes a constant of a value's numbers, with elements of this type; None where they are
        not known or are no such elements.
        """
        numbers = self.of(value)
        if numbers is None or not _fit(numbers, value.type, element):
            return None
        return Made(numbers.astype(dtype_of(element)), element, self._result[-1:])

    def spread(self, position: int) -> Iterator[Made]:
        """Yields a known array that varies along other dimensions than lanes, with its numbers for
        all elements of the result, which instructions read as they read an array of that shape.
        """
        constant, index = self._op.ins[position].owner, self._op.in_maps[position].results
        axes = [expr.position for expr in index if isinstance(expr, AffineDimExpr)]
        out = [expr.position for expr in self._result if isinstance(expr, AffineDimExpr)]
        plain = len({*axes}) == len(index) and len({*out}) == len(self._result)
        if not isinstance(constant, ConstantOp) or not constant.value.data.present or not plain:
            return
        if index in (self._result, self._result[-1:]) or not {*axes} <= {*out}:
            return
        values = constant.value.data.values()
        values = values.transpose(sorted(range(len(axes)), key=lambda d: out.index(axes[d])))
        sides = [n if i in axes else 1 for i, n in zip(out, self._shape, strict=True)]
        spread = np.broadcast_to(values.reshape(sides), self._shape)
        yield Made(spread.copy(), element_type_of(constant.results[0].type), self._result)


def _fit(numbers: np.ndarray, type_: Attribute, element: Attribute) -> bool:
    """Tells whether numbers of a type are elements of another one."""
    if element == type_:
        return True
    if not is_signed(type_) or not is_signed(element):
        return False
    least, most = integer_range(element)
    return bool((least <= numbers).all() and (numbers <= most).all())
