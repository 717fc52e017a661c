"""Defines the parts of a block's C function: accesses and loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Attribute

from byocir.dialects.tir.affine import IndexForm, divided_iterators
from byocir.lowering.tir_to_c.accesses import Inside
from byocir.lowering.tir_to_c.tree import For, Nodes


@dataclass
class BlockOperand:
    """Describes an operand of a block: its parameter's name, its type, where it is accessed, and
    for inputs what is read outside.
    """

    name: str
    element: Attribute
    offset: IndexForm
    checks: list[Inside]
    pad: str | None
    nbytes: int

    @property
    def fixed(self) -> set[int]:
        """Lists the iterators that must stay as they are, since divisions or checks depend
        on them."""
        checked = {i for check in self.checks for i in check.expr.used_dims()}
        return divided_iterators(self.offset) | checked


@dataclass
class KernelLoop:
    """Describes a loop over an iterator of a block: the iterator's position, and how far the loop
    runs."""

    position: int
    extent: int

    @property
    def name(self) -> str:
        return f"i{self.position}"

    @property
    def start(self) -> str:
        """Gives the name of the iteration at which a tile or a group of lanes begins."""
        return f"s{self.position}"


def nest(loops: Sequence[KernelLoop], body: Nodes) -> Nodes:
    """Puts loops around statements, the first one outermost."""
    for loop in reversed(loops):
        body = [For(loop.name, loop.extent, body)]
    return body


@dataclass
class Kernel:
    """Holds a C function: its parameters (of which inputs are const) and its body."""

    parameters: list[str]
    body: Nodes
    helpers: dict[str, str] = field(default_factory=dict[str, str])
    can_fail: bool = False
    """Says that it gives an int, 0 unless an index leads outside of its array."""
    shared: int = 0
    """The work of it that threads share: then all of a team call it. 0 if one thread does."""
