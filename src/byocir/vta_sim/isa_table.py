"""Defines the instruction set as one table.

``LAYOUT`` lists, per opcode, the fields in the order of the C bit-fields of tvm-vta's
``include/vta/hw_spec.h``. An instruction is two little-endian 64-bit words; fields fill a word
from its lowest bit and never cross into the next one. ``UOP_LAYOUT`` is the same for the 32-bit
micro-op. Encoder and decoder (``isa.py``), both directions of the text form (``asm.py``), the
checks of a configuration (``config.py``) and the page in docs/ (``isa_page.py``) come from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple, Protocol

from byocir.vta_sim.errors import VTAError

INSN_BYTES = 16
WORD_BITS, UOP_BITS = 64, 32


class Memory(IntEnum):
    """Names the memory ids of LOAD and STORE (hw_spec.h ``VTA_MEM_ID_*``)."""

    UOP = 0
    WGT = 1
    INP = 2
    ACC = 3
    OUT = 4
    ACC_8BIT = 5


class Opcode(IntEnum):
    """Names the kinds of instructions (hw_spec.h ``VTA_OPCODE_*``)."""

    LOAD = 0
    STORE = 1
    GEMM = 2
    FINISH = 3
    ALU = 4


class AluOp(IntEnum):
    """Names the ALU operations (hw_spec.h ``VTA_ALU_OPCODE_*``)."""

    MIN = 0
    MAX = 1
    ADD = 2
    SHR = 3
    MUL = 4


class Depths(Protocol):
    """Gives of a configuration what widths of fields depend on."""

    def log_depth(self, memory: Memory) -> int:
        """Gives log2 of the number of elements that a memory holds."""
        ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class Width:
    """Gives the number of bits of a field: ``bits``, plus the index width of the deepest of
    ``memories``.
    """

    bits: int = 0
    memories: tuple[Memory, ...] = ()

    def under(self, config: Depths) -> int:
        """Gives the number of bits for one configuration."""
        return self.bits + max((config.log_depth(memory) for memory in self.memories), default=0)

    def __str__(self) -> str:
        if not self.memories:
            return str(self.bits)
        depth = f"log2 {' or '.join(memory.name for memory in self.memories)} depth"
        return f"{depth} + {self.bits}" if self.bits else depth


@dataclass(frozen=True)
class Field:
    """Describes a bit-field of an instruction.

    ``text`` is how assembly spells it: fields with the same key are one comma-separated group,
    a key that starts with a dot is a suffix of the mnemonic, and "" is the token set in braces.
    ``doc`` is its meaning in a phrase.
    """

    name: str
    width: Width
    word: int
    text: str
    doc: str
    signed: bool = False
    base: int = 10


def _factor(group: str, memory: Memory) -> tuple[Field, Field]:
    width = Width(memories=(memory,))
    what = f"added to the {group} index ({memory.name})"
    return (
        Field(f"{group}_factor_out", width, 1, group, f"{what} at each outer iteration"),
        Field(f"{group}_factor_in", width, 1, group, f"{what} at each inner iteration"),
    )


_ONE, _PAD, _SIZE, _EXTENT = Width(1), Width(4), Width(16), Width(14)
_TOKENS = (
    Field("pop_prev", _ONE, 0, "", "wait for a token of the previous module"),
    Field("pop_next", _ONE, 0, "", "wait for a token of the next module"),
    Field("push_prev", _ONE, 0, "", "give the previous module a token when done"),
    Field("push_next", _ONE, 0, "", "give the next module a token when done"),
)
_MEMORY = (
    *_TOKENS,
    Field("memory_type", Width(3), 0, ".memory", "which scratchpad"),
    Field("sram_base", Width(16), 0, "sram", "first element in the scratchpad", base=16),
    Field("dram_base", Width(32), 0, "dram", "first element in DRAM, in elements", base=16),
    Field("y_size", _SIZE, 1, "y", "rows"),
    Field("x_size", _SIZE, 1, "x", "elements of a row; 0: only tokens move"),
    Field("x_stride", _SIZE, 1, "stride", "elements from one DRAM row to the next"),
    Field("y_pad_0", _PAD, 1, "pad", "rows of zeros before the first row"),
    Field("y_pad_1", _PAD, 1, "pad", "rows of zeros after the last row"),
    Field("x_pad_0", _PAD, 1, "pad", "zero elements before each row"),
    Field("x_pad_1", _PAD, 1, "pad", "zero elements after each row"),
)
_LOOPS = (
    *_TOKENS,
    Field("reset_reg", _ONE, 0, ".reset", "GEMM writes zeros; ALU ignores it"),
    Field("uop_bgn", Width(memories=(Memory.UOP,)), 0, "uop", "first micro-op"),
    Field("uop_end", Width(1, (Memory.UOP,)), 0, "uop", "last micro-op + 1"),
    Field("iter_out", _EXTENT, 0, "out", "outer iterations"),
    Field("iter_in", _EXTENT, 0, "in", "inner iterations"),
    *_factor("dst", Memory.ACC),
)

LAYOUT: dict[Opcode, tuple[Field, ...]] = {
    Opcode.LOAD: _MEMORY,
    Opcode.STORE: _MEMORY,
    Opcode.GEMM: (*_LOOPS, *_factor("src", Memory.INP), *_factor("wgt", Memory.WGT)),
    Opcode.FINISH: _TOKENS,
    Opcode.ALU: (
        *_LOOPS,
        *_factor("src", Memory.ACC),
        Field("alu_opcode", Width(3), 1, ".op", "which operation"),
        Field("use_imm", _ONE, 1, ".imm", "the second operand is imm, not ACC[src]"),
        Field("imm", Width(16), 1, "imm", "sign-extended to 32 bits", signed=True),
    ),
}
OPCODE = Field("opcode", Width(3), 0, "", "the kind of instruction")
UOP_LAYOUT = (
    Field("dst", Width(memories=(Memory.ACC,)), 0, "dst", "ACC index"),
    Field("src", Width(memories=(Memory.ACC, Memory.INP)), 0, "src", "INP index; ACC for ALU"),
    Field("wgt", Width(memories=(Memory.WGT,)), 0, "wgt", "WGT index; 0 for ALU"),
)
COLUMNS = tuple(dict.fromkeys(field.name for layout in LAYOUT.values() for field in layout))
"""The names of all fields."""


class Slot(NamedTuple):
    """Describes a field placed in its word for one config: ``width`` bits from bit ``shift`` up."""

    field: Field
    shift: int
    width: int

    @property
    def low(self) -> int:
        """Gives the least value that fits."""
        return -(1 << (self.width - 1)) if self.field.signed else 0

    @property
    def high(self) -> int:
        """Gives the greatest value that fits."""
        return self.low + self.mask

    @property
    def mask(self) -> int:
        """Gives as many one bits as the field has, not shifted yet."""
        return (1 << self.width) - 1

    def fits(self, value: int) -> bool:
        """Tells if the bits can hold ``value``."""
        return self.low <= value <= self.high

    def check(self, value: int, what: str, where: str = "") -> None:
        """Raises VTAError V107 unless ``value`` fits."""
        if not self.fits(value):
            expected = f"{what} field {self.field.name} in {self.low}..{self.high}"
            raise VTAError("V107", expected, str(value), where)


def _place(fields: tuple[Field, ...], config: Depths) -> Iterator[Slot]:
    used = [0, 0]
    for field in fields:
        width = field.width.under(config)
        yield Slot(field, used[field.word], width)
        used[field.word] += width


@lru_cache(maxsize=64)
def slots(opcode: Opcode, config: Depths) -> tuple[Slot, ...]:
    """Gives the fields of ``opcode`` after the opcode itself, with their place under ``config``."""
    return tuple(_place((OPCODE, *LAYOUT[opcode]), config))[1:]


@lru_cache(maxsize=64)
def uop_slots(config: Depths) -> tuple[Slot, ...]:
    """Gives the three fields of a micro-op with their place under ``config``."""
    return tuple(_place(UOP_LAYOUT, config))


def words_needed(config: Depths) -> Iterator[tuple[str, int, int]]:
    """Lists each word of an instruction, and the micro-op: its name, the bits in use, and the bits
    there are.
    """
    for opcode, fields in LAYOUT.items():
        for word in (0, 1):
            used = sum(f.width.under(config) for f in (OPCODE, *fields) if f.word == word)
            yield f"{opcode.name} word {word}", used, WORD_BITS
    yield "a micro-op", sum(f.width.under(config) for f in UOP_LAYOUT), UOP_BITS
