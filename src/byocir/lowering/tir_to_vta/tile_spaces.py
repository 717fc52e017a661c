"""Relates the iterators over which the steps of a composite run to those of its loop nest.

The nest has the parallel iterators of the result. Nearly all steps run over these. Steps in front
of a max pool run over what its windows reach: with windows of 3 and steps of 2,

    rows of the result  y in [b, b + t)  →  rows of sums  h = 2 y + r - 1 in [2 b - 1, 2 b + 2 t)

so the nest has iterators of the windows, r, too, and h is a form of its iterators.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from xdsl.ir.affine import AffineMap

from byocir.dialects.byoc import CompositeOp, YieldOp
from byocir.dialects.tir import AllocOp, BlockOp, ConstantOp, FillOp
from byocir.dialects.tir.affine import linear
from byocir.dialects.tir.linear import Linear
from byocir.dialects.types import Shape
from byocir.lowering.tir_to_vta.composites import unsupported

Step = FillOp | BlockOp


@dataclass(frozen=True)
class Spaces:
    """Lists the steps of a composite, in order. `widest` is the block with the nest's reductions;
    `pool`, where there is one, is the max pool of what the steps `before` it compute.
    """

    steps: tuple[Step, ...]
    widest: BlockOp
    pool: BlockOp | None
    before: frozenset[Step]

    @staticmethod
    def of(composite: CompositeOp) -> Spaces:
        """Reads a composite in buffer form; raises ByocirError B327 for ops that are no steps."""
        steps = tuple(steps_of(composite))
        pool = next((op for op in steps if isinstance(op, BlockOp) and _pools(op)), None)
        first = steps if pool is None else steps[: steps.index(pool)]
        before = [op for op in first if pool is None or target_of(op) is not target_of(pool)]
        reaching = [op for op in before if isinstance(op, BlockOp)]
        widest = max(reaching, key=lambda op: (_multiplies(op), len(op.extents)))
        return Spaces(steps, widest, pool, frozenset(before if pool is not None else ()))

    @property
    def result(self) -> BlockOp:
        """Gives the block whose parallel iterators are those of the nest."""
        return self.pool or self.widest

    @property
    def parallels(self) -> int:
        return len(self.result.parallels)

    @property
    def extents(self) -> Shape:
        """Gives the extents of the nest's iterators: parallel ones, reductions of the widest block,
        those of the pool."""
        if self.pool is None:
            return self.widest.extents
        own = self.parallels
        return self.pool.extents[:own] + self.widest.extents[own:] + self.pool.extents[own:]

    @property
    def names(self) -> list[str]:
        """Lists the names of the nest's iterators, but for those of the pool's windows."""
        return self.result.names[: self.parallels] + self.widest.names[self.parallels :]

    def block_like(self, step: Step) -> BlockOp:
        """Gives a block that runs over the parallel iterators of a step."""
        return self.widest if step in self.before else self.result

    def form(self, step: Step, iterator: int) -> Linear[int]:
        """Gives an iterator of a step as a form of the nest's iterators."""
        if step is self.pool:
            return Linear(((self._of_pool(iterator), 1),))
        return self._reached[iterator] if step in self.before else Linear(((iterator, 1),))

    def index(self, map_: AffineMap, step: BlockOp) -> tuple[Linear[int], ...]:
        """Gives an index map of a step as linear forms of the nest's iterators; raises ByocirError
        B327 for one that divides."""
        return tuple(
            form.substituted(lambda i: self.form(step, i)) for form in index_of(map_, step)
        )

    @cached_property
    def _reached(self) -> Mapping[int, Linear[int]]:
        """Gives the values of the iterators of steps before the pool, in the nest's iterators:
        along the pool's windows the index that the pool reads; iterators over batch, channels and
        lanes are the pool's own.
        """
        assert self.pool is not None
        found = {i: Linear(((i, 1),)) for i in range(len(self.widest.extents))}
        written = index_of(self.widest.out_maps[0], self.widest)
        read = index_of(self.pool.in_maps[0], self.pool)
        for target, source in zip(written, read, strict=True):
            if target == source:
                continue
            (i, *others) = target.atoms
            if others or target != Linear(((i, 1),)):
                raise unsupported("B327", "expected windows over whole dimensions", self.pool)
            found[i] = source.substituted(lambda p: Linear(((self._of_pool(p), 1),)))
        return found

    def _of_pool(self, iterator: int) -> int:
        """Gives the nest's iterator that an iterator of the pool is."""
        behind = iterator >= self.parallels
        return iterator - self.parallels + len(self.widest.extents) if behind else iterator


def steps_of(composite: CompositeOp) -> list[Step]:
    """Gives the fills and blocks of a composite, in order; raises ByocirError B327 for other
    ops."""
    steps: list[Step] = []
    for op in composite.body.block.ops:
        if isinstance(op, FillOp | BlockOp):
            steps.append(op)
        elif not isinstance(op, AllocOp | ConstantOp | YieldOp):
            raise unsupported("B327", f"expected a composite on memory, found {op.name}", op)
    return steps


def target_of(step: Step) -> object:
    """Gives the buffer that a step writes."""
    return step.destination if isinstance(step, FillOp) else step.outs[0]


def index_of(map_: AffineMap, op: BlockOp) -> tuple[Linear[int], ...]:
    """Reads an index map as linear forms; raises ByocirError B327 for one that divides."""
    forms: list[Linear[int]] = []
    for expr in map_.results:
        form = linear(expr)
        if form is None:
            raise unsupported("B327", f"expected linear indices, found {map_}", op)
        forms.append(form)
    return tuple(forms)


def is_contraction(block: BlockOp) -> bool:
    """Tells if this is a block for the GEMM unit: inputs, weights and a reduction over lanes."""
    return bool(block.reductions) and len(block.ins) == 2


def adds_lanes(block: BlockOp) -> bool:
    """Tells if this is a contraction over the lanes of one vector, which is never tiled."""
    return is_contraction(block) and len(block.reductions) == 1


def _multiplies(block: BlockOp) -> bool:
    return is_contraction(block) and not adds_lanes(block)


def _pools(block: BlockOp) -> bool:
    """Tells if a block takes maxima over windows of what the composite computes."""
    reduces = bool(block.reductions) and len(block.ins) == 1
    return reduces and isinstance(block.ins[0].owner, AllocOp)
