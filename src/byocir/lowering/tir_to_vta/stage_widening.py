"""Bytes that are added to accumulators as products with a number on a diagonal: also where loads do
not widen, with ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, LocationAttr
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
    """Widens for the body of one composite; a diagonal is loaded when it is first needed, before
    everything else."""

    def __init__(self, body: Block, config: VTAConfig, location: LocationAttr) -> None:
        self.body, self.block, self.location = body, config.block_out, location
        self.diagonals: dict[int, SSAValue] = {}

    def ops(
        self,
        source: SSAValue,
        target: SSAValue,
        box: Shape,
        starts: Sequence[SSAValue],
        pad: IntegerAttr | None,
    ) -> Sequence[Operation]:
        """Gives the ops that bring a box of i8 in main memory to a buffer of i32 in "vta.acc": a
        load of inputs, zeros, and the inputs times ones added to them."""
        inputs = AllocOp.of(i8, box, SCOPES[Memory.INP])
        copy = CopyOp.of(source, inputs.result, box, source_bases=starts, pad=pad)
        zeros = FillOp.of(IntegerAttr(0, i32), target)
        return [inputs, copy, zeros, self.product(inputs.result, target, box, 1)]

    def product(self, inputs: SSAValue, target: SSAValue, box: Shape, factor: int) -> BlockOp:
        """Gives the block that adds a box of inputs, times a factor, to accumulators."""
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
        ins = [inputs, self._diagonal(factor)]
        return BlockOp(iterators, ins, [target], maps, forms.CONTRACTION.region())

    def _diagonal(self, factor: int) -> SSAValue:
        """Gives the buffer of weights with a factor on its diagonal."""
        if factor not in self.diagonals:
            numbers = Array.of(np.int8(factor) * np.eye(self.block, dtype=np.int8))
            known = ConstantOp.of(numbers, buffer(i8, (self.block,) * 2))
            alloc = AllocOp.of(i8, (self.block,) * 2, SCOPES[Memory.WGT])
            copy = CopyOp.of(known.result, alloc.result, (self.block,) * 2)
            first = self.body.first_op
            assert first is not None
            for op in (known, alloc, copy):
                op.location = self.location
            self.body.insert_ops_before([known, alloc, copy], first)
            self.diagonals[factor] = alloc.result
        return self.diagonals[factor]
