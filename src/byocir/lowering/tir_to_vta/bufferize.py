"""vta-bufferize: puts VTA's functions on memory.

Does: arguments and results of VTA's functions become memrefs, inputs first, then the outputs, which
the function fills. What passes between composites is a `tir.alloc` in main memory. Composites take
memrefs, inputs first, then what they write, and have no results. Within a composite each chain of
steps works in place on one i32 buffer; a tensor that is updated but needed again is copied (fill 0,
then add). The narrowing block at the end of a chain writes the result.

Requires: `vta-pack`. Error B325 for other bodies, and where a result is no composite's or comes up
twice.

Guarantees: the same results, provided that the memrefs of a call do not overlap; no tensors are
left in the functions. Calls stay on tensors. Every buffer is written before it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass

from byocir.dialects.byoc import CompositeOp, YieldOp, composites_in
from byocir.dialects.tir import BlockOp, ConstantOp, EmptyOp, FillOp
from byocir.dialects.types import i32
from byocir.lowering.tir_to_vta import forms
from byocir.lowering.tir_to_vta.composites import unsupported, vta_functions
from byocir.rewrites.bufferize import Routines, Updates, bufferize
from byocir.rewrites.liveness import Liveness


@dataclass(frozen=True)
class VtaBufferizePass(ModulePass):
    """Puts the values of VTA's functions into memory."""

    name = "vta-bufferize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in vta_functions(op):
            _check(function)
            for composite in composites_in(function):
                _check_body(composite)
            bufferize(function, Routines(op), _AluUpdates())
            function.properties.pop("arg_attrs", None)


class _AluUpdates(Updates):
    """Says how the ALU updates buffers: in place; it copies accumulators by adding them to
    zeros.
    """

    def are_in_place(self, op: Operation, start: SSAValue, liveness: Liveness) -> bool:
        """Tells if updates may be in place: nothing needs the start afterwards. A block reads the
        start only where it writes.
        """
        return not liveness.needed_after(start, op)

    def copied(self, source: SSAValue, target: SSAValue, op: Operation) -> Sequence[Operation]:
        """Makes the copy that a block then updates: a fill, and an addition over the block's
        parallel iterators. These come first in VTA form, so the result's index needs no others.
        """
        assert isinstance(op, BlockOp)
        iterators = [op.iterators.data[i] for i in op.parallels]
        maps = [AffineMap(len(iterators), 0, op.out_maps[0].results)] * 2
        return [
            FillOp.of(IntegerAttr(0, i32), target, op.location),
            BlockOp(
                iterators, [source], [target], maps, forms.alu("add").region(), location=op.location
            ),
        ]


def _check(function: FuncOp) -> None:
    """Raises ByocirError B325 unless a function holds only composites, each result of which is
    returned once.
    """
    for op in function.body.block.ops:
        if not isinstance(op, CompositeOp | ReturnOp):
            raise unsupported("B325", f"expected composites, found {op.name}", op)
    last = function.body.block.last_op
    assert isinstance(last, ReturnOp)
    alone = len({*last.operands}) == len(last.operands)
    if not alone or any(not isinstance(value.owner, CompositeOp) for value in last.operands):
        raise unsupported("B325", "expected results of composites, each once", last)


def _check_body(composite: CompositeOp) -> None:
    """Raises ByocirError B325 unless a composite is packed and yields only results that blocks
    write in whole, each once.
    """
    for op in composite.body.block.ops:
        if not isinstance(op, BlockOp | ConstantOp | EmptyOp | FillOp | YieldOp):
            raise unsupported("B325", f"expected a packed body, found {op.name}", op)
    last = composite.body.block.last_op
    assert isinstance(last, YieldOp)
    if len({*last.values}) < len(last.values):
        raise unsupported("B325", "expected each result once", last)
    for value in last.values:
        op = value.owner
        if not isinstance(op, BlockOp) or not isinstance(op.outs[0].owner, EmptyOp):
            raise unsupported("B325", "expected results of narrowing blocks", last)
