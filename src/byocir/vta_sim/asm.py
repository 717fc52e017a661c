"""Text assembly, both ways, derived from the table in ``isa.py``.

One instruction a line: ``mnemonic[.suffix]* key=value ... {token,...}``, for example
``load.inp sram=0x10 dram=0x1234 y=4 x=6 stride=14 pad=1,0,1,2 {pop_next,push_next}``. Groups
whose values are all zero are left out. ``#`` starts a comment. Bytes that the fields cannot
express (reserved bits set, unknown opcode) are written ``.insn 0xWORD0 0xWORD1``, so every stream
has a text and every text gives back its bytes.
"""

from __future__ import annotations

from functools import cache
from itertools import groupby
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from byocir.vta_sim.config import DEFAULT_CONFIG, Memory, VTAConfig
from byocir.vta_sim.errors import VTAError
from byocir.vta_sim.isa import (
    INSN_BYTES,
    LAYOUT,
    AluOp,
    Decoded,
    Field,
    Instruction,
    Opcode,
    as_stream,
    decode,
    encode,
    raw_text,
    reserved,
)

T = TypeVar("T")
RAW = ".insn"
# Suffixes that name a value rather than set a flag; other values print as prefix and number.
SUFFIX_NAMES: dict[str, tuple[str, tuple[str, ...]]] = {
    ".memory": ("mem", tuple(memory.name.lower() for memory in Memory)),
    ".op": ("op", tuple(op.name.lower() for op in AluOp)),
}


@cache
def _groups(opcode: Opcode) -> tuple[tuple[str, list[Field]], ...]:
    """The fields of ``opcode`` by their text key, in table order."""
    grouped = groupby(LAYOUT[opcode], key=lambda field: field.text)
    return tuple((key, list(fields)) for key, fields in grouped)


def _suffix(key: str, value: int) -> str:
    if key not in SUFFIX_NAMES:
        return key if value else ""
    prefix, names = SUFFIX_NAMES[key]
    return f".{names[value]}" if value < len(names) else f".{prefix}{value}"


def format_instruction(insn: Instruction) -> str:
    """The one-line assembly of a decoded instruction."""
    mnemonic, tokens, operands = insn.opcode.name.lower(), "", ""
    for key, fields in _groups(insn.opcode):
        values = [insn.fields[field.name] for field in fields]
        if not key:
            names = [field.name for field, value in zip(fields, values, strict=True) if value]
            tokens = f" {{{','.join(names)}}}" if names else ""
        elif key.startswith("."):
            mnemonic += _suffix(key, values[0])
        elif any(values):
            shown = (hex(v) if fields[0].base == 16 else str(v) for v in values)
            operands += f" {key}={','.join(shown)}"
    return mnemonic + operands + tokens


def where(decoded: Decoded, index: int) -> str:
    """Place of an instruction for an error: its index and disassembly."""
    return describe(decoded.instruction(index))


def describe(insn: Instruction) -> str:
    """As ``where``, from the instruction itself."""
    return f"instruction {insn.index}: {format_instruction(insn)}"


def disassemble(insns: NDArray[np.uint8], config: VTAConfig = DEFAULT_CONFIG) -> list[str]:
    """One line of assembly per instruction of uint8 [N, 16]; never fails on content.

    Raises VTAError V001 or V101 for an array that is no instruction stream.
    """
    stream = as_stream(insns)
    lines = [raw_text(insn) for insn in stream]
    known = np.flatnonzero((stream[:, 0] & 7) <= max(Opcode))
    decoded = decode(stream[known], config)
    rows = zip(known.tolist(), decoded.instructions(), reserved(decoded).tolist(), strict=True)
    for index, insn, inexact in rows:
        text = format_instruction(insn)
        lines[index] = f"{lines[index]}  # {text}" if inexact else text
    return lines


