"""vta-legalise: rewrites every composite into the operations that VTA has.

Does: rewrites the bodies of VTA's composites, in value form and unpacked. The arithmetic between a
reduction (or a widened input) and the i8 result becomes a chain of ALU steps in i32, each in place:
add, multiply, maximum, minimum, shift, with an immediate or a second operand. The i64
requantise becomes clamp, multiply, add, shift, and clips and relus around it are merged into its
clamps. A max pool of what a composite computes takes the maxima of its sums, where all steps
between keep their order. Known ranges, also those of other composites' results, leave out clamps
that never act and let max pools of values that are never negative pad with 0, as VTA's loads do;
other padded max pools get a guard. Views of [N, C, 1, 1] and [N, C] become copies.

Requires: composites of tir blocks in value form as `convert-graph-to-tir` makes them, on i8 tensors
[N, C, …]: a contraction with constant weights or a window sum or maximum of an input, element-wise
ops, a window maximum of what these give, i8 results. Errors B320 (form), B321 (scalar body), B322
(reduction), B323 (numbers that need more than 32 bits, products that a VTA without MUL cannot
make).

Guarantees: the same results for every input; bodies of `tir.constant`, `tir.fill`, `tir.empty` and
blocks in VTA form, whose every result comes from a narrowing block `trunci`. Numbers that fit 16
bits are immediates, others i32 constants, [C] or with the dimensions they depend on. Shifts go up
to 15 at a time. Where the machine has no MUL, products are shifts and additions; where its loads do
not widen bytes, these are added to zeros, times 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass

from byocir.dialects.byoc import CompositeOp, YieldOp, composites_in
from byocir.dialects.intervals import Interval
from byocir.dialects.tir import BlockOp, ConstantOp, EmptyOp, FillOp
from byocir.dialects.types import element_type_of, i8, shape_of
from byocir.dialects.uses import erase, replace_block, replace_uses
from byocir.dialects.vta import config_of
from byocir.lowering.tir_to_vta.composites import sink_constants, unsupported, vta_functions
from byocir.lowering.tir_to_vta.legalise_bodies import Value, lane_of
from byocir.lowering.tir_to_vta.legalise_emit import LaneEmitter
from byocir.lowering.tir_to_vta.legalise_groups import regrouped
from byocir.lowering.tir_to_vta.legalise_lanes import I8_RANGE, Constant, Lane, Widened
from byocir.lowering.tir_to_vta.legalise_products import NeedsProduct
from byocir.lowering.tir_to_vta.legalise_reduce import (
    HAND_OVER,
    pooled,
    reduced,
    sums_of,
    takes_maxima,
)
from byocir.lowering.tir_to_vta.legalise_space import (
    normalise,
    spread,
    view_of,
)
from byocir.rewrites.block_ends import Ends
from byocir.rewrites.host.fuse_blocks import fuse_into, with_numbers
from byocir.rewrites.machine.early_windows import Early
from byocir.rewrites.machine.windows import Window
from byocir.rewrites.wide_weights import with_bytes_as_weights
from byocir.vta_sim import VTAConfig


@dataclass(frozen=True)
class VtaLegalisePass(ModulePass):
    """Rewrites VTA's composites into the operations that VTA has."""

    name = "vta-legalise"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in vta_functions(op):
            _legalise_function(function)


def _legalise_function(function: FuncOp) -> None:
    ranges: dict[SSAValue, Interval] = {}
    for composite in composites_in(function):
        sink_constants(composite)
        _legalise(composite, ranges, config_of(function))
    for op in list(function.body.block.ops):
        if isinstance(op, ConstantOp) and op.result.first_use is None:
            erase(op)


def _legalise(composite: CompositeOp, ranges: dict[SSAValue, Interval], config: VTAConfig) -> None:
    """Replaces the body of a composite; notes the ranges of its results."""
    old = composite.body.block
    known: dict[SSAValue, Interval] = {}
    for argument, value in zip(old.args, composite.inputs, strict=True):
        known[argument] = ranges.get(value, I8_RANGE)
    lanes = _Reader(composite, known, config).results()
    new = Block(arg_types=[argument.type for argument in old.args])
    for before, after in zip(old.args, new.args, strict=True):
        after.name_hint, after.location = before.name_hint, before.location
    yielded = _emit(lanes, new, composite, config)
    # The new blocks still read arguments and weights of the old body.
    for before, after in zip(old.args, new.args, strict=True):
        replace_uses(before, after)
    _take_constants(old, new)
    last = old.last_op
    assert last is not None
    new.add_op(YieldOp.create(operands=yielded, location=last.location))
    replace_block(old, new)
    for result, lane in zip(composite.outputs, lanes, strict=True):
        ranges[result] = lane.range


def _emit(
    lanes: list[Lane], new: Block, composite: CompositeOp, config: VTAConfig
) -> list[SSAValue]:
    shapes = {shape_of(result.type) for result in composite.outputs}
    if len(shapes) != 1:
        raise unsupported("B320", f"expected results of one shape, found {shapes}", composite)
    return LaneEmitter(new, shapes.pop(), loads_widen=config.acc_8bit).narrowed(lanes)


