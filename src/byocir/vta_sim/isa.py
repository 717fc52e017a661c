"""The instruction set as one table, and the encoder and decoder derived from it.

``LAYOUT`` lists, per opcode, the fields in the order of the C bit-fields of tvm-vta's
``include/vta/hw_spec.h``. An instruction is two little-endian 64-bit words; fields fill a word
from its lowest bit and never cross into the next one. ``UOP_LAYOUT`` is the same for the 32-bit
micro-op. The text form (``asm.py``) reads the ``text`` column of the same table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from byocir.vta_sim.config import DEFAULT_CONFIG, Memory, VTAConfig
from byocir.vta_sim.errors import VTAError

INSN_BYTES = 16
Width = Callable[[VTAConfig], int]


class Opcode(IntEnum):
    """Instruction kinds (hw_spec.h ``VTA_OPCODE_*``)."""

    LOAD = 0
    STORE = 1
    GEMM = 2
    FINISH = 3
    ALU = 4


class AluOp(IntEnum):
    """ALU operations (hw_spec.h ``VTA_ALU_OPCODE_*``)."""

    MIN = 0
    MAX = 1
    ADD = 2
    SHR = 3
    MUL = 4


@dataclass(frozen=True)
class Field:
    """One bit-field.

    ``text`` is how assembly spells it: fields with the same key are one comma-separated group,
    a key that starts with a dot is a suffix of the mnemonic, and "" is the token set in braces.
    """

    name: str
    width: Width
    word: int
    text: str
    signed: bool = False
    base: int = 10


def _bits(count: int) -> Width:
    return lambda config: count


def _index(memory: Memory, extra: int = 0) -> Width:
    return lambda config: config.log_depth(memory) + extra


_TOKENS = tuple(
    Field(name, _bits(1), 0, "") for name in ("pop_prev", "pop_next", "push_prev", "push_next")
)
_MEMORY = (
    *_TOKENS,
    Field("memory_type", _bits(3), 0, ".memory"),
    Field("sram_base", _bits(16), 0, "sram", base=16),
    Field("dram_base", _bits(32), 0, "dram", base=16),
    Field("y_size", _bits(16), 1, "y"),
    Field("x_size", _bits(16), 1, "x"),
    Field("x_stride", _bits(16), 1, "stride"),
    Field("y_pad_0", _bits(4), 1, "pad"),
    Field("y_pad_1", _bits(4), 1, "pad"),
    Field("x_pad_0", _bits(4), 1, "pad"),
    Field("x_pad_1", _bits(4), 1, "pad"),
)
_LOOPS = (
    *_TOKENS,
    Field("reset_reg", _bits(1), 0, ".reset"),
    Field("uop_bgn", _index(Memory.UOP), 0, "uop"),
    Field("uop_end", _index(Memory.UOP, 1), 0, "uop"),
    Field("iter_out", _bits(14), 0, "out"),
    Field("iter_in", _bits(14), 0, "in"),
    Field("dst_factor_out", _index(Memory.ACC), 1, "dst"),
    Field("dst_factor_in", _index(Memory.ACC), 1, "dst"),
)

LAYOUT: dict[Opcode, tuple[Field, ...]] = {
    Opcode.LOAD: _MEMORY,
    Opcode.STORE: _MEMORY,
    Opcode.GEMM: (
        *_LOOPS,
        Field("src_factor_out", _index(Memory.INP), 1, "src"),
        Field("src_factor_in", _index(Memory.INP), 1, "src"),
        Field("wgt_factor_out", _index(Memory.WGT), 1, "wgt"),
        Field("wgt_factor_in", _index(Memory.WGT), 1, "wgt"),
    ),
    Opcode.FINISH: _TOKENS,
    Opcode.ALU: (
        *_LOOPS,
        Field("src_factor_out", _index(Memory.ACC), 1, "src"),
        Field("src_factor_in", _index(Memory.ACC), 1, "src"),
        Field("alu_opcode", _bits(3), 1, ".op"),
        Field("use_imm", _bits(1), 1, ".imm"),
        Field("imm", _bits(16), 1, "imm", signed=True),
    ),
}
OPCODE = Field("opcode", _bits(3), 0, ".opcode")
UOP_LAYOUT = (
    Field("dst", _index(Memory.ACC), 0, "dst"),
    Field(
        "src", lambda config: max(config.log_depth(m) for m in (Memory.ACC, Memory.INP)), 0, "src"
    ),
    Field("wgt", _index(Memory.WGT), 0, "wgt"),
)
COLUMNS = tuple(dict.fromkeys(field.name for layout in LAYOUT.values() for field in layout))


class Slot(NamedTuple):
    """A field placed in its word for one config: ``width`` bits from bit ``shift`` up."""

    field: Field
    shift: int
    width: int

    def check(self, value: int, what: str) -> None:
        """Raise VTAError V107 unless ``value`` fits."""
        low = -(1 << (self.width - 1)) if self.field.signed else 0
        high = low + (1 << self.width) - 1
        if not low <= value <= high:
            expected = f"{what} field {self.field.name} in {low}..{high}"
            raise VTAError("V107", expected, str(value))


def _place(fields: tuple[Field, ...], config: VTAConfig) -> Iterator[Slot]:
    used = [0, 0]
    for field in fields:
        width = field.width(config)
        yield Slot(field, used[field.word], width)
        used[field.word] += width


@lru_cache(maxsize=64)
def slots(opcode: Opcode, config: VTAConfig) -> tuple[Slot, ...]:
    """The fields of ``opcode`` after the opcode itself, with their place under ``config``."""
    return tuple(_place((OPCODE, *LAYOUT[opcode]), config))[1:]


@lru_cache(maxsize=64)
def uop_slots(config: VTAConfig) -> tuple[Slot, ...]:
    """The three fields of a micro-op with their place under ``config``."""
    return tuple(_place(UOP_LAYOUT, config))


def encode(
    kind: Opcode | str, *, config: VTAConfig = DEFAULT_CONFIG, **values: int
) -> NDArray[np.uint8]:
    """Encode one instruction as uint8 [16]; fields not given are 0.

    ``kind`` is an Opcode or its lower-case name. Raises VTAError V107 for a kind or a field that
    does not exist and for a value out of its field's range.
    """
    opcode = kind if isinstance(kind, Opcode) else _opcode_named(kind)
    words = [int(opcode), 0]
    for slot in slots(opcode, config):
        value = _integer(values.pop(slot.field.name, 0), slot.field.name)
        slot.check(value, opcode.name)
        words[slot.field.word] |= (value & ((1 << slot.width) - 1)) << slot.shift
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
    """``value`` as an int, numpy's and enum members included; a float is refused, not cut."""
    if isinstance(value, (int, np.integer)):
        return int(cast("int", value))
    raise VTAError("V107", f"an integer for {name}", repr(value))


