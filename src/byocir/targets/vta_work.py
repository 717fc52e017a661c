"""Counts the work of a match on VTA, and the values that leave or enter, from shapes alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Attribute, Operation, SSAValue

from byocir.dialects.tir import EmptyOp, FillOp
from byocir.dialects.types import dtype_of, element_type_of, shape_of

HALF_EVEN_STEPS = 7
"""ALU instructions that rounding ties to even takes beside those of rounding them up."""


@dataclass
class UnitWork:
    """Counts the work of a match: steps of the units, of one vector of `block` lanes each, and
    bytes read and written.
    """

    gemm: int = 0
    immediate: int = 0
    register: int = 0
    multiplies: int = 0
    """Those of the steps on registers that multiply."""
    read: int = 0
    written: int = 0

    @property
    def moves_nothing(self) -> bool:
        """Tells if no unit computes, so that the match is only a view."""
        return not self.gemm + self.immediate + self.register


def requantise_steps(rounding: str) -> tuple[int, int]:
    """Counts the steps of a requantisation for each vector, with an immediate and on two registers:
    it multiplies by a register, then adds (unless it rounds down), shifts and clips.
    """
    return 4 + HALF_EVEN_STEPS * (rounding == "half_even") - (rounding == "floor"), 1


def inputs_of(ops: Sequence[Operation]) -> list[SSAValue]:
    """Lists the values from outside, each once, except the initial values of blocks."""
    inside = {result for op in ops for result in op.results}
    operands = dict.fromkeys(value for op in ops for value in op.operands)
    return [v for v in operands if v not in inside and not isinstance(v.owner, FillOp | EmptyOp)]


def vectors(type_: Attribute, block: int, channels: int = 1) -> int:
    """Counts the vectors of `block` channels that hold a tensor, whose channels are dimension
    `channels`.
    """
    shape = [*shape_of(type_)]
    shape += [1] * (channels + 1 - len(shape))
    lanes = shape.pop(channels)
    return math.prod(shape) * math.ceil(lanes / block)


def padded(type_: Attribute, block: int, channels: int = 1) -> int:
    """Counts the bytes of a tensor in whole vectors."""
    return vectors(type_, block, channels) * block * dtype_of(element_type_of(type_)).itemsize
