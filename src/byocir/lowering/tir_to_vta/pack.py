"""vta-pack: packs arrays into the layout of VTA's memories.

Does: packs the values of VTA's functions. Activations [N, C, H, W] become [N, C/16, H, W, 16] and
[N, C] becomes [N, C/16, 16]; weights [O, I, R, S] become [O/16, I/16, R, S, 16 (O), 16 (I)] and
[K, M] becomes [M/16, K/16, 16 (M), 16 (K)], also those that are arguments; constants [C] become
[C/16, 16], and constants per position [H, W] become [H, W, 16] with equal lanes. A number of each
channel that is added to many points becomes weights [C/16, 16, 16], whose product with a constant
input it is, where those hold it: GEMM adds in one cycle, the ALU in two. So do bytes, times a
number, that are added to accumulators: weights with the number on their diagonal. 16 is the side of
the target's GEMM unit. Where its elements hold a batch of 2, activations become
[N/2, C/16, H, W, 2, 16] and constants [C/16, 2, 16]. Constants are packed here. The functions'
arguments and results are packed; blocks around their calls pack what goes in, and unpack what comes
out, on the host.

Requires: `vta-legalise`. Error B324 for other bodies.

Guarantees: the same results. Channels, and batches, are filled up with zeros in inputs and
constants; those lanes of results may hold anything, no other lane depends on them (weights are zero
there), and they are not unpacked. The last parallel iterator of each block counts the lanes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, LocationAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from byocir.dialects.byoc import CallOp, CompositeOp, YieldOp, calls_in, composites_in
from byocir.dialects.tir import (
    BlockOp,
    ConstantOp,
    EmptyOp,
    FillOp,
)
from byocir.dialects.tir.moves import axes, moved
from byocir.dialects.types import i8, shape_of
from byocir.dialects.uses import replace_block
from byocir.dialects.vta_config import config_of
from byocir.lowering.tir_to_vta.composites import (
    outside_of,
    pass_in,
    take_out,
    unsupported,
    vta_functions,
)
from byocir.lowering.tir_to_vta.pack_blocks import (
    BlockPacker,
    Lanes,
    check_space,
    computed_weights,
    grouped_channel,
    layout_of,
    layout_of_weights,
    packed,
    packed_weights,
)


@dataclass(frozen=True)
class VtaPackPass(ModulePass):
    """Packs the arrays of VTA's functions into blocks of channels."""

    name = "vta-pack"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        calls = calls_in(op)
        for function in vta_functions(op):
            lanes = Lanes.of(config_of(function))
            weights = _pack_function(function, lanes)
            for call in calls.get(function.sym_name.data, ()):
                _pack_call(call, lanes, weights)


def _pack_function(function: FuncOp, lanes: Lanes) -> dict[int, list[int]]:
    """Packs the arrays of a function; gives the arguments that are weights, by the order of their
    dimensions.
    """
    weights = _weights(function)
    for i, argument in enumerate(list(function.body.block.args)):
        if i in weights:
            type_ = packed_weights(argument.type, weights[i], lanes.block)
            Rewriter.replace_value_with_new_type(argument, type_)
        else:
            _set_type(argument, lanes)
    for composite in composites_in(function):
        _pack_composite(composite, lanes)
    function.update_function_type()
    return weights


def _weights(function: FuncOp) -> dict[int, list[int]]:
    """Finds the arguments that composites read as weights, by the order of their dimensions."""
    arguments: list[SSAValue] = list(function.body.block.args)
    found: dict[int, list[int]] = {}
    for composite in composites_in(function):
        outside = outside_of(composite)
        for op in composite.body.block.ops:
            order = computed_weights(op) if isinstance(op, BlockOp) else None
            if order is None or not isinstance(op, BlockOp):
                continue
            value = outside.get(op.ins[1])
            if value is None or value not in arguments:
                raise unsupported("B324", "expected weights that come from the host", op)
            found[arguments.index(value)] = order
    return found