def assemble(text: str, config: VTAConfig = DEFAULT_CONFIG) -> NDArray[np.uint8]:
    """Assemble lines into uint8 [N, 16].

    Raises VTAError V108 (syntax) or V107 (value out of range), naming the line.
    """
    rows: list[NDArray[np.uint8]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        code = line.split("#", 1)[0].strip()
        if code:
            rows.append(_assemble_line(code, f"line {number}: {code}", config))
    return np.stack(rows) if rows else np.zeros((0, INSN_BYTES), np.uint8)


def _assemble_line(code: str, place: str, config: VTAConfig) -> NDArray[np.uint8]:
    if code.split()[0] == RAW:
        return _assemble_raw(code, place)
    body, brace, tail = code.partition("{")
    mnemonic, *operands = body.split()
    name, *suffixes = mnemonic.split(".")
    opcode = _lookup(name, {op.name.lower(): op for op in Opcode}, "an instruction", place)
    values = _parse_suffixes(opcode, suffixes, place)
    if brace:
        values |= _parse_tokens(tail, place)
    groups = {key: fields for key, fields in _groups(opcode) if key and not key.startswith(".")}
    for operand in operands:
        key, _, numbers = operand.partition("=")
        fields = _lookup(key, groups, f"an operand of {name}", place)
        if fields[0].name in values:
            raise VTAError("V108", f"{key} once", "it again", place)
        values |= _parse_group(key, fields, numbers, place)
    try:
        return encode(opcode, config=config, **values)
    except VTAError as error:
        raise VTAError(error.code, error.expected, error.found, place) from None


def _lookup(key: str, table: dict[str, T], what: str, place: str) -> T:
    if key not in table:
        choices = ", ".join(table) or "nothing"
        raise VTAError("V108", f"{what} ({choices})", repr(key), place)
    return table[key]


def _parse_suffixes(opcode: Opcode, suffixes: list[str], place: str) -> dict[str, int]:
    """Field values that the mnemonic's suffixes spell."""
    choices: dict[str, tuple[str, int]] = {}
    for field in LAYOUT[opcode]:
        if field.text in SUFFIX_NAMES:
            choices |= {_suffix(field.text, v)[1:]: (field.name, v) for v in range(8)}
        elif field.text.startswith("."):
            choices[field.text[1:]] = (field.name, 1)
    values: dict[str, int] = {}
    for suffix in suffixes:
        name, value = _lookup(suffix, choices, f"a suffix of {opcode.name.lower()}", place)
        if name in values:
            raise VTAError("V108", f"one suffix for {name}", repr(suffix), place)
        values[name] = value
    for field in LAYOUT[opcode]:
        if field.text in SUFFIX_NAMES and field.name not in values:
            names = ", ".join(SUFFIX_NAMES[field.text][1])
            raise VTAError("V108", f"a suffix for {field.name} ({names})", "none", place)
    return values


def _parse_tokens(tail: str, place: str) -> dict[str, int]:
    names, brace, rest = tail.partition("}")
    if not brace or rest.strip():
        raise VTAError("V108", "the token set to close the line with }", repr("{" + tail), place)
    known = {field.name: field for field in LAYOUT[Opcode.FINISH]}
    parts = [part.strip() for part in names.split(",") if part.strip()]
    return {_lookup(part, known, "a token", place).name: 1 for part in parts}


def _parse_group(key: str, fields: list[Field], numbers: str, place: str) -> dict[str, int]:
    parts = numbers.split(",")
    if len(parts) != len(fields):
        raise VTAError("V108", f"{len(fields)} values for {key}", f"{len(parts)}", place)
    return {f.name: _parse_number(p, place) for f, p in zip(fields, parts, strict=True)}


def _parse_number(text: str, place: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise VTAError("V108", "an integer (decimal or 0x...)", repr(text), place) from None


def _assemble_raw(code: str, place: str) -> NDArray[np.uint8]:
    words = [_parse_number(word, place) for word in code.split()[1:]]
    if len(words) != 2 or not all(0 <= word < 1 << 64 for word in words):
        raise VTAError("V108", f"{RAW} and two 64-bit words", repr(code), place)
    return np.array(words, dtype="<u8").view(np.uint8)
