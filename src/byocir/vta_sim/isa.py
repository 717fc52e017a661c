"""Encodes and decodes instructions and micro-ops, derived from the table in ``isa_table.py``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from byocir.vta_sim.config import DEFAULT_CONFIG, VTAConfig
from byocir.vta_sim.errors import VTAError
from byocir.vta_sim.isa_table import (
    COLUMNS,
    INSN_BYTES,
    LAYOUT,
    AluOp,
    Field,
    Opcode,
    Slot,
    slots,
    uop_slots,
)

__all__ = [
    "COLUMNS",
    "INSN_BYTES",
    "LAYOUT",
    "RAW",
    "AluOp",
    "Decoded",
    "Field",
    "Instruction",
    "Opcode",
    "Slot",
    "as_stream",
    "decode",
    "decode_uops",
    "encode",
    "encode_columns",
    "encode_uops",
    "raw_text",
    "reserved",
    "reserved_bits",
    "slots",
    "uop_slots",
]

RAW = ".insn"
"""The directive with which assembly writes bytes as they are."""


def encode(
    kind: Opcode | str, *, config: VTAConfig = DEFAULT_CONFIG, **values: int
) -> NDArray[np.uint8]:
    """Encodes one instruction as uint8 [16]; fields not given are 0.

    ``kind`` is an Opcode or its lower-case name. Raises VTAError V107 for a kind or a field that
    does not exist and for a value out of its field's range.
    """
    opcode = kind if isinstance(kind, Opcode) else _opcode_named(kind)
    words = [int(opcode), 0]
    for slot in slots(opcode, config):
        value = _integer(values.pop(slot.field.name, 0), slot.field.name)
        slot.check(value, opcode.name)
        words[slot.field.word] |= (value & slot.mask) << slot.shift
    if values:
        names = ", ".join(field.name for field in LAYOUT[opcode])
        raise VTAError("V107", f"a field of {opcode.name} ({names})", ", ".join(sorted(values)))
    return np.array(words, dtype="<u8").view(np.uint8)


def _opcode_named(kind: str) -> Opcode:
    for opcode in Opcode:
        if opcode.name.lower() == kind:
            return opcode
    names = ", ".join(opcode.name.lower() for opcode in Opcode)
    raise VTAError("V107", f"one of the instructions {names}", repr(kind))


def _integer(value: object, name: str) -> int:
    """Converts ``value`` to an int, be it numpy's or an enum member; refuses a float instead of
    cutting it.
    """
    if isinstance(value, (int, np.integer)):
        return int(cast("int", value))
    raise VTAError("V107", f"an integer for {name}", repr(value))


def encode_columns(
    opcode: ArrayLike, columns: Mapping[str, ArrayLike], config: VTAConfig = DEFAULT_CONFIG
) -> NDArray[np.uint8]:
    """Encodes N instructions at once as uint8 [N, 16]: the inverse of ``decode``.

    ``opcode`` [N]; each column holds integers [N], or one for all; those not given are 0. Raises
    VTAError V102 for an opcode and V107 for a column that does not exist, for a value that does
    not fit its field and for one that is not 0 where the kind has no such field.
    """
    kinds = _integers(opcode, "opcode")
    if kinds.ndim != 1:
        raise VTAError("V107", "opcodes of shape [N]", str(list(kinds.shape)))
    known = np.isin(kinds, list(Opcode))
    if not known.all():
        index = int(np.flatnonzero(~known)[0])
        place = f"instruction {index}"
        raise VTAError("V102", f"an opcode in 0..{max(Opcode)}", str(kinds[index]), place)
    given = {name: _column(name, values, len(kinds)) for name, values in columns.items()}
    words = np.zeros((2, len(kinds)), np.uint64)
    words[0] = kinds.astype(np.uint64)
    for kind in Opcode:
        rows = np.flatnonzero(kinds == kind)
        fields = {slot.field.name: slot for slot in slots(kind, config)}
        for name, column in given.items():
            values = column[rows]
            slot = fields.get(name)
            if slot is None:
                _check_rows(values == 0, values, rows, f"no {name} in {kind.name}")
                continue
            fits = (values >= slot.low) & (values <= slot.high)
            expected = f"{kind.name} field {name} in {slot.low}..{slot.high}"
            _check_rows(fits, values, rows, expected)
            bits = (values & slot.mask).astype(np.uint64) << np.uint64(slot.shift)
            words[slot.field.word, rows] |= bits
    return np.ascontiguousarray(words.T).astype("<u8").view(np.uint8)


def _column(name: str, values: ArrayLike, length: int) -> NDArray[np.int64]:
    if name not in COLUMNS:
        raise VTAError("V107", f"a field of the instruction set ({', '.join(COLUMNS)})", repr(name))
    column = _integers(values, name)
    if column.shape not in ((), (length,)):
        expected = f"{name} of shape [{length}] or one number"
        raise VTAError("V107", expected, f"shape {list(column.shape)}")
    return np.broadcast_to(column, (length,))


def _check_rows(
    holds: NDArray[np.bool_], values: NDArray[np.int64], rows: NDArray[np.intp], expected: str
) -> None:
    if not holds.all():
        first = int(np.flatnonzero(~holds)[0])
        raise VTAError("V107", expected, str(values[first]), f"instruction {rows[first]}")


def _integers(values: ArrayLike, name: str) -> NDArray[np.int64]:
    """Converts ``values`` to int64; refuses floats, bools, text and numbers beyond 63 bits."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise VTAError("V107", f"an array of integers for {name}", "a ragged sequence") from None
    if array.size == 0 and array.dtype.kind == "f":  # numpy makes [] an array of floats
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise VTAError("V107", f"integers for {name}", f"dtype {array.dtype}")
    if (
        array.size
        and array.dtype.kind == "u"
        and array.dtype.itemsize == 8
        and int(array.max()) >= 1 << 63
    ):
        raise VTAError("V107", f"integers below 2^63 for {name}", str(array.max()))
    return array.astype(np.int64)


