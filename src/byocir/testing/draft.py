"""Collects facts about a future op, before its operands and attributes are proposed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from byocir.dialects.graph.base import PropertyValue
from byocir.dialects.types import Shape, element_type_of, shape_of, tensor
from byocir.patterns.match import python_value
from byocir.patterns.rules import Vary
from byocir.testing.choose import Choose, pick


@dataclass(frozen=True)
class Breadth:
    """Says among which numbers draws choose: `sizes` of dimensions and `extents` of iterators that
    nothing else fixes, and `steps`, the longest of windows, beside the even ones. With `plain`, two
    graphs of three are plain: see `Draft`.
    """

    sizes: tuple[int, ...] = (1, 2, 3, 4, 8, 16)
    extents: tuple[int, ...] = (1, 2, 3, 4)
    steps: int = 0
    plain: bool = False

    def with_multiples(self, of: int) -> Breadth:
        """Draws a number for every other dimension, and small ones beside it, so that products of
        several stay small; the same breadth for 1.
        """
        some = (1, 2, 3, *[of] * 3)
        return self if of == 1 else replace(self, sizes=some, extents=some)


NARROW = Breadth()
WIDE = Breadth((1, 2, 3, 5, 7, 8, 9, 16, 17, 24, 33), (1, 2, 3, 5, 8, 9, 16, 17, 20), 3, plain=True)
"""Sizes that devices which work in tiles fill, and those one beside."""

Properties = dict[str, PropertyValue]


class Unfit(Exception):
    """Tells that nothing can be proposed; another draw may succeed."""


@dataclass
class Slot:
    """Holds the facts about one operand: its type, or the element type that the pattern wants, the
    name under which rules know it, and whether it is a constant.
    """

    type: TensorType | None = None
    element: Attribute | None = None
    label: str | None = None
    is_constant: bool = False


@dataclass
class Draft:
    """Describes one op to be made: what is known of its operands, and what the pattern says of its
    attributes.
    """

    choose: Choose
    slots: Sequence[Slot]
    fixed: Mapping[str, Any]
    label: str | None
    element: Attribute
    """The element type of inputs that nothing else tells."""
    wants: Mapping[tuple[str, int | str], Any] = field(
        default_factory=dict[tuple[str, "int | str"], Any]
    )
    """Sizes and attributes to be tried, by name and axis or attribute."""
    recent: list[Shape] = field(default_factory=list[Shape])
    """Shapes of inputs drawn before: branches that meet again need the same."""
    breadth: Breadth = NARROW
    plain: bool = False
    """Asks for what rules take most often: operands of one shape, scales of all or of channels."""

    def known(self, i: int) -> Shape | None:
        type_ = self.slots[i].type
        return None if type_ is None else shape_of(type_)

    def wanted(self, i: int, axis: int) -> int | None:
        """Gives the size to try for a dimension of an operand; None if no rule hints at one."""
        label = self.slots[i].label if i < len(self.slots) else None
        return None if label is None else self.wants.get((label, axis))

    def rank(self, i: int, *options: int) -> int:
        """Chooses the rank of an operand: the known one, else one of these."""
        known = self.known(i)
        return pick(self.choose, options) if known is None else len(known)

    def size(self, *places: tuple[int, int], options: Sequence[int] = ()) -> int:
        """Chooses a size that is the same at each of these places (operand and axis)."""
        for i, axis in places:
            known = self.known(i) if i < len(self.slots) else None
            if known is not None and -len(known) <= axis < len(known):
                return known[axis]
        for i, axis in places:
            wanted = self.wanted(i, axis)
            if wanted is not None:
                return wanted
        return pick(self.choose, options or self.breadth.sizes)

    def kind(self, i: int, default: Attribute) -> Attribute:
        """Chooses the element type of an operand."""
        slot = self.slots[i]
        if slot.type is not None:
            return element_type_of(slot.type)
        return slot.element or default

    def attribute(self, name: str, *options: Any) -> Any:
        """Chooses an attribute: the value that the pattern fixes, the one that is wanted, or one of
        these that passes the pattern's test.
        """
        if callable(test := self.fixed.get(name)):
            passing = [option for option in options if test(_plain(option))]
            if not passing:
                raise Unfit
            return pick(self.choose, passing)
        if name in self.fixed:
            return self.fixed[name]
        if self.label is not None and (self.label, name) in self.wants:
            return self.wants[self.label, name]
        if not options:
            raise Unfit
        return pick(self.choose, options)

    def types(self, *proposed: tuple[Sequence[int], Attribute]) -> list[TensorType]:
        """Gives the types of the operands: those known, else these."""
        if len(proposed) < len(self.slots):
            raise Unfit
        pairs = zip(self.slots, proposed, strict=False)
        return [slot.type or tensor(element, shape) for slot, (shape, element) in pairs]


def _plain(value: Any) -> Any:
    """Converts an attribute to the value that patterns see."""
    if isinstance(value, Attribute):
        return python_value(value)
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


Proposal = tuple[list[TensorType], Properties]


def wants_of(hints: Sequence[tuple[Vary, Any]]) -> dict[tuple[str, int | str], Any]:
    """Maps hints to wanted values by name and axis or attribute."""
    return {(v.name, v.attribute if v.axis is None else v.axis): value for v, value in hints}