def _take_constants(old: Block, new: Block) -> None:
    """Moves the constants that new blocks use to the front of the new body."""
    first = new.first_op
    assert first is not None
    for op in list(old.ops):
        used = isinstance(op, ConstantOp) and any(
            use.operation.parent is new for use in op.result.uses
        )
        if used:
            op.detach()
            new.insert_op_before(op, first)


class _Reader:
    """Reads the blocks of a composite as lanes."""

    def __init__(
        self, composite: CompositeOp, ranges: dict[SSAValue, Interval], config: VTAConfig
    ) -> None:
        self.composite = composite
        self.config = config
        self.ranges = ranges
        self.known: dict[SSAValue, Interval | Ends | SSAValue] = {**ranges}
        self.lanes: dict[SSAValue, Lane] = {}
        self.widened: dict[tuple[SSAValue, AffineMap], Widened] = {}

    def results(self) -> list[Lane]:
        """Gives the lanes that the composite yields."""
        body = self.composite.body.block
        for op in list(body.ops):
            self._prepare(op)
        for op in list(body.ops):
            if isinstance(op, BlockOp):
                self._read(op)
        last = body.last_op
        assert isinstance(last, YieldOp)
        for value in [*self.composite.inputs, *last.values]:
            if element_type_of(value.type) != i8 or len(shape_of(value.type)) < 2:
                raise unsupported(
                    "B320", f"expected i8 tensors [N, C, …], found {value.type}", self.composite
                )
        missing = [value.type for value in last.values if value not in self.lanes]
        if missing:
            raise unsupported("B320", "expected a result made by a block", self.composite)
        return [self.lanes[value] for value in last.values]

    def _prepare(self, op: Operation) -> None:
        """Restates a block, fused with those before that compute element by element; maxima are
        taken in front of these, where that keeps their order.
        """
        if isinstance(op, ConstantOp | FillOp | EmptyOp | YieldOp):
            return
        if not isinstance(op, BlockOp) or not op.in_value_form:
            raise unsupported("B320", f"expected blocks in value form, found {op.name}", op)
        op = normalise(regrouped(op, self.config.block_out))
        if not op.reductions:
            self._check_whole(op)
            with_numbers(fuse_into(op))
            return
        window = Window.of(op)
        if window is None:
            return
        early = Early.of(window, self.ranges)
        if early is not None and early.first() is not None:
            early.put(sums_of(window, early.source, self.ranges))

    def _read(self, op: BlockOp) -> None:
        """Notes the lane that a block computes."""
        if not op.reductions:
            self.lanes[op.results[0]] = self._elementwise(op)
            return
        if len(op.ins) == 1 and op.ins[0] in self.lanes:
            self.lanes[op.results[0]] = pooled(op, self.lanes[op.ins[0]])
            return
        if any(value not in self.ranges for value in op.ins if not _is_constant(value)):
            raise unsupported("B320", "expected a reduction of the composite's input", op)
        if takes_maxima(op) and not self.config.acc_8bit:
            (value,) = op.ins
            widened = self._widened(op, value, AffineMap.identity(len(shape_of(value.type))))
            self.lanes[op.results[0]] = pooled(op, widened)
            return
        parts = with_bytes_as_weights(op, self.config.block_in)
        lane, result = reduced(parts, self.ranges), parts[-1].results[0]
        self.lanes[result], self.known[result] = lane, lane.ends

    def _check_whole(self, block: BlockOp) -> None:
        rank = len(block.extents)
        if list(block.out_maps) != [AffineMap.identity(rank)] or block.bases or block.where:
            raise unsupported(
                "B320", "expected a block over whole [N, C, …] in order, found a part", block
            )

    def _elementwise(self, block: BlockOp) -> Lane:
        batch, _, *space = block.extents
        points = prod([batch, *space])
        try:
            return lane_of(
                block, self._value, self.known, has_products=self.config.alu_mul, points=points
            )
        except NeedsProduct:
            raise unsupported(
                "B323",
                "expected factors that are powers of two, or one for all channels that is not "
                f"negative, as {self.config.name} has no MUL, found a product",
                block,
                help=HAND_OVER,
            ) from None

    def _value(self, block: BlockOp, value: SSAValue, map_: AffineMap) -> Value:
        """Finds the lane or constant that an element-wise block reads from a tensor."""
        owner = value.owner
        if isinstance(owner, FillOp):
            return Constant.uniform(owner.value.value.data, len(block.extents))  # pyrefly: ignore[missing-attribute]
        if isinstance(owner, ConstantOp):
            return Constant(spread(owner.value.data.values(), map_, block.extents))
        view = view_of(map_, block.extents, shape_of(value.type))
        if value in self.ranges and view is not None:
            return self._widened(block, value, view)
        if value in self.lanes and view == AffineMap.identity(len(block.extents)):
            return self.lanes[value]
        raise unsupported(
            "B320",
            "expected operands read at the element they are for, or views between [N, C] and "
            f"[N, C, 1, …], found {map_} of {value.type}",
            block,
            help=HAND_OVER,
        )

    def _widened(self, block: BlockOp, value: SSAValue, view: AffineMap) -> Widened:
        key = (value, view)
        if key not in self.widened:
            self.widened[key] = Widened(self.ranges[value], block.location, value, view)
        return self.widened[key]


def _is_constant(value: SSAValue) -> bool:
    return isinstance(value.owner, ConstantOp)
