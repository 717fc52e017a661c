"""Describes how a block differs from what a pattern expects, in the words in which bodies and
indices are written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import zip_longest
from typing import Any

from xdsl.dialects import arith
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from byocir.dialects import tir
from byocir.dialects.decisions import Gap
from byocir.dialects.tir.affine import format_expr
from byocir.dialects.tir.scalar import BINARY_FLOAT, BINARY_INT, UNARY_FLOAT
from byocir.patterns.scalars import (
    CONVERSIONS,
    binary_text,
    body_text,
    comparison,
    constant_number,
    unary_text,
    unknowns_of,
)

LONGEST = 120
"""Characters of a body that are shown."""
MOST_TEXT = 5 * LONGEST
"""Characters of a body that are written to find where it differs from another."""

_BINARY: dict[type[Operation], str] = {
    op: name for table in (BINARY_INT, BINARY_FLOAT) for name, op in table.items()
}
_UNARY: dict[type[Operation], str] = {op: name for name, op in UNARY_FLOAT.items()}


def body_differs(op: tir.BlockOp, body: Callable[..., Any]) -> str:
    """Words the reason that a block computes something else, and says what."""
    (acc, *inputs), expected = body_text(body, len(op.ins))
    found = _value(op.yielded[0], [*_as_used(op, inputs, expected), acc], {})
    wanted, given = map(without_outer_parentheses, (expected, found))
    wanted, given = _where_they_differ(wanted, given, unknowns_of(body, len(op.ins)))
    return f"expected body {wanted}, found {given}"


def words_apart(op: tir.BlockOp, body: Callable[..., Any]) -> int:
    """Counts the words that only one of two bodies has: a block's or a pattern's."""
    (acc, *inputs), expected = body_text(body, len(op.ins))
    found = _value(op.yielded[0], [*_as_used(op, inputs, expected), acc], {})
    one, other = (Counter(re.findall(r"\w+", text)) for text in (expected, found))
    return (one - other).total() + (other - one).total()


def _as_used(op: tir.BlockOp, names: Sequence[str], expected: str) -> list[str]:
    """Names the inputs of a block, which patterns take in any order: the one that its body reads
    first gets the name that the expected text has first, and so on.
    """
    words = re.findall(r"\w+", expected)
    ordered = sorted(names, key=lambda name: words.index(name) if name in words else len(words))
    arguments = dict[int, None]()
    _note_arguments(op.yielded[0], arguments, set())
    count = len(names)
    used = [index for index in arguments if index < count]
    places = [*used, *(index for index in range(count) if index not in arguments)]
    given = dict(zip(places, ordered, strict=True))
    return [given[index] for index in range(count)]


def _note_arguments(value: SSAValue, found: dict[int, None], seen: set[SSAValue]) -> None:
    """Notes which arguments of a body a value is computed of, in the order of its text."""
    if isinstance(value, BlockArgument):
        found[value.index] = None
    elif value not in seen:
        seen.add(value)
        for operand in value.owner.operands if isinstance(value.owner, Operation) else ():
            _note_arguments(operand, found, seen)


def body_gap(op: tir.BlockOp, body: Callable[..., Any]) -> Gap:
    """Tells if a block computes another kind of thing: if only one copies, or sums up."""
    (acc, *_), expected = body_text(body, len(op.ins))
    sums = re.search(rf"\b{acc}\b", expected) is not None
    sums_up = op.body.block.args[-1].first_use is not None
    copies = isinstance(op.yielded[0], BlockArgument)
    is_other = copies or expected.isidentifier() or sums != sums_up
    return Gap.KIND if is_other else Gap.PART


def computed(op: tir.BlockOp) -> str:
    """Writes what a block computes of its inputs x, y, z as bodies are written; "copy" if it
    only moves elements."""
    count = len(op.ins)
    names = [*"xyz"[:count]] if count <= 3 else [f"x{i}" for i in range(count)]
    found = _short(_value(op.yielded[0], [*names, "acc"], {}))
    return "copy" if found in names else found


def copy_text(op: tir.BlockOp) -> str:
    """Words what a block does that only moves elements: "copy with pads" if others are around them
    in its result, else "copy".
    """
    has_pads = op.pad_values[0] is not None or isinstance(op.outs[0].owner, tir.FillOp)
    return "copy with pads" if has_pads else "copy"


def indices_differ(
    op: tir.BlockOp,
    reads: Sequence[str],
    result: str,
    order: Sequence[int],
    misread: Sequence[str] = (),
) -> str:
    """Words the reason that a block reads or writes elsewhere, and says where, for its operands in
    the order of the pattern's; `misread` names those that alone differ. Of a result with too few
    dimensions it says how many more, of size 1, may make it fit; of one with too many that a group
    in the pattern would stand for the others; of single numbers how a pattern takes them.
    """
    expected = ", ".join(f"[{read}]" for read in reads)
    maps = [op.in_maps[operand] for operand in order]
    found = ", ".join(_index(map_, op.names) for map_ in maps)
    written = _index(op.out_maps[0], op.names)
    help, extra = "", dimensions_beside(op, reads, result)
    if extra < 0:
        help = f"; it may fit with {-extra} more dimension{'s' if extra < -1 else ''} of size 1"
    if extra > 0:
        help = f"; it may fit with a group in front, as in [*b {result}]"
    for read, map_ in zip(reads, maps, strict=True):
        if read and not map_.results and not re.search(r"[*~]", read):
            named = read.split()[-1]
            help = f"; a single number fits [~{named}], for a group *{named} of the result"
        if not read and map_.results:
            help = "; the pattern takes a single number there"
    differs = f"; {' and '.join(misread)} differ{'s'[: len(misread) < 2]}" if misread else ""
    told = f"expected indices {expected} for [{result}], found {found} for {written}"
    return f"{told}{differs}{help}"


def step_text(op: Operation) -> str:
    """Writes one op of a body as bodies are written, of operands x and y, with its type."""
    numbers, names = map(constant_number, op.operands), iter("xyz")
    operands = [next(names) if number is None else str(number) for number in numbers]
    text = without_outer_parentheses(_op(op, operands))
    return f"{text} of {op.operands[0].type}"


def dimensions_beside(op: tir.BlockOp, reads: Sequence[str], result: str) -> int:
    """Counts the dimensions that the result of a block has beside those of a pattern, where these
    alone may keep it from matching: fewer than 0 where it has too few. Gives 0 where it has as
    many, or where the index of the pattern stands for any number of them.
    """
    found = [*op.in_maps, op.out_maps[0]]
    wanted = [re.sub(r"\([^()]*\)", "sum", index).split() for index in (*reads, result)]
    more = [len(map_.results) - len(parts) for parts, map_ in zip(wanted, found, strict=True)]
    if any(part.startswith(("*", "~")) for part in wanted[-1]):
        return 0
    return more[-1] if all(each in (0, more[-1]) for each in more) else 0


def _index(map_: AffineMap, names: Sequence[str]) -> str:
    return f"[{', '.join(format_expr(expr, names) for expr in map_.results)}]"


def without_outer_parentheses(text: str) -> str:
    """Drops outer parentheses of a text."""
    return text[1:-1] if _is_enclosed(text) else text


def _where_they_differ(one: str, other: str, unknowns: Collection[str]) -> tuple[str, str]:
    """Cuts two texts, where they are long, to parts that show where they begin to differ; any
    number may stand for one of the `unknowns`.
    """
    if max(len(one), len(other)) <= LONGEST:
        return one, other
    pairs = zip_longest(*(_WORDS.finditer(text) for text in (one, other)))
    other_words = ((a, b) for a, b in pairs if not (a and b and _alike(a[0], b[0], unknowns)))
    first, second = next(other_words, (None, None))
    return _cut_at(one, first), _cut_at(other, second)


_WORDS = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|\w+|\S")
"""Numbers, names and signs of a body."""


def _alike(wanted: str, found: str, unknowns: Collection[str]) -> bool:
    """Tells if two words of bodies match: 0 and 0.0 do, and an unknown and any number."""
    one, other = _number(wanted), _number(found)
    return wanted == found or (other is not None and (one == other or wanted in unknowns))


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def _cut_at(text: str, word: re.Match[str] | None) -> str:
    begin = (len(text) if word is None else word.start()) - LONGEST // 2
    return _cut(text if begin <= 0 else f"…{text[begin:]}")


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _short(text: str) -> str:
    """Drops outer parentheses of a text, and cuts it where it is long."""
    return _cut(without_outer_parentheses(text))


def _is_enclosed(text: str) -> bool:
    """Tells if one pair of parentheses encloses all of a text, whose end may be cut off."""
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return i == len(text) - 1 and i > 0
    return depth > 0


def _value(value: SSAValue, names: Sequence[str], known: dict[SSAValue, str]) -> str:
    """Gives a value of a body as bodies are written."""
    if isinstance(value, BlockArgument):
        return names[value.index] if value.index < len(names) else f"%{value.index}"
    number = constant_number(value)
    if number is not None:
        return str(number)
    if value not in known:
        op = value.owner
        assert isinstance(op, Operation)
        text = _op(op, [_value(operand, names, known) for operand in op.operands])
        known[value] = text[:MOST_TEXT]  # an op that uses a value twice doubles its text
    return known[value]


def _op(op: Operation, operands: Sequence[str]) -> str:
    if type(op) in _BINARY:
        return binary_text(_BINARY[type(op)], *operands)
    if type(op) in _UNARY:
        return unary_text(_UNARY[type(op)], operands[0])
    if isinstance(op, arith.CmpiOp | arith.CmpfOp) and comparison(op):
        return f'{operands[0]}.compare("{comparison(op)}", {operands[1]})'
    if isinstance(op, arith.SelectOp):
        return f"{operands[0]}.select({operands[1]}, {operands[2]})"
    if isinstance(op, tir.ReadOp):
        return f"{operands[0]}.read({', '.join(operands[1:])})"
    if isinstance(op, CONVERSIONS):
        return f"{operands[0]}.to({op.results[0].type})"
    return f"{op.name}({', '.join(operands)})"
