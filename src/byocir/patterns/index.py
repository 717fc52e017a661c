"""Iterators and indices of block patterns, as text.

Iterators: `"n o h w | c r s"`, parallel ones before the bar, reductions after. One `*i` stands for
a group: the parallel iterators, one or more, that no name stands for.

Indices, one for each dimension of the operand: an iterator (`n`), an affine form in parentheses
with named unknowns (`(h*sh + r*dh - ph)`), a whole group (`*i`), or `~i`: some iterators of the
group, and zeros, as broadcasting reads its operand.

The group's iterators are in the order in which they index the result, here and in every operand,
but other dimensions may stand between them. So `block("*m n | k", a["*m k"], b["n k"], …)` is a
matrix product and a 1x1 convolution: there `*m` is n, h and w around the channels. Beside a group
dimensions of size one may be left out of an index, such as the kernel of these weights.

An iterator of extent 1 need not be there: where a pattern names more iterators than a block has,
the rest have extent 1, and a coefficient of such an iterator that nothing else tells is 1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_TOKEN = re.compile(r"\([^()]*\)|[*~]?\w+|\S")
_TERM = re.compile(r"([+-]?)\s*(\w+)(?:\s*\*\s*(\w+))?\s*")


@dataclass(frozen=True)
class Iterators:
    """The iterators of a block pattern. `result` is the index of the result where none is given:
    the parallel iterators in order."""

    parallel: tuple[str, ...]
    reduction: tuple[str, ...]
    group: str | None
    result: str

    def __str__(self) -> str:
        names = [f"*{self.group}", *self.parallel] if self.group else list(self.parallel)
        return " ".join(names) + (f" | {' '.join(self.reduction)}" if self.reduction else "")

    @staticmethod
    def parse(text: str) -> Iterators:
        """Raises ValueError for text that declares no iterator, one twice, or two groups."""
        before, _, after = text.partition("|")
        groups = [word[1:] for word in before.split() if word.startswith("*")]
        parallel = [word for word in before.split() if not word.startswith("*")]
        reduction = after.split()
        names = [*parallel, *groups, *reduction]
        if not names or len(set(names)) != len(names) or not all(map(str.isidentifier, names)):
            raise ValueError(f"expected distinct iterators, found '{text}'")
        if len(groups) > 1:
            raise ValueError(f"expected at most one group of iterators, found '{text}'")
        group = groups[0] if groups else None
        return Iterators(tuple(parallel), tuple(reduction), group, before.strip())


def grouped(name: str) -> str:
    """The text of a group of iterators, for use in the texts of a block pattern:

    ```python
    m = grouped("m")
    block(f"{m} n | k", a[f"{m} k"], b["n k"], lambda acc, x, y: acc + x.to(i32) * y.to(i32))
    ```
    """
    return f"*{name}"


@dataclass(frozen=True)
class Affine:
    """`sum(coefficient * iterator) + constant`; a coefficient or constant may be an unknown, which
    is a name with a sign."""

    terms: tuple[tuple[str, int | str], ...]
    constant: int = 0
    unknown: tuple[int, str] | None = None


@dataclass(frozen=True)
class Group:
    """All iterators of the group in their order or, when `broadcast`, some of them and zeros."""

    broadcast: bool


Index = tuple[Affine | Group, ...]


def parse_index(text: str, iterators: Iterators) -> Index:
    """Raises ValueError, saying what was expected, for anything but the forms above."""
    index = tuple(_parse_token(token, iterators) for token in _TOKEN.findall(text))
    if sum(isinstance(part, Group) for part in index) > 1:
        raise ValueError(f"expected the group once, found '{text}'")
    return index


def coefficients(index: Index) -> frozenset[str]:
    """The unknowns of an index that stand before an iterator."""
    affine = [part for part in index if isinstance(part, Affine)]
    return frozenset(c for part in affine for _, c in part.terms if isinstance(c, str))


def _parse_token(token: str, iterators: Iterators) -> Affine | Group:
    known = {*iterators.parallel, *iterators.reduction}
    if token.startswith(("*", "~")) and token[1:] == iterators.group:
        return Group(broadcast=token.startswith("~"))
    if token in known:
        return Affine(((token, 1),))
    if token.startswith("("):
        return _parse_affine(token[1:-1].strip(), known, iterators.group)
    raise ValueError(f"expected one of the iterators {', '.join(sorted(known))}, found '{token}'")


def _parse_affine(text: str, known: set[str], group: str | None) -> Affine:
    terms: dict[str, int | str] = {}
    constant, unknown, position = 0, None, 0
    while position < len(text):
        found = _TERM.match(text, position)
        if found is None or (position and not found[1]):
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
        elif not names and len(factors) == 1 and unknown is None and factors[0] != group:
            unknown = (sign, factors[0])
        else:
            raise ValueError(f"expected iterator * coefficient terms, found '({text})'")
    return Affine(tuple(terms.items()), constant, unknown)


def _number_or_name(text: str) -> int | str:
    return int(text) if text.isdigit() else text


@dataclass(frozen=True)
class Space:
    """A block's iteration space as a pattern sees it: which of its iterators stands for which name,
    and which are in the group.

    `extents` are the block's, then ones for iterators that it does not have. Iterators of extent 1
    that no name stands for are left out.
    """

    extents: Sequence[int]
    names: Mapping[str, int]
    group: tuple[int, ...]


Unknowns = Mapping[str, int]
Form = tuple[Mapping[int, int], int]
"""A linear form: coefficients by iterator, and a constant."""


def match_index(
    index: Index, forms: Sequence[Form], space: Space, unknowns: Unknowns
) -> Unknowns | None:
    """Unifies an index with a block's linear index forms, one per dimension; gives the unknowns
    bound so far, or None."""
    pending = tuple(part for part in index if isinstance(part, Affine))
    group = next((part for part in index if isinstance(part, Group)), None)
    return _match_dimensions(pending, group, (), forms, space, unknowns)


def _match_dimensions(
    pending: tuple[Affine, ...],
    group: Group | None,
    members: tuple[int, ...],
    forms: Sequence[Form],
    space: Space,
    unknowns: Unknowns,
) -> Unknowns | None:
    """Each dimension is the next named part, an iterator of the group or, beside a group, of size
    one; `members` are the group's iterators so far."""
    if not forms:
        complete = not pending and _is_complete(group, members, space)
        return unknowns if complete else None
    (terms, constant), rest = forms[0], forms[1:]
    live = _live(terms, space)
    bound = _match_affine(pending[0], live, constant, space, unknowns) if pending else None
    if bound is not None:
        found = _match_dimensions(pending[1:], group, members, rest, space, bound)
        if found is not None:
            return found
    if group and not constant and _is_member(live, space):
        members = (*members, *live)
    elif not space.group or live or constant:
        return None
    return _match_dimensions(pending, group, members, rest, space, unknowns)


