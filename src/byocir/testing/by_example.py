"""Proposes operands and attributes for graph ops, from the example in each op's description.

Every op's docstring shows one line of MLIR that holds. Other operands and attributes are made from
it: sizes and element types are replaced, the same everywhere, and numbers of attributes vary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from xdsl.dialects.builtin import (
    I64,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, TypeAttribute
from xdsl.irdl import OptOperandDef, VarOperandDef
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from byocir.dialects.array import ArrayAttr
from byocir.dialects.context import dialects_of_targets, load_context
from byocir.dialects.graph import ForeignOp, Graph, GraphOp
from byocir.dialects.graph.base import PropertyValue, int_tuple, is_number
from byocir.dialects.types import Shape, element_type_of, named_elements, shape_of
from byocir.testing.choose import pick
from byocir.testing.draft import Draft, Properties, Proposal, Unfit

MANY = 1000
"""More operands than ops are tried with."""


@dataclass(frozen=True)
class OpExample:
    """Holds operands and attributes on which an op is valid."""

    operands: tuple[TensorType, ...]
    properties: Mapping[str, Attribute]


@cache
def graph_ops() -> dict[str, type[GraphOp]]:
    """Lists the ops of the graph level by name."""
    return {op.name: op for op in Graph.operations if issubclass(op, GraphOp)}


def op_named(name: str) -> type[GraphOp] | None:
    """Finds the op of the graph level, or of the dialect of a known target, that has this name."""
    own = (op for dialect in dialects_of_targets() for op in dialect.operations if op.name == name)
    found = graph_ops().get(name) or next(own, None)
    return found if found is not None and issubclass(found, GraphOp) else None


@cache
def example_of(name: str) -> OpExample | None:
    """Reads the example in the description of an op; None for an op without one."""
    kind = op_named(name)
    text = " ".join((kind.__doc__ or "").split()) if kind is not None else ""
    line = rf"{re.escape(name)} (?P<operands>%[^{{:]*)[^`]* : \((?P<types>[^()]*)\) ->[^`]*"
    found = re.search(rf"`(?:%[\w, %]+= )?(?P<line>{line})`", text)
    if found is None:
        return None
    names = re.findall(r"%\w+", found["operands"])
    types = re.findall(r"tensor<[^>]*>", found["types"])
    arguments = ", ".join(f"{name}: {type_}" for name, type_ in zip(names, types, strict=True))
    source = f"func.func @main({arguments}) {{ {found['line']} func.return }}"
    function = Parser(load_context(), source).parse_module().body.block.first_op
    assert isinstance(function, FuncOp)
    op = function.body.block.first_op
    assert op is not None
    return OpExample(tuple(cast(TensorType, v.type) for v in op.operands), dict(op.properties))


def without_example(names: Iterable[str]) -> list[str]:
    """Gives those of these ops that are in the dialect of a target and have no example in their
    descriptions, from which to make others."""
    own = [name for name in names if name not in graph_ops() and op_named(name) is not None]
    return [name for name in own if example_of(name) is None]


@cache
def operand_range(name: str) -> tuple[int, int]:
    """Gives the fewest and the most operands that an op takes; MANY for an op that takes any
    number.
    """
    definition = (op_named(name) or ForeignOp).get_irdl_definition()
    kinds = [kind for _, kind in definition.operands]
    least = sum(not isinstance(kind, VarOperandDef) for kind in kinds)  # optional ones are variadic
    endless = any(isinstance(k, VarOperandDef) and not isinstance(k, OptOperandDef) for k in kinds)
    return least, MANY if endless else len(kinds)


def by_example(name: str, d: Draft) -> Proposal:
    """Proposes operands and attributes from the example, with other sizes and element types. Raises
    Unfit where a known operand is of another rank, or the op has no example.
    """
    types = _operands(name, d)
    sizes, elements = _sizes(types, d), _elements(types, d)
    proposed = [
        (_resized(shape_of(type_), sizes), elements[element_type_of(type_)]) for type_ in types
    ]
    return d.types(*proposed), attributes_of(name, d, sizes)


@cache
def is_elementwise(name: str) -> bool:
    """Tells if the example holds for operands of any rank."""
    example = example_of(name)
    values = example.properties.values() if example is not None else ()
    return not any(isinstance(value, DenseArrayBase) for value in values)


def elements_of(name: str, d: Draft) -> list[Attribute]:
    """Proposes element types from the example; numbers may be of other types."""
    if example_of(name) is None:
        return [d.element] * len(d.slots)
    types = _operands(name, d)
    elements = _elements(types, d)
    return [elements[element_type_of(type_)] for type_ in types]


def attributes_of(name: str, d: Draft, sizes: Mapping[int, int] | None = None) -> Properties:
    """Proposes attributes from the example, with these sizes in place of its own, or with other
    valid values.
    """
    example, made = example_of(name), dict[str, Any]()
    for key, value in example.properties.items() if example is not None else ():
        others = choices(name, key)
        if sizes is not None and isinstance(value, DenseArrayBase):
            array = int_tuple(cast(DenseArrayBase[I64], value))
            others = (list(_resized(array, sizes)),) * 2
        if key in d.fixed and isinstance(value, ArrayAttr):
            raise Unfit  # the pattern fixes a number, and the array is made elsewhere
        made[key] = d.attribute(key, value, value, *others)
    return made


@cache
def choices(name: str, key: str) -> tuple[Any, ...]:
    """Lists other values that an attribute of an op may have beside the rest of its example:
    numbers, types, and the words that its verifier knows.
    """
    example, kind = example_of(name), op_named(name)
    if example is None or kind is None:
        return ()

    def refusal(value: PropertyValue) -> str:
        block = Block(arg_types=example.operands)
        try:
            kind.make(*block.args, location=None, **{**example.properties, key: value})
        except VerifyException as error:
            return str(error)
        return ""

    value = example.properties[key]
    candidates: Sequence[PropertyValue] = ()
    if isinstance(value, IntegerAttr):
        candidates = (0, 1, 2)
    elif isinstance(value, FloatAttr):
        candidates = (0.5, 1.0)
    elif isinstance(value, StringAttr):
        candidates = re.findall(r"\w+", refusal("?"))
    elif isinstance(value, TypeAttribute):
        candidates = tuple(named_elements().values())
    return tuple(each for each in candidates if not refusal(each))


def _operands(name: str, d: Draft) -> list[TensorType]:
    """Lists as many operand types as are asked for; the last of an example may repeat."""
    example = example_of(name)
    if example is None or not example.operands or not d.slots:
        raise Unfit
    types = list(example.operands[: len(d.slots)])
    return types + [types[-1]] * (len(d.slots) - len(types))


def _sizes(types: Sequence[TensorType], d: Draft) -> dict[int, int]:
    """Replaces each size of the example: by the one that is known or wanted of an operand,
    otherwise sometimes by a random one.
    """
    sizes: dict[int, int] = {}
    for i, type_ in enumerate(types):
        known = d.known(i)
        if known is not None and len(known) != len(shape_of(type_)):
            raise Unfit
        for axis, size in enumerate(shape_of(type_)):
            found = d.wanted(i, axis) if known is None else known[axis]
            if found is not None and sizes.setdefault(size, found) != found:
                raise Unfit
    for size in dict.fromkeys(size for type_ in types for size in shape_of(type_)):
        keep = size == 1 or d.choose(0, 3)
        sizes.setdefault(size, size if keep else pick(d.choose, d.breadth.sizes))
    return sizes


def _elements(types: Sequence[TensorType], d: Draft) -> dict[Attribute, Attribute]:
    """Replaces each element type of the example."""
    elements: dict[Attribute, Attribute] = {}
    for i, type_ in enumerate(types):
        element, slot = element_type_of(type_), d.slots[i]
        if slot.type is not None or slot.element is not None:
            elements.setdefault(element, d.kind(i, element))
    for element in dict.fromkeys(map(element_type_of, types)):
        changes = is_number(element) and d.choose(0, 1)
        elements.setdefault(element, d.element if changes else element)
    return elements


def _resized(shape: Shape, sizes: Mapping[int, int]) -> Shape:
    return tuple(sizes.get(size, size) for size in shape)
