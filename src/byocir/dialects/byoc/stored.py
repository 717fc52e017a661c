"""Keeps arrays that a target stores in place of a constant's numbers, such as weights in its own
order.

It stands beside the constant, so that the program keeps its meaning, and a saved module says what
to store without asking the target again.
"""

from __future__ import annotations

from xdsl.ir import Operation

from byocir.dialects.array import Array, ArrayAttr

STORED = "byoc.stored"
"""The attribute of a constant, `#graph.array<…>`."""


def stored(constant: Operation) -> Array:
    """Gives the array to store for a `graph.constant` or `tir.constant`: the one its target made,
    else its numbers."""
    own = constant.attributes.get(STORED, constant.properties.get("value"))
    assert isinstance(own, ArrayAttr), "expected a constant"
    return own.data


def keep_stored(old: Operation, new: Operation) -> None:
    """Copies to a constant that replaces another the array that is stored for that one, if there is
    any.
    """
    if STORED in old.attributes:
        new.attributes[STORED] = old.attributes[STORED]
