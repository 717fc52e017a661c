"""Looks quickly, before matching, if the ops that feed an op are of kinds that a pattern could
match.

Matching binds names, keeps alternatives to return to, and words reasons. Most ops of a root's kind
need none of this: the kinds of the ops that feed them already show that the pattern does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations

from xdsl.ir import Operation, SSAValue

from byocir.dialects.tir import BlockOp
from byocir.patterns.blocks import BlockPattern
from byocir.patterns.nodes import (
    COMMUTATIVE,
    AlternativesPattern,
    ConstantPattern,
    OpPattern,
    Pattern,
    WildcardPattern,
)
from byocir.patterns.structure import PathPattern, ResultPattern

Kinds = frozenset[str] | None
"""Names of ops that may produce a value; None where anything may."""
Way = tuple[Kinds, ...]
"""The kinds of ops that may produce each operand."""

_CONSTANTS = frozenset({"graph.constant", "tir.constant"})


def ways_to_feed(pattern: Pattern) -> Mapping[str, Sequence[Way]]:
    """Lists, for each kind of op that can be a pattern's root, which kinds of ops may produce its
    operands. A pattern can only fit an op for which one of these ways holds.
    """
    found: dict[str, list[Way]] = {name: [] for name in sorted(pattern.root_names())}
    for name, ways in found.items():
        ways.extend(_ways(pattern, name))
    return found


def _ways(pattern: Pattern, name: str) -> Iterable[Way]:
    match pattern:
        case OpPattern():
            way = tuple(_kinds(operand) for operand in pattern.operands)
            return permutations(way) if name in COMMUTATIVE else [way]
        case BlockPattern():
            return permutations([_kinds(read.pattern) for read in pattern.reads])
        case AlternativesPattern():
            fitting = [each for each in pattern.alternatives if name in each.root_names()]
            return [way for each in fitting for way in _ways(each, name)]
        case _:
            return [()]


def _kinds(pattern: Pattern) -> Kinds:
    match pattern:
        case ConstantPattern():
            return _CONSTANTS
        case AlternativesPattern():
            return _either([_kinds(each) for each in pattern.alternatives])
        case PathPattern():
            return _either([pattern.through, _kinds(pattern.start)])
        case ResultPattern():
            return _kinds(pattern.inner)
        case WildcardPattern():
            return None
        case _:
            return pattern.root_names()


def _either(kinds: Sequence[Kinds]) -> Kinds:
    known = [each for each in kinds if each is not None]
    return frozenset[str]().union(*known) if len(known) == len(kinds) else None


def may_fit(op: Operation, ways: Mapping[str, Sequence[Way]]) -> bool:
    """Tells if the producers of an op's operands are of the kinds that a pattern asks for; `ways`
    are those that `ways_to_feed` gives.
    """
    operands = op.ins if isinstance(op, BlockOp) else op.operands
    return any(_feeds(operands, way) for way in ways.get(op.name, ()))


def _feeds(operands: Sequence[SSAValue], way: Way) -> bool:
    for value, kinds in zip(operands, way, strict=False):
        if kinds is None:
            continue
        owner = value.owner
        if not isinstance(owner, Operation) or owner.name not in kinds:
            return False
    return True
