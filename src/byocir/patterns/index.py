"""Parses the iterators and indices of block patterns, and matches them against those of blocks.

Iterators: `"n o h w | c r s"`, parallel ones before the bar, reductions after. `*i` stands for a
group: iterators, none or more, that no name stands for. Several groups are told apart by what they
index: `"*b m n | k"` is any batched product, `"*i | *r"` any reduction over any axes.

Indices, one for each dimension of the operand: an iterator (`n`), an affine form in parentheses
with named unknowns (`(h*sh + r*dh - ph)`), one that is divided and rounded down (`(h*a + b)
floordiv d`, which any form without a division is by 1), a whole group (`*i`), or `~i`: some
iterators of the group, and zeros, as broadcasting reads its operand.

A group's iterators are in the order in which they index the result (those of a reduction the first
operand that has them), here and in every operand, but other dimensions may stand between them. So
`block("*m n | k", a["*m k"], b["n k"], …)` is a matrix product and a 1x1 convolution: there `*m` is
n, h and w around the channels. Beside groups dimensions of size one may be left out of an index,
such as the kernel of these weights.

An iterator of extent 1 need not be there: where a pattern names more iterators than a block has,
the rest have extent 1, and a coefficient of such an iterator that nothing else tells is 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import permutations, product
from typing import NamedTuple

from xdsl.ir.affine import AffineMap

from byocir.dialects import tir
from byocir.dialects.tir.affine import division_of, is_quotient, linear
from byocir.dialects.tir.linear import Linear

_TOKEN = re.compile(r"\([^()]*\)(?:\s*floordiv\s+\w+)?|[*~]?\w+|\S")
_TERM = re.compile(r"([+-]?)\s*(\w+)(?:\s*\*\s*(\w+))?\s*")


@dataclass(frozen=True)
class Iterators:
    """Lists the iterators of a block pattern, by name. `result` is the index of the result where
    none is given: the parallel ones in order."""

    parallel: tuple[str, ...]
    reduction: tuple[str, ...]
    parallel_groups: tuple[str, ...]
    reduction_groups: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def groups(self) -> tuple[str, ...]:
        """Lists the names of all groups, parallel ones first."""
        return (*self.parallel_groups, *self.reduction_groups)

    @property
    def result(self) -> str:
        return self.text.partition("|")[0].strip()

    @staticmethod
    @lru_cache(maxsize=1024)
    def parse(text: str) -> Iterators:
        """Parses the text of a block's iterators. Raises ValueError for text that declares no
        iterator, or one twice, and for what is no name.
        """
        before, _, after = text.partition("|")
        (parallel, groups), (reduction, reduced) = _declared(before), _declared(after)
        names = [*parallel, *groups, *reduction, *reduced]
        if not all(map(str.isidentifier, names)):
            raise ValueError(f"expected iterators by name, such as 'm n | k', found '{text}'")
        if not names or len(set(names)) != len(names):
            raise ValueError(f"expected distinct iterators, found '{text}'")
        return Iterators(parallel, reduction, groups, reduced, " ".join(text.split()))


def _declared(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Gives the names and the groups that a text declares."""
    words = text.split()
    names = tuple(word for word in words if not word.startswith("*"))
    return names, tuple(word[1:] for word in words if word.startswith("*"))


def grouped(name: str) -> str:
    """Gives the text of a group of iterators, for use in the texts of a block pattern:

    ```python
    m = grouped("m")
    block(f"{m} n | k", a[f"{m} k"], b["n k"], lambda acc, x, y: acc + x.to(i32) * y.to(i32))
    ```
    """
    return f"*{name}"


@dataclass(frozen=True)
class Affine:
    """Stands for the index `(sum(coefficient * iterator) + constant) floordiv divisor`; a
    coefficient, a divisor or a constant may be an unknown, the last with a sign.
    """

    terms: tuple[tuple[str, int | str], ...]
    constant: int = 0
    unknown: tuple[int, str] | None = None
    divisor: int | str = 1


@dataclass(frozen=True)
class Group:
    """Describes a part of an index that stands for all iterators of a group in their order or, when
    `broadcast`, for some of them and zeros.
    """

    name: str
    broadcast: bool


Index = tuple[Affine | Group, ...]


@lru_cache(maxsize=1024)
def parse_index(text: str, iterators: Iterators) -> Index:
    """Parses the text of an index. Raises ValueError, saying what was expected, for anything but
    the forms above.
    """
    index = tuple(_parse_token(token, iterators) for token in _TOKEN.findall(text))
    groups = [part.name for part in index if isinstance(part, Group)]
    if len(set(groups)) < len(groups):
        raise ValueError(f"expected each group once, found '{text}'")
    return index


def coefficients(index: Index) -> frozenset[str]:
    """Gives the names of the unknowns that multiply an iterator in an index, or divide."""
    affine = [part for part in index if isinstance(part, Affine)]
    numbers = [n for part in affine for n in (*(c for _, c in part.terms), part.divisor)]
    return frozenset(n for n in numbers if isinstance(n, str))


