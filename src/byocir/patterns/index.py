"""Iterators and indices of block patterns, as text.

Iterators: `"n o h w | c r s"`, parallel ones before the bar, reductions after. `*i` stands for one
or more parallel iterators.

Indices, one for each dimension of the operand: an iterator (`n`), an affine form in parentheses
with named unknowns (`(h*sh + r*dh - ph)`), a whole group in its order (`*i`), or `~i`: some
iterators of the group in their order, and zeros, as broadcasting reads its operand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_TOKEN = re.compile(r"\([^()]*\)|[*~]?\w+|\S")
_TERM = re.compile(r"([+-]?)\s*(\w+)(?:\s*\*\s*(\w+))?\s*")


@dataclass(frozen=True)
class Iterators:
    """The iterators of a block pattern."""

    parallel: tuple[str, ...]
    reduction: tuple[str, ...]
    groups: tuple[str, ...]

    @staticmethod
    def parse(text: str) -> Iterators:
        """Raises ValueError for text that declares no iterator or declares one twice."""
        before, _, after = text.partition("|")
        parallel = tuple(word for word in before.split() if not word.startswith("*"))
        groups = tuple(word[1:] for word in before.split() if word.startswith("*"))
        reduction = tuple(after.split())
        names = [*parallel, *groups, *reduction]
        if not names or len(set(names)) != len(names):
            raise ValueError(f"expected distinct iterators, found '{text}'")
        return Iterators(parallel, reduction, groups)


@dataclass(frozen=True)
class Affine:
    """`sum(coefficient * iterator) + constant`; a coefficient or constant may be an unknown, which
    is a name with a sign."""

    terms: tuple[tuple[str, int | str], ...]
    constant: int = 0
    unknown: tuple[int, str] | None = None


@dataclass(frozen=True)
class Group:
    """All iterators of a group in their order or, when `broadcast`, some of them and zeros."""

    name: str
    broadcast: bool


Index = tuple[Affine | Group, ...]


def parse_index(text: str, iterators: Iterators) -> Index:
    """Raises ValueError, saying what was expected, for anything but the forms above."""
    return tuple(_parse_token(token, iterators) for token in _TOKEN.findall(text))


def _parse_token(token: str, iterators: Iterators) -> Affine | Group:
    known = {*iterators.parallel, *iterators.reduction}
    if token.startswith(("*", "~")) and token[1:] in iterators.groups:
        return Group(token[1:], broadcast=token.startswith("~"))
    if token in known:
        return Affine(((token, 1),))
    if token.startswith("("):
        return _parse_affine(token[1:-1], known)
    raise ValueError(f"expected one of the iterators {', '.join(sorted(known))}, found '{token}'")


def _parse_affine(text: str, known: set[str]) -> Affine:
    terms: dict[str, int | str] = {}
    constant, unknown, position = 0, None, 0
    text = text.strip()
    while position < len(text):
        found = _TERM.match(text, position)
        if found is None:
            raise ValueError(f"expected a sum of iterators, found '({text})'")
        position = found.end()
        sign = -1 if found[1] == "-" else 1
        factors = [f for f in (found[2], found[3]) if f is not None]
        names = [f for f in factors if f in known]
        if len(names) == 1 and names[0] not in terms and sign == 1:
            others = [f for f in factors if f != names[0]]
            terms[names[0]] = _number_or_name(others[0]) if others else 1
        elif not names and len(factors) == 1 and factors[0].isdigit():
            constant += sign * int(factors[0])
        elif not names and len(factors) == 1 and unknown is None:
            unknown = (sign, factors[0])
        else:
            raise ValueError(f"expected iterator * coefficient terms, found '({text})'")
    return Affine(tuple(terms.items()), constant, unknown)


def _number_or_name(text: str) -> int | str:
    return int(text) if text.isdigit() else text


@dataclass(frozen=True)
class Space:
    """A block's iteration space as a pattern sees it: which of its iterators stands for which name.

    `extents` are the block's; iterators of extent 1 that no name stands for are left out.
    """

    extents: Sequence[int]
    names: Mapping[str, int]
    groups: Mapping[str, tuple[int, ...]]


Unknowns = Mapping[str, int]


def match_index(
    index: Index, forms: Sequence[tuple[Mapping[int, int], int]], space: Space, unknowns: Unknowns
) -> Unknowns | None:
    """Unifies an index with a block's linear index forms (coefficients by iterator, constant), one
    per dimension; gives the unknowns bound so far, or None."""
    position = 0
    for part in index:
        if isinstance(part, Group):
            count = len(forms) - (len(index) - 1)
            if count < 0 or not _match_group(part, forms[position : position + count], space):
                return None
            position += count
            continue
        if position >= len(forms):
            return None
        bound = _match_affine(part, forms[position], space, unknowns)
        if bound is None:
            return None
        unknowns, position = bound, position + 1
    return unknowns if position == len(forms) else None


def _match_group(
    group: Group, forms: Sequence[tuple[Mapping[int, int], int]], space: Space
) -> bool:
    members = space.groups[group.name]
    dims: list[int] = []
    for terms, constant in forms:
        live = _live(terms, space)
        if constant or any(coefficient != 1 for coefficient in live.values()) or len(live) > 1:
            return False
        dims.extend(live)
    wanted = [m for m in members if m in dims]
    if dims != wanted:
        return False
    needed = [m for m in members if space.extents[m] > 1]
    return group.broadcast or set(needed) <= set(dims)


def _live(terms: Mapping[int, int], space: Space) -> dict[int, int]:
    """The terms without unit iterators that no name stands for."""
    named = {*space.names.values(), *(m for g in space.groups.values() for m in g)}
    return {i: c for i, c in terms.items() if i in named or space.extents[i] > 1}


def _match_affine(
    pattern: Affine, form: tuple[Mapping[int, int], int], space: Space, unknowns: Unknowns
) -> Unknowns | None:
    terms, constant = form
    live = _live(terms, space)
    for name, coefficient in pattern.terms:
        iterator = space.names[name]
        found = live.pop(iterator, None)
        if found is None:
            # A unit iterator may have lost its term; any coefficient describes it.
            if space.extents[iterator] != 1:
                return None
            found = coefficient if isinstance(coefficient, int) else unknowns.get(coefficient, 1)
        bound = _unify(coefficient, found, unknowns)
        if bound is None:
            return None
        unknowns = bound
    if live:
        return None
    rest = constant - pattern.constant
    if pattern.unknown is None:
        return unknowns if rest == 0 else None
    sign, name = pattern.unknown
    return _unify(name, sign * rest, unknowns)


def _unify(expected: int | str, found: int, unknowns: Unknowns) -> Unknowns | None:
    if isinstance(expected, int):
        return unknowns if expected == found else None
    if unknowns.get(expected, found) != found:
        return None
    return {**unknowns, expected: found}
