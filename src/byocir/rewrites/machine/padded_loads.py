"""Lets loads of images set the whole box that they fill to a number first, where that takes fewer
cycles than to set the parts around the image:

```
rows above, column in front, image, column behind, rows below   →   box, image
```

Columns are rows of a memory that do not follow each other, and take a call each. A FIFO would get
the rows of the image twice: there, parts stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import inf, prod

from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from byocir.dialects.new_ops import clone_region
from byocir.dialects.tir import BlockOp, IteratorAttr, IteratorKind, scope_of
from byocir.dialects.uses import erase
from byocir.machine import Machine
from byocir.rewrites.machine.cut_blocks import cycles_of, parts_of
from byocir.rewrites.schedule.access import accesses_of
from byocir.rewrites.schedule.blocks import reads_old


def set_boxes_first(machine: Machine, body: Block) -> None:
    """Sets boxes first where loads of a body fill parts of them."""
    for load in list(_padded_loads(body)):
        memory = machine.memory_of(scope_of(load.ops[0].outs[0].type))
        if memory is not None and not memory.fifo:
            load.set_first(machine)


_Box = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class _PaddedLoad:
    """Lists blocks in a row that write to one buffer: a load, and fills with one number."""

    ops: Sequence[BlockOp]
    fills: Sequence[BlockOp]

    def set_first(self, machine: Machine) -> None:
        """Sets the box of all blocks in front of them, in place of its parts, if it is one and that
        takes fewer cycles.
        """
        boxes = [_box(op) for op in self.ops]
        whole = tuple(
            (min(a for a, _ in d), max(b for _, b in d)) for d in zip(*boxes, strict=True)
        )
        if sum(map(_count, boxes)) != _count(whole):
            return
        made = _filling(self.fills[0], whole)
        home = self.ops[0].parent
        assert home is not None
        home.insert_op_before(made, self.ops[0])
        is_sooner = _cycles(machine, [made]) < _cycles(machine, self.fills)
        for op in self.fills if is_sooner else [made]:
            erase(op)


def _padded_loads(body: Block) -> Iterator[_PaddedLoad]:
    for _, run in groupby(body.ops, _written):
        ops = [op for op in run if isinstance(op, BlockOp)]
        fills = [op for op in ops if not op.ins and not reads_old(op)]
        loads = [op for op in ops if op.moves and op.where is None]
        numbers = {_number(op) for op in fills}
        if len(loads) == 1 and len(fills) == len(ops) - 1 > 1 and len(numbers) == 1:
            yield _PaddedLoad(ops, fills)


def _written(op: Operation) -> SSAValue | Operation:
    """Gives the buffer that a block writes."""
    return op.outs[0] if isinstance(op, BlockOp) else op


def _number(fill: BlockOp) -> object:
    number = fill.yielded[0].owner
    return number.properties.get("value", number) if isinstance(number, Operation) else number


def _box(op: BlockOp) -> _Box:
    sides = next(access for access in accesses_of(op) if access.writes).box
    return tuple((side.start.constant, side.start.constant + side.size) for side in sides)


def _count(box: _Box) -> int:
    return prod(high - low for low, high in box)


def _filling(fill: BlockOp, box: _Box) -> BlockOp:
    """Makes the block that sets a box to the number of another fill."""
    several = [d for d, (low, high) in enumerate(box) if high - low > 1] or [0]
    sizes = [(f"d{d}", IteratorKind.PARALLEL, box[d][1] - box[d][0]) for d in several]
    places = {d: AffineExpr.dimension(n) for n, d in enumerate(several)}
    exprs = [
        places[d] + low if d in places else AffineExpr.constant(low)
        for d, (low, _) in enumerate(box)
    ]
    map_, body = AffineMap(len(several), 0, tuple(exprs)), clone_region(fill.body)
    iterators = [IteratorAttr.of(*each) for each in sizes]
    return BlockOp(iterators, [], [fill.outs[0]], [map_], body, location=fill.location)


def _cycles(machine: Machine, fills: Sequence[BlockOp]) -> float:
    parts = (parts_of(machine, fill, None) for fill in fills)
    return sum(inf if own is None else cycles_of(own) for own in parts)