def encode_uops(
    dst: ArrayLike, src: ArrayLike, wgt: ArrayLike = 0, config: VTAConfig = DEFAULT_CONFIG
) -> NDArray[np.uint32]:
    """Encode micro-ops; the arguments broadcast to one shape.

    Raises VTAError V107 for an index that does not fit or is no integer, and for shapes that do
    not broadcast.
    """
    given = [np.asarray(column) for column in (dst, src, wgt)]
    if any(column.dtype.kind not in "iu" and column.size for column in given):
        raise VTAError("V107", "integer micro-op indices", ", ".join(str(c.dtype) for c in given))
    try:
        columns = np.broadcast_arrays(*(column.astype(np.int64) for column in given))
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
    """Split micro-ops into (dst, src, wgt) index arrays of the same shape."""
    wide = uops.astype(np.int64)
    dst, src, wgt = ((wide >> slot.shift) & ((1 << slot.width) - 1) for slot in uop_slots(config))
    return dst, src, wgt


@dataclass(frozen=True, slots=True)
class Instruction:
    """One decoded instruction: its place in the stream, its kind and its fields by name."""

    index: int
    opcode: Opcode
    fields: dict[str, int]


@dataclass(frozen=True)
class Decoded:
    """A decoded stream of N instructions as columns.

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
        """The instruction at ``index`` as an object."""
        opcode = Opcode(int(self.opcode[index]))
        fields = {field.name: int(self.columns[field.name][index]) for field in LAYOUT[opcode]}
        return Instruction(index, opcode, fields)

    def instructions(self) -> list[Instruction]:
        """All instructions as objects, in stream order; one pass per kind, not per field."""
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
    """Check an instruction array and return it as contiguous uint8 [N, 16].

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
    """Decode uint8 [N, 16] into columns. Raises VTAError V001, V101, V102 (invalid opcode)."""
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
            mask = np.uint64((1 << slot.width) - 1)
            value = ((pair[slot.field.word] >> np.uint64(slot.shift)) & mask).astype(np.int64)
            if slot.field.signed:
                value -= (value >> (slot.width - 1)) << slot.width
            columns[slot.field.name][rows] = value
    return Decoded(stream, config, opcode, columns)


def reserved(decoded: Decoded) -> NDArray[np.bool_]:
    """Which instructions set bits outside all fields (ignored by the machine); bool [N]."""
    words = decoded.insns.view("<u8")
    result = np.zeros(len(decoded), np.bool_)
    for kind in Opcode:
        used = [7, 0]
        for slot in slots(kind, decoded.config):
            used[slot.field.word] |= ((1 << slot.width) - 1) << slot.shift
        unused = words & ~np.array(used, np.uint64)
        result |= (decoded.opcode == kind) & unused.any(axis=1)
    return result


def raw_text(insn: NDArray[np.uint8]) -> str:
    """The two words of one instruction as text, valid for any 16 bytes."""
    low, high = insn.view("<u8").tolist()
    return f".insn 0x{low:016x} 0x{high:016x}"
