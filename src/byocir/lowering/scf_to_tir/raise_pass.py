"""raise-scf-to-tir: raises hand-written loops to blocks, which patterns match.

Does: each store in loops of scf, affine or tir becomes a block over the iterators around it. Loops
need not be perfectly nested, and what they carry, or keep in memory of one iteration, is given an
element for each, but what copies stage there is accessed where it comes from. Tiles become one
iterator again, remainders that are bounded by a minimum included. A choice between a load and a
number, by whether the index is inside, is a pad; other conditions on indices are a guard. A
function in which nothing else is left goes from memory to tensors: arguments that are only written
become results.

Requires: memrefs of static shape that do not overlap; loads inside them.

Guarantees: the same results; sums of integers, and extremes, may be taken in another order. What
cannot be raised stays, and its attribute `tir.not_raised` says why.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import affine, func, memref, scf
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IndexType,
    MemRefType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from byocir.dialects import tir
from byocir.dialects.array import Array
from byocir.dialects.tir.scalar import number_op
from byocir.dialects.types import shape_of
from byocir.dialects.uses import erase, replace_uses
from byocir.evaluate.loops import array_of
from byocir.lowering.scf_to_tir.reader import Reader, is_scalar
from byocir.lowering.scf_to_tir.statements import RaisedOp
from byocir.lowering.scf_to_tir.values import reason_for_memory, to_values

NOT_RAISED = "tir.not_raised"
"""The attribute of ops that stay: why."""

_VIEWS = (memref.CastOp, memref.SubviewOp, memref.ReinterpretCastOp, memref.AlterShapeOperation)
_OURS = (tir.BlockOp, tir.CopyOp, tir.FillOp, func.CallOp)
_RAISED = (scf.ForOp, scf.IfOp, affine.ForOp, tir.ForOp, memref.StoreOp, affine.StoreOp)


@dataclass(frozen=True)
class RaiseScfToTirPass(ModulePass):
    """Turns loops into blocks."""

    name = "raise-scf-to-tir"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = [f for f in op.body.block.ops if isinstance(f, FuncOp) and f.body.blocks]
        for function in functions:
            if len(function.body.blocks) == 1 and _on_memory(function):
                _raise(function, op)
        _drop_globals(op)


def _on_memory(function: FuncOp) -> bool:
    values = [*function.body.block.args, *(v for op in function.walk() for v in op.results)]
    return any(isinstance(value.type, MemRefType) for value in values)


def _raise(function: FuncOp, module: ModuleOp) -> None:
    view = next((op for op in function.walk() if isinstance(op, _VIEWS)), None)
    if view is not None:
        _say(function, f"expected buffers without views of them, found {view.name}")
        return
    for op in [op for op in function.walk() if isinstance(op, scf.ParallelOp) and not op.results]:
        _in_order(op)
    body, reader = function.body.block, Reader()
    units: list[RaisedOp] = []
    for op in list(body.ops):
        op = _ours(op, module)
        if isinstance(op, _RAISED):
            units.append(reader.read(op))
        elif isinstance(op, memref.LoadOp | affine.LoadOp):
            reader.read(op)
        elif isinstance(op, _OURS) or not (is_scalar(op) or isinstance(op, func.ReturnOp)):
            reader.keep(op)
    Rewriter.insert_op(list(reader.allocs), InsertPoint.at_start(body))
    _replace(units, reader)
    _clean(body)
    reason = reason_for_memory(function, module)
    if not reason:
        to_values(function)
    elif not any(unit.reason for unit in units):
        _say(function, reason)


def _in_order(op: scf.ParallelOp) -> None:
    """Replaces a parallel loop without reductions by a nest of plain loops, the first index
    outermost.
    """
    old, outside = op.body.block, Block()
    place = outside
    bounds = list(zip(op.lowerBound, op.upperBound, op.step, strict=True))
    for arg, (low, high, step) in zip(old.args, bounds, strict=True):
        body = Block(arg_types=[IndexType()])
        loop = scf.ForOp(low, high, step, [], body)
        loop.location = op.location
        replace_uses(arg, body.args[0])
        body.args[0].name_hint = arg.name_hint
        place.add_op(loop)
        if place is not outside:
            place.add_op(scf.YieldOp())
        place = body
    for inner in list(old.ops):
        inner.detach()
        if not isinstance(inner, scf.ReduceOp):
            place.add_op(inner)
    place.add_op(scf.YieldOp())
    made = list(outside.ops)
    for loop in made:
        loop.detach()
    Rewriter.insert_op(made, InsertPoint.before(op))
    erase(op)


def _say(op: Operation, reason: str) -> None:
    op.attributes[NOT_RAISED] = StringAttr(reason)


def _replace(units: list[RaisedOp], reader: Reader) -> None:
    """Replaces ops that were read by those made of them, the last ones first; on others notes why
    they stay.
    """
    for unit in reversed(units):
        op = unit.op
        if unit.reason:
            _say(op, unit.reason)
            continue
        Rewriter.insert_op(unit.made, InsertPoint.before(op))
        for result in op.results:
            if result.first_use is not None:
                replace_uses(result, _loaded(result, op, reader))
        erase(op)


def _loaded(result: SSAValue, op: Operation, reader: Reader) -> SSAValue:
    """Loads the result of a raised loop from memory, for an op that stays as it is."""
    access = reader.bodies.kept(result)
    assert access is not None
    numbers = [expr.value for expr in access.index if isinstance(expr, AffineConstantExpr)]
    made = [number_op(number, IndexType()) for number in numbers]
    load = memref.LoadOp.get(access.buffer, [constant.result for constant in made])
    Rewriter.insert_op([*made, load], InsertPoint.before(op))
    return load.res


def _ours(op: Operation, module: ModuleOp) -> Operation:
    """Replaces an op of memref by the op of the tensor level that does the same; gives it, or the
    op itself where there is none.
    """
    made: Operation | None = None
    if isinstance(op, memref.AllocOp | memref.AllocaOp) and not op.operands:
        made = tir.AllocOp.create(result_types=[op.memref.type], location=op.location)
    elif isinstance(op, memref.GetGlobalOp):
        made = _constant(op, module)
    elif isinstance(op, memref.CopyOp):
        box = shape_of(op.source.type)
        made = tir.CopyOp.of(op.source, op.destination, box, location=op.location)
    if made is None:
        return op
    Rewriter.insert_op(made, InsertPoint.before(op))
    for old, new in zip(op.results, made.results, strict=True):
        new.name_hint = old.name_hint
        replace_uses(old, new)
    erase(op)
    return made


def _constant(op: memref.GetGlobalOp, module: ModuleOp) -> Operation | None:
    for held in module.body.block.ops:
        if isinstance(held, memref.GlobalOp) and held.sym_name.data == op.name_.string_value():
            dense = held.initial_value
            if held.constant is not None and isinstance(dense, DenseIntOrFPElementsAttr):
                array = Array.of(array_of(dense))
                return tir.ConstantOp.of(array, op.memref.type, op.location)
    return None


def _clean(body: Block) -> None:
    """Erases ops that nothing uses any more, and those that free memory which is now allocated
    here.
    """
    for op in reversed(list(body.ops)):
        is_free = isinstance(op, memref.DeallocOp) and isinstance(op.memref.owner, tir.AllocOp)
        computes = is_scalar(op) or isinstance(op, memref.LoadOp | affine.LoadOp | tir.AllocOp)
        if is_free or (computes and all(result.first_use is None for result in op.results)):
            erase(op)


def _drop_globals(module: ModuleOp) -> None:
    named = {
        attribute.root_reference.data
        for op in module.walk()
        for attribute in op.properties.values()
        if isinstance(attribute, SymbolRefAttr)
    }
    for op in list(module.body.block.ops):
        if isinstance(op, memref.GlobalOp) and op.sym_name.data not in named:
            erase(op)
