"""Emits lanes as blocks in VTA form: each ALU step updates the tensor of its first operand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, LocationAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.array import Array
from byocir.dialects.tir import BlockOp, ConstantOp, EmptyOp, FillOp, IteratorAttr, IteratorKind
from byocir.dialects.types import Shape, i8, i32, tensor
from byocir.lowering.tir_to_vta import forms
from byocir.lowering.tir_to_vta.legalise_lanes import (
    I8_RANGE,
    IMMEDIATE,
    Constant,
    Lane,
    Pooled,
    Reduced,
    Step,
    Widened,
    count_uses,
    is_immediate,
)

_Product = tuple[Widened, int]
"""An input and what it is multiplied by."""

_COMMUTATIVE = ("add", "mul", "max", "min")


class LaneEmitter:
    """Appends to `block` the ops that compute lanes of this shape. Where loads do not widen bytes,
    GEMM does, as products with 1.
    """

    def __init__(self, block: Block, shape: Shape, *, loads_widen: bool) -> None:
        self.block = block
        self.shape = shape
        self.loads_widen = loads_widen
        names = ["n", "c", *(["h", "w"] if len(shape) == 4 else [f"d{i}" for i in range(9)])]
        self.iterators = [
            IteratorAttr.of(name, IteratorKind.PARALLEL, extent)
            for name, extent in zip(names, shape, strict=False)
        ]
        self.identity = AffineMap.identity(len(shape))
        self.uses: Counter[Lane] = Counter()
        self.made: dict[Lane, SSAValue] = {}

    def narrowed(self, lanes: Sequence[Lane]) -> list[SSAValue]:
        """Emits the i8 tensors of these lanes."""
        self.uses = count_uses(lanes)
        return [self._narrow(lane) for lane in lanes]

    def _add(self, *ops: Operation) -> SSAValue:
        self.block.add_ops(ops)
        return ops[-1].results[0]

    def _narrow(self, lane: Lane) -> SSAValue:
        source = self._read(lane)
        empty = self._add(EmptyOp.of(tensor(i8, self.shape), lane.location))
        return self._block([source], [self.identity], empty, forms.NARROWING, lane.location)

    def _block(
        self,
        ins: Sequence[SSAValue],
        maps: Sequence[AffineMap],
        out: SSAValue,
        form: forms.Form,
        location: LocationAttr,
    ) -> SSAValue:
        maps = [*maps, self.identity]
        body = form.region()
        return self._add(BlockOp(self.iterators, ins, [out], maps, body, location=location))

    def _read(self, lane: Lane) -> SSAValue:
        """Gives the tensor of a lane, and counts off one of its uses."""
        value = self._make(lane)
        self.uses[lane] -= 1
        return value

    def _make(self, lane: Lane) -> SSAValue:
        if lane not in self.made:
            self.made[lane] = self._compute(lane)
        return self.made[lane]

    def _compute(self, lane: Lane) -> SSAValue:
        terms = self._products(lane)
        if terms is not None:
            return self._sum(*terms, lane)
        if isinstance(lane, Reduced):
            return self._add(*lane.make(self._fill(lane.initial, lane.location)))
        if isinstance(lane, Widened) and not self.loads_widen:
            return self._sum(None, [(lane, 1)], lane)
        if isinstance(lane, Widened):
            empty = self._add(EmptyOp.of(tensor(i32, self.shape), lane.location))
            return self._block([lane.source], [lane.map], empty, forms.WIDENING, lane.location)
        if isinstance(lane, Pooled):
            return self._pool(lane)
        assert isinstance(lane, Step), "a requantise must be expanded first"
        if isinstance(lane.rhs, Constant):
            return self._with_constant(lane, lane.rhs)
        return self._with_lane(lane, lane.rhs)

    def _pool(self, lane: Pooled) -> SSAValue:
        """Emits the maxima over windows of a lane, which is computed in its own shape."""
        inner = LaneEmitter(self.block, lane.shape, loads_widen=self.loads_widen)
        inner.uses = self.uses
        source = inner._read(lane.operand)
        least = _below(min(lane.range.low, I8_RANGE.low))
        return self._add(lane.make(source, self._fill(least, lane.location)))

    def _products(self, lane: Lane) -> tuple[Lane | None, list[_Product]] | None:
        """Splits a sum into the lane to which products of bytes are added, if any, and these
        products: the GEMM unit adds in one step what takes the ALU three or four. None for other
        lanes.
        """
        if not isinstance(lane, Step) or lane.name != "add" or not isinstance(lane.rhs, Lane):
            return None
        both = [(term, self._product(term)) for term in (lane.lhs, lane.rhs)]
        others = [term for term, product in both if product is None]
        if len(others) == 2:
            return None
        return next(iter(others), None), [product for _, product in both if product is not None]

    def _product(self, lane: Lane) -> _Product | None:
        """Reads a lane as a byte times a byte, if it is used once; None for others."""
        factor = 1
        if isinstance(lane, Step) and lane.name == "mul" and isinstance(lane.rhs, Constant):
            if lane.rhs.number is None or self.uses[lane] > 1:
                return None
            lane, factor = lane.lhs, lane.rhs.number
        same_rank = isinstance(lane, Widened) and len(lane.map.results) == len(self.shape)
        if not same_rank or self.uses[lane] > 1 or not I8_RANGE.holds(factor):
            return None
        assert isinstance(lane, Widened)
        return lane, factor

    def _sum(self, start: Lane | None, products: Sequence[_Product], lane: Lane) -> SSAValue:
        total = self._fill(0, lane.location) if start is None else self._read(start)
        for term, factor in products:
            form = forms.product(factor)
            total = self._block([term.source], [term.map], total, form, lane.location)
        return total

    def _with_constant(self, lane: Step, rhs: Constant) -> SSAValue:
        target = self._read(lane.lhs)
        if is_immediate(rhs):
            return self._immediate(lane.name, target, int(rhs.values.flat[0]), lane.location)
        # The ALU shifts to the left by distances below 0.
        rhs = Constant(-rhs.values) if lane.name == "shl" else rhs
        source, map_ = self._constant(rhs, lane.location)
        return self._alu(lane.name, target, source, map_, lane.location)

    def _with_lane(self, lane: Step, rhs: Lane) -> SSAValue:
        lhs = lane.lhs
        # Computed first, so that the uses left tell which operand can be updated without a copy.
        self._make(lhs)
        self._make(rhs)
        if lane.name in _COMMUTATIVE and self.uses[lhs] > 1 and self.uses[rhs] == 1:
            lhs, rhs = rhs, lhs
        source = self._read(rhs)
        return self._alu(lane.name, self._read(lhs), source, self.identity, lane.location)

    def _fill(self, number: int, location: LocationAttr) -> SSAValue:
        return self._add(FillOp.of(IntegerAttr(number, i32), tensor(i32, self.shape), location))

    def _immediate(
        self, name: str, target: SSAValue, number: int, location: LocationAttr
    ) -> SSAValue:
        return self._block([], [], target, forms.alu_immediate(name, number), location)

    def _alu(
        self, name: str, target: SSAValue, source: SSAValue, map_: AffineMap, location: LocationAttr
    ) -> SSAValue:
        return self._block([source], [map_], target, forms.alu(name), location)

    def _constant(self, constant: Constant, location: LocationAttr) -> tuple[SSAValue, AffineMap]:
        """Emits an i32 constant without the dimensions that it does not depend on; gives it and its
        index map. A single number is repeated for each channel.
        """
        values = constant.values
        if constant.number is not None:
            spread = [1] * len(self.shape)
            spread[1] = self.shape[1]
            values = np.full(spread, constant.number)
        dims = [i for i, size in enumerate(values.shape) if size > 1] or [1]
        kept = values.reshape([values.shape[i] for i in dims]).astype(np.int32)
        exprs = tuple(AffineExpr.dimension(i) for i in dims)
        source = self._add(ConstantOp.of(Array.of(kept), location=location))
        return source, AffineMap(len(self.shape), 0, exprs)


def _below(number: int) -> int:
    """Finds a number not above this one that a fill can make: 16 bits shifted left."""
    if number >= IMMEDIATE.low:
        return number
    return IMMEDIATE.low << (-number - 1).bit_length() - 15
