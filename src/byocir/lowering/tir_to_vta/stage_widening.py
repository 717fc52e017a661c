"""Bytes in accumulators on VTAs whose loads do not widen: as products with ones on a diagonal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.array import Array
from byocir.dialects.tir import (
    AllocOp,
    BlockOp,
    ConstantOp,
    CopyOp,
    FillOp,
    IteratorAttr,
    IteratorKind,
    buffer,
)
from byocir.dialects.types import Shape, i8, i32
from byocir.lowering.tir_to_vta import forms
from byocir.lowering.tir_to_vta.tile_nest import SCOPES
from byocir.vta_sim import Memory, VTAConfig


class Widening:
    """Widens for the body of one composite; the ones are loaded when they are first needed, before
    everything else."""

    def __init__(self, body: Block, config: VTAConfig) -> None:
        self.body, self.block = body, config.block_out
        self.ones: SSAValue | None = None

    def ops(
        self,
        source: SSAValue,
        target: SSAValue,
        box: Shape,
        starts: Sequence[SSAValue],
        pad: IntegerAttr | None,
    ) -> Sequence[Operation]:
        """The ops that bring a box of i8 in main memory to a buffer of i32 in "vta.acc": a load of
        inputs, zeros, and the inputs times ones added to them."""
        inputs = AllocOp.of(i8, box, SCOPES[Memory.INP])
        copy = CopyOp.of(source, inputs.result, box, source_bases=starts, pad=pad)
        zeros = FillOp.of(IntegerAttr(0, i32), target)
        return [inputs, copy, zeros, self._product(inputs.result, target, box)]

    def _product(self, inputs: SSAValue, target: SSAValue, box: Shape) -> BlockOp:
        rank = len(box)
        names = [*(f"d{i}" for i in range(rank - 1)), "l"]
        iterators = [
            IteratorAttr.of(name, IteratorKind.PARALLEL, size)
            for name, size in zip(names, box, strict=True)
        ]
        iterators.append(IteratorAttr.of("k", IteratorKind.REDUCTION, self.block))
        *outer, lane, summed = map(AffineExpr.dimension, range(rank + 1))
        maps = [
            AffineMap(rank + 1, 0, index)
            for index in ((*outer, summed), (lane, summed), (*outer, lane))
        ]
        ins = [inputs, self._ones()]
        return BlockOp(iterators, ins, [target], maps, forms.contraction())

    def _ones(self) -> SSAValue:
        """The buffer of weights with ones on its diagonal."""
        if self.ones is None:
            known = ConstantOp.of(
                Array.of(np.eye(self.block, dtype=np.int8)), buffer(i8, (self.block,) * 2)
            )
            alloc = AllocOp.of(i8, (self.block,) * 2, SCOPES[Memory.WGT])
            copy = CopyOp.of(known.result, alloc.result, (self.block,) * 2)
            first = self.body.first_op
            assert first is not None
            self.body.insert_ops_before([known, alloc, copy], first)
            self.ones = alloc.result
        return self.ones
