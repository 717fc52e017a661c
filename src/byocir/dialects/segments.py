"""Operands of ops that have several lists of them, found without decoding an attribute each time.

xDSL's accessors unpack `operandSegmentSizes` at every read of a list, which is most of what
verifying or rewriting a `tir.block` took. The sizes are a handful of small tuples, known by their
bytes.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TypeVar, cast

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import AttrSizedOperandSegments, IRDLOperation, VarOperandDef

Op = TypeVar("Op", bound=IRDLOperation)


def with_quick_operands(kind: type[Op]) -> type[Op]:
    """Decorates an op class, outside `irdl_op_definition`, whose operands are all lists that an
    `operandSegmentSizes` property tells apart. What the accessors give is the same."""
    for index, (name, definition) in enumerate(kind.get_irdl_definition().operands):
        assert type(definition) is VarOperandDef
        setattr(kind, name, _Segment(index))
    return kind


class _Segment:
    """Gives the operands of one list."""

    def __init__(self, index: int) -> None:
        self._index = index

    def __get__(self, op: Operation, kind: object = None) -> list[SSAValue]:
        sizes = op.properties[AttrSizedOperandSegments.attribute_name]
        start, stop = _ends(cast("DenseArrayBase", sizes).data.data)[self._index]
        return cast("list[SSAValue]", op.operands[start:stop])

    def __set__(self, op: Operation, value: object) -> None:
        raise NotImplementedError("cannot write to named operands: make a new op")


@lru_cache(maxsize=1024)
def _ends(packed: bytes) -> list[tuple[int, int]]:
    """Gives the begin and end of each list, from the bytes of an i32 array of lengths: 2, 3 → (0,
    2), (2, 5)."""
    ends, end = list[tuple[int, int]](), 0
    for (size,) in struct.iter_unpack("<i", packed):
        ends.append((end, end + size))
        end += size
    return ends
