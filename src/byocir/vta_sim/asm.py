"""Writes and reads assembly as text, derived from the table in ``isa_table.py``.

One instruction a line: ``mnemonic[.suffix]* key=value,... {token,...}``, for example
``load.inp sram=0x10 dram=0x1234 y=4 x=6 stride=14 pad=1,0,1,2 {pop_next,push_next}``. Groups
whose values are all zero are left out. ``#`` starts a comment. Bytes that the fields cannot
express (reserved bits set, unknown opcode) are written ``.insn 0xWORD0 0xWORD1``, so every stream
has a text and every text gives back its bytes. ``parse.py`` holds the other direction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from byocir.errors import escaped
from byocir.vta_sim.config import DEFAULT_CONFIG, VTAConfig
from byocir.vta_sim.errors import VTAError
from byocir.vta_sim.isa import (
    Decoded,
    Instruction,
    as_stream,
    decode,
    raw_text,
    reserved,
    reserved_bits,
)
from byocir.vta_sim.isa_table import LAYOUT, AluOp, Field, Memory, Opcode

# Suffixes that name a value rather than set a flag; other values print as prefix and number.
SUFFIX_NAMES: dict[str, tuple[str, tuple[str, ...]]] = {
    ".memory": ("mem", tuple(memory.name.lower() for memory in Memory)),
    ".op": ("op", tuple(op.name.lower() for op in AluOp)),
}


@cache
def groups(opcode: Opcode) -> tuple[tuple[str, list[Field]], ...]:
    """Gives the fields of ``opcode`` by their text key, in table order."""
    grouped = groupby(LAYOUT[opcode], key=lambda field: field.text)
    return tuple((key, list(fields)) for key, fields in grouped)


@cache
def suffixes(key: str) -> tuple[str, ...]:
    """Lists the suffix that each value of a field adds to the mnemonic, dot included."""
    if key not in SUFFIX_NAMES:
        return "", key
    prefix, names = SUFFIX_NAMES[key]
    return tuple(f".{names[v] if v < len(names) else f'{prefix}{v}'}" for v in range(8))


def _braces(fields: Sequence[Field], values: Iterable[int]) -> str:
    names = [field.name for field, value in zip(fields, values, strict=True) if value]
    return f" {{{','.join(names)}}}" if names else ""


def _operands(key: str, columns: Sequence[Sequence[int]], base: int) -> list[str]:
    spell: Callable[[int], str] = hex if base == 16 else str
    if len(columns) == 1:
        return [f" {key}={spell(value)}" if value else "" for value in columns[0]]
    rows = zip(*columns, strict=True)
    return [f" {key}={','.join(map(spell, row))}" if any(row) else "" for row in rows]


def _format(opcode: Opcode, columns: Mapping[str, Sequence[int]]) -> list[str]:
    """Writes the assembly of instructions of one kind, from their fields as columns of one
    length.
    """
    length = len(next(iter(columns.values())))
    heads: list[list[str]] = [[opcode.name.lower()] * length]
    operands: list[list[str]] = []
    tokens: list[list[str]] = []
    for key, fields in groups(opcode):
        values = [columns[field.name] for field in fields]
        if not key:
            spelled = {row: _braces(fields, row) for row in set(zip(*values, strict=True))}
            tokens.append([spelled[row] for row in zip(*values, strict=True)])
        elif key.startswith("."):
            names = suffixes(key)
            heads.append([names[value] for value in values[0]])
        else:
            operands.append(_operands(key, values, fields[0].base))
    return ["".join(parts) for parts in zip(*heads, *operands, *tokens, strict=True)]


def format_instruction(insn: Instruction) -> str:
    """Gives the one-line assembly of a decoded instruction."""
    return _format(insn.opcode, {name: [value] for name, value in insn.fields.items()})[0]


def where(decoded: Decoded, index: int) -> str:
    """Words the place of an instruction for an error: its index and disassembly."""
    return describe(decoded.instruction(index))


def describe(insn: Instruction) -> str:
    """Words an instruction as ``where`` does, from the instruction itself."""
    return f"instruction {insn.index}: {format_instruction(insn)}"


def disassemble(
    insns: NDArray[np.uint8],
    config: VTAConfig = DEFAULT_CONFIG,
    locations: Sequence[str] | None = None,
) -> list[str]:
    """Writes one line of assembly per instruction of uint8 [N, 16]; never fails on content.

    ``locations``: where each instruction came from, N strings; a comment line stands before the
    first of those that share one. Raises VTAError V001 or V101 for an array that is no instruction
    stream, V005 for another number of locations.
    """
    stream = as_stream(insns)
    if locations is not None and len(locations) != len(stream):
        expected = f"a location for each of {len(stream)} instructions"
        raise VTAError("V005", expected, f"{len(locations)} locations")
    lines = [""] * len(stream)
    opcodes = stream[:, 0] & 7
    for kind in Opcode:
        rows = np.flatnonzero(opcodes == kind)
        if not rows.size:
            continue
        decoded = decode(stream[rows], config)
        columns = {f.name: decoded.columns[f.name].tolist() for f in LAYOUT[kind]}
        inexact = np.flatnonzero(reserved(decoded)).tolist()
        texts = _format(kind, columns)
        for at in inexact:
            texts[at] = _raw(decoded.insns[at], f"{texts[at]}, {_reserved(decoded, at)}")
        for row, text in zip(rows.tolist(), texts, strict=True):
            lines[row] = text
    for row in np.flatnonzero(opcodes > max(Opcode)).tolist():
        lines[row] = _raw(stream[row], f"opcode {opcodes[row]} is none")
    return lines if locations is None else _with_comments(lines, locations)


def _raw(insn: NDArray[np.uint8], comment: str) -> str:
    return f"{raw_text(insn)}  # {comment}"


def _reserved(decoded: Decoded, at: int) -> str:
    bits = reserved_bits(decoded.insns[at], decoded.config)
    shown = ", ".join(map(str, bits[:4])) + (", …" if len(bits) > 4 else "")
    return f"reserved bits set: {shown}"


def _with_comments(lines: Sequence[str], locations: Sequence[str]) -> list[str]:
    result: list[str] = []
    before = ""
    for line, location in zip(lines, locations, strict=True):
        if location != before:
            result.append(comment(location or "(no location)"))
            before = location
        result.append(line)
    return result


def comment(text: str) -> str:
    """Writes a comment line, in which characters that could end it early, or are not printable, are
    escaped.
    """
    return f"# {escaped(text)}"
