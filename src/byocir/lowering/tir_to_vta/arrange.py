"""vta-arrange: brings the dimension that VTA's lanes count to the second place.

Does: permutes the arrays of VTA's functions into [N, C, …], where C is the dimension of channels
(`layout`): [batch, tokens, features] of a matrix product become [batch, features, tokens]. Blocks
around the calls permute what goes in and what comes out, on the host. Reductions read through the
padding of their inputs, where that is a block of its own.

Requires: functions of composites of blocks in value form in which every array has one role, as
`vta-separate` sees to. Error B320 for others.
Guarantees: the same results. Weights stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.context import Context
from xdsl.dialects.builtin import LocationAttr, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from byocir.dialects.byoc import CallOp, CompositeOp, calls_in, composites_in
from byocir.dialects.tir import (
    BlockOp,
    ConstantOp,
    EmptyOp,
    FillOp,
)
from byocir.dialects.tir.moves import axes, moved
from byocir.dialects.types import element_type_of, shape_of, tensor
from byocir.dialects.uses import replace_op
from byocir.lowering.tir_to_vta.composites import (
    pass_in,
    sink_constants,
    take_out,
    unsupported,
    vta_functions,
)
from byocir.lowering.tir_to_vta.layout import Data, Role, order_of, roles_of
from byocir.rewrites.read_through_pads import read_through_pads

Order = Sequence[int]


@dataclass(frozen=True)
class VtaArrangePass(ModulePass):
    """Brings the dimension of channels of VTA's arrays to the second place."""

    name = "vta-arrange"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        calls = calls_in(op)
        for function in vta_functions(op):
            _check(function)
            ports = _arrange(function)
            for call in calls.get(function.sym_name.data, ()):
                ports.permute(call)


def _check(function: FuncOp) -> None:
    for composite in composites_in(function):
        if not composite.outputs:
            raise unsupported(
                "B320",
                "expected composites on tensors, found one in memory",
                composite,
                help="raise-scf-to-tir brings programs in memory back to tensors",
            )


@dataclass(frozen=True)
class _Ports:
    """Keeps the order that the dimensions of a function's arguments and results have now."""

    inputs: Sequence[Order]
    outputs: Sequence[Order]

    def permute(self, call: CallOp) -> None:
        """Puts permutations around a call: inputs to the new order, results back."""
        for index, (value, order) in enumerate(zip(list(call.inputs), self.inputs, strict=True)):
            if _moves(order):
                pass_in(call, index, _transposed(value, order, call.location))
        for result, order in zip(list(call.outputs), self.outputs, strict=True):
            if _moves(order):
                back = [order.index(axis) for axis in range(len(order))]
                plain = partial(_transposed, order=back, location=call.location)
                take_out(call, result, _permuted(result.type, order), plain)


def _moves(order: Order) -> bool:
    return list(order) != list(range(len(order)))


def _permuted(type_: Attribute, order: Order) -> TensorType:
    shape = shape_of(type_)
    return tensor(element_type_of(type_), [shape[axis] for axis in order])


def _transposed(value: SSAValue, order: Order, location: LocationAttr) -> list[Operation]:
    """Emits an array with its dimensions in this order."""
    shape, dims = shape_of(value.type), axes(len(order))
    index = [dims[order.index(axis)] for axis in range(len(order))]
    return moved(value, tuple(shape[axis] for axis in order), index, location)


def _arrange(function: FuncOp) -> _Ports:
    for composite in composites_in(function):
        sink_constants(composite)
        for op in [op for op in composite.body.block.ops if isinstance(op, BlockOp)]:
            if op.reductions:
                read_through_pads(op, cuts=True)
    orders = _orders(function)
    body, last = function.body.block, function.body.block.last_op
    assert last is not None
    ports = _Ports(
        [_order(orders, value) for value in body.args],
        [_order(orders, value) for value in last.operands],
    )
    for argument, order in zip(list(body.args), ports.inputs, strict=True):
        if _moves(order):
            type_ = _permuted(argument.type, order)
            orders[Rewriter.replace_value_with_new_type(argument, type_)] = order
    for composite in composites_in(function):
        _permute_body(composite, orders)
    function.update_function_type()
    return ports