def _set_type(value: SSAValue, lanes: Lanes) -> SSAValue:
    """Replaces a value by one of the packed type, and gives that."""
    return Rewriter.replace_value_with_new_type(value, packed(value.type, lanes))


def _pack_composite(composite: CompositeOp, lanes: Lanes) -> None:
    old = composite.body.block
    new = Block(arg_types=[value.type for value in composite.inputs])
    values: dict[SSAValue, SSAValue] = {}
    for before, after in zip(old.args, new.args, strict=True):
        after.name_hint, after.location = before.name_hint, before.location
        values[before] = after
    per_group = _blocks_per_group(old, lanes.block)
    for op in old.ops:
        for made in _pack_op(op, values, new, lanes, per_group):
            made.location = op.location
    replace_block(old, new)
    for result in list(composite.outputs):
        _set_type(result, lanes)


def _blocks_per_group(body: Block, block: int) -> int:
    """Counts the blocks of outputs that read the same input channels, if not all do."""
    found = [grouped_channel(op) for op in body.ops if isinstance(op, BlockOp)]
    return max((channel.outputs // block for channel in found if channel is not None), default=1)


def _pack_op(
    op: Operation,
    values: dict[SSAValue, SSAValue],
    new: Block,
    lanes: Lanes,
    per_group: int,
) -> Sequence[Operation]:
    """Appends an op of a composite in packed form; constants are packed where they are used."""
    if isinstance(op, ConstantOp):
        return []
    if isinstance(op, FillOp | EmptyOp):
        assert op.result is not None
        type_ = packed(op.result.type, lanes)
        made = EmptyOp.of(type_) if isinstance(op, EmptyOp) else FillOp.of(op.value, type_)
        new.add_op(made)
    elif isinstance(op, YieldOp):
        made = YieldOp.create(operands=[values[value] for value in op.values])
        new.add_op(made)
    elif isinstance(op, BlockOp) and check_space(op):
        made = BlockPacker(op, lanes, per_group).pack(values, new)
    else:
        raise unsupported("B324", f"expected a block in VTA form, found {op.name}", op)
    values.update(zip(op.results, made.results, strict=True))
    return [made]


def _pack_call(call: CallOp, lanes: Lanes, weights: Mapping[int, Sequence[int]]) -> None:
    """Puts blocks that pack and unpack around a call."""
    for index, value in enumerate(list(call.inputs)):
        pass_in(call, index, _packing(value, weights.get(index), lanes, call.location))
    for result in list(call.outputs):
        shape, names = shape_of(result.type), _names(len(shape_of(result.type)))
        read = layout_of(result.type, lanes).packed_index(axes(len(shape)))
        plain = partial(moved, shape=shape, index=read, location=call.location, names=names)
        take_out(call, result, packed(result.type, lanes), plain)


def _names(rank: int) -> list[str]:
    return ["n", "c", *(("h", "w") if rank == 4 else (f"d{i}" for i in range(rank - 2)))]


def _packing(
    value: SSAValue, weights: Sequence[int] | None, lanes: Lanes, location: LocationAttr
) -> list[Operation]:
    """Makes the ops that pack an argument, [N, C, …] or weights with dimensions in this order.
    Lanes without a channel get zeros.
    """
    shape = shape_of(value.type)
    if weights is None:
        layout = layout_of(value.type, lanes)
        order, names = range(len(shape)), [*_names(len(shape)), *("b" * (lanes.batch > 1)), "l"]
    else:
        order, names = weights, []
        layout = layout_of_weights(tuple(shape[axis] for axis in order), lanes.block)
    read = layout.plain_index(axes(len(layout.packed)))
    index = [read[order.index(axis)] for axis in range(len(shape))]
    pad = None if layout.divides else IntegerAttr(0, i8)
    return moved(value, layout.packed, index, location, names=names, pad=pad)
