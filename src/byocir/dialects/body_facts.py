"""Keeps facts about the bodies of blocks, each found once for all bodies that are alike.

Programs of machines have thousands of blocks whose bodies were made from each other. Such bodies
share their attributes, so these are told apart by identity: that takes less than to look at what
they say.
"""

# pyrefly: ignore-errors[protected-access]

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from xdsl.ir import Attribute, Block, SSAValue

from byocir.dialects.memos import ObjectMemo

MOST = 1 << 12
"""The bodies of which facts are kept, before those are dropped that were not asked for lately."""

Fact = TypeVar("Fact")


class BodyFacts(Generic[Fact]):
    """Finds facts about bodies, and keeps them."""

    def __init__(self) -> None:
        self._known = ObjectMemo[Fact](MOST)

    def of(self, body: Block, find: Callable[[], Fact]) -> Fact | None:
        """Gives the fact about a body, which `find` finds if it is not known of one that is alike.
        None for a body that `parts_of` does not take apart.
        """
        parts = parts_of(body)
        return None if parts is None else self._known.of(parts, find)


def parts_of(body: Block) -> list[object] | None:
    """Lists all that a body is made of, in order: the types, names and locations of its arguments;
    of each op its class, the numbers of the values that it reads, its properties and location, and
    the types and names of its results. Two bodies with the same parts are the same, and each value
    is defined before it is read. None for a body whose ops have attributes, regions or successors,
    or read values from outside.
    """
    numbers: dict[int, int] = {}
    parts: list[object] = []
    for arg in body._args:
        numbers[id(arg)] = len(numbers)
        parts += (arg._type, arg._name, arg.location)
    op = body.first_op
    while op is not None:
        if op.regions or op.attributes or op._successors:
            return None
        parts.append(type(op))
        for operand in op._operands:
            number = numbers.get(id(operand))
            if number is None:
                return None
            parts.append(number)
        for each in op.properties.items():
            parts += each
        parts.append(op.location)
        for result in op.results:
            numbers[id(result)] = len(numbers)
            parts += (result._type, result._name)
        op = op._next_op
    return parts


def computation_of(
    body: Block, value: Callable[[Attribute], Hashable] = lambda attribute: attribute
) -> tuple[Hashable, ...]:
    """Lists what a body computes, which is equal for bodies that compute the same by the same ops;
    names and locations do not count. `value` stands for types and properties. A body with ops that
    have regions is equal to itself alone.
    """
    places: dict[SSAValue, int] = {arg: number for number, arg in enumerate(body.args)}
    found: list[Hashable] = [value(arg.type) for arg in body.args]
    for op in body.ops:
        if op.regions:
            return (body,)
        found.append(op.name)
        found += [places.get(operand, operand) for operand in op.operands]
        for name in sorted(op.properties):
            found += (name, value(op.properties[name]))
        for result in op.results:
            places[result] = len(places)
            found += ("=", value(result.type))
    return tuple(found)
