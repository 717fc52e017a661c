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
from xdsl.dialects.builtin import IntegerAttr, LocationAttr, MemRefType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, SSAValue

from byocir.dialects.locations import names, tile_of
from byocir.dialects.tir import AllocOp, ConstantOp, FillOp
from byocir.dialects.types import dtype_of, element_type_of, nbytes, shape_of
from byocir.dialects.vta.base import InstructionOp
from byocir.dialects.vta.program import PortAttr, ProgramOp, SpanAttr
from byocir.dialects.vta.transfer import TransferOp
from byocir.dialects.vta_config import config_of
from byocir.errors import ByocirError
from byocir.vta_sim import Memory, Opcode, VTAConfig, encode_columns
from byocir.vta_sim.isa import COLUMNS, Queue

FIRST_ADDRESS = 4096
"""The first address of data: 0 is no address (tvm-vta `src/vmem/virtual_memory.cc`)."""


@dataclass(eq=False, slots=True)
class Word:
    """Describes an instruction whose array in DRAM has no address yet: its fields by their names in
    the ISA table, of which `dram_base` counts from where the array begins."""

    opcode: Opcode
    fields: dict[str, int]
    location: LocationAttr
    array: SSAValue | None = None

    @property
    def memory(self) -> Memory:
        """Names the memory that it loads or stores."""
        return Memory(self.fields["memory_type"])

    @property
    def queue(self) -> Queue:
        """Names the module that runs it."""
        if self.opcode is Opcode.LOAD and self.memory in (Memory.INP, Memory.WGT):
            return Queue.LOAD
        return Queue.STORE if self.opcode is Opcode.STORE else Queue.COMPUTE


@dataclass(frozen=True)
class Assembled:
    """Holds the bytes of a function: `insns` uint8 [N, 16] of its `words`, the `image` uint8 [B] of
    what is known at the start of DRAM, which has `size` bytes, and the addresses of its memrefs.
    """

    words: Sequence[Word]
    insns: NDArray[np.uint8]
    image: NDArray[np.uint8]
    size: int
    addresses: Mapping[SSAValue, int]


def assembled(function: FuncOp, *, needs_weights: bool = True) -> Assembled:
    """Assembles a function that holds only instructions, constants and DRAM buffers. Raises
    ByocirError B336 for another op, and as `assembled_words`.
    """
    ops = list(function.body.block.ops)
    for op in ops:
        if not isinstance(op, InstructionOp | ConstantOp | AllocOp | FillOp | ReturnOp):
            raise _not_straight(function, f"found {op.name}")
    words = [_word(op) for op in ops if isinstance(op, InstructionOp)]
    known = [op for op in ops if isinstance(op, ConstantOp | FillOp)]
    buffers = [op.result for op in ops if isinstance(op, AllocOp)]
    return assembled_words(function, words, known, buffers, needs_weights=needs_weights)


def assembled_words(
    function: FuncOp,
    words: Sequence[Word],
    known: Iterable[ConstantOp | FillOp],
    buffers: Iterable[SSAValue],
    *,
    needs_weights: bool = True,
) -> Assembled:
    """Gives the arrays in DRAM addresses, and encodes words.

    Constants, and what is filled before the first instruction, come first in DRAM, then arguments,
    then buffers, each aligned to the largest element of a scratchpad. Raises ByocirError B107 for
    constants without values: for micro-ops alone if it needs no weights, which then are 0.
    """
    config = config_of(function)
    layout = _Layout(config)
    image = _place_known(known, layout, None if needs_weights else _micro_ops(words))
    for value in [*function.body.block.args, *buffers]:
        if value not in layout.addresses:
            layout.place(value)
    insns = _encode(words, layout.addresses, config)
    return Assembled(words, insns, image, layout.end, layout.addresses)


def assemble(function: FuncOp) -> ProgramOp:
    """Makes the program of a function; raises as `assembled` and `program_of`."""
    return program_of(function, assembled(function))


def program_of(function: FuncOp, made: Assembled) -> ProgramOp:
    """Makes a program of what a function was assembled to. Arguments that it stores to are the
    outputs and come last; raises ByocirError B336 for arguments in another order.
    """
    arguments = function.body.block.args
    written = {word.array for word in made.words if word.opcode is Opcode.STORE}
    outputs = [arg for arg in arguments if arg in written]
    inputs = [arg for arg in arguments if arg not in written]
    if [*inputs, *outputs] != list(arguments):
        raise _not_straight(function, "found an argument that is read after one that is written")
    locations = [word.location for word in made.words]
    return ProgramOp.of(
        function.sym_name.data,
        made.insns,
        made.image,
        made.size,
        [_port(arg, made.addresses) for arg in inputs],
        [_port(arg, made.addresses) for arg in outputs],
        _spans(locations),
        _tiles(locations),
        dict(function.attributes),
        function.location,
    )


def _word(op: InstructionOp) -> Word:
    array = op.dram if isinstance(op, TransferOp) else None
    return Word(op.OPCODE, op.fields(), op.location, array)


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


def _micro_ops(words: Iterable[Word]) -> set[Attribute]:
    """Lists the constants that are loaded as micro-ops."""
    arrays = {w.array for w in words if w.array is not None and w.memory is Memory.UOP}
    return {array.owner.value for array in arrays if isinstance(array.owner, ConstantOp)}


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
    words: Sequence[Word], addresses: Mapping[SSAValue, int], config: VTAConfig
) -> NDArray[np.uint8]:
    columns = {name: [0] * len(words) for name in COLUMNS}
    for row, word in enumerate(words):
        for name, value in word.fields.items():
            columns[name][row] = value
        if word.array is not None:
            start = addresses[word.array] // config.element_bytes(word.memory)
            columns["dram_base"][row] += start
    return encode_columns([word.opcode for word in words], columns, config)


def _port(value: SSAValue, addresses: Mapping[SSAValue, int]) -> PortAttr:
    return PortAttr.of(addresses[value], cast(MemRefType, value.type))


def _tiles(locations: Sequence[LocationAttr]) -> NDArray[np.int32]:
    """Gives the loop indices for which each instruction was made, outermost first, int32 [N, most];
    -1 fills up the rest.
    """
    tiles = list(map(tile_of, locations))
    result = np.full((len(tiles), max(map(len, tiles), default=0)), -1, np.int32)
    for row, tile in zip(result, tiles, strict=True):
        row[: len(tile)] = tile
    return result


def _spans(locations: Sequence[LocationAttr]) -> list[SpanAttr]:
    """Groups instructions in a row that came from the same nodes, with the names of the nodes."""
    same = [list(group) for _, group in groupby(locations, key=id)]
    spans = groupby(same, key=lambda group: names(group[0]))
    return [SpanAttr.of(sum(map(len, groups)), nodes) for nodes, groups in spans]
