"""Tells mistakes in patterns where they are made: names that no op has, functions that fail.

| code | what is wrong |
| --- | --- |
| B200 | a composite without a name, without an op to begin at, or nested too deep |
| B201 | a rule without a docstring |
| B202 | a rule or a test that fails with an exception, or gives no answer |
| B203 | an op that no dialect has |
| B204 | an attribute that an op does not have, or a value or element type that it cannot have |
| B205 | more or fewer operands than an op takes |
| B206 | a block whose iterators, indices or body cannot be read |
| B207 | a pattern whose function fails, or gives no pattern |
| B208 | two composites of a target with one name |
| B209 | a hint of a rule for generators that cannot be read |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from numbers import Real
from typing import Any, cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    ShapedType,
    StringAttr,
)
from xdsl.ir import Attribute, TypeAttribute
from xdsl.irdl import IRDLOperation, OptOperandDef, PropertyDef, VarOperandDef

from byocir.dialects.array import ArrayAttr
from byocir.dialects.graph import Graph
from byocir.errors import ByocirError, did_you_mean

DIALECT = "graph."


@cache
def _graph_ops() -> dict[str, type[IRDLOperation]]:
    return {op.name: op for op in Graph.operations if issubclass(op, IRDLOperation)}


def check_op(name: str) -> None:
    """Raises ByocirError B203 for a name that no op can have, or that no op of the graph dialect
    has. Ops of other dialects are the user's own.
    """
    if not isinstance(cast(object, name), str):
        raise ByocirError("B203", f"expected an op such as graph.conv, found {name!r}")
    if name in _graph_ops() or ("." in name and not name.startswith(DIALECT)):
        return
    near = did_you_mean(name.removeprefix(DIALECT), [o[len(DIALECT) :] for o in _graph_ops()])
    found = near.startswith("did")
    help_ = (
        near.replace("'", f"'{DIALECT}", 1) if found else "see byocir.dialects.graph for all ops"
    )
    raise ByocirError("B203", f"expected an op such as graph.conv, found '{name}'", help=help_)


def check_uses(name: str, attributes: Mapping[str, Any], fewest: int, most: int) -> None:
    """Raises ByocirError B204 for an attribute, or a value of one, and B205 for a number of
    operands that an op of the graph dialect cannot have.
    """
    kind = _graph_ops().get(name)
    if kind is None:
        return
    definition = kind.get_irdl_definition()
    for attribute, value in attributes.items():
        if attribute not in definition.properties:
            raise ByocirError(
                "B204",
                f"expected an attribute of {name}, found '{attribute}'",
                help=did_you_mean(attribute, list(definition.properties)),
            )
        if not callable(value):
            _check_value(f"{attribute} of {name}", value, definition.properties[attribute])
    kinds = [operand for _, operand in definition.operands]
    least = sum(not isinstance(each, VarOperandDef) for each in kinds)  # optional ones are variadic
    endless = any(
        isinstance(each, VarOperandDef) and not isinstance(each, OptOperandDef) for each in kinds
    )
    if most < least or (fewest > len(kinds) and not endless):
        wanted = f"{least} or more" if endless else str(least)
        wanted = f"{least} to {len(kinds)}" if not endless and least < len(kinds) else wanted
        raise ByocirError(
            "B205",
            f"expected {name} with {wanted} operands, found {fewest}",
            help="a pattern of an op has a pattern for each operand; wildcard() is any value",
        )


def _is_integer(value: Any) -> bool:
    return isinstance(value, int)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real)


def _are_numbers(value: Any) -> bool:
    return isinstance(value, tuple) and all(map(_is_number, cast("tuple[Any, ...]", value)))


_VALUES: dict[type[Attribute], tuple[str, Callable[[Any], bool]]] = {
    IntegerAttr: ("an integer", _is_integer),
    FloatAttr: ("a number", _is_number),
    StringAttr: ("a text", lambda value: isinstance(value, str)),
    DenseArrayBase: ("a list of numbers", _are_numbers),
    ArrayAttr: ("a number", lambda value: _is_number(value) or isinstance(value, ArrayAttr)),
}
"""Maps kinds of attributes to the Python types that patterns write for them."""


def _check_value(what: str, value: Any, definition: PropertyDef) -> None:
    """Raises ByocirError B204 for a value that an attribute with this definition cannot have. None
    stands for an attribute that is absent.
    """
    kinds = definition.constr.get_bases() or ()
    known = [_VALUES[kind] for kind in kinds if kind in _VALUES]
    if value is None or len(known) < len(kinds) or not kinds:
        return
    if not any(fits(value) for _, fits in known):
        wanted = " or ".join(shown for shown, _ in known)
        raise ByocirError("B204", f"expected {what} to be {wanted}, found {value!r}")


def check_dtype(dtype: object) -> None:
    """Raises ByocirError B204 for an element type that does not exist; None stands for any."""
    if dtype is None or (isinstance(dtype, TypeAttribute) and not isinstance(dtype, ShapedType)):
        return
    shown = str(dtype) if isinstance(dtype, TypeAttribute) else repr(dtype)
    raise ByocirError(
        "B204",
        f"expected an element type, found {shown}",
        help="element types are objects: from byocir.dialects.types import i8, f32",
    )


def check_distinct(names: Sequence[str], target: str) -> None:
    """Raises ByocirError B208 for composites of one target that share a name."""
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise ByocirError(
            "B208",
            f"expected composites of target '{target}' with distinct names, found {twice} twice",
            help="rename one, or give one composite several patterns: return a, b",
        )