def _is_member(live: Mapping[int, int], space: Space) -> bool:
    return list(live.values()) == [1] and all(i in space.group for i in live)


def _is_complete(group: Group | None, members: Sequence[int], space: Space) -> bool:
    """Whether these are the group's iterators, each once and in order."""
    if group is None:
        return True
    needed = {i for i in space.group if space.extents[i] > 1 and not group.broadcast}
    return list(members) == [i for i in space.group if i in members] and needed <= set(members)


def _live(terms: Mapping[int, int], space: Space) -> dict[int, int]:
    """The terms without unit iterators that no name stands for."""
    named = {*space.names.values(), *space.group}
    return {i: c for i, c in terms.items() if i in named or space.extents[i] > 1}


def _match_affine(
    pattern: Affine, live: Mapping[int, int], constant: int, space: Space, unknowns: Unknowns
) -> Unknowns | None:
    rest = dict(live)
    for name, coefficient in pattern.terms:
        iterator = space.names[name]
        found = rest.pop(iterator, None)
        if found is None:
            # A unit iterator may have lost its term; any coefficient describes it.
            if space.extents[iterator] != 1:
                return None
            continue
        bound = _unify(coefficient, found, unknowns)
        if bound is None:
            return None
        unknowns = bound
    if rest:
        return None
    offset = constant - pattern.constant
    if pattern.unknown is None:
        return unknowns if offset == 0 else None
    sign, name = pattern.unknown
    return _unify(name, sign * offset, unknowns)


def _unify(expected: int | str, found: int, unknowns: Unknowns) -> Unknowns | None:
    if isinstance(expected, int):
        return unknowns if expected == found else None
    if unknowns.get(expected, found) != found:
        return None
    return {**unknowns, expected: found}