def encode_uops(
    dst: ArrayLike, src: ArrayLike, wgt: ArrayLike = 0, config: VTAConfig = DEFAULT_CONFIG
) -> NDArray[np.uint32]:
    """Encodes micro-ops; the arguments broadcast to one shape.

    Raises VTAError V107 for an index that does not fit or is no integer, and for shapes that do
    not broadcast.
    """
    given = [
        _integers(column, f"micro-op field {slot.field.name}")
        for slot, column in zip(uop_slots(config), (dst, src, wgt), strict=True)
    ]
    try:
        columns = np.broadcast_arrays(*given)
    except ValueError:
        shapes = ", ".join(str(list(column.shape)) for column in given)
        raise VTAError("V107", "micro-op columns of one shape", shapes) from None
    packed = np.zeros(columns[0].shape, dtype=np.int64)
    for slot, column in zip(uop_slots(config), columns, strict=True):
        if column.size:
            slot.check(int(column.min()), "micro-op")
            slot.check(int(column.max()), "micro-op")
        packed |= column << slot.shift
    return packed.astype(np.uint32)


def decode_uops(
    uops: NDArray[np.uint32], config: VTAConfig = DEFAULT_CONFIG
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Splits micro-ops into (dst, src, wgt) index arrays of the same shape. Raises VTAError V107
    for an array of anything but integers."""
    wide = _integers(uops, "micro-ops")
    dst, src, wgt = ((wide >> slot.shift) & slot.mask for slot in uop_slots(config))
    return dst, src, wgt


class Queue(IntEnum):
    """Names the three in-order modules, in pipeline order: prev and next are the neighbours."""

    LOAD = 0
    COMPUTE = 1
    STORE = 2


@dataclass(frozen=True, slots=True)
class Instruction:
    """Describes one decoded instruction: its place in the stream, its kind and its fields
    by name."""

    index: int
    opcode: Opcode
    fields: dict[str, int]


@dataclass(frozen=True)
class Decoded:
    """Holds a decoded stream of N instructions as columns.

    ``insns`` uint8 [N, 16]; ``opcode`` uint8 [N]; ``columns[name]`` int64 [N], 0 where the kind
    has no such field.
    """

    insns: NDArray[np.uint8]
    config: VTAConfig
    opcode: NDArray[np.uint8]
    columns: dict[str, NDArray[np.int64]]

    def __len__(self) -> int:
        return len(self.insns)

    def instruction(self, index: int) -> Instruction:
        """Gives the instruction at ``index`` as an object."""
        opcode = Opcode(int(self.opcode[index]))
        fields = {field.name: int(self.columns[field.name][index]) for field in LAYOUT[opcode]}
        return Instruction(index, opcode, fields)

    def instructions(self) -> list[Instruction]:
        """Gives all instructions as objects, in stream order; one pass per kind, not per field."""
        result: dict[int, Instruction] = {}
        for opcode, layout in LAYOUT.items():
            rows = np.flatnonzero(self.opcode == opcode)
            names = [field.name for field in layout]
            lists = [self.columns[name][rows].tolist() for name in names]
            for index, *values in zip(rows.tolist(), *lists, strict=True):
                fields = dict(zip(names, values, strict=True))
                result[index] = Instruction(index, opcode, fields)
        return [result[index] for index in range(len(self))]


def as_stream(insns: object) -> NDArray[np.uint8]:
    """Checks an instruction array and returns it as contiguous uint8 [N, 16].

    A flat uint8 array of whole instructions is taken too. Raises VTAError V001 (dtype, shape) and
    V101 (bytes that are no whole instructions).
    """
    if not isinstance(insns, np.ndarray):
        raise VTAError("V001", "a numpy array of instructions", type(insns).__name__)
    array = cast("NDArray[np.uint8]", insns)
    if array.dtype != np.uint8:
        raise VTAError("V001", "instructions of dtype uint8", str(array.dtype))
    if array.ndim == 1:
        if array.size % INSN_BYTES:
            expected = f"a multiple of {INSN_BYTES} bytes"
            raise VTAError("V101", expected, f"{array.size} bytes")
        array = array.reshape(-1, INSN_BYTES)
    if array.ndim != 2 or array.shape[1] != INSN_BYTES:
        raise VTAError("V001", f"instructions of shape [N, {INSN_BYTES}]", str(list(array.shape)))
    return np.ascontiguousarray(array)


def decode(insns: NDArray[np.uint8], config: VTAConfig = DEFAULT_CONFIG) -> Decoded:
    """Decodes uint8 [N, 16] into columns. Raises VTAError V001, V101, V102 (invalid opcode)."""
    stream = as_stream(insns)
    words = stream.view("<u8")
    opcode = (words[:, 0] & 7).astype(np.uint8)
    invalid = np.flatnonzero(opcode > max(Opcode))
    if invalid.size:
        index = int(invalid[0])
        place = f"instruction {index}: {raw_text(stream[index])}"
        raise VTAError("V102", f"an opcode in 0..{max(Opcode)}", str(opcode[index]), place)
    columns = {name: np.zeros(len(stream), np.int64) for name in COLUMNS}
    for kind in Opcode:
        rows = np.flatnonzero(opcode == kind)
        if not rows.size:
            continue
        pair = words[rows].T.copy()
        for slot in slots(kind, config):
            mask = np.uint64(slot.mask)
            value = ((pair[slot.field.word] >> np.uint64(slot.shift)) & mask).astype(np.int64)
            if slot.field.signed:
                value -= (value >> (slot.width - 1)) << slot.width
            columns[slot.field.name][rows] = value
    return Decoded(stream, config, opcode, columns)


@lru_cache(maxsize=64)
def _unused(config: VTAConfig) -> NDArray[np.uint64]:
    """Gives the bits that are in no field, by opcode and word [8, 2]; of an invalid opcode none are
    unused.
    """
    masks = np.zeros((8, 2), np.uint64)
    for kind in Opcode:
        used = [7, 0]
        for slot in slots(kind, config):
            used[slot.field.word] |= slot.mask << slot.shift
        masks[kind] = ~np.array(used, np.uint64)
    masks.flags.writeable = False
    return masks


def reserved(decoded: Decoded) -> NDArray[np.bool_]:
    """Marks the instructions that set bits outside all fields (ignored by the machine); bool
    [N]."""
    extra = decoded.insns.view("<u8") & _unused(decoded.config)[decoded.opcode]
    return (extra[:, 0] | extra[:, 1]) != 0


def reserved_bits(insn: NDArray[np.uint8], config: VTAConfig = DEFAULT_CONFIG) -> list[int]:
    """Lists the bits (0 to 127) outside of all fields that one instruction, uint8 [16], sets."""
    words = insn.view("<u8") & _unused(config)[insn[0] & 7]
    return [bit for bit in range(128) if int(words[bit // 64]) >> bit % 64 & 1]


def raw_text(insn: NDArray[np.uint8]) -> str:
    """Writes the two words of one instruction as text, for any 16 bytes."""
    low, high = insn.view("<u8").tolist()
    return f"{RAW} 0x{low:016x} 0x{high:016x}"
