"""Bounds what functions of targets are given: bytes that a rectified layer left in one function are
never negative in the next, and weights are the constants that they are.

The host hands on what functions give as it is, in another order, or with a number around it. What
it computes may be any number.
"""

from __future__ import annotations

from collections import defaultdict
from functools import reduce

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue

from byocir.dialects.byoc import CallOp
from byocir.dialects.tir import BlockOp, ConstantOp
from byocir.rewrites.block_ends import Ends, Known, ends_of


def ranges_of_arguments(module: ModuleOp) -> Known:
    """Gives the numbers that elements of arguments of functions on tensors lie between in all
    calls, where these get what other calls give, or constants.
    """
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
    given, found = dict[SSAValue, Ends](), defaultdict[SSAValue, list[Ends | None]](list)
    for call in [op for op in module.walk() if isinstance(op, CallOp)]:
        body = functions[call.callee.root_reference.data].body.block
        for argument, value in zip(body.args, call.inputs, strict=False):
            found[argument].append(_range_of(value, given))
        results = body.last_op.operands if isinstance(body.last_op, ReturnOp) else ()
        for output, value in zip(call.outputs, results, strict=False):
            ends = ends_of(value)
            if ends is not None:
                given[output] = Ends.of(ends.interval, ends.low.ndim)
    known = {v: [each for each in all_ if each is not None] for v, all_ in found.items()}
    return {
        value: reduce(Ends.joined, own)
        for value, own in known.items()
        if len(own) == len(found[value])
    }


def _range_of(value: SSAValue, given: Known) -> Ends | None:
    """Bounds what a call gets if that is a constant, or what another call gives; None for anything
    else.
    """
    source = value
    while isinstance(source.owner, BlockOp) and source.owner.moves:
        source = source.owner.ins[0]
    is_known = source in given or isinstance(source.owner, ConstantOp)
    return ends_of(value, given) if is_known else None
