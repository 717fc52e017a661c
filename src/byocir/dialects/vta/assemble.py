"""Assembles a function of instructions to bytes: DRAM addresses, encoding, and where each came
from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerAttr, MemRefType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from byocir.dialects.locations import names, tile_of
from byocir.dialects.tir import AllocOp, ConstantOp, FillOp
from byocir.dialects.types import dtype_of, element_type_of, nbytes, shape_of
from byocir.dialects.vta.base import InstructionOp
from byocir.dialects.vta.program import PortAttr, ProgramOp, SpanAttr
from byocir.dialects.vta.transfer import LoadOp, StoreOp, TransferOp
from byocir.dialects.vta_config import config_of
from byocir.errors import ByocirError
from byocir.vta_sim import Memory, VTAConfig, encode_columns
from byocir.vta_sim.isa import COLUMNS

FIRST_ADDRESS = 4096
"""The first address of data: 0 is no address (tvm-vta `src/vmem/virtual_memory.cc`)."""


@dataclass(frozen=True)
class Assembled:
    """Holds the bytes of a function: `insns` uint8 [N, 16] of its `instructions`, the `image` uint8
    [B] of what is known at the start of DRAM, which has `size` bytes, and the addresses of its
    memrefs.
    """

    instructions: Sequence[InstructionOp]
    insns: NDArray[np.uint8]
    image: NDArray[np.uint8]
    size: int
    addresses: Mapping[SSAValue, int]


def assembled(function: FuncOp, *, needs_weights: bool = True) -> Assembled:
    """Assembles a function that holds only instructions, constants and DRAM buffers.

    Constants, and what is filled before the first instruction, come first in DRAM, then arguments,
    then buffers, each aligned to the largest element of a scratchpad. Raises ByocirError B336 for
    another op, and B107 for constants without values: for micro-ops alone if it needs no weights,
    which then are 0.
    """
    config, body = config_of(function), function.body.block
    ops = list(body.ops)
    instructions = [op for op in ops if isinstance(op, InstructionOp)]
    for op in ops:
        if not isinstance(op, InstructionOp | ConstantOp | AllocOp | FillOp | ReturnOp):
            raise _not_straight(function, f"found {op.name}")
    layout = _Layout(config)
    known = [op for op in ops if isinstance(op, ConstantOp | FillOp)]
    image = _place_known(known, layout, None if needs_weights else _micro_ops(instructions))
    buffers = [op.result for op in ops if isinstance(op, AllocOp)]
    for value in [*body.args, *buffers]:
        if value not in layout.addresses:
            layout.place(value)
    insns = _encode(instructions, layout.addresses, config)
    return Assembled(instructions, insns, image, layout.end, layout.addresses)


def assemble(function: FuncOp) -> ProgramOp:
    """Makes the program of a function. Arguments that it stores to are the outputs and come last;
    raises ByocirError B336 for arguments in another order, and as `assembled`.
    """
    made, arguments = assembled(function), function.body.block.args
    written = {op.destination for op in made.instructions if isinstance(op, StoreOp)}
    outputs = [arg for arg in arguments if arg in written]
    inputs = [arg for arg in arguments if arg not in written]
    if [*inputs, *outputs] != list(arguments):
        raise _not_straight(function, "found an argument that is read after one that is written")
    return ProgramOp.of(
        function.sym_name.data,
        made.insns,
        made.image,
        made.size,
        [_port(arg, made.addresses) for arg in inputs],
        [_port(arg, made.addresses) for arg in outputs],
        _spans(made.instructions),
        _tiles(made.instructions),
        dict(function.attributes),
        function.location,
    )


def _not_straight(function: FuncOp, found: str) -> ByocirError:
    return ByocirError(
        "B336",
        "expected instructions on inputs, then outputs, then constants and buffers, " + found,
        where=f"function @{function.sym_name.data}",
        help="run vta-tensorise and vta-insert-tokens first",
    )


class _Layout:
    """Hands out byte addresses of DRAM, one after the other."""

    def __init__(self, config: VTAConfig) -> None:
        self._align = max(config.element_bytes(memory) for memory in Memory)
        self.end = FIRST_ADDRESS
        self.addresses: dict[SSAValue, int] = {}

    def place(self, value: SSAValue) -> int:
        """Gives a memref the next free address."""
        address = -(-self.end // self._align) * self._align
        self.addresses[value] = address
        self.end = address + nbytes(value.type)
        return address


def _micro_ops(instructions: Iterable[InstructionOp]) -> set[Attribute]:
    """Lists the constants that are loaded as micro-ops."""
    return {
        op.source.owner.value
        for op in instructions
        if isinstance(op, LoadOp) and op.memory_id is Memory.UOP
        if op.source is not None and isinstance(op.source.owner, ConstantOp)
    }


def _place_known(
    ops: Iterable[ConstantOp | FillOp], layout: _Layout, needed: set[Attribute] | None
) -> NDArray[np.uint8]:
    """Places constants, of which equal ones share an address, and fills; gives the image that holds
    them. `needed` are the constants whose values must be there, None for all; others without values
    are zeros.
    """
    seen: dict[Attribute, int] = {}
    pieces: list[tuple[int, NDArray[np.uint8]]] = []
    for op in ops:
        if isinstance(op, FillOp):
            pieces.append(_filled(op, layout))
            continue
        if op.value in seen:
            layout.addresses[op.result] = seen[op.value]
            continue
        address = seen[op.value] = layout.place(op.result)
        if needed is None or op.value in needed or op.value.data.present:
            pieces.append((address, op.value.data.values().reshape(-1).view(np.uint8)))
    image = np.zeros(layout.end if pieces else 0, np.uint8)
    for address, data in pieces:
        image[address : address + data.size] = data
    return image


def _filled(op: FillOp, layout: _Layout) -> tuple[int, NDArray[np.uint8]]:
    """Places an array that is filled with a number; gives its address and its bytes."""
    number, array = op.value, op.destination
    assert array is not None
    assert isinstance(number, IntegerAttr)
    dtype = dtype_of(element_type_of(array.type))
    values = np.full(shape_of(array.type), number.value.data, dtype)
    return layout.place(array), values.reshape(-1).view(np.uint8)


def _encode(
    instructions: Sequence[InstructionOp], addresses: Mapping[SSAValue, int], config: VTAConfig
) -> NDArray[np.uint8]:
    columns = {name: [0] * len(instructions) for name in COLUMNS}
    for row, op in enumerate(instructions):
        for name, value in op.fields(_dram_base(op, addresses, config)).items():
            columns[name][row] = value
    return encode_columns([op.OPCODE for op in instructions], columns, config)


def _dram_base(op: Operation, addresses: Mapping[SSAValue, int], config: VTAConfig) -> int:
    """Gives the address of the memref of an instruction, in elements of the memory that it moves to
    or from.
    """
    if not isinstance(op, TransferOp) or op.dram is None:
        return 0
    return addresses[op.dram] // config.element_bytes(op.memory_id)


def _port(value: SSAValue, addresses: Mapping[SSAValue, int]) -> PortAttr:
    return PortAttr.of(addresses[value], cast(MemRefType, value.type))


def _tiles(instructions: Sequence[InstructionOp]) -> NDArray[np.int32]:
    """Gives the loop indices for which each instruction was made, outermost first, int32 [N, most];
    -1 fills up the rest.
    """
    tiles = [tile_of(op.location) for op in instructions]
    result = np.full((len(tiles), max(map(len, tiles), default=0)), -1, np.int32)
    for row, tile in zip(result, tiles, strict=True):
        row[: len(tile)] = tile
    return result


def _spans(instructions: Sequence[InstructionOp]) -> list[SpanAttr]:
    """Groups instructions in a row that came from the same nodes, with the names of the nodes."""
    groups = groupby(names(op.location) for op in instructions)
    return [SpanAttr.of(len(list(group)), nodes) for nodes, group in groups]