def window_of(part: Affine | Group) -> set[str]:
    """Gives the iterators of an index that may reach beyond its dimension: all but one that stands
    alone, as `c` does.
    """
    names = [] if isinstance(part, Group) else [name for name, _ in part.terms]
    return set() if part == Affine(tuple((name, 1) for name in names[:1])) else {*names}


def _parse_token(token: str, iterators: Iterators) -> Affine | Group:
    known = {*iterators.parallel, *iterators.reduction}
    if token.startswith(("*", "~")) and token[1:] in iterators.groups:
        return Group(token[1:], broadcast=token.startswith("~"))
    if token in known:
        return Affine(((token, 1),))
    if token.startswith("("):
        inner, _, division = token[1:].partition(")")
        affine = _parse_affine(inner.strip(), known, iterators.groups)
        return _divided(affine, division.split()[1:], known)
    shown = ", ".join([*sorted(known), *(f"*{group}" for group in iterators.groups)])
    raise ValueError(f"expected one of the iterators {shown}, found '{token}'")


def _parse_affine(text: str, known: set[str], groups: Sequence[str]) -> Affine:
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
        elif not names and len(factors) == 1 and unknown is None and factors[0] not in groups:
            unknown = (sign, factors[0])
        else:
            raise ValueError(f"expected iterator * coefficient terms, found '({text})'")
    return Affine(tuple(terms.items()), constant, unknown)


def _divided(affine: Affine, divisors: Sequence[str], known: set[str]) -> Affine:
    for divisor in divisors:
        if divisor in known or divisor == "0" or not re.fullmatch(r"\d+|[^\W\d]\w*", divisor):
            raise ValueError(f"expected floordiv by a positive number or a name, found '{divisor}'")
        affine = replace(affine, divisor=_number_or_name(divisor))
    return affine


def _number_or_name(text: str) -> int | str:
    return int(text) if text.isdigit() else text


@dataclass(frozen=True)
class NamedIterators:
    """Describes a block's iteration space as a pattern sees it: which iterator stands for which
    name, and which are in which group, in order.

    `units` tells which iterators have extent 1: those of the block, then more that it does not
    have. Iterators of extent 1 that no name stands for may be left out.
    """

    units: Sequence[bool]
    names: Mapping[str, int]
    groups: Mapping[str, tuple[int, ...]]


Unknowns = Mapping[str, int]


class FloorIndex(NamedTuple):
    """Describes the index into one dimension: a linear form divided by a number, which mostly is 1,
    and rounded down.
    """

    form: Linear[int]
    divisor: int


def forms_of(map_: AffineMap) -> list[FloorIndex] | None:
    """Gives the indices of a map in that form, one for each dimension; None where one of them has
    another form.
    """
    forms: list[FloorIndex] = []
    for expr in map_.results:
        divided, divisor = division_of(expr) if is_quotient(expr) else (expr, 1)
        form = linear(divided)
        if form is None:
            return None
        forms.append(FloorIndex(form, divisor))
    return forms


def rank_fits(index: Index, forms: Sequence[FloorIndex], *, grouped: bool) -> bool:
    """Tells if an array of so many dimensions can be read at an index: groups may stand for any
    number of dimensions beside the named ones.
    """
    named = sum(isinstance(part, Affine) for part in index)
    return len(forms) >= named if grouped else len(forms) == named


def match_index(
    index: Index, forms: Sequence[FloorIndex], space: NamedIterators, unknowns: Unknowns
) -> Unknowns | None:
    """Unifies an index with a block's index forms, one per dimension; gives the unknowns bound so
    far, or None.
    """
    pending = tuple(part for part in index if isinstance(part, Affine))
    groups = tuple(part for part in index if isinstance(part, Group))
    return _match_dimensions(pending, groups, (), forms, space, unknowns)


def _match_dimensions(
    pending: tuple[Affine, ...],
    groups: tuple[Group, ...],
    members: tuple[int, ...],
    forms: Sequence[FloorIndex],
    space: NamedIterators,
    unknowns: Unknowns,
) -> Unknowns | None:
    """Unifies the dimensions from the first of `forms` on. Each is the next named part, else an
    iterator of a group or, where there are groups, of size one; `members` are the iterators of
    groups that were met before.
    """
    if not forms:
        complete = not pending and all(_is_complete(group, members, space) for group in groups)
        return unknowns if complete else None
    (form, divisor), rest = forms[0], forms[1:]
    live, constant = _live(form, space), form.constant
    bound = _unify(pending[0].divisor, divisor, unknowns) if pending else None
    if bound is not None:
        bound = _match_affine(pending[0], live, constant, space, bound)
    if bound is not None:
        found = _match_dimensions(pending[1:], groups, members, rest, space, bound)
        if found is not None:
            return found
    if divisor == 1 and not constant and _is_member(live, groups, space):
        members = (*members, *live)
    elif not space.groups or live or constant:
        return None
    return _match_dimensions(pending, groups, members, rest, space, unknowns)


