"""Evaluates ops of the tensor level.

Tensors are arrays that are never changed; memrefs are arrays that are. `tir.empty` and `tir.alloc`
give zeros, which a correct program cannot see.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byocir.dialects import tir
from byocir.dialects.locations import place
from byocir.dialects.types import dtype_of, element_type_of, shape_of
from byocir.errors import ByocirError
from byocir.evaluate.interpreter import Interpreter, Values, evaluates
from byocir.evaluate.routines import routine_of
from byocir.evaluate.scalar import convert, number
from byocir.evaluate.tir_access import expect_writable, surrounded
from byocir.evaluate.tir_block import BlockPlan


@evaluates(tir.BlockOp)
def _block(interpreter: Interpreter, op: tir.BlockOp, arguments: Values) -> Values:
    plan: BlockPlan | None = interpreter.plans.get(op)
    if plan is None:
        plan = interpreter.plans[op] = BlockPlan(op)
    count = len(op.ins)
    last = count + len(op.outs)
    ins, outs, bases = arguments[:count], arguments[count:last], arguments[last:]
    if not op.results:
        plan.run(ins, outs, bases)
        return ()
    updated = [np.array(array) for array in outs]
    plan.run(ins, updated, bases)
    return updated


def update_block(
    op: tir.BlockOp,
    ins: Sequence[np.ndarray],
    outs: Sequence[np.ndarray],
    bases: Sequence[int] = (),
) -> None:
    """Runs a block on arrays of the types of its operands, and writes the new contents to those of
    `outs`. Raises ByocirError B303 for an access outside an array.
    """
    with np.errstate(all="ignore"):
        BlockPlan(op).run(ins, outs, bases)


@evaluates(tir.EmptyOp, tir.AllocOp)
def _empty(_: Interpreter, op: tir.EmptyOp | tir.AllocOp, arguments: Values) -> Values:
    type_ = op.result.type
    return (np.zeros(shape_of(type_), dtype_of(element_type_of(type_))),)


@evaluates(tir.FillOp)
def _fill(_: Interpreter, op: tir.FillOp, arguments: Values) -> Values:
    if not arguments:
        value = number(op.value)
        return (np.full(shape_of(op.array_type), value, value.dtype),)
    expect_writable(arguments[0])
    arguments[0][...] = number(op.value)
    return ()


@evaluates(tir.ForOp)
def _for(interpreter: Interpreter, op: tir.ForOp, arguments: Values) -> Values:
    body, carried = op.body.block, list(arguments)
    for index in range(op.extent.value.data):
        if op.conditional is not None and not carried[0]:
            break
        carried = interpreter.run(body, [np.int64(index), *carried])
    return carried


@evaluates(tir.ExternOp)
def _extern(_: Interpreter, op: tir.ExternOp, arguments: Values) -> Values:
    routine = routine_of(op)
    try:
        made = routine.evaluate(list(arguments), *routine.values(op))
        # Numpy's functions give scalars, no arrays, for scalars.
        return [np.asarray(each) for each in made]
    except IndexError as error:
        raise ByocirError("B303", str(error)) from error
    except ValueError as error:
        told = f"expected sizes that fit each other, found others: {error}"
        raise ByocirError("B312", told, where=place(op.location)) from error


@evaluates(tir.IntrinsicOp)
def _intrinsic(interpreter: Interpreter, op: tir.IntrinsicOp, arguments: Values) -> Values:
    interpreter.run(op.body.block, [])
    return ()


@evaluates(tir.CopyOp)
def _copy(_: Interpreter, op: tir.CopyOp, arguments: Values) -> Values:
    source, destination = arguments[:2]
    expect_writable(destination)
    rank = len(op.box)
    count = len(op.source_bases)
    starts = list(arguments[2 : 2 + count]) or [0] * rank
    targets = list(arguments[2 + count :]) or [0] * rank
    ends = [start + size for start, size in zip(starts, op.box, strict=True)]
    inside = all(s >= 0 and e <= n for s, e, n in zip(starts, ends, source.shape, strict=True))
    if not inside and op.pad is None:
        raise _outside("source", starts, op, source)
    box = tuple(slice(t, t + size) for t, size in zip(targets, op.box, strict=True))
    if min(targets, default=0) < 0 or destination[box].shape != op.box:
        raise _outside("destination", targets, op, destination)
    pad = None if op.pad is None else number(op.pad)
    moved = surrounded(source, starts, [end - 1 for end in ends], pad)
    destination[box] = convert(moved, destination.dtype)
    return ()


def _outside(side: str, starts: Sequence[int], op: tir.CopyOp, array: np.ndarray) -> ByocirError:
    return ByocirError(
        "B303",
        f"expected a box inside the {side} of shape {list(array.shape)}, found sizes "
        f"{list(op.box)} from {list(starts)}",
    )
