"""Reads copies between DRAM and scratchpad buffers as boxes of SRAM elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute

from byocir.dialects.tir import CopyOp, scope_of
from byocir.dialects.types import Shape, element_type_of, i8, i32, shape_of, strides_of
from byocir.dialects.vta import LoadMemory
from byocir.lowering.tir_to_vta.composites import unsupported
from byocir.lowering.tir_to_vta.copies import Dimension, Transfer, transfers
from byocir.lowering.tir_to_vta.tensorise_blocks import element_shape
from byocir.vta_sim import VTAConfig

LOADS: dict[tuple[str, Attribute], LoadMemory] = {
    ("vta.inp", i8): LoadMemory.INP,
    ("vta.wgt", i8): LoadMemory.WGT,
    ("vta.acc", i32): LoadMemory.ACC,
    ("vta.acc", i8): LoadMemory.ACC8,
}
"""Maps the scope of a buffer and the type of DRAM elements to the op that loads it from them."""


@dataclass(frozen=True)
class Movement:
    """Lists the instructions of a copy, relative to offsets in elements: `sram` from the start of
    the buffer, `dram` from the start of the array. `memory` is None for a store."""

    memory: LoadMemory | None
    sram: int
    dram: int
    transfers: tuple[Transfer, ...]


def movement(
    op: CopyOp, source_bases: Sequence[int], destination_bases: Sequence[int], config: VTAConfig
) -> Movement:
    """Makes the instructions of a copy with these bases; raises ByocirError B332."""
    source, destination = op.source.type, op.destination.type
    scopes = (scope_of(source), scope_of(destination))
    if scopes == ("vta.acc", "") and element_type_of(destination) == i8 and op.pad is None:
        memory, scope = None, "vta.acc"
        local, local_bases, dram, dram_bases = source, source_bases, destination, destination_bases
    elif scopes[0] == "" and (scopes[1], element_type_of(source)) in LOADS:
        memory, scope = LOADS[scopes[1], element_type_of(source)], scopes[1]
        local, local_bases, dram, dram_bases = destination, destination_bases, source, source_bases
    else:
        raise unsupported(
            "B332",
            f"expected a load into vta.inp, vta.wgt or vta.acc or a store of vta.acc as i8, found "
            f"a copy from {source} to {destination}",
            op,
        )
    _check_pad(op)
    if memory is LoadMemory.ACC8 and not config.acc_8bit:
        raise unsupported(
            "B332", f"expected a load of i32 into vta.acc, as {config.name} has no other", op
        )
    lanes = element_shape(scope, config)
    rank = len(lanes)
    _check_elements(op, [local, dram], lanes, [*local_bases[-rank:], *dram_bases[-rank:]])
    box = op.box[:-rank]
    shape, local_shape = shape_of(dram)[:-rank], shape_of(local)[:-rank]
    dimensions, first = _dimensions(op, box, dram_bases, shape, local_shape)
    start = sum(b * p for b, p in zip(local_bases, strides_of(local_shape), strict=False))
    return Movement(memory, start, first, tuple(transfers(dimensions)))


def _dimensions(
    op: CopyOp, box: Shape, bases: Sequence[int], shape: Shape, local_shape: Shape
) -> tuple[list[Dimension], int]:
    """Gives the dimensions of the box, in which parts outside of the array are padding, and the
    offset of its first element inside.
    """
    dimensions: list[Dimension] = []
    first = 0
    columns = (box, bases, shape, strides_of(shape), strides_of(local_shape))
    for count, base, size, pitch, local_pitch in zip(*columns, strict=False):
        before = min(max(-base, 0), count)
        after = min(max(base + count - size, 0), count - before)
        dimensions.append(Dimension(count - before - after, pitch, local_pitch, before, after))
        first += max(base, 0) * pitch if count > before + after else 0
    if op.pad is None and any(d.is_padded for d in dimensions):
        raise unsupported(
            "B332",
            f"expected a copy without pad to stay inside {list(shape)}, found bases "
            f"{list(bases)[: len(shape)]} with sizes {list(box)}",
            op,
        )
    return dimensions, first


def _check_pad(op: CopyOp) -> None:
    pad = op.pad
    if pad is not None and not (isinstance(pad, IntegerAttr) and pad.value.data == 0):
        raise unsupported("B332", f"expected a pad of 0, found {pad}", op)


def _check_elements(
    op: CopyOp, types: Sequence[Attribute], lanes: Shape, bases: Sequence[int]
) -> None:
    """Raises ByocirError B332 unless whole SRAM elements are moved."""
    rank = len(lanes)
    inner = {shape_of(type_)[-rank:] for type_ in types} | {op.box[-rank:]}
    if inner != {lanes} or any(bases):
        raise unsupported(
            "B332",
            f"expected innermost dimensions {list(lanes)}, moved as a whole, found a copy of "
            f"{list(op.box)} from {op.source.type} to {op.destination.type}",
            op,
        )