def _is_member(live: Mapping[int, int], groups: Sequence[Group], space: NamedIterators) -> bool:
    """Tells if a dimension is an iterator of one of these groups."""
    return list(live.values()) == [1] and any(
        i in space.groups[group.name] for i in live for group in groups
    )


def _is_complete(group: Group, members: Sequence[int], space: NamedIterators) -> bool:
    """Tells if the iterators of a group are all among `members`, each once and in order; of a group
    that broadcasts some may be missing. Those of extent 1 may be anywhere.
    """
    wanted = [i for i in space.groups[group.name] if not space.units[i]]
    found = [i for i in members if i in wanted]
    in_order = found == [i for i in wanted if i in found]
    return in_order and (group.broadcast or len(found) == len(wanted))


def _live(form: Linear[int], space: NamedIterators) -> dict[int, int]:
    """Gives the coefficients of a form by iterator, without iterators of extent 1 that no name
    stands for.
    """
    named = {*space.names.values(), *(i for group in space.groups.values() for i in group)}
    return {i: c for i, c in form.terms if i in named or not space.units[i]}


def _match_affine(
    pattern: Affine,
    live: Mapping[int, int],
    constant: int,
    space: NamedIterators,
    unknowns: Unknowns,
) -> Unknowns | None:
    rest = dict(live)
    for name, coefficient in pattern.terms:
        iterator = space.names[name]
        found = rest.pop(iterator, None)
        if found is None:
            # A unit iterator may have lost its term; any coefficient describes it.
            if not space.units[iterator]:
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


Forms = Sequence[Sequence[FloorIndex]]
"""The index of each operand of a block, the result last: a form per dimension."""


def spaces(
    op: tir.BlockOp, iterators: Iterators, out: Index, result: Sequence[FloorIndex]
) -> Iterator[tuple[NamedIterators, Unknowns]]:
    """Yields each way in which the block's iterators can stand for the pattern's so that the
    result's index fits, with the unknowns of that index. Reductions of extent 1 are tried last, so
    that names prefer the others.
    """
    count = len(op.iterators)
    unit = [extent == 1 for extent in op.extents]
    units = (*unit, *[True] * (len(iterators.parallel) + len(iterators.reduction)))
    parallels = _result_order(op)
    missing = range(count, count + len(iterators.parallel) - len(parallels))
    reductions = sorted(op.reductions, key=units.__getitem__)
    unread = range(len(units) - len(iterators.reduction) + len(reductions), len(units))
    none = NamedIterators(units, {}, {})
    rows = [*parallels, *missing]
    sums = [*reductions, *unread]
    for space in _assigned(none, rows, iterators.parallel, iterators.parallel_groups):
        unknowns = match_index(out, result, space, {})
        if unknowns is not None:
            reduced = _assigned(space, sums, iterators.reduction, iterators.reduction_groups)
            yield from ((whole, unknowns) for whole in reduced)


def _assigned(
    space: NamedIterators, iterators: Sequence[int], names: Sequence[str], groups: Sequence[str]
) -> Iterator[NamedIterators]:
    """Yields each way in which some of these iterators stand for the names, while the rest are in
    the groups or, without groups, of extent 1.
    """
    for chosen in permutations(iterators, len(names)):
        rest = [i for i in iterators if i not in chosen]
        if not groups and not all(space.units[i] for i in rest):
            continue
        named = {**space.names, **dict(zip(names, chosen, strict=True))}
        for grouping in _groupings(rest, groups):
            yield replace(space, names=named, groups={**space.groups, **grouping})


def _groupings(
    iterators: Sequence[int], groups: Sequence[str]
) -> Iterator[Mapping[str, tuple[int, ...]]]:
    """Yields each way to put each of these iterators into one of the groups."""
    if not groups:
        yield {}
        return
    for places in product(groups, repeat=len(iterators)):
        pairs = list(zip(iterators, places, strict=True))
        yield {group: tuple(i for i, place in pairs if place == group) for group in groups}


def in_reading_order(
    space: NamedIterators, reduced: Sequence[str], indices: Sequence[Index], forms: Forms
) -> NamedIterators:
    """Orders the iterators of each reduction group as they index the first operand that has the
    group.
    """
    groups = dict(space.groups)
    for name in reduced:
        whole = Group(name, broadcast=False)
        reads = [read for index, read in zip(indices, forms, strict=True) if whole in index]
        order = dict.fromkeys(i for at in (reads[0] if reads else ()) for i in at.form.atoms)
        known = [i for i in order if i in groups[name]]
        groups[name] = (*known, *(i for i in groups[name] if i not in known))
    return replace(space, groups=groups)


def _result_order(op: tir.BlockOp) -> list[int]:
    """Gives the parallel iterators in the order in which they index the result."""
    used: list[int] = []
    for expr in op.out_maps[0].results:
        used.extend(i for i in sorted(expr.used_dims()) if i not in used)
    return [*used, *(i for i in op.parallels if i not in used)]
