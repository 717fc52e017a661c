"""Makes blocks of statements in one canonical form, whatever loops they came from.

Loops of one iteration go, and loops whose results no one sees. Two loops that all accesses walk
through as one, as tiles do, become one; a guard that only bounds one loop shortens it. Parallel
iterators come in the order of the first result's index, reductions follow in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from byocir.dialects import tir
from byocir.dialects.intervals import Interval
from byocir.dialects.tir import IteratorAttr, IteratorKind
from byocir.dialects.tir.affine import (
    bounds,
    canonical,
    divided_iterators,
    form_of,
    iterators_in,
    linear,
)
from byocir.dialects.tir.linear import spans
from byocir.dialects.tir.reductions import ORDERLESS
from byocir.dialects.types import shape_of
from byocir.lowering.scf_to_tir.bodies import number_behind
from byocir.lowering.scf_to_tir.indices import IndexExprs
from byocir.lowering.scf_to_tir.statements import (
    ElementAccess,
    NotRaised,
    SourceLoop,
    Statement,
    is_injective,
    may_meet,
)


def ops_of(statement: Statement, indices: IndexExprs) -> list[Operation]:
    """Makes the block, or fill, of a statement; raises NotRaised."""
    nest = _Nest(statement, indices)
    nest.simplify()
    nest.check()
    return [nest.fill() or nest.block()]


@dataclass
class _Axis:
    """Describes a loop of the nest: its number among all loops, how far it runs, and a name."""

    number: int
    extent: int
    name: str


class _Nest:
    def __init__(self, statement: Statement, indices: IndexExprs) -> None:
        self.statement = statement
        self.size = len(indices.loops)
        self.axes = [_Axis(loop.number, loop.extent, loop.name) for loop in statement.loops]
        self.accesses = [list(access.index) for access, _ in statement.accesses]
        self.guards = list(statement.guards)

    # Simplification.

    def simplify(self) -> None:
        """Brings the loops to canonical form."""
        self._drop_unused()
        while self._unit() or self._trim() or self._merge():
            pass

    def _exprs(self) -> list[AffineExpr]:
        return [*(expr for index in self.accesses for expr in index), *self.guards]

    def _replace(self, number: int, by: AffineExpr) -> None:
        dims: list[AffineExpr] = [AffineExpr.dimension(i) for i in range(self.size)]
        dims[number] = by

        def replaced(expr: AffineExpr) -> AffineExpr:
            if number not in expr.used_dims():
                return expr
            return canonical(expr.replace_dims_and_symbols(dims, []))

        self.accesses = [[replaced(expr) for expr in index] for index in self.accesses]
        self.guards = [replaced(expr) for expr in self.guards]

    def _drop_unused(self) -> None:
        """Drops iterators that no index uses, unless they accumulate: their loops only compute the
        same again.
        """
        if any(arg.first_use is not None for arg in self._old):
            return
        used = iterators_in(self._exprs())
        self.axes = [axis for axis in self.axes if axis.number in used]

    @property
    def _old(self) -> Sequence[SSAValue]:
        """Gives the arguments of the body for the elements of `outs`."""
        return self.statement.body.block.args[len(self.statement.ins) :]

    def _unit(self) -> bool:
        for axis in self.axes:
            if axis.extent == 1:
                self.axes.remove(axis)
                self._replace(axis.number, AffineExpr.constant(0))
                return True
        return False

    def _bounds(self, expr: AffineExpr) -> Interval:
        extents = [1] * self.size
        for axis in self.axes:
            extents[axis.number] = axis.extent
        return bounds(expr, spans(extents))

    def _trim(self) -> bool:
        for guard in self.guards:
            if self._bounds(guard)[0] >= 0:
                self.guards.remove(guard)
                return True
            form = linear(guard)
            if form is None or len(form.terms) != 1 or form.terms[0][1] >= 0:
                continue
            ((number, coefficient),) = form.terms
            axis = next(axis for axis in self.axes if axis.number == number)
            extent = form.constant // -coefficient + 1
            if 0 < extent < axis.extent:
                axis.extent = extent
                self.guards.remove(guard)
                return True
        return False

    def _merge(self) -> bool:
        """Merges two loops into one where the outer one steps as far as the inner one runs: `i * 4
        + j` with j below 4 → `k`. Tells if there were two such loops.
        """
        for outer in self.axes:
            for inner in self.axes:
                if outer is not inner and self._walk_as_one(outer, inner):
                    self._replace(outer.number, AffineExpr.constant(0))
                    merged = _Axis(inner.number, outer.extent * inner.extent, outer.name)
                    self.axes[self.axes.index(outer)] = merged
                    self.axes.remove(inner)
                    return True
        return False

    def _walk_as_one(self, outer: _Axis, inner: _Axis) -> bool:
        follows = False
        for expr in self._exprs():
            form = form_of(expr)
            if {outer.number, inner.number} & divided_iterators(form):
                return False
            step = form.coefficient(inner.number)
            if form.coefficient(outer.number) != step * inner.extent:
                return False
            follows |= step != 0
        return follows and (self._is_parallel(inner) or self._may_join(outer, inner))

    def _is_parallel(self, axis: _Axis) -> bool:
        count = len(self.statement.ins)
        return any(axis.number in e.used_dims() for index in self.accesses[count:] for e in index)

    def _may_join(self, outer: _Axis, inner: _Axis) -> bool:
        """Tells if two reductions may become one: one follows the other, or the order of the terms
        does not matter.
        """
        reductions = [axis for axis in self.axes if not self._is_parallel(axis)]
        follow = reductions.index(inner) == reductions.index(outer) + 1
        return follow or all(map(self._in_any_order, range(len(self._old))))

    def _in_any_order(self, position: int) -> bool:
        last = self.statement.body.block.last_op
        old = self._old[position]
        assert last is not None
        op = last.operands[position].owner
        return isinstance(op, ORDERLESS) and old in op.operands and old.has_one_use()

    # What is left, in order.

    def _loops(self, axes: Sequence[_Axis]) -> list[SourceLoop]:
        return [SourceLoop(axis.number, axis.extent, axis.name) for axis in axes]

    def _final(self) -> tuple[list[ElementAccess], list[ElementAccess]]:
        count = len(self.statement.ins)
        made = [
            ElementAccess.of(access.buffer, index, access.pad)
            for (access, _), index in zip(self.statement.accesses, self.accesses, strict=True)
        ]
        return made[:count], made[count:]

    def check(self) -> None:
        """Raises NotRaised unless each point of the parallel loops has results of its own, and no
        point reads what another one writes.
        """
        ins, outs = self._final()
        parallel = self._loops([axis for axis in self.axes if self._is_parallel(axis)])
        for out in outs:
            used = iterators_in(out.index)
            name = out.buffer.name_hint or "a buffer"
            if used != {loop.number for loop in parallel} or not is_injective(out, parallel):
                raise NotRaised(
                    f"expected each element of {name} from one iteration, or from all of a loop, "
                    "found one that some share"
                )
            every = self._loops(self.axes)
            for access in [a for a in (*ins, *outs) if a is not out]:
                same = access.buffer is out.buffer
                if same and may_meet(out, every, access, every, [], 0):
                    raise NotRaised(f"expected iterations that only write {name}, found a read")

    def fill(self) -> Operation | None:
        """Makes a fill, where the statement sets all of a buffer to one number."""
        last = self.statement.body.block.last_op
        assert last is not None
        if len(self.statement.outs) != 1 or self.guards:
            return None
        value = number_behind(last.operands[0])
        if value is None:
            return None
        (out,) = self._final()[1]
        used = [expr.position for expr in out.index if isinstance(expr, AffineDimExpr)]
        extents = {axis.number: axis.extent for axis in self.axes}
        sizes = [
            extents[expr.position] if isinstance(expr, AffineDimExpr) else 1 for expr in out.index
        ]
        if len(set(used)) != len(used) or tuple(sizes) != shape_of(out.buffer.type):
            return None
        return tir.FillOp.of(value, out.buffer, self.statement.location)

    def block(self) -> Operation:
        """Gives the block."""
        parallel = [axis for axis in self.axes if self._is_parallel(axis)]
        ins, outs = self._final()
        firsts = [dim for expr in outs[0].index for dim in sorted(expr.used_dims())]
        parallel.sort(key=lambda axis: firsts.index(axis.number))
        reduction = [axis for axis in self.axes if axis not in parallel]
        axes = [*parallel, *reduction]
        names = _distinct([axis.name for axis in axes])
        kinds = [IteratorKind.PARALLEL] * len(parallel) + [IteratorKind.REDUCTION] * len(reduction)
        iterators = [
            IteratorAttr.of(name, kind, axis.extent)
            for name, kind, axis in zip(names, kinds, axes, strict=True)
        ]
        dims: list[AffineExpr] = [AffineExpr.constant(0)] * self.size
        for i, axis in enumerate(axes):
            dims[axis.number] = AffineExpr.dimension(i)

        def map_of(exprs: Sequence[AffineExpr]) -> AffineMap:
            return AffineMap(
                len(axes), 0, tuple(expr.replace_dims_and_symbols(dims, []) for expr in exprs)
            )

        return tir.BlockOp(
            iterators,
            [access.buffer for access in ins],
            [access.buffer for access in outs],
            [map_of(access.index) for access in (*ins, *outs)],
            self.statement.body,
            pads=[access.pad for access in ins],
            where=map_of(self.guards) if self.guards else None,
            location=self.statement.location,
        )


def _distinct(names: Sequence[str]) -> list[str]:
    """Numbers names that occur again: i, i → i, i_2."""
    found: list[str] = []
    for name in names:
        made, count = name, 1
        while made in found:
            count += 1
            made = f"{name}_{count}"
        found.append(made)
    return found