def _order(orders: Mapping[SSAValue, Order], value: SSAValue) -> Order:
    return orders.get(value, range(len(shape_of(value.type))))


def _orders(function: FuncOp) -> dict[SSAValue, Order]:
    """Finds the order of dimensions of each array of a function whose lanes count one of them."""
    roles: dict[SSAValue, Role] = {}
    free: list[CompositeOp] = []
    for composite in composites_in(function):
        found = roles_of(composite)
        if found is None:
            raise unsupported("B320", "expected a contraction of one dimension", composite)
        if found.result is None:
            free.append(composite)
            continue
        known = [*zip(composite.inputs, found.inputs, strict=True)]
        for value, role in [*known, *((result, found.result) for result in composite.outputs)]:
            if role is not None and roles.setdefault(value, role) != role:
                raise unsupported("B320", "expected an array in one layout, found two", composite)
    _spread(free, roles)
    return {
        value: order_of(role.channels, len(shape_of(value.type)))
        for value, role in roles.items()
        if isinstance(role, Data)
    }


def _spread(free: list[CompositeOp], roles: dict[SSAValue, Role]) -> None:
    """Gives composites that may have any layout the layout of their neighbours."""
    waiting = free
    while waiting:
        left: list[CompositeOp] = []
        for composite in waiting:
            values = [*composite.inputs, *composite.outputs]
            found = next((roles[v] for v in values if isinstance(roles.get(v), Data)), None)
            if found is None:
                left.append(composite)
                continue
            for value in values:
                if roles.setdefault(value, found) != found:
                    raise unsupported(
                        "B320", "expected an array in one layout, found two", composite
                    )
        if len(left) == len(waiting):
            return  # no neighbour needs another layout
        waiting = left


def _permute_body(composite: CompositeOp, orders: dict[SSAValue, Order]) -> None:
    """Permutes the arguments of a composite, its results and all between."""
    result = _order(orders, composite.outputs[0])
    body = composite.body.block
    inside: dict[SSAValue, Order] = {}
    for argument, value in zip(list(body.args), composite.inputs, strict=True):
        order = _order(orders, value)
        if _moves(order):
            type_ = _permuted(argument.type, order)
            argument = Rewriter.replace_value_with_new_type(argument, type_)
        inside[argument] = order
    if not any(map(_moves, [result, *inside.values()])):
        return
    for op in list(body.ops):
        _permute_op(op, inside, result)
    for output in list(composite.outputs):
        order = _order(orders, output)
        made = Rewriter.replace_value_with_new_type(output, _permuted(output.type, order))
        orders[made] = order


def _permute_op(op: Operation, inside: dict[SSAValue, Order], result: Order) -> None:
    """Permutes the results of an op of a body; constants stay, and are read where they were."""
    if isinstance(op, FillOp | EmptyOp):
        assert op.result is not None
        type_ = _permuted(op.result.type, result)
        made = (
            EmptyOp.of(type_, op.location)
            if isinstance(op, EmptyOp)
            else FillOp.of(op.value, type_, op.location)
        )
    elif isinstance(op, BlockOp):
        values = [*op.ins, *op.outs]
        maps = [
            map_ if isinstance(value.owner, ConstantOp) else _reordered(map_, inside[value])
            for value, map_ in zip(values, [*op.in_maps, *op.out_maps], strict=True)
        ]
        made = op.like(maps=maps)
    else:
        return
    inside.update((value, result) for value in made.results)
    replace_op(op, made)


def _reordered(map_: AffineMap, order: Order) -> AffineMap:
    return AffineMap(map_.num_dims, 0, tuple(map_.results[axis] for axis in order))
