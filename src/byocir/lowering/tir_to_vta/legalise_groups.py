"""Restates grouped convolutions as contractions that fill whole blocks of channels.

A block of VTA holds the channels of one group or of several. Those of several share its weights, in
which a group's outputs have zeros for the inputs of the others: a depthwise convolution takes
`block` times its own multiply-accumulates, and as long as one of 16 channels per group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)

from byocir.dialects.array import Array
from byocir.dialects.tir import BlockOp, ConstantOp, IteratorAttr, IteratorKind
from byocir.dialects.tir.affine import division_of, form_of, linear
from byocir.dialects.tir.linear import Linear
from byocir.dialects.types import i8
from byocir.dialects.uses import erase, replace_uses
from byocir.lowering.tir_to_vta.legalise_space import evaluated, without_units


def sharing(inputs: int, outputs: int, block: int) -> int:
    """Counts how many groups together fill whole blocks, of the input and of the result."""
    return block // math.gcd(block, inputs, outputs)


def groups_fit(groups: int, inputs: int, outputs: int, block: int) -> bool:
    """Tells if groups fill the blocks that they share: all blocks are full, or each block of the
    input belongs to one of the result, so that the last may be filled in part.
    """
    shared = sharing(inputs, outputs, block)
    return groups % shared == 0 or shared * inputs == shared * outputs == block


def counting_channels(expr: AffineExpr) -> int | None:
    """Finds the iterator that counts input channels, from the first or a later one, in their index;
    None for one of several groups.
    """
    form = linear(expr)
    if form is None or [step for _, step in form.terms] != [1]:
        return None
    return form.atoms[0]


@dataclass(frozen=True)
class GroupedChannel:
    """Describes the index of an input channel by iterators: `out // outputs * inputs + summed`."""

    out: int
    outputs: int
    inputs: int
    summed: int

    @property
    def expr(self) -> AffineExpr:
        group = AffineExpr.dimension(self.out) // self.outputs
        return group * self.inputs + AffineExpr.dimension(self.summed)

    @staticmethod
    def of(expr: AffineExpr) -> GroupedChannel | None:
        """Reads an index that `expr` wrote; None for any other."""
        form = form_of(expr)
        if len(form.terms) != 2 or form.constant:
            return None
        (summed, one), (division, inputs) = form.terms
        if not isinstance(summed, int) or not isinstance(division, AffineBinaryOpExpr):
            return None
        out, outputs = division_of(division)
        if one != 1 or division.kind is not AffineBinaryOpKind.FloorDiv:
            return None
        if not isinstance(out, AffineDimExpr):
            return None
        return GroupedChannel(out.position, outputs, inputs, summed)


@dataclass(frozen=True)
class _Groups:
    """Describes a grouped contraction of operands `x` and `w`: its iterators over groups, over the
    outputs and the inputs of one group (None where there is one), and their numbers.
    """

    x: int
    w: int
    group: int
    output: int | None
    summed: int | None
    groups: int
    outputs: int
    inputs: int

    @staticmethod
    def of(op: BlockOp) -> _Groups | None:
        """Reads a block as a grouped contraction; None for other blocks."""
        weights = [i for i, value in enumerate(op.ins) if isinstance(value.owner, ConstantOp)]
        if len(op.ins) != 2 or len(weights) != 1 or not op.reductions:
            return None
        w, x = weights[0], 1 - weights[0]
        read, written, groups = _channel(op.in_maps[x]), _channel(op.out_maps[0]), _counting(op, x)
        if read is None or written is None or len(groups) != 1:
            return None
        summed = next((i for i, _ in read.terms if i != groups[0]), None)
        output = next((i for i, _ in written.terms if i != groups[0]), None)
        count, outputs, inputs = (
            1 if i is None else op.extents[i] for i in (groups[0], output, summed)
        )
        found = _Groups(x, w, groups[0], output, summed, count, outputs, inputs)
        joined = ((read, summed, inputs), (written, output, outputs))
        return found if all(_joins(form, groups[0], i, n) for form, i, n in joined) else None


def _channel(map_: AffineMap) -> Linear[int] | None:
    return linear(map_.results[1]) if len(map_.results) > 2 else None


def _counting(op: BlockOp, x: int) -> list[int]:
    """Lists the iterators over groups: those on which the channels of both input x and the result
    depend.
    """
    read, written = _channel(op.in_maps[x]), _channel(op.out_maps[0])
    if read is None or written is None:
        return []
    return [i for i, _ in read.terms if i in op.parallels and written.coefficient(i)]


def _joins(form: Linear[int], group: int, inner: int | None, count: int) -> bool:
    """Tells if an index is `group * count + inner`."""
    expected = {group: count, **({} if inner is None else {inner: 1})}
    return dict(form.terms) == expected and form.constant == 0


def regrouped(op: BlockOp, block: int) -> BlockOp:
    """Restates a grouped contraction with one iterator over all output channels and one over the
    inputs of the groups that share a block; other blocks stay as they are.
    """
    units = {i for x in range(len(op.ins)) for i in _counting(op, x) if op.extents[i] == 1}
    op = without_units(op, units)
    found = _Groups.of(op)
    if found is None or not groups_fit(found.groups, found.inputs, found.outputs, block):
        return op
    made = _Regrouping(op, found, sharing(found.inputs, found.outputs, block)).made()
    replace_uses(op.results[0], made.results[0])
    erase(op)
    return made


@dataclass(frozen=True)
class _Regrouping:
    op: BlockOp
    found: _Groups
    shared: int

    @property
    def is_whole(self) -> bool:
        """Tells if all groups share one block."""
        return self.shared >= self.found.groups

    @property
    def inputs(self) -> int:
        """Counts the input channels that an output is summed over."""
        return min(self.shared, self.found.groups) * self.found.inputs

    @property
    def kept(self) -> list[int]:
        """Lists the parallel iterators that stay; those over channels follow them."""
        return [i for i in self.op.parallels if i not in (self.found.group, self.found.output)]

    @property
    def kernel(self) -> list[int]:
        """Lists the reduction iterators that stay; they come last."""
        return [i for i in self.op.reductions if i != self.found.summed]

    def made(self) -> BlockOp:
        """Makes the new block, in front of the old one."""
        op, found, block = self.op, self.found, self.op.parent
        assert block is not None
        constant = Array.of(self._weights(self.inputs, self.kernel))
        weights = ConstantOp.of(constant, location=op.location)
        block.insert_op_before(weights, op)
        reads_past = not self.is_whole and found.groups % self.shared
        pad = op.pad_values[found.x]
        # Channels past the last group are multiplied by weights of zero.
        if reads_past and pad is None:
            pad = IntegerAttr(0, i8)
        made = BlockOp(
            [
                *(op.iterators.data[i] for i in self.kept),
                IteratorAttr.of("o_", IteratorKind.PARALLEL, found.groups * found.outputs),
                IteratorAttr.of("c_", IteratorKind.REDUCTION, self.inputs),
                *(op.iterators.data[i] for i in self.kernel),
            ],
            [op.ins[found.x], weights.result],
            list(op.outs),
            self._maps(),
            op.body.clone(),
            pads=[pad, None],
            location=op.location,
        )
        block.insert_op_before(made, op)
        return made

    def _maps(self) -> list[AffineMap]:
        """Gives the index maps of the new block: its input, its weights, its result."""
        op, found, kept, kernel = self.op, self.found, self.kept, self.kernel
        out, summed, count = len(kept), len(kept) + 1, len(kept) + 2 + len(kernel)
        dims: list[AffineExpr] = [AffineExpr.constant(0)] * len(op.extents)
        for new, old in [*enumerate(kept), *enumerate(kernel, start=summed + 1)]:
            dims[old] = AffineExpr.dimension(new)
        grouped = GroupedChannel(out, self.shared * found.outputs, self.inputs, summed)
        read = AffineExpr.dimension(summed) if self.is_whole else grouped.expr
        return [
            _with_channel(op.in_maps[found.x], dims, count, read),
            AffineMap(count, 0, tuple(map(AffineExpr.dimension, range(out, count)))),
            _with_channel(op.out_maps[0], dims, count, AffineExpr.dimension(out)),
        ]

    def _weights(self, inputs: int, kernel: Sequence[int]) -> np.ndarray:
        """Makes the weights [outputs, inputs of the groups that share a block, kernel], zero across
        groups.
        """
        op, found = self.op, self.found
        owner = op.ins[found.w].owner
        assert isinstance(owner, ConstantOp)
        index = tuple(evaluated(op.in_maps[found.w], op.extents))
        own = np.asarray(owner.value.data.values()[index])
        order = [i for i in (found.group, found.output, found.summed) if i is not None]
        order += kernel
        full = np.broadcast_to(own, [n if i in order else 1 for i, n in enumerate(op.extents)])
        rest = [i for i in range(len(op.extents)) if i not in order]
        sizes = [op.extents[i] for i in kernel]
        own = full.transpose([*order, *rest]).reshape(
            found.groups, found.outputs, found.inputs, *sizes
        )
        made = np.zeros((found.groups, found.outputs, inputs, *sizes), own.dtype)
        for group in range(found.groups):
            first = group % self.shared * found.inputs
            made[group, :, first : first + found.inputs] = own[group]
        return made.reshape(found.groups * found.outputs, inputs, *sizes)


def _with_channel(
    map_: AffineMap, dims: Sequence[AffineExpr], count: int, channel: AffineExpr
) -> AffineMap:
    """Restates a map [N, C, …] in other iterators, with this index for C."""
    exprs = [expr.replace_dims_and_symbols(list(dims), []) for expr in map_.results]
    return AffineMap(count, 0, (exprs[0], channel, *exprs[2:]))
