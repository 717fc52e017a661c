"""Computes with linear forms, which say what indices are, and between which numbers they lie.

`h * 2 + r - 1` is `Linear(((h, 2), (r, 1)), -1)`. The user decides what h and r are: in an index
map positions of a block's iterators, in the base of a block index values. Where h runs from 0 to 3
and r from 0 to 2 the form is in `Interval(-1, 7)`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from byocir.dialects.intervals import Interval


def spans(extents: Sequence[int]) -> list[Interval]:
    """Gives the intervals of iterators that run from 0: `spans([4, 3])` is 0 to 3 and 0 to 2."""
    return [Interval(0, extent - 1) for extent in extents]


def finest_first(digits: Iterable[tuple[int, int]], width: int = 1) -> Iterator[tuple[int, int]]:
    """Yields the steps of digits, given as steps and counts, each with the width of all that finer
    digits reach: a step of just that width leaves no number out, and comes to none twice.
    `finest_first([(8, 2), (2, 4)])` is (2, 1), (8, 7).
    """
    for step, count in sorted(digits):
        if count > 1:
            yield step, width
            width += step * (count - 1)


Atom = TypeVar("Atom", bound=Hashable)
"""A term before it is scaled: an iterator's position, an index value, an expression that
divides."""
Other = TypeVar("Other", bound=Hashable)


@dataclass(frozen=True)
class Linear(Generic[Atom]):
    """Holds `sum(coefficient * atom) + constant`; each atom comes once, and no coefficient is 0.
    Sums have the atoms in the order of their first use:

    ```
    Linear(((h, 2),), -1) + Linear(((r, 1), (h, 3)))  →  Linear(((h, 5), (r, 1)), -1)
    ```
    """

    terms: tuple[tuple[Atom, int], ...] = ()
    constant: int = 0

    @staticmethod
    def of(coefficients: Mapping[Other, int], constant: int = 0) -> Linear[Other]:
        """Makes the form with these coefficients, without those that are 0."""
        return Linear(tuple((atom, c) for atom, c in coefficients.items() if c), constant)

    def __add__(self, other: Linear[Atom] | int) -> Linear[Atom]:
        if isinstance(other, int):
            return Linear(self.terms, self.constant + other)
        if not other.terms:
            return Linear(self.terms, self.constant + other.constant)
        coefficients = dict(self.terms)
        for atom, coefficient in other.terms:
            coefficients[atom] = coefficients.get(atom, 0) + coefficient
        return Linear.of(coefficients, self.constant + other.constant)

    def __mul__(self, factor: int) -> Linear[Atom]:
        return Linear.of({atom: c * factor for atom, c in self.terms}, self.constant * factor)

    def __sub__(self, other: Linear[Atom] | int) -> Linear[Atom]:
        return self + other * -1

    @property
    def atoms(self) -> list[Atom]:
        return [atom for atom, _ in self.terms]

    def coefficient(self, atom: Atom) -> int:
        return dict(self.terms).get(atom, 0)

    @property
    def variable(self) -> Linear[Atom]:
        """Gives the form without the constant."""
        return Linear(self.terms)

    def without(self, atom: Atom) -> Linear[Atom]:
        """Gives the form with 0 in place of an atom."""
        return Linear(tuple(term for term in self.terms if term[0] != atom), self.constant)

    def split(self, belongs: Callable[[Atom], bool]) -> tuple[Linear[Atom], Linear[Atom]]:
        """Splits the form into the sum of two: one of the atoms for which `belongs` is true, one of
        the rest with the constant.
        """
        chosen = tuple(term for term in self.terms if belongs(term[0]))
        rest = tuple(term for term in self.terms if term not in chosen)
        return Linear(chosen), Linear(rest, self.constant)

    def substituted(self, of: Callable[[Atom], Linear[Other]]) -> Linear[Other]:
        """Replaces each atom by a form."""
        total: Linear[Other] = Linear((), self.constant)
        for atom, coefficient in self.terms:
            total += of(atom) * coefficient
        return total

    def value(self, of: Callable[[Atom], int]) -> int:
        """Computes the form for atoms that are these numbers."""
        return self.constant + sum(c * of(atom) for atom, c in self.terms)

    def interval(self, of: Callable[[Atom], Interval]) -> Interval:
        """Bounds the form for atoms in these intervals; no smaller interval has all its values, if
        atoms do not depend on each other.
        """
        low = high = self.constant
        for atom, coefficient in self.terms:
            at_low, at_high = of(atom)
            if coefficient < 0:
                at_low, at_high = at_high, at_low
            low, high = low + coefficient * at_low, high + coefficient * at_high
        return Interval(low, high)
