"""vta-gather-windows: lets convolutions of few channels read their windows as channels.

Does: GEMM multiplies blocks of 16 channels, so a convolution of 3 channels with a 7x7 window takes
49 steps for each block of results, 13 of 16 lanes idle. Where the host hands over what such a
convolution reads, it gathers the windows on the way into the call, and these become channels:

    x [n, 3, 224, 224], w [o, 3, 7, 7]  →  x' [n, 147, 112, 112], w' [o, 147]
    x'[n, k, h, w] = x[n, k floordiv 49, 2 h + (k floordiv 7) mod 7 - 3, 2 w + k mod 7 - 3]

147 channels are 10 blocks, and so 10 steps. It is done for arrays of less than a block of channels,
where the steps of GEMM that it saves take longer than the loads of INP that it adds.

Requires: `vta-arrange`, before `vta-legalise`. What is gathered has no other reader.
Guarantees: the same results. What is read outside of an array is gathered with it, so that the
array needs no border.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from byocir.dialects.array import Array
from byocir.dialects.byoc import CallOp, CompositeOp
from byocir.dialects.tir import BlockOp, ConstantOp, IteratorAttr, IteratorKind
from byocir.dialects.tir.moves import axes, moved
from byocir.dialects.types import Shape, element_type_of, nbytes, shape_of, tensor
from byocir.dialects.uses import set_operand
from byocir.dialects.vta_config import config_of
from byocir.lowering.tir_to_vta.composites import composites_of, number_around, vta_functions
from byocir.lowering.tir_to_vta.pack_blocks import blocks, order_of_weights

LOAD = 2
"""Cycles that the load of an element of INP takes, beside one for a step of GEMM (vta-isa.md)."""


@dataclass(frozen=True)
class VtaGatherWindowsPass(ModulePass):
    """Lets the host gather the windows of convolutions of few channels."""

    name = "vta-gather-windows"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        found: dict[str, list[_Windows]] = {}
        for function in vta_functions(op):
            block = config_of(function).block_in
            reads = [each for each in _reads(function) if each.is_narrow and each.gains(block)]
            if reads:
                found[function.sym_name.data] = [each.restated() for each in reads]
                types = [argument.type for argument in function.body.block.args]
                results = list(function.function_type.outputs)
                function.function_type = FunctionType.from_lists(types, results)
        if found:
            for call in [inner for inner in op.walk() if isinstance(inner, CallOp)]:
                for windows in found.get(call.callee.root_reference.data, ()):
                    windows.gather(call)


@dataclass(frozen=True)
class _Windows:
    """Describes how argument `number` of a function becomes windows: [n, channels * window, …]."""

    number: int
    shape: Shape
    index: Sequence[AffineExpr]
    """The element of the image, by the dimensions of the windows."""
    pad: IntegerAttr | None

    def gather(self, call: CallOp) -> None:
        """Gathers the windows of what a call passes in."""
        image, block = call.inputs[self.number], call.parent
        assert block is not None
        ops = moved(image, self.shape, self.index, call.location, pad=self.pad)
        gathered = ops[-1].results[0]
        block.insert_ops_before(ops, call)
        set_operand(call, self.number, gathered)
        before, after = ("x".join(map(str, shape_of(v.type))) for v in (image, gathered))
        windows = f"the host gathers the windows of input {self.number} as channels"
        more = nbytes(gathered.type) - nbytes(image.type)
        call.add_note(f"{windows}: {before} becomes {after}, {more:,} bytes more cross")
        if call.handed_off is not None:
            call.handed_off = call.handed_off.with_input(self.number, gathered.type)


@dataclass(frozen=True)
class _Read:
    """A contraction with constant weights that alone reads argument `number` of its function."""

    number: int
    argument: SSAValue
    inside: SSAValue
    """The argument as the composite of the contraction has it."""
    op: BlockOp

    @property
    def is_narrow(self) -> bool:
        """Tells if it sums over windows, all outputs over the same ones, and no guard leaves any
        out.
        """
        op, x, w = self.op, self.op.in_maps[0].results, self.op.in_maps[1].results
        plain = {expr.position for expr in w if isinstance(expr, AffineDimExpr)}
        n, out, *_ = op.parallels
        return (
            len(op.reductions) > 1
            and op.where is None
            and not op.bases
            and list(op.parallels) == list(range(len(op.parallels)))
            and list(op.out_maps[0].results) == axes(len(op.extents))[: len(op.parallels)]
            and len(w) == len(plain)
            and plain == {out, *op.reductions}
            and x[0] == AffineExpr.dimension(n)
            and x[1] == AffineExpr.dimension(op.reductions[0])
            and not any(out in expr.used_dims() for expr in x)
        )

    @property
    def shape(self) -> Shape:
        """The shape of the windows."""
        n, _, *positions = shape_of(self.op.outs[0].type)
        return (n, prod(self.op.extents[i] for i in self.op.reductions), *positions)

    def gains(self, block: int) -> bool:
        """Tells if the steps of GEMM that gathering saves outweigh the loads that it adds."""
        n, channels, *pixels = shape_of(self.inside.type)
        _, depth, *positions = self.shape
        if channels >= block:
            return False
        gathered, outputs = blocks(depth, block), blocks(shape_of(self.op.outs[0].type)[1], block)
        steps = n * prod(positions) * outputs * (depth // channels - gathered)
        loads = n * (prod(positions) * gathered - prod(pixels))
        return steps > LOAD * loads

    def restated(self) -> _Windows:
        """Makes the contraction read windows, in the function."""
        op, (channel, *_) = self.op, self.op.reductions
        windows = _Windows(self.number, self.shape, self._index(), number_around(op, 0))
        weights, body = op.ins[1].owner, op.parent
        assert isinstance(weights, ConstantOp)
        assert body is not None
        order = order_of_weights(op.in_maps[1], op.parallels[1], channel)
        values = weights.value.data.values().transpose(order)
        rows = Array.of(values.reshape(len(values), -1))
        constant = ConstantOp.of(rows, location=weights.location)
        body.insert_op_before(constant, op)
        type_ = tensor(element_type_of(self.inside.type), self.shape)
        Rewriter.replace_value_with_new_type(self.argument, type_)
        image = Rewriter.replace_value_with_new_type(self.inside, type_)
        iterators = list(op.iterators)
        name = iterators[channel].iterator_name.data
        count, depth = len(op.parallels), IteratorKind.REDUCTION
        n, out, *positions, summed = axes(count + 1)
        maps = [(n, summed, *positions), (out, summed), (n, out, *positions)]
        made = BlockOp(
            [*iterators[:count], IteratorAttr.of(name, depth, self.shape[1])],
            [image, constant.result],
            list(op.outs),
            [AffineMap(count + 1, 0, exprs) for exprs in maps],
            op.body.clone(),
            location=op.location,
        )
        Rewriter.replace_op(op, made)
        return windows

    def _index(self) -> list[AffineExpr]:
        """Gives the index of the image by the dimensions [n, k, …] of windows, k counting channels
        first: with a 7x7 window, c = k floordiv 49, r = (k floordiv 7) mod 7, s = k mod 7."""
        op = self.op
        n, k, *positions = axes(len(op.parallels))
        exprs: list[AffineExpr] = [n, n, *positions, *(k for _ in op.reductions)]
        inner = 1
        for i in reversed(self._summed()):
            whole = k // inner if inner > 1 else k
            inner *= op.extents[i]
            exprs[i] = whole % op.extents[i] if inner < self.shape[1] else whole
        return [expr.replace_dims_and_symbols(exprs, []) for expr in op.in_maps[0].results]

    def _summed(self) -> list[int]:
        """Lists the iterators that are summed over, in the order in which weights become one
        row.
        """
        order = order_of_weights(self.op.in_maps[1], self.op.parallels[1], self.op.reductions[0])
        found = [self.op.in_maps[1].results[axis] for axis in order[1:]]
        return [expr.position for expr in found if isinstance(expr, AffineDimExpr)]


def _reads(function: FuncOp) -> Iterator[_Read]:
    """Yields the contractions with constant weights that alone read an argument of a function."""
    arguments: list[SSAValue] = list(function.body.block.args)
    for composite in composites_of(function):
        pairs = zip(composite.inputs, composite.body.block.args, strict=True)
        for value, inside in [pair for pair in pairs if pair[0] in arguments]:
            reader = _only_reader(value), _only_reader(inside)
            match reader:
                case (CompositeOp(), BlockOp() as op) if (
                    len(op.ins) == 2
                    and op.ins[0] is inside
                    and isinstance(op.ins[1].owner, ConstantOp)
                ):
                    yield _Read(arguments.index(value), value, inside, op)
                case _:
                    pass


def _only_reader(value: SSAValue):
    uses = list(value.uses)
    return uses[0].operation if len(uses) == 1 else None
