"""Computes pools over whole windows, or along one dimension after the other, whichever takes fewer
cycles of a machine:

```
[h w | r s] y.max(x[h + r, w + s])  →  [h w | r] y.max(x[h + r, w])
                                       [h w | s] y.max(rows[h, w + s])
```

Windows of 5 by 5 that are one element apart take ten steps in place of 25.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import inf

from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from byocir.dialects.tir import BlockOp, FillOp
from byocir.dialects.types import shape_of, tensor
from byocir.evaluate.scalar import number
from byocir.machine import MAIN, Machine, Memory
from byocir.rewrites.machine.whole_blocks import cycles_in_place, cycles_of_moving, plans_for
from byocir.rewrites.machine.windows import Window, beginning
from byocir.rewrites.window_guards import guards_of


def windows_taken(
    machine: Machine,
    window: Window,
    into: Memory,
    type_: Attribute,
    x: SSAValue,
    numbers: Sequence[int],
) -> list[Operation]:
    """Makes the ops that take windows of an array with elements of a type, in a memory; the last of
    them gives the results. They may begin with any of these numbers.
    """
    takers = [_Taker(machine, window, into, type_, numbers, order) for order in _orders(window)]
    return min(takers, key=lambda taker: taker.cycles()).made(x)


def _orders(window: Window) -> list[Sequence[int]]:
    """Lists the orders of dimensions, by their number, in which windows may be taken; none where
    they are taken whole.
    """
    op = window.op
    reads, writes = op.in_maps[0].results, op.out_maps[0].results
    orders: list[Sequence[int]] = [()]
    if len(reads) != len(writes) or not all(isinstance(e, AffineDimExpr) for e in writes):
        return orders
    given, made = (shape_of(value.type) for value in (op.ins[0], op.outs[0]))
    sums, reached = {*op.reductions}, list[int]()
    for d, (read, written) in enumerate(zip(reads, writes, strict=True)):
        used = read.used_dims()
        if used - sums - written.used_dims() or not written.used_dims() <= used:
            return orders
        if used & sums:
            reached.append(d)
        elif read != written or given[d] != made[d]:
            return orders
    own = [i for d in reached for i in reads[d].used_dims() & sums]
    return [*orders, *permutations(reached)] if {*own} == sums and len(own) == len(sums) else orders


@dataclass(frozen=True)
class _Taker:
    """Takes windows along dimensions in an order, or whole where there is none."""

    machine: Machine
    window: Window
    into: Memory
    type: Attribute
    numbers: Sequence[int]
    order: Sequence[int]

    def cycles(self) -> float:
        """Counts the cycles of all that takes the windows, without what leads to them."""
        outside = Block(arg_types=[tensor(self.type, shape_of(self.window.op.ins[0].type))])
        outside.add_ops(self.made(outside.args[0]))
        return sum(self._cycles_of(op) for op in outside.ops if not isinstance(op, FillOp))

    def _cycles_of(self, block: Operation) -> float:
        """Counts the cycles of a block, with those of setting the numbers with which it begins."""
        assert isinstance(block, BlockOp)
        plans = plans_for(self.machine, block, block.extents)
        own = min((p.cycles for p in plans if p.instruction.into == self.into), default=inf)
        start = block.outs[0].owner
        if not isinstance(start, FillOp):
            return own
        value, type_ = int(number(start.value)), block.outs[0].type
        begun = cycles_in_place(self.machine, type_, self.into, lambda old: old.constant(value))
        return own + min(begun, cycles_of_moving(self.machine, type_, MAIN, self.into))

    def made(self, x: SSAValue) -> list[Operation]:
        """Makes the ops."""
        window, shape = self.window, shape_of(self.window.op.outs[0].type)
        if not self.order:
            begun = self._begun(shape, self.numbers)
            return [*begun, window.made(self.type, x, begun[-1].results[0])]
        found = list[Operation]()
        for d in self.order:
            size = [*shape_of(x.type)]
            size[d] = shape[d]
            last = d == self.order[-1] or window.name != "add"
            found += self._begun(size, self.numbers if last else [0])
            found.append(self._along(d, x, found[-1].results[0]))
            x = found[-1].results[0]
        return found

    def _begun(self, shape: Sequence[int], numbers: Sequence[int]) -> list[Operation]:
        return beginning(self.machine, self.into, tensor(self.type, shape), numbers)

    def _along(self, d: int, x: SSAValue, out: SSAValue) -> BlockOp:
        """Makes the block that takes the windows of an array along one dimension."""
        op, window = self.window.op, self.window
        writes = op.out_maps[0].results
        index = [*writes]
        index[d] = op.in_maps[0].results[d]
        sizes = dict(
            zip((i for e in writes for i in e.used_dims()), shape_of(out.type), strict=True)
        )
        sizes |= {i: op.extents[i] for i in index[d].used_dims() if i not in sizes}
        kept = sorted(sizes)
        dims: list[AffineExpr] = [AffineExpr.constant(0)] * len(op.extents)
        for at, i in enumerate(kept):
            dims[i] = AffineExpr.dimension(at)

        def of_kept(exprs: Iterable[AffineExpr]) -> AffineMap:
            made = (expr.replace_dims_and_symbols(dims, []) for expr in exprs)
            return AffineMap(len(kept), 0, tuple(made))

        guards = guards_of(op)
        own = [e for e in guards.results if e.used_dims() <= index[d].used_dims()] if guards else []
        return BlockOp(
            [op.iterators.data[i].resized(sizes[i]) for i in kept],
            [x],
            [out],
            [of_kept(index), of_kept(writes)],
            window.body(self.type),
            where=of_kept(own) if own else None,
            location=op.location,
        )
