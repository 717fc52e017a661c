"""Checks that rules of instructions look up names that their patterns bind.

A rule is called once, with a match that knows names alone. What it computes with their values stays
open, and where it wants to know one the call ends: up to there every call does the same, so that no
rule is refused which may hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from itertools import chain
from typing import Any, NoReturn

from byocir.errors import did_you_mean
from byocir.machine.checks.told import wrong
from byocir.machine.description import Machine
from byocir.machine.instructions import Instruction
from byocir.patterns.match import BoundBlock
from byocir.patterns.rules import Rule


def check_rules(machine: Machine) -> None:
    """Checks that rules look up names that the patterns of their instructions bind, and no
    attributes that what they are bound to does not have. A rule of an instruction of two blocks is
    asked about the one whose names it looks up.
    """
    for each in machine.instructions:
        if each.into.hidden:
            continue
        blocks = [_names(half) for half in (each, each.first) if half is not None]
        for rule in each.pattern.rules:
            name, choices = _missing(rule, sorted({*chain.from_iterable(blocks)}))
            told = f"rule {rule.name} of {each.name} to look up what its pattern has"
            if name:
                raise wrong(machine, told, repr(name), did_you_mean(name, choices))
            others = [name for known in blocks if (name := _missing(rule, known)[0])]
            if len(others) == 2:
                found = " and ".join(map(repr, others))
                raise wrong(machine, f"{told} of one block", f"{found}, which are of both")


def _names(each: Instruction) -> list[str]:
    """Lists the names that a match of an instruction may have."""
    labels = (pattern.label for pattern in each.pattern.walk())
    numbers = (name for form in each.forms for name in form.numbers)
    return sorted({name for name in (*labels, *numbers) if name})


def _missing(rule: Rule, known: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Gives what a rule looks up in vain and what it could have meant; empty if there is none, as
    far as the rule can be followed."""
    match: Any = _Match(known)
    try:
        rule.check(match)
    except (_NoName, _NoAttribute) as error:
        return error.args
    except (Exception, _Open):  # another mistake shows, with its match, where the rule is asked
        pass
    return "", ()


class _NoName(KeyError):
    """Ends a rule that looks up a name in vain, unless it handles that."""


class _NoAttribute(AttributeError):
    """Ends a rule that looks up an attribute in vain, unless it handles that."""


class _Open(BaseException):
    """Ends a rule that wants to know a value; no Exception, which it might handle."""


def _unknown(*_: Any) -> NoReturn:
    raise _Open


_MOST_STEPS = 100


class _Value:
    """Stands for any value, as what is computed with it does. `steps` counts how many values led to
    it: a rule that goes from one to the next until there is none would never end.
    """

    def __init__(self, steps: int = 0) -> None:
        if steps > _MOST_STEPS:
            raise _Open
        self._steps = steps

    def __getattr__(self, name: str) -> _Value:
        return _Value(self._steps + 1)

    def _computed(self, *_: Any) -> Any:
        return _Value(self._steps + 1)

    __class__ = property(_unknown)  # which isinstance asks for
    __bool__ = __len__ = __iter__ = __index__ = __int__ = __float__ = __hash__ = _unknown
    __contains__ = __str__ = __format__ = _unknown
    __call__ = __getitem__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _computed
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = _computed
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = _computed
    __and__ = __or__ = __xor__ = __lshift__ = __rshift__ = __rlshift__ = __rrshift__ = _computed
    __rand__ = __ror__ = __rxor__ = __neg__ = __pos__ = __abs__ = __invert__ = _computed


class _Named(_Value):
    """Stands for what a name is bound to: a value of a program, a block or a number."""

    def __getattr__(self, name: str) -> _Value:
        if name not in _ATTRIBUTES:
            raise _NoAttribute(name, [each for each in _ATTRIBUTES if not each.startswith("_")])
        return _Value()


_ATTRIBUTES = sorted(
    {*(each.name for each in fields(BoundBlock)), *dir(BoundBlock), *dir(int), *dir(float)}
)


class _Match:
    """Stands for a match that has all names of its pattern."""

    def __init__(self, known: Sequence[str]) -> None:
        self._known = known

    def __getitem__(self, name: str) -> _Value:
        if name not in self._known:
            raise _NoName(name, self._known)
        return _Named()

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def get(self, name: str, default: Any = None) -> Any:
        return _Named() if name in self._known else default

    def __getattr__(self, name: str) -> _Value:
        return _Value()

    __iter__ = _unknown
