"""Describes the pieces into which a block is split, each done by one instruction, and makes blocks
of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.tir import BlockOp, IteratorAttr, IteratorKind
from byocir.dialects.tir.scalar import Emitted, emit_body
from byocir.dialects.types import element_type_of, shape_of, tensor


@dataclass(frozen=True, eq=False)
class Given:
    """Describes an array that the block reads, by its position, as an input of a piece."""

    position: int


@dataclass(frozen=True, eq=False)
class Made:
    """Describes a constant that is made as an input of a piece, with the index at which the piece
    reads it."""

    values: np.ndarray
    element: Attribute
    index: tuple[AffineExpr, ...]


@dataclass(frozen=True, eq=False)
class Piece:
    """Describes a part of a body that an instruction does, with the pieces in front of it; `cycles`
    are those of all.
    """

    value: SSAValue
    body: Callable[..., Emitted]
    """Computes the value from the inputs and then what the result begins with."""
    old: Source | None
    """The place of what the result begins with, which is its own."""
    inputs: tuple[Source, ...]
    sums: int = 0
    """The extent of one more iterator, behind those of the block, that it sums over; 0 for none."""
    cycles: float = 0
    copied: Piece | None = None
    """The piece whose result it only gives a place of its own, if it does."""


Source = Given | Made | Piece


def made_again(piece: Piece) -> Piece | None:
    """Copies a piece, and the pieces before it whose places it takes, so that the result gets a
    place of its own; None where it takes the place of an array that is made once.
    """
    if piece.old is None:
        return replace(piece)
    old = made_again(piece.old) if isinstance(piece.old, Piece) else None
    return None if old is None else replace(piece, old=old)


def count_reads(piece: Piece) -> Counter[Source]:
    """Counts the pieces that read, or overwrite, each source of those that lead to a piece."""
    found, seen, left = Counter[Source](), {piece}, [piece]
    while left:
        reader = left.pop()
        sources = [*reader.inputs, *([] if reader.old is None else [reader.old])]
        found.update(sources)
        new = [each for each in sources if isinstance(each, Piece) and each not in seen]
        seen.update(new)
        left += dict.fromkeys(new)
    return found


def result_type(op: BlockOp, piece: Piece) -> TensorType[Attribute]:
    """Gives the type of the array that a piece of a block makes."""
    return tensor(piece.value.type, shape_of(op.outs[0].type))


def type_of(op: BlockOp, source: Source) -> Attribute:
    """Gives the type of the array of a source."""
    if isinstance(source, Piece):
        return result_type(op, source)
    if isinstance(source, Made):
        return tensor(source.element, source.values.shape)
    return op.ins[source.position].type


def each_element(out: SSAValue, body: Callable[..., Emitted], *ins: SSAValue) -> BlockOp:
    """Makes a block that computes each element of an array from those of other arrays at the same
    place, and from what was there before.
    """
    shape = shape_of(out.type)
    iterators = [IteratorAttr.of(f"d{d}", IteratorKind.PARALLEL, n) for d, n in enumerate(shape)]
    maps = [AffineMap.identity(len(shape))] * (len(ins) + 1)
    elements = [element_type_of(value.type) for value in (*ins, out)]
    return BlockOp(iterators, ins, [out], maps, emit_body(elements, body))


def block_of(op: BlockOp, piece: Piece, ins: Sequence[SSAValue], out: SSAValue) -> BlockOp:
    """Makes the block of a piece of a block on these arrays."""
    iterators = list(op.iterators)
    if piece.sums:
        name = next(
            name for n in range(len(iterators) + 1) if (name := f"k{n or ''}") not in op.names
        )
        iterators.append(IteratorAttr.of(name, IteratorKind.REDUCTION, piece.sums))
    indices, pads = list[Sequence[AffineExpr]](), list[Attribute | None]()
    for source in piece.inputs:
        given = source.position if isinstance(source, Given) else None
        made = source.index if isinstance(source, Made) else op.out_maps[0].results
        indices.append(made if given is None else op.in_maps[given].results)
        pads.append(None if given is None else op.pad_values[given])
    indices.append(op.out_maps[0].results)
    maps = [AffineMap(len(iterators), 0, tuple(index)) for index in indices]
    elements = [element_type_of(value.type) for value in [*ins, out]]
    body = emit_body(elements, piece.body)
    return BlockOp(iterators, ins, [out], maps, body, pads=pads, location=op.location)
