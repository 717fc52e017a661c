"""Restates contractions with weights of more than eight bits as sums of products with bytes.

Weights that were quantised with a zero point have nine bits without it, but as a rule very few of
them leave a byte. So weights are cut off at the ends of a byte. What was cut off is a contraction
of its own for each point of the sums that has some of it:

```
[h o | r c]  old + x[h + r, c] * w[r, c, o]                  w from -120 to 135
→
[h o | r c]  old + x[h + r, c] * min(w, 127)[r, c, o]
[h o | c]    old + x[h + 2, c + 16] * rest[c, o]
```

Where too many points have some, all bytes of a weight are multiplied in one contraction, with one
more reduction, over these bytes, which the input does not depend on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import i16
from xdsl.ir import Operation
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from byocir.dialects.array import Array
from byocir.dialects.tir import BlockOp, ConstantOp, IteratorAttr, IteratorKind
from byocir.dialects.tir.affine import canonical_map, linear
from byocir.dialects.tir.bodies import multiply_accumulate
from byocir.dialects.tir.scalar import Emitted, emit_body
from byocir.dialects.types import element_type_of, i32
from byocir.dialects.uses import replace_op
from byocir.rewrites.host.contraction import is_contraction

MOST_PARTS = 3
"""255, the farthest that a byte is from a zero point, is a sum of three bytes."""
MOST_POINTS = 6
"""Each point of the sums that has a contraction of its own reads the input once more."""

Point = Mapping[int, range]
"""The part of each iterator that a point of the sums takes, for those that it parts."""


def wide_weights(op: BlockOp) -> int | None:
    """Gives the position of the constant weights of i16 that a contraction multiplies bytes by;
    None for other blocks.
    """
    types = [element_type_of(value.type) for value in op.operands]
    if not op.reductions or not is_contraction(op) or types[:2].count(i16) != 1 or types[2] != i32:
        return None
    w = types.index(i16)
    constant = op.ins[w].owner
    return w if isinstance(constant, ConstantOp) and constant.value.data.present else None


def with_bytes_as_weights(op: BlockOp, lanes: int) -> list[BlockOp]:
    """Restates a contraction with constant weights of i16 as contractions with bytes, each of which
    begins with the sums of the one before; other blocks stay as they are. A point of the sums has
    `lanes` channels.
    """
    w = wide_weights(op)
    if w is None:
        return [op]
    constant = op.ins[w].owner
    assert isinstance(constant, ConstantOp)
    first, *others = bytes_of(constant.value.data.values())
    if len(others) >= MOST_PARTS:
        return [op]
    split = _Split(op, w, lanes)
    points = [split.points(part) for part in others]
    if sum(map(len, points)) > MOST_POINTS:
        split.add_all([first, *others])
    else:
        split.add(first, {})
        for part, own in zip(others, points, strict=True):
            for point in own:
                split.add(part, point)
    replace_op(op, split.ops)
    return split.blocks


def bytes_of(values: np.ndarray) -> list[np.ndarray]:
    """Splits an array into as few arrays of int8 as can be that add up to it: [300] → [127], [127],
    [46]."""
    parts, rest = list[np.ndarray](), values.astype(np.int64)
    while rest.any() or not parts:
        part = np.clip(rest, -128, 127)
        parts.append(part.astype(np.int8))
        rest = rest - part
    return parts


class _Split:
    """Makes the contractions that a contraction of input x and weights w becomes."""

    def __init__(self, op: BlockOp, w: int, lanes: int) -> None:
        self.op, self.w = op, w
        self.ops, self.blocks = list[Operation](), list[BlockOp]()
        indices = op.in_maps[w].results
        self._axes = {
            expr.position: axis
            for axis, expr in enumerate(indices)
            if isinstance(expr, AffineDimExpr) and expr.position in op.reductions
        }
        """The dimension of the weights that each reduction counts."""
        self._steps = {i: step for i in self._axes if (step := self._step(i, lanes))}

    def _step(self, i: int, lanes: int) -> int:
        """Gives the number of points of a reduction that are taken together: channels come in
        lanes, points of windows one by one. 0 where parts of it cannot be read.
        """
        read = [expr for expr in self.op.in_maps[1 - self.w].results if i in expr.used_dims()]
        if any(linear(expr) is None for expr in read):
            return 0
        return lanes if any(isinstance(expr, AffineDimExpr) for expr in read) else 1

    def points(self, part: np.ndarray) -> list[Point]:
        """Lists the points of the sums at which weights are not 0."""
        found = np.argwhere(part)
        columns = [found[:, self._axes[i]] // step for i, step in self._steps.items()]
        chosen = np.unique(np.stack(columns, axis=1), axis=0) if columns else np.zeros((1, 0), int)
        extents = self.op.extents
        return [
            {
                i: range(n * step, min((n + 1) * step, extents[i]))
                for (i, step), n in zip(self._steps.items(), point.tolist(), strict=True)
            }
            for point in chosen
        ]

    def add(self, part: np.ndarray, point: Point) -> None:
        """Adds the contraction of a point of the sums, or of all, with weights. Reductions to one
        element are left out, but for the last.
        """
        op, count = self.op, len(self.op.extents)
        taken = [point.get(i, range(n)) for i, n in enumerate(op.extents)]
        ones = [i for i in op.reductions if i in point and len(taken[i]) == 1]
        left_out = ones[:-1] if len(ones) == len(op.reductions) else ones
        kept = [i for i in range(count) if i not in left_out]
        own = [AffineExpr.constant(0)] * count
        for at, i in enumerate(kept):
            own[i] = AffineExpr.dimension(at)
        iterators = [op.iterators.data[i].resized(len(taken[i])) for i in kept]
        maps = [_restated(map_, own, len(kept)) for map_ in (*op.in_maps, *op.out_maps)]
        read = [expr + each.start for expr, each in zip(own, taken, strict=True)]
        maps[1 - self.w] = _restated(op.in_maps[1 - self.w], read, len(kept))
        for i, each in point.items():
            part = part.take(each, axis=self._axes[i])
        gone = tuple(self._axes[i] for i in left_out)
        index = [expr for axis, expr in enumerate(maps[self.w].results) if axis not in gone]
        maps[self.w] = AffineMap(len(kept), 0, tuple(index))
        self._add(part.squeeze(gone), iterators, maps)

    def add_all(self, parts: Sequence[np.ndarray]) -> None:
        """Adds the contraction that multiplies all bytes of a weight."""
        op, count = self.op, len(self.op.extents) + 1
        bytes_ = IteratorAttr.of("byte_", IteratorKind.REDUCTION, len(parts))
        maps = [AffineMap(count, 0, map_.results) for map_ in (*op.in_maps, *op.out_maps)]
        index = (AffineExpr.dimension(count - 1), *maps[self.w].results)
        maps[self.w] = AffineMap(count, 0, index)
        self._add(np.stack(parts), [*op.iterators, bytes_], maps)

    def _add(
        self, weights: np.ndarray, iterators: Sequence[IteratorAttr], maps: Sequence[AffineMap]
    ) -> None:
        op = self.op
        constant = ConstantOp.of(Array.of(weights), location=op.location)
        ins = [*op.ins]
        ins[self.w] = constant.result
        outs = self.blocks[-1].results if self.blocks else op.outs
        types = [element_type_of(value.type) for value in (*ins, *outs)]
        body = emit_body(types, _product)
        block = op.like(iterators=iterators, ins=ins, outs=outs, maps=maps, body=body)
        self.ops += [constant, block]
        self.blocks.append(block)


def _restated(map_: AffineMap, dims: Sequence[AffineExpr], count: int) -> AffineMap:
    """Puts expressions of so many iterators in the place of those of a map."""
    return canonical_map(map_.replace_dims_and_symbols(dims, [], count, 0))


def _product(x: Emitted, w: Emitted, acc: Emitted) -> Emitted:
    return multiply_accumulate(x, w, acc, to=i32)
