"""Assembles lines of text to instructions, by the same table as the disassembler.

    line    = [instruction] ["#" comment]
    instruction = mnemonic { key "=" number { "," number } } [ "{" [token { "," token }] "}" ]
                | ".insn" number number
    mnemonic = opcode { "." suffix }

Blanks may stand between all parts but within a mnemonic or number. Every error names line and
column, counted from 1, and what was expected and found there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from byocir.vta_sim.asm import SUFFIX_NAMES, groups, suffixes
from byocir.vta_sim.config import DEFAULT_CONFIG, VTAConfig
from byocir.vta_sim.errors import VTAError, shown
from byocir.vta_sim.isa import RAW
from byocir.vta_sim.isa_table import INSN_BYTES, Opcode, Slot, slots

PART = re.compile(r"[=,{}]|[^\s=,{}]+")
NUMBER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|[0-9]+)")
DIGITS = 40
"""More than any field has; a longer number need not be read to be refused."""
OPCODES = {opcode.name.lower(): opcode for opcode in Opcode}


class _Syntax(NamedTuple):
    """Holds the syntax of one kind under one config: the field each suffix sets, the fields of each
    operand, the tokens, and the suffixes of which one is needed (by field, with the names to
    offer)."""

    suffixes: Mapping[str, tuple[Slot, int]]
    operands: Mapping[str, list[Slot]]
    tokens: Mapping[str, Slot]
    needed: Mapping[str, str]


@lru_cache(maxsize=64)
def _syntax(opcode: Opcode, config: VTAConfig) -> _Syntax:
    placed = {slot.field.name: slot for slot in slots(opcode, config)}
    choices: dict[str, tuple[Slot, int]] = {}
    operands: dict[str, list[Slot]] = {}
    tokens: dict[str, Slot] = {}
    needed: dict[str, str] = {}
    for key, fields in groups(opcode):
        members = [placed[field.name] for field in fields]
        if not key:
            tokens = {slot.field.name: slot for slot in members}
        elif key.startswith("."):
            named = {text[1:]: (members[0], v) for v, text in enumerate(suffixes(key)) if text}
            choices |= named
            if key in SUFFIX_NAMES:
                needed[fields[0].name] = ", ".join(SUFFIX_NAMES[key][1])
        else:
            operands[key] = members
    return _Syntax(choices, operands, tokens, needed)


@dataclass
class _Line:
    """Keeps one line under way: its parts with "" behind the last, where the reader is, and the
    words filled so far. Columns are worked out when an error needs one.
    """

    source: str
    number: int
    text: str
    parts: list[str]
    words: list[int]
    seen: set[str]
    at: int = 0

    def peek(self) -> str:
        """Gives the next part, "" at the end of the line."""
        return self.parts[self.at]

    def where(self, at: int, offset: int = 0) -> str:
        """Words the place of a part, or of a character in it; columns count from 1."""
        spans = [match.span() for match in PART.finditer(self.text)]
        start = spans[at][0] if at < len(spans) else spans[-1][1]
        column = start + offset + 1
        return f"{self.source}:{self.number}:{column}: {shown_line(self.text)}"

    def fail(self, expected: str, found: str = "", offset: int = 0) -> NoReturn:
        """Raises the error for the next part, or for the one that was ``found`` ``offset``
        characters later.
        """
        part = self.peek()
        seen = found or (shown(part) if part else "the end of the line")
        raise VTAError("V108", expected, seen, self.where(self.at, offset))

    def expect(self, part: str, expected: str) -> None:
        """Takes one part."""
        if self.peek() != part:
            self.fail(expected)
        self.at += 1

    def one(self, what: str, offset: int = 0) -> None:
        """Raises an error for the second of a part that may stand once."""
        if what in self.seen:
            self.fail(f"{what} once", "it again", offset)
        self.seen.add(what)

    def put(self, slot: Slot, value: int, what: str) -> None:
        """Puts a number into a field; raises VTAError V107, at the next part, if it does not
        fit.
        """
        if not slot.fits(value):
            slot.check(value, what, self.where(self.at))
        self.words[slot.field.word] |= (value & slot.mask) << slot.shift


def shown_line(text: str) -> str:
    """Shortens a line for a message: no blanks around it, nothing unprintable, not too long."""
    safe = "".join(c if c.isprintable() else " " for c in text.strip())
    return safe if len(safe) <= 120 else f"{safe[:120]}…"


def assemble(
    text: str, config: VTAConfig = DEFAULT_CONFIG, source: str = "line"
) -> NDArray[np.uint8]:
    """Assembles lines into uint8 [N, 16].

    ``source`` names the text in messages: ``source:LINE:COLUMN``. Raises VTAError V108 (syntax) or
    V107 (value out of range), naming line and column, what was expected and what was found.
    """
    words: list[int] = []
    for number, line in enumerate(text.split("\n"), start=1):
        code = line.partition("#")[0]
        parts = PART.findall(code)
        if parts:
            words += _instruction(_Line(source, number, code, [*parts, ""], [0, 0], set()), config)
    return np.array(words, "<u8").view(np.uint8).reshape(-1, INSN_BYTES)


def _instruction(line: _Line, config: VTAConfig) -> list[int]:
    mnemonic = line.peek()
    if mnemonic == RAW:
        return _raw(line)
    name, *given = mnemonic.split(".")
    if name not in OPCODES:
        line.fail(f"an instruction ({', '.join(OPCODES)}) or {RAW}", shown(name))
    opcode = OPCODES[name]
    syntax = _syntax(opcode, config)
    line.words[0] = int(opcode)
    _suffixes(line, name, given, syntax)
    line.at += 1
    while line.peek() not in ("", "{"):
        _operand(line, name, syntax)
    if line.peek():
        _tokens(line, syntax)
    return line.words


def _suffixes(line: _Line, name: str, given: Iterable[str], syntax: _Syntax) -> None:
    offset = len(name) + 1
    for suffix in given:
        if suffix not in syntax.suffixes:
            line.fail(f"a suffix of {name} ({_choices(syntax.suffixes)})", shown(suffix), offset)
        slot, value = syntax.suffixes[suffix]
        line.one(f"a suffix for {slot.field.name}", offset)
        line.put(slot, value, name)
        offset += len(suffix) + 1
    for field, names in syntax.needed.items():
        if f"a suffix for {field}" not in line.seen:
            line.fail(f"a suffix for {field} ({names})", "none", offset - 1)


def _choices(table: Iterable[str]) -> str:
    return ", ".join(table) or "nothing"


def _operand(line: _Line, name: str, syntax: _Syntax) -> None:
    key = line.peek()
    members = syntax.operands.get(key)
    if members is None:
        line.fail(f"an operand of {name} ({_choices(syntax.operands)}) or {{")
    line.one(key)
    line.at += 1
    line.expect("=", f"= after {key}")
    for index, slot in enumerate(members):
        if index:
            line.expect(",", _count(key, members))
        line.put(slot, _number(line), name)
        line.at += 1
    if line.peek() == ",":
        line.fail(_count(key, members), "more")


def _count(key: str, members: list[Slot]) -> str:
    return f"{len(members)} value{'s' if len(members) > 1 else ''} for {key}"


def _number(line: _Line) -> int:
    """Reads the next part as a number, without moving on, so that errors can point at it."""
    part = line.peek()
    if not NUMBER.fullmatch(part) or len(part) > DIGITS:
        line.fail("an integer (decimal or 0x...)")
    return int(part, 16) if "x" in part.lower() else int(part)


def _tokens(line: _Line, syntax: _Syntax) -> None:
    line.expect("{", "{")
    given: list[str] = []
    while line.peek() != "}":
        if given:
            line.expect(",", "} or , and another token")
        name = line.peek()
        if name not in syntax.tokens:
            line.fail(f"a token ({_choices(syntax.tokens)}) or }}")
        line.one(name)
        line.put(syntax.tokens[name], 1, name)
        given.append(name)
        line.at += 1
    line.at += 1
    if line.peek():
        line.fail("the end of the line after }")


def _raw(line: _Line) -> list[int]:
    line.at += 1
    words: list[int] = []
    for what in ("word 0", "word 1"):
        word = _number(line)
        if not 0 <= word < 1 << 64:
            line.fail(f"{what} in 0..2^64-1", shown(word))
        words.append(word)
        line.at += 1
    if line.peek():
        line.fail(f"the end of the line after the two words of {RAW}")
    return words
