"""Bounds what functions of targets are given: bytes that a rectified layer left in one function are
never negative in the next, and weights are the constants that they are.

The host hands on what functions give as it is, in another order, or with a number around it. What
it computes may be any number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue

from byocir.dialects.byoc import CallOp, CompositeOp
from byocir.dialects.intervals import Interval
from byocir.dialects.tir import BlockOp, ConstantOp
from byocir.rewrites.block_ends import Known, ends_of

_Told = Interval | SSAValue | None


def ranges_of_arguments(module: ModuleOp) -> Known:
    """Gives the numbers that elements of arguments of functions on tensors lie between in all
    calls, where these get what other calls give, or constants; for one constant in all calls, that.
    So for arguments of composites that get what other composites give.
    """
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
    given, found = dict[SSAValue, Interval](), defaultdict[SSAValue, list[SSAValue]](list)
    for call in [op for op in module.walk() if isinstance(op, CallOp)]:
        body = functions[call.callee.root_reference.data].body.block
        for argument, value in zip(body.args, call.inputs, strict=False):
            found[argument].append(value)
        results = body.last_op.operands if isinstance(body.last_op, ReturnOp) else ()
        for output, value in zip(call.outputs, results, strict=False):
            ends = ends_of(value)
            if ends is not None:
                given[output] = ends.interval
    known = {argument: _in_all(values, given) for argument, values in found.items()}
    known |= _between_composites(module)
    return {value: told for value, told in known.items() if told is not None}


def _in_all(values: Sequence[SSAValue], given: Mapping[SSAValue, Interval]) -> _Told:
    """Bounds what is one of these values; gives a constant itself, which may be large."""
    if len({*values}) == 1 and isinstance(_source(values[0]).owner, ConstantOp):
        return values[0]
    ranges = [each for value in values if (each := _range_of(value, given)) is not None]
    if len(ranges) < len(values):
        return None
    return Interval(min(low for low, _ in ranges), max(high for _, high in ranges))


def _range_of(value: SSAValue, given: Mapping[SSAValue, Interval]) -> Interval | None:
    """Bounds what a call gets if that is a constant, or what another call gives; None for anything
    else.
    """
    source = _source(value)
    is_known = source in given or isinstance(source.owner, ConstantOp)
    ends = ends_of(value, given) if is_known else None
    return None if ends is None else ends.interval


def _source(value: SSAValue) -> SSAValue:
    """Finds the array that the host only moves to make another one."""
    while isinstance(value.owner, BlockOp) and value.owner.moves:
        value = value.owner.ins[0]
    return value


def _between_composites(module: ModuleOp) -> dict[SSAValue, _Told]:
    """Bounds what composites get of others, by what the blocks of these compute now."""
    found: dict[SSAValue, _Told] = {}
    for op in [op for op in module.walk() if isinstance(op, CompositeOp)]:
        for argument, value in zip(op.body.block.args, op.operands, strict=True):
            ends = ends_of(value) if isinstance(value.owner, CompositeOp) else None
            if ends is not None:
                found[argument] = ends.interval
    return found
