"""Moves max and min pools in front of what is computed of each element, where that never falls as
the element rises:

```
max(clamp(sums * 3 >> 8))  →  clamp(max(sums) * 3 >> 8)
```

So a pool behind a convolution takes the maxima of its sums, and only these are requantised. They
begin with a number of which nothing greater is computed than of the least sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from byocir.dialects.intervals import Interval, integer_range
from byocir.dialects.tir import BlockOp, EmptyOp, YieldOp
from byocir.dialects.types import element_type_of, shape_of, tensor
from byocir.dialects.uses import erase, replace_op
from byocir.machine import Machine
from byocir.rewrites.block_ends import Ends, Known, ends_of, scalar_ends
from byocir.rewrites.host.fuse_blocks import is_map
from byocir.rewrites.machine.clamp_chains import CLAMPS, CONVERSIONS
from byocir.rewrites.machine.part_windows import windows_taken
from byocir.rewrites.machine.restate_bodies import is_signed
from byocir.rewrites.machine.windows import Window
from byocir.rewrites.window_guards import guards_of, leaves_elements


def take_early(machine: Machine, window: Window, given: Known) -> bool:
    """Takes the greatest or the least of windows of what a map computes in front of that map, if
    instructions do that; tells if it did. `given` bounds arrays that are made elsewhere.
    """
    early = Early.of(window, given)
    if early is None:
        return False
    plan, first = window.plan(machine, element_type_of(early.source.type)), early.first()
    if plan is None or first is None:
        return False
    type_, into = element_type_of(early.source.type), plan.instruction.into
    early.put(windows_taken(machine, window, into, type_, early.source, [first]))
    return True


@dataclass(frozen=True)
class Early:
    """Describes windows of what a map computes of one array, with whose elements it never falls."""

    window: Window
    map: BlockOp
    position: int
    """The position of that array among the inputs of the map."""
    given: Known

    @staticmethod
    def of(window: Window, given: Known) -> Early | None:
        """Describes windows; None for those that have to stay behind what makes their array."""
        value, op = window.op.ins[0], window.op
        map_ = value.owner
        if window.name == "add" or not isinstance(map_, BlockOp) or not value.has_one_use():
            return None
        computed = [i for i, each in enumerate(map_.ins) if isinstance(each.owner, BlockOp)]
        if not is_map(map_) or len(computed) != 1 or not leaves_elements(op, guards_of(op)):
            return None
        early = Early(window, map_, computed[0], given)
        return early if early._is_movable() and _rises(map_, computed[0], given) else None

    @property
    def source(self) -> SSAValue:
        """Gives the array of which the map computes."""
        return self.map.ins[self.position]

    def _is_movable(self) -> bool:
        """Tells whether the map does the same at all points of a window: what else it reads stays
        where it is along the dimensions in which windows reach.
        """
        map_, op, x = self.map, self.window.op, self.source
        place, reads, writes = (m.results for m in (map_.out_maps[0], *op.in_maps, *op.out_maps))
        plain = all(isinstance(expr, AffineDimExpr) for expr in (*place, *writes))
        if not plain or len({len(place), len(reads), len(writes)}) > 1 or map_.whole:
            return False
        if map_.in_maps[self.position].results != place or map_.is_padded:
            return False
        shapes = [shape_of(value.type) for value in (x, op.ins[0], op.outs[0])]
        same = shapes[0] == shapes[1] and x.has_one_use()
        same &= is_signed(element_type_of(x.type))
        same &= element_type_of(op.ins[0].type) == element_type_of(op.outs[0].type)
        pairs = zip(reads, writes, *shapes[1:], strict=True)
        reach = [read != written or n != m for read, written, n, m in pairs]
        moved = {i for expr, of in zip(place, reach, strict=True) if of for i in expr.used_dims()}
        others = [m for i, m in enumerate(map_.in_maps) if i != self.position]
        return same and not any(moved & expr.used_dims() for m in others for expr in m.results)

    def first(self) -> int | None:
        """Finds a number with which the windows may begin: one from which the map computes the same
        as from the element that is the last to be taken, zero or the nearest to it. None where the
        number with which they began counts.
        """
        element, is_most = element_type_of(self.source.type), self.window.name == "max"
        ends = ends_of(self.source, self.given) or Ends.of(integer_range(element))
        last = ends.interval.low if is_most else ends.interval.high
        found, start = self._mapped(last), self.window.start
        if found is None:
            return None
        if (found.interval.low < start) if is_most else (found.interval.high > start):
            return None
        if (last >= 0) == is_most or self._gives(0, found):
            return 0
        near = 0
        while abs(near - last) > 1:
            middle = (near + last) // 2
            near, last = (near, middle) if self._gives(middle, found) else (middle, last)
        return last

    def _gives(self, number: int, result: Ends) -> bool:
        """Tells whether the map computes this result of a number."""
        found = self._mapped(number)
        return found is not None and bool(np.array_equal(found.low, result.low))

    def _mapped(self, number: int) -> Ends | None:
        """Computes what the map makes of a number, for each channel; None where that depends on
        what is not known.
        """
        given = {**self.given, self.source: Interval.at(number)}
        found = ends_of(self.map.results[0], given)
        return found if found is not None and found.are_known else None

    def put(self, taken: Sequence[Operation]) -> None:
        """Puts the map behind the windows, which the last of these ops gives."""
        map_, op, value = self.map, self.window.op, taken[-1].results[0]
        shape = shape_of(op.outs[0].type)
        empty = EmptyOp.of(tensor(element_type_of(op.outs[0].type), shape))
        places = (i for expr in map_.out_maps[0].results for i in expr.used_dims())
        sizes = dict(zip(places, shape, strict=True))
        iterators = [it.resized(sizes.get(i, 1)) for i, it in enumerate(map_.iterators)]
        ins = [value if n == self.position else each for n, each in enumerate(map_.ins)]
        made = map_.like(iterators=iterators, ins=ins, outs=[empty.results[0]])
        assert op.parent is not None
        for each in [*taken, empty, made]:
            each.location = map_.location if each is made else op.location
            op.parent.insert_op_before(each, op)
        replace_op(op, [], made.results)
        erase(map_)


def _rises(op: BlockOp, position: int, given: Known) -> bool:
    """Tells whether what a map computes never falls where the elements of an input rise."""
    ends = scalar_ends(op, given)
    rising: set[SSAValue] = {op.body.block.args[position]}
    for inner in op.body.block.ops:
        follows = [value in rising for value in inner.operands]
        if isinstance(inner, YieldOp) or not any(follows):
            continue
        if ends.unwrapped(inner) is None:
            return False
        if isinstance(inner, arith.MuliOp):
            factor = inner.operands[1 - follows.index(True)]
            keeps = not all(follows) and ends[factor].interval.low >= 0
        else:
            steps = CONVERSIONS | CLAMPS | arith.AddiOp
            keeps = isinstance(inner, steps) or (not follows[1] and isinstance(inner, _MOVES))
        if not keeps:
            return False
        rising.update(inner.results)
    return op.yielded[0] in rising


_MOVES = arith.SubiOp | arith.ShRSIOp
