"""copy-pads: lets the host copy images into larger ones where a machine's loads set pads slowly.

Does: the composite reads the image with the pads around it, which the host puts there, where the
search for a schedule finds one of less than nine tenths of the cycles for that. The rest is what
the host's work is worth, and the bytes that cross. Only tiles whose lines lie apart in the image
are tried: loads that set pads take neighbours, so the pads of these tiles are set apart.

Requires: composites on tensors in functions that no target has taken, behind `match-composites`.

Guarantees: the same results, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from byocir.dialects.byoc import CompositeOp
from byocir.dialects.tir import BlockOp
from byocir.dialects.tir.affine import linear
from byocir.dialects.tir.linear import spans
from byocir.dialects.tir.moves import moved
from byocir.dialects.types import Shape, element_type_of, shape_of, tensor
from byocir.dialects.uses import replace_op
from byocir.dialects.walk import ops_in
from byocir.machine import Machine
from byocir.patterns.targets import find, targets_of
from byocir.rewrites.byoc.host_blocks import host_blocks
from byocir.rewrites.machine import is_searched, machine_of
from byocir.rewrites.machine.search_schedule import reads_pads_apart, scheduled_cycles

GAIN = 0.9
"""The part of the cycles with pads that loads set that must not be reached without these."""


@dataclass(frozen=True)
class CopyPadsPass(ModulePass):
    """Lets the host set pads that loads set slowly."""

    name = "copy-pads"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        targets = {
            each.target_name.data: (find(each), machine)
            for each in targets_of(op)
            if (machine := machine_of(each)) is not None and machine.pads
        }
        for composite in [each for block in host_blocks(op) for each in ops_in(block)]:
            if isinstance(composite, CompositeOp):
                found = targets.get(composite.pattern.data.split(".")[0])
                if found is None or not is_searched(found[0], composite):
                    continue
                if _gains(found[1], composite):
                    _copy_pads(composite)


def _gains(machine: Machine, composite: CompositeOp) -> bool:
    """Tells whether a composite takes fewer cycles, by much, if it reads larger images."""
    reads, ops = [*_padded_reads(composite)], composite.body.block.ops
    # to ask the machine takes long: without steps all tiles have lines that are neighbours
    if not any(read.has_steps for read in reads) or not reads_pads_apart(machine, ops):
        return False
    restated = composite.clone()
    for read in [*_padded_reads(restated)]:
        read.restate()
    cycles = scheduled_cycles(machine, restated.body.block.ops)
    restated.erase()
    return cycles < GAIN * scheduled_cycles(machine, ops)


def _copy_pads(composite: CompositeOp) -> None:
    """Makes a composite read images that are copied, with their pads, in front of it."""
    for read in [*_padded_reads(composite)]:
        number, block = read.image.index, composite.parent
        assert block is not None
        dims = map(AffineExpr.dimension, range(len(read.before)))
        index = [at - low for at, low in zip(dims, read.before, strict=True)]
        pad, source = read.op.pad_values[read.operand], composite.inputs[number]
        ops = moved(source, read.shape, index, read.op.location, pad=pad)
        block.insert_ops_before(ops, composite)
        composite.operands[number] = ops[-1].results[0]
        read.restate()


@dataclass(frozen=True)
class _PaddedRead:
    """Describes an operand by which a block alone reads an argument of its composite, with so many
    pads before it along each dimension; `shape` is that of the image with all pads."""

    op: BlockOp
    operand: int
    image: BlockArgument
    before: Shape
    shape: Shape

    @property
    def has_steps(self) -> bool:
        """Tells if an iterator moves an index by more than one."""
        forms = map(linear, self.op.in_maps[self.operand].results)
        return any(abs(step) > 1 for form in forms if form is not None for _, step in form.terms)

    def restate(self) -> None:
        """Makes the block read an image that has the pads."""
        type_ = tensor(element_type_of(self.image.type), self.shape)
        image = Rewriter.replace_value_with_new_type(self.image, type_)
        op, ins, maps = self.op, list(self.op.ins), [*self.op.in_maps, *self.op.out_maps]
        ins[self.operand], given = image, maps[self.operand]
        exprs = (e + low for e, low in zip(given.results, self.before, strict=True))
        maps[self.operand] = AffineMap(given.num_dims, 0, tuple(exprs))
        pads = [None if i == self.operand else pad for i, pad in enumerate(op.pad_values)]
        replace_op(op, op.like(ins=ins, maps=maps, pads=pads))


def _padded_reads(composite: CompositeOp) -> Iterator[_PaddedRead]:
    """Yields the reads with pads of arguments that nothing else reads."""
    for op in list(composite.body.block.ops):
        for i, image in enumerate(op.ins) if isinstance(op, BlockOp) else ():
            assert isinstance(op, BlockOp)
            forms = [linear(expr) for expr in op.in_maps[i].results]
            is_alone = isinstance(image, BlockArgument) and len(list(image.uses)) == 1
            if op.pad_values[i] is None or not is_alone or None in forms:
                continue
            assert isinstance(image, BlockArgument)
            points, sizes = spans(op.extents), shape_of(image.type)
            reached = [form.interval(points.__getitem__) for form in forms if form is not None]
            before = tuple(max(-side.low, 0) for side in reached)
            pairs = zip(reached, sizes, before, strict=True)
            shape = tuple(max(side.high + 1, size) + low for side, size, low in pairs)
            yield _PaddedRead(op, i, image, before, shape)
