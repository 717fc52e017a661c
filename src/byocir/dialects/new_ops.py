"""Makes ops and blocks in half of the time that xDSL's constructors take.

Passes make several ops for each node of a model. xDSL sets operands and successors by first giving
up those that the op had before, looks through the definition of its class for defaults, and walks
up from the block that an op is added to, to see that it is not inside the op. New ops had nothing
before, the defaults of a class are looked for once, and a new block is inside of no new op.
"""

# pyrefly: ignore-errors[protected-access]

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TypeVar

from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue, Use
from xdsl.ir.core import SSAValues
from xdsl.irdl import IRDLOperation, OptionalDef

OpT = TypeVar("OpT", bound=Operation)

NO_ATTRIBUTES: Mapping[str, Attribute] = {}


def new_op(
    kind: type[OpT],
    *,
    operands: Iterable[SSAValue] = (),
    result_types: Iterable[Attribute] = (),
    properties: Mapping[str, Attribute] = NO_ATTRIBUTES,
    attributes: Mapping[str, Attribute] = NO_ATTRIBUTES,
    location: LocationAttr | None = None,
    successors: Sequence[Block] = (),
    regions: Sequence[Region] = (),
) -> OpT:
    """Makes the op that xDSL makes by `kind.create` of the same arguments."""
    op = kind.__new__(kind)
    begin_op(op, operands, result_types, properties, location, regions)
    op.attributes = dict(attributes)
    if successors:
        op.successors = successors
    return op


def begin_op(
    op: Operation,
    operands: Iterable[SSAValue],
    result_types: Iterable[Attribute],
    properties: Mapping[str, Attribute],
    location: LocationAttr | None,
    regions: Sequence[Region],
) -> None:
    """Gives an op that has nothing yet all that ops of its class are made of, as its `__init__`
    does.
    """
    values = SSAValues(operands)
    uses = tuple([Use(op, index) for index in range(len(values))])
    for value, use in zip(values, uses, strict=True):
        value.add_use(use)
    op._operands, op._operand_uses = values, uses
    op.results = SSAValues([OpResult(type_, op, i) for i, type_ in enumerate(result_types)])
    op.properties, op.attributes = dict(properties), {}
    op.location = UNKNOWN_LOC if location is None else location
    for region in regions:
        op.add_region(region)
    for name, default in _defaults(type(op)):
        op.properties.setdefault(name, default)


@cache
def _defaults(kind: type[Operation]) -> Sequence[tuple[str, Attribute]]:
    """Lists the properties that ops of a class have where they are not given."""
    ops = issubclass(kind, IRDLOperation)
    properties = kind.get_irdl_definition().properties if ops else {}
    return [
        (name, each.default_value)
        for name, each in properties.items()
        if each.default_value is not None and not isinstance(each, OptionalDef)
    ]


def new_block(argument_types: Iterable[Attribute]) -> Block:
    """Makes the block that `Block(arg_types=argument_types)` makes."""
    block = Block()
    block._args = tuple(
        [BlockArgument(type_, block, i, UNKNOWN_LOC) for i, type_ in enumerate(argument_types)]
    )
    return block


def fill_block(block: Block, ops: Iterable[Operation]) -> None:
    """Adds new ops, in none of which the block is, at the end of a new block."""
    last: Operation | None = None
    for op in ops:
        op.parent, op._prev_op = block, last
        if last is None:
            block._first_op = op
        else:
            last._next_op = op
        last = op
    block._last_op = last


def clone_op(op: OpT, values: dict[SSAValue, SSAValue] | None = None) -> OpT:
    """Makes the op that `op.clone(values)` makes; `values` gets what its values have become."""
    values = {} if values is None else values
    if op.successors:
        return op.clone(values)
    made = new_op(
        type(op),
        operands=[values.get(operand, operand) for operand in op._operands],
        result_types=[result.type for result in op.results],
        properties=op.properties,
        attributes=op.attributes,
        location=op.location,
    )
    _follow(op.results, made.results, values)
    for region in op.regions:
        made.add_region(clone_region(region, values))
    return made


def copied_body(
    ops: Sequence[Operation], copies: Callable[[SSAValue], bool]
) -> tuple[Block, dict[SSAValue, SSAValue]]:
    """Copies ops, which are in an order in which they can run, into a body of their own. What they
    read from outside becomes arguments, but for values that `copies` tells to copy with what makes
    them, such as constants. Gives the body, and what each value has become in it.
    """
    body, known = Block(), dict[SSAValue, SSAValue]()
    own = {result for op in ops for result in op.results}
    for value in dict.fromkeys(v for op in ops for v in op.operands if v not in own):
        if not isinstance(value.owner, Operation) or not copies(value):
            known[value] = body.insert_arg(value.type, len(body.args))
        elif value not in known:
            body.add_op(clone_op(value.owner, known))
    body.add_ops([clone_op(op, known) for op in ops])
    return body, known


def clone_region(region: Region, values: dict[SSAValue, SSAValue] | None = None) -> Region:
    """Makes the region that `region.clone()` makes."""
    values, blocks = {} if values is None else values, region.blocks
    if len(blocks) != 1:
        made = Region()
        region.clone_into(made, value_mapper=values)
        return made
    block = new_block([arg.type for arg in region.block.args])
    for old, new in zip(region.block.args, block.args, strict=True):
        new.location = old.location
    _follow(region.block.args, block.args, values)
    fill_block(block, [clone_op(op, values) for op in region.block.ops])
    return Region(block)


def _follow(
    old: Sequence[SSAValue], new: Sequence[SSAValue], values: dict[SSAValue, SSAValue]
) -> None:
    for one, other in zip(old, new, strict=True):
        if one._name is not None:
            other.name_hint = one._name
        values[one] = other
